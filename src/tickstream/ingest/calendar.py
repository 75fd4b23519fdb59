"""A calendar as a client sees it: events are added, changed and removed by commands, and answered with verdicts.

What conflicts is decided by the dispatcher. No I/O of its own may enter here: commands go out by `send`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from tickstream.calendar import (
    NO_DETAILS,
    NO_LENGTH,
    Added,
    Details,
    Event,
    Expansion,
    Length,
    Override,
    Status,
    Transparency,
    admit,
    length_until,
)
from tickstream.calendar.stored import Booking, OnConflict, encode_booking, task_id_of
from tickstream.clock import iso_utc_seconds
from tickstream.errors import InvalidEvent
from tickstream.ingest.agenda import CalendarReader
from tickstream.ingest.dashboard import Dashboard
from tickstream.ingest.recurring import Moment, local_text
from tickstream.ingest.request import Requests, cancel_command, schedule_command
from tickstream.model import BoundCall, Command, Overlap, Recurrence, RecurrenceKind, Verdict
from tickstream.recurrence.zones import load_zone

_MS: Final = timedelta(milliseconds=1)
_DAY: Final = timedelta(days=1)


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

    def add(
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
        on_conflict: OnConflict | str = OnConflict.REJECT,
        summary: str = "",
        location: str = "",
        description: str = "",
        attendees: Sequence[str] = (),
        sequence: int = 0,
        call: BoundCall | None = None,
        handler: str = "",
        payload: bytes | None = None,
        queue: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Verdict:
        """Add an event, or change the one of that uid; each occurrence runs `call` (or `handler`) at its start.

        `start` and the other times: an aware datetime, text as the clock of `zone` shows it, or a date for an event of
        whole days. `zone`: default that of `start`, else the calendar's. `duration` or `end`; neither: a date lasts
        that day, a time no time. `on_conflict`: "reject" answers CONFLICT with what it meets, "report" takes it and
        says so, "allow" does not look.

        SCHEDULED, REPLACED, CONFLICT, or REJECTED with the reason. Raises InvalidInput and its kinds,
        BrokerUnavailable, SendFailed, VerdictTimeout.
        """
        if zone is None and isinstance(start, datetime) and isinstance(start.tzinfo, ZoneInfo):
            zone = start.tzinfo.key
        clock = zone or self.zone
        begins = local_text("start", start, clock)
        event = Event(
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
        )
        return self.put(
            event,
            on_conflict=on_conflict,
            call=call,
            handler=handler,
            payload=payload,
            queue=queue,
            labels=labels,
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
    ) -> Verdict:
        """Add an Event value, as an import gives it, or change the one of its uid. As `add`."""
        if event.status is Status.CANCELLED:
            raise InvalidEvent("status", event.status.value, "a cancelled event takes no time: remove it")
        booking = Booking(self.id, self.zone, OnConflict(on_conflict), admit(event, self.zone))
        if handler and payload is None:
            payload = b""
        checked = self._requests.checked(
            booking.task_id, None, None, payload, handler, call, queue, labels, "replace", False, None,
            _recurrence(booking),
        )  # fmt: skip
        command = schedule_command(self._new_id(), checked)
        options = command.options._replace(event=encode_booking(booking))
        return self._send(command._replace(options=options))

    def remove(self, uid: str, *, running: bool = False) -> Verdict:
        """Remove an event with all its occurrences: its time is free. CANCELLED, TOO_LATE or UNKNOWN.

        Raises InvalidTaskId, BrokerUnavailable, SendFailed, VerdictTimeout.
        """
        return self._send(cancel_command(self._new_id(), task_id_of(self.id, uid), running))

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


def _recurrence(booking: Booking) -> Recurrence:
    """When the event's occurrences are to run: by its rule, those changed by hand where they were moved to."""
    event, schedule = booking.event, booking.expansion.schedule
    expansion = booking.expansion
    moved = [expansion.occurrence(override.recurrence_id) for override in event.overrides]
    taking_place = [occurrence for occurrence in moved if occurrence is not None and not occurrence.cancelled]
    if event.all_day and any(o.override and "T" in (o.override.start or "") for o in taking_place):
        raise InvalidEvent(
            "overrides", event.uid, "an occurrence of an all-day event is moved to a day, not to a time"
        )
    starts = {occurrence.start_ms for occurrence in taking_place}
    return Recurrence(
        RecurrenceKind.RRULE,
        rule=schedule.rule or "",
        zone="" if schedule.zone in (None, "UTC") else schedule.zone or "",
        start=schedule.start,
        rdate=(*schedule.rdate, *(_start(event, o.start_ms, o.override) for o in taking_place)),
        exdate=(
            *schedule.exdate,
            *(o.recurrence_id for o in event.overrides if _vacated(o, expansion, starts)),
        ),
        overlap=Overlap.ALLOW,
    )


def _vacated(override: Override, expansion: Expansion, starts: set[int]) -> bool:
    """Whether nothing begins any more where the rule puts the occurrence: EXDATE would take out RDATE's, too."""
    return expansion.identity(override.recurrence_id) not in starts


def _start(event: Event, start_ms: int, override: Override | None) -> str:
    """Where a changed occurrence begins, written as RDATE has it beside the event's start."""
    assert override is not None
    if event.all_day:
        return override.start or override.recurrence_id
    return iso_utc_seconds(start_ms)
