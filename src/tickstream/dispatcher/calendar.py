"""What a calendar makes of an event that asks for its time: atomic with the acceptance, since one bucket has it all.

Pure given its view of the store: an overlay keeps what the transaction has changed so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Final, Protocol

from tickstream.calendar import Busy, Checked, Conflict, MemoryOccupancy, Occupancy, Overlaid, check
from tickstream.calendar.stored import Booking, OnConflict, decode_booking, task_id_of
from tickstream.clock import iso_utc_seconds
from tickstream.codec import decode_command
from tickstream.dispatcher.decision import Decision, Ended, Judged, Rules, Task
from tickstream.errors import CodecError
from tickstream.model import (
    NEVER,
    CalendarAnswer,
    Command,
    Outcome,
    TaskSpec,
    TaskState,
    Verb,
    VerdictConflict,
    VerdictKind,
)
from tickstream.recurrence.zone_data import load_zone
from tickstream.recurrence.zones import Zone
from tickstream.timer_store.busy_time import busy_time_of, takes_other_time, window
from tickstream.timer_store.due import HORIZON_MS

MOST_LISTED: Final = 20
"""Conflicts that an answer lists; the check stops there."""


class CalendarView(Protocol):
    """The busy time of one bucket's calendars as the store has it."""

    def occupancy(self, bucket: int, calendar: str) -> Occupancy: ...


class Calendars:
    """The calendars of one bucket as a transaction would leave them."""

    def __init__(self, bucket: int, view: CalendarView, task: Callable[[str], Task]) -> None:
        """`task`: any task of the bucket, as the transaction has it so far."""
        self._bucket: Final = bucket
        self._view: Final = view
        self.task: Final = task
        self._added: Final[dict[str, MemoryOccupancy]] = {}
        self._removed: Final[dict[str, set[Busy]]] = {}

    def moved(self, before: Task, after: Task) -> None:
        """A task has changed."""
        if not takes_other_time(*before, *after):
            return
        old, new = busy_time_of(*before), busy_time_of(*after)
        if old.calendar:
            self._added.setdefault(old.calendar, MemoryOccupancy()).remove(old.stretches)
            self._removed.setdefault(old.calendar, set()).update(old.stretches)
        if new.calendar:
            self._added.setdefault(new.calendar, MemoryOccupancy()).add(new.stretches)

    def judge(self, command: Command, known: TaskSpec | None, now_ms: int) -> Judged:
        """Look whether the time of the event that the command carries is free. Raises InvalidInput for a bad one.

        `known`: what the calendar has of that id.
        """
        try:
            booking = decode_booking(command.options.event)
        except CodecError as error:
            return Judged(VerdictKind.REJECTED, f"event: {error}", NEVER)
        if booking.task_id != command.task_id:
            return Judged(VerdictKind.REJECTED, f"the event's id is {booking.task_id!r}", NEVER)
        newest = _sequence(known)
        if booking.event.sequence < newest:
            detail = f"SEQUENCE {booking.event.sequence} is older than the calendar's {newest}; give sequence={newest} or more"
            return Judged(VerdictKind.REJECTED, detail, NEVER)
        if command.options.recurrence is None:
            return Judged(VerdictKind.REJECTED, "an event's command has its recurrence beside it", NEVER)
        if command.verb is Verb.CHECK_EVENT:
            booking = booking._replace(on_conflict=OnConflict.REPORT)
        return self.look(booking, now_ms)

    def look(self, booking: Booking, now_ms: int, counts: Callable[[Conflict], bool] | None = None) -> Judged:
        """Look whether an event's time is free; `counts` says which conflicts are looked at. Raises InvalidInput."""
        until_ms = now_ms + HORIZON_MS
        if booking.on_conflict is OnConflict.ALLOW:
            return Judged(None, "", until_ms)
        start_ms, _ = window(until_ms)
        occupancy = self._occupancy(booking.calendar)
        found = answer_with(
            booking,
            check(booking.expansion, occupancy, start_ms, until_ms, limit=MOST_LISTED, counts=counts),
        )
        if found.conflicts and booking.on_conflict is OnConflict.REJECT:
            return Judged(VerdictKind.CONFLICT, "", NEVER, found)
        return Judged(None, "", until_ms, found)

    def _occupancy(self, calendar: str) -> Occupancy:
        stored = self._view.occupancy(self._bucket, calendar)
        added, removed = self._added.get(calendar), self._removed.get(calendar)
        if added is None and removed is None:
            return stored
        return Overlaid(stored, added or MemoryOccupancy(), frozenset(removed or ()))


def _sequence(known: TaskSpec | None) -> int:
    event = b"" if known is None else decode_command(known.command).options.event
    return decode_booking(event).event.sequence if event else 0


def move_horizon(task: Task, now_ms: int, rules: Rules) -> Decision:
    """Keep the time of an event further ahead. What is met there is no reason to drop it: it was taken; it is recorded."""
    spec, state = task
    if spec is None or state is None or state.extras.busy_until_ms == NEVER:
        return Decision(task, stale=True)
    since_ms, until_ms = state.extras.busy_until_ms, now_ms + HORIZON_MS
    command = decode_command(spec.command)
    booking = decode_booking(command.options.event)

    def is_new(conflict: Conflict) -> bool:
        """Whether it begins where nobody has looked yet."""
        return conflict.occurrence.start_ms >= since_ms

    ends = _come_upon(booking, state, command.queue, now_ms, rules, is_new)
    return Decision(Task(spec, state.with_extras(busy_until_ms=until_ms)), also_ended=ends)


def met_anew(task: Task, now_ms: int, rules: Rules) -> tuple[Ended, ...]:
    """What an event meets by newer zone data, to be recorded as when the horizon moves on. Raises InvalidInput.

    By what older data it met what, nobody knows any more. So a conflict counts where both asked for none, or go by
    different clocks: two that were let meet, and go by one clock, did so before.
    """
    spec, state = task
    if spec is None or state is None or state.extras.busy_until_ms == NEVER or spec.rev != state.rev:
        return ()
    until_ms = state.extras.busy_until_ms
    command = decode_command(spec.command)
    booking = decode_booking(command.options.event)
    others: dict[str, bool] = {}

    def is_new(conflict: Conflict) -> bool:
        """Of those looked at before, to come still, and this one's to tell."""
        if conflict.end_ms <= now_ms or conflict.occurrence.start_ms >= until_ms:
            return False
        uid = conflict.busy.uid
        if uid not in others:
            others[uid] = _tells_of(booking, uid, rules)
        return others[uid]

    return _come_upon(booking, state, command.queue, now_ms, rules, is_new)


def _tells_of(booking: Booking, uid: str, rules: Rules) -> bool:
    """Whether a conflict with the event of that uid is news, and not the other's to tell."""
    refuses = booking.on_conflict is OnConflict.REJECT
    if uid == booking.event.uid:
        return refuses
    spec = rules.calendars.task(task_id_of(booking.calendar, uid)).spec
    if spec is None:
        return False
    other = decode_booking(decode_command(spec.command).options.event)
    if other.on_conflict is not OnConflict.ALLOW and uid > booking.event.uid:
        return False
    return (refuses and other.on_conflict is OnConflict.REJECT) or len(_clocks(booking) | _clocks(other)) > 1


def _clocks(booking: Booking) -> frozenset[str]:
    """The zones by which its occurrences are placed."""
    expansion = booking.expansion
    usual = "UTC" if expansion.elapsed else expansion.zone.key
    given = [added.start for added in booking.event.rdate]
    given += [o.start for o in booking.event.overrides if o.start is not None]
    own = [o.zone for o in booking.event.overrides if o.zone is not None]
    return frozenset((usual, *own, *("UTC" for text in given if text.endswith("Z"))))


def _come_upon(
    booking: Booking,
    state: TaskState,
    queue: str,
    now_ms: int,
    rules: Rules,
    counts: Callable[[Conflict], bool],
) -> tuple[Ended, ...]:
    """A record for each occurrence of an event that was taken and meets another; none where nobody was to look."""
    if booking.on_conflict is OnConflict.ALLOW:
        return ()
    reported = booking._replace(on_conflict=OnConflict.REPORT)
    answer = rules.calendars.look(reported, now_ms, counts).found
    return tuple(
        Ended(at, 0, state.rev, Outcome.CONFLICT, queue, NEVER, None, "", str(some), b"")
        for at, some in _by_occurrence(booking, () if answer is None else answer.conflicts)
    )


def _by_occurrence(
    booking: Booking, conflicts: tuple[VerdictConflict, ...]
) -> Iterator[tuple[int, CalendarAnswer]]:
    """What each occurrence meets, in the order of the event's occurrences."""
    for occurrence_ts, some in groupby(conflicts, key=lambda conflict: conflict.occurrence_ts):
        yield (
            occurrence_ts,
            CalendarAnswer(
                booking.event.uid, booking.calendar_zone, tuple(some), more=False, clear_until_ms=NEVER
            ),
        )


def answer_with(booking: Booking, checked: Checked) -> CalendarAnswer:
    """What a check found, with the times in common also as the calendar's clock shows them."""
    zone = load_zone(booking.calendar_zone)
    return CalendarAnswer(
        booking.event.uid,
        booking.calendar_zone,
        tuple(_conflict(conflict, zone) for conflict in checked.conflicts),
        checked.more,
        NEVER if checked.clear_until_ms is None else checked.clear_until_ms,
    )


def _conflict(conflict: Conflict, zone: Zone) -> VerdictConflict:
    start, end, busy = conflict.start_ms, conflict.end_ms, conflict.busy
    return VerdictConflict(
        conflict.occurrence.recurrence_ms,
        busy.uid,
        busy.recurrence_ms,
        start,
        end,
        _local(start, zone),
        _local(end, zone),
        conflict.tentative,
    )


def _local(instant_ms: int, zone: Zone) -> str:
    return iso_utc_seconds(instant_ms + zone.offset(instant_ms // 1_000) * 1_000).removesuffix("Z")
