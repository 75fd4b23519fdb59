"""A calendar as a client sees it: events are added, changed and removed by commands, and answered with verdicts.

What conflicts is decided by the dispatcher. No I/O of its own may enter here: commands go out by `send`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, TypedDict, Unpack
from zoneinfo import ZoneInfo

from tickstream.calendar import (
    NO_DETAILS,
    NO_LENGTH,
    Added,
    Details,
    Event,
    Length,
    Override,
    Reminder,
    Status,
    Transparency,
    admit,
    length_until,
)
from tickstream.calendar.changes import Change, Scope
from tickstream.calendar.recurring import recurrence_of
from tickstream.calendar.stored import Booking, Call, OnConflict, encode_booking, encode_change, task_id_of
from tickstream.codec import encode_body
from tickstream.errors import InvalidEvent, InvalidInput
from tickstream.ingest.agenda import CalendarReader
from tickstream.ingest.dashboard import Dashboard
from tickstream.ingest.recurring import Moment, local_text
from tickstream.ingest.request import Requests, cancel_command, schedule_command, task_command
from tickstream.model import (
    DEFAULT_OPTIONS,
    DEFAULT_QUEUE,
    NEVER,
    VERSION_HEADER,
    Body,
    BoundCall,
    Command,
    Verb,
    Verdict,
)
from tickstream.recurrence.zone_data import load_zone

_SPLIT: Final = re.compile(r"_R\d{8}(?:T\d{6}Z?)?$", re.ASCII)
_MS: Final = timedelta(milliseconds=1)
_DAY: Final = timedelta(days=1)


class Described(TypedDict, total=False):
    """The arguments of `Calendar.event` beside uid and start."""

    duration: timedelta | None
    end: Moment | None
    rrule: str | None
    rdate: Sequence[Moment]
    exdate: Sequence[Moment]
    overrides: Sequence[Override]
    zone: str | None
    status: Status | str
    transparency: Transparency | str
    summary: str
    location: str
    description: str
    attendees: Sequence[str]
    reminders: Sequence[timedelta | Reminder]
    sequence: int


class Calendar(CalendarReader):
    """One calendar; get it from `Client.calendar`."""

    def __init__(
        self,
        calendar: str,
        zone: str,
        requests: Requests,
        new_id: Callable[[], bytes],
        send: Callable[[Command], Verdict],
        dashboard: Callable[[], Dashboard] | None = None,
    ) -> None:
        """Raises InvalidEvent for an id with braces, UnknownZone."""
        load_zone(zone)
        task_id_of(calendar, "x")
        super().__init__(calendar, dashboard)
        self.zone: Final = zone
        self._requests: Final = requests
        self._new_id: Final = new_id
        self._send: Final = send

    def event(
        self,
        uid: str,
        start: Moment,
        *,
        duration: timedelta | None = None,
        end: Moment | None = None,
        rrule: str | None = None,
        rdate: Sequence[Moment] = (),
        exdate: Sequence[Moment] = (),
        overrides: Sequence[Override] = (),
        zone: str | None = None,
        status: Status | str = Status.CONFIRMED,
        transparency: Transparency | str = Transparency.OPAQUE,
        summary: str = "",
        location: str = "",
        description: str = "",
        attendees: Sequence[str] = (),
        reminders: Sequence[timedelta | Reminder] = (),
        sequence: int = 0,
    ) -> Event:
        """An event as `put` and `conflicts` take it; nothing is sent.

        `start` and the other times: an aware datetime, text as the clock of `zone` shows it, or a date for an event of
        whole days. `zone`: default that of `start`, else the calendar's. `duration` or `end`; neither: a date lasts
        that day, a time no time. `reminders`: how long before the start of each occurrence. Raises InvalidInput and
        its kinds.
        """
        if zone is None and isinstance(start, datetime) and isinstance(start.tzinfo, ZoneInfo):
            zone = start.tzinfo.key
        clock = zone or self.zone
        begins = local_text("start", start, clock)
        return Event(
            uid=uid,
            start=begins,
            # What is given as an instant stays one, whatever becomes of the calendar's zone.
            zone=zone or (clock if isinstance(start, datetime) else None),
            length=self._length(
                begins, duration, None if end is None else local_text("end", end, clock), clock
            ),
            rule=rrule,
            rdate=tuple(Added(local_text("rdate", moment, clock)) for moment in rdate),
            exdate=tuple(local_text("exdate", moment, clock) for moment in exdate),
            overrides=tuple(overrides),
            status=Status(status),
            transparency=Transparency(transparency),
            sequence=sequence,
            details=Details(summary, location, description, tuple(attendees))
            if summary or location or description or attendees
            else NO_DETAILS,
            reminders=_reminders(reminders),
        )

    def add(
        self,
        uid: str,
        start: Moment,
        *,
        on_conflict: OnConflict | str = OnConflict.REJECT,
        call: BoundCall | None = None,
        handler: str = "",
        payload: bytes | None = None,
        queue: str | None = None,
        labels: Mapping[str, str] | None = None,
        remind: BoundCall | None = None,
        **described: Unpack[Described],
    ) -> Verdict:
        """Add an event, or change the one of that uid; each occurrence runs `call` (or `handler`) at its start.

        The other arguments are those of `event`. Without call and handler an occurrence is recorded in history at its
        start. Each of `reminders` runs `remind` before an occurrence, or is recorded. `on_conflict`: "reject" answers
        CONFLICT with what it meets, "report" takes it and says so, "allow" does not look.

        SCHEDULED, REPLACED, CONFLICT, or REJECTED with the reason. Raises InvalidInput and its kinds,
        BrokerUnavailable, SendFailed, VerdictTimeout.
        """
        return self.put(
            self.event(uid, start, **described),
            on_conflict=on_conflict,
            call=call,
            handler=handler,
            payload=payload,
            queue=queue,
            labels=labels,
            remind=remind,
        )

    def put(
        self,
        event: Event,
        *,
        on_conflict: OnConflict | str = OnConflict.REJECT,
        call: BoundCall | None = None,
        handler: str = "",
        payload: bytes | None = None,
        queue: str | None = None,
        labels: Mapping[str, str] | None = None,
        remind: BoundCall | None = None,
    ) -> Verdict:
        """Add an Event value, as an import gives it, or change the one of its uid. As `add`."""
        booking = self._booking(event, on_conflict)._replace(remind=None if remind is None else _call(remind))
        if call is None and not handler:
            if payload is not None or queue is not None:
                raise InvalidInput(f"{event.uid!r}: give call= or handler= with payload= and queue=")
            return self._send(self._command(Verb.SCHEDULE, booking, Body("", b"", {}, dict(labels or {}))))
        if handler and payload is None:
            payload = b""
        checked = self._requests.checked(
            booking.task_id, None, None, payload, handler, call, queue, labels, "replace", False, None,
            recurrence_of(booking.expansion),
        )  # fmt: skip
        command = schedule_command(self._new_id(), checked)
        options = command.options._replace(event=encode_booking(booking))
        return self._send(command._replace(options=options))

    def conflicts(self, candidate: Event) -> Verdict:
        """What an event would meet now, by the dispatcher's own occupancy; nothing is changed, and none is kept free.

        CLEAR, CONFLICT, or REJECTED with the reason; `Verdict.calendar` says with whom, and until when it was looked
        at. An event that the calendar has under that uid is not in its way. Raises as `add`.
        """
        booking = self._booking(candidate, OnConflict.REPORT)
        return self._send(self._command(Verb.CHECK_EVENT, booking, None))

    def change(
        self,
        uid: str,
        *,
        occurrence: Moment | None = None,
        and_following: bool = False,
        start: Moment | None = None,
        duration: timedelta | None = None,
        zone: str | None = None,
        rrule: str | None = None,
        status: Status | str | None = None,
        transparency: Transparency | str | None = None,
        summary: str | None = None,
        location: str | None = None,
        description: str | None = None,
        attendees: Sequence[str] | None = None,
        reminders: Sequence[timedelta | Reminder] | None = None,
        new_uid: str = "",
        on_conflict: OnConflict | str = OnConflict.REJECT,
    ) -> Verdict:
        """Change an event, one `occurrence` of it, or that one `and_following`; what is not given stays.

        `occurrence`: the start that the rule gives it, wherever it was moved since: an aware datetime, a date, or text as
        the event's clock shows it. With `and_following` the event becomes two in one step: it ends before the
        occurrence, and `new_uid` (default: made from uid and instant) goes on from there, changed. `rrule=""`: no
        rule any more. Only the time that changes is checked for conflicts.

        REPLACED, CONFLICT, TOO_LATE when the occurrence had its turn, UNKNOWN, or REJECTED. Raises as `add`.
        """
        if occurrence is None and and_following:
            raise InvalidInput("and_following: of which occurrence on? Give occurrence=")
        named = "" if occurrence is None else _written("occurrence", occurrence)
        if and_following and status != Status.CANCELLED:
            new_uid = new_uid or f"{_SPLIT.sub('', uid)}_R{re.sub('[-:]', '', named)}"
        scope = Scope.ALL if occurrence is None else Scope.FOLLOWING if and_following else Scope.ONE
        if duration is not None and duration % _MS:
            raise InvalidEvent("duration", str(duration), "is of whole milliseconds")
        change = Change(
            scope,
            named,
            None if start is None else _written("start", start),
            zone,
            None if duration is None else Length(ms=duration // _MS),
            rrule,
            None if status is None else Status(status),
            None if transparency is None else Transparency(transparency),
            summary,
            location,
            description,
            None if attendees is None else tuple(attendees),
            None if reminders is None else _reminders(reminders),
            new_uid,
        )
        command = task_command(self._new_id(), Verb.CHANGE_EVENT, task_id_of(self.id, uid))
        options = command.options._replace(event=encode_change(change, OnConflict(on_conflict)))
        return self._send(command._replace(options=options))

    def move(
        self,
        uid: str,
        occurrence: Moment,
        start: Moment,
        *,
        duration: timedelta | None = None,
        zone: str | None = None,
        on_conflict: OnConflict | str = OnConflict.REJECT,
    ) -> Verdict:
        """Move one occurrence: it runs at its new start, and keeps its identity, the start that the rule gives it.

        As `change`.
        """
        return self.change(
            uid, occurrence=occurrence, start=start, duration=duration, zone=zone, on_conflict=on_conflict
        )

    def cancel(self, uid: str, occurrence: Moment, *, and_following: bool = False) -> Verdict:
        """Call off one occurrence, or that one and all that follow it: it does not run, and its time is free.

        As `change`; `status="confirmed"` there takes it back.
        """
        return self.change(uid, occurrence=occurrence, and_following=and_following, status=Status.CANCELLED)

    def remove(self, uid: str, *, running: bool = False) -> Verdict:
        """Remove an event with all its occurrences: its time is free. CANCELLED, TOO_LATE or UNKNOWN.

        Raises InvalidTaskId, BrokerUnavailable, SendFailed, VerdictTimeout.
        """
        return self._send(cancel_command(self._new_id(), task_id_of(self.id, uid), running))

    def _booking(self, event: Event, on_conflict: OnConflict | str) -> Booking:
        if event.status is Status.CANCELLED:
            raise InvalidEvent("status", event.status.value, "a cancelled event takes no time: remove it")
        return Booking(self.id, self.zone, OnConflict(on_conflict), admit(event, self.zone))

    def _command(self, verb: Verb, booking: Booking, body: Body | None) -> Command:
        """Of an event at whose occurrences nothing runs."""
        options = DEFAULT_OPTIONS._replace(
            recurrence=recurrence_of(booking.expansion), event=encode_booking(booking)
        )
        encoded = b"" if body is None else encode_body(body)
        return Command(self._new_id(), verb, booking.task_id, NEVER, "", options, encoded)

    def _length(self, start: str, duration: timedelta | None, end: str | None, zone: str) -> Length:
        if end is not None:
            if duration is not None:
                raise InvalidEvent("end", end, "give either duration= or end=, not both")
            return length_until(start, end, zone, zone, self.zone)
        if duration is None:
            return NO_LENGTH
        if "T" not in start:
            if duration % _DAY:
                raise InvalidEvent("duration", str(duration), "an all-day event lasts whole days")
            return Length(days=duration // _DAY)
        if duration % _MS:
            raise InvalidEvent("duration", str(duration), "is of whole milliseconds")
        return Length(ms=duration // _MS)


def _call(bound: BoundCall) -> Call:
    headers = {} if bound.version == 1 else {VERSION_HEADER: str(bound.version)}
    return Call(
        bound.queue or DEFAULT_QUEUE,
        encode_body(Body(bound.handler, bound.payload, headers, {})),
        bound.terms,
    )


def _reminders(given: Sequence[timedelta | Reminder]) -> tuple[Reminder, ...]:
    """A timedelta is a time before the start."""
    return tuple(one if isinstance(one, Reminder) else Reminder(-(one // _MS)) for one in given)


def _written(name: str, moment: Moment) -> str:
    """A moment of an event whose zone only its calendar knows: an instant in UTC, text as the event's clock shows it."""
    if isinstance(moment, datetime):
        return local_text(name, moment, "UTC") + "Z"
    return local_text(name, moment, "UTC")
