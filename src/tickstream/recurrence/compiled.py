"""A schedule made ready to answer: what is next, what was before, what lies between.

Pure: no clock, no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

from tickstream.errors import InvalidSchedule, NeverOccurs
from tickstream.recurrence.civil import DAY, LAST_DAY
from tickstream.recurrence.cron import CronTimes
from tickstream.recurrence.moments import InElapsedTime, OnWallClock, resolve
from tickstream.recurrence.rfc5545 import MOST_COUNTED, Moments, last_counted, recurrence
from tickstream.recurrence.values import Cron, Every, Fold, Pointer, Policy, Rrule, Schedule, Subday
from tickstream.recurrence.zone_data import ZoneData, in_use
from tickstream.recurrence.zones import Zone


class Clockwork(NamedTuple):
    """How a schedule meets the changes of a zone's clock."""

    zone: Zone
    policy: Policy
    """In force; an all-day schedule has one of its own."""
    elapsed: bool
    """Whether it steps in elapsed time, past every gap and fold."""
    fixed: frozenset[int] = frozenset()
    """Occurrences that are given as instants, in seconds UTC: no zone's data move those."""


class Placed(NamedTuple):
    """Where data place what other data placed elsewhere."""

    pointer: Pointer | None
    """The same one where it stands; None when nothing occurs any more."""
    passed: int
    """Occurrences that had not had their turn, and came to lie no later than the last one that had."""


class Occurrences:
    """The occurrences of one schedule; an answer takes the same time at any age of the schedule."""

    def __init__(
        self, next_after: Callable[[int], Pointer | None], clockwork: Clockwork, earliest_ms: int
    ) -> None:
        """Nothing may occur before `earliest_ms`."""
        self.next_after: Final = next_after
        """The first occurrence later than an instant (ms, UTC); None when none follows."""
        self.clockwork: Final = clockwork
        self._earliest_ms: Final = earliest_ms

    def first(self) -> Pointer | None:
        """The first occurrence of all."""
        return self.next_after(self._earliest_ms - 1)

    def following(self, pointer: Pointer) -> Pointer | None:
        """What follows an occurrence that other zone data may have placed.

        Later in UTC, and where these data place the occurrence elsewhere, later on the wall clock too:
        what comes again under another offset has had its turn.
        """
        found = self.next_after(pointer.next_occurrence_ts)
        if self.clockwork.elapsed or self._places(pointer):
            return found
        while found is not None and not self._fixed(found) and self._reading(found) <= self._reading(pointer):
            found = self.next_after(found.next_occurrence_ts)
        return found

    def placed(self, pointer: Pointer, floor_ms: int) -> Placed:
        """Where these data place an occurrence that others placed, and that has not had its turn yet.

        The first occurrence later than `floor_ms`, the last instant that had its turn, whose wall clock time had
        not. Steps in elapsed time, and instants given in UTC, are what they are: they stay.
        """
        at_ms = pointer.next_occurrence_ts
        if self._fixed(pointer) or (not self.clockwork.elapsed and self._places(pointer)):
            return Placed(pointer, 0)
        if self.clockwork.elapsed:
            stands = self.next_after(at_ms - 1)
            if stands is not None and stands.next_occurrence_ts == at_ms:
                return Placed(pointer, 0)
        begin_ms = self._first_shown(pointer.nominal_local) * 1_000
        if self.clockwork.elapsed or self.clockwork.fixed:
            begin_ms = min(begin_ms, at_ms)
        passed = 0
        found = self.next_after(begin_ms - 1)
        while found is not None and (found.next_occurrence_ts <= floor_ms or not self._ahead(found, pointer)):
            passed += not self.clockwork.elapsed and not self._fixed(found) and self._ahead(found, pointer)
            found = self.next_after(found.next_occurrence_ts)
        return Placed(found, passed)

    def _ahead(self, found: Pointer, pointer: Pointer) -> bool:
        """Whether an occurrence by these data had not had its turn when `pointer` was next by others."""
        later = found.next_occurrence_ts >= pointer.next_occurrence_ts
        if self._fixed(found):
            return later
        return (self.clockwork.elapsed and later) or self._reading(found) >= self._reading(pointer)

    def _reading(self, pointer: Pointer) -> tuple[int, int]:
        """What tells occurrences apart: one that comes once is the same, whichever of two readings it takes."""
        twice = self.clockwork.elapsed or self.clockwork.policy.fold is Fold.BOTH
        return pointer.nominal_local, pointer.fold if twice else 0

    def _fixed(self, pointer: Pointer) -> bool:
        return pointer.next_occurrence_ts // 1_000 in self.clockwork.fixed

    def _first_shown(self, local: int) -> int:
        """The first instant (seconds) at which the clock shows `local`, or has passed it over."""
        readings = self.clockwork.zone.readings(local)
        return readings.instants[0] if readings.instants else min(readings.gap_end, readings.shifted)

    def _places(self, pointer: Pointer) -> bool:
        """Whether the wall clock time of an occurrence belongs to its instant, by the zone data in use."""
        zone, policy = self.clockwork.zone, self.clockwork.policy
        instant = pointer.next_occurrence_ts // 1_000
        segment = zone.segment(instant)
        if pointer.nominal_local - segment.offset == instant and segment.fold(instant) == pointer.fold:
            return True
        moments = resolve(zone, pointer.nominal_local, policy.gap, policy.fold)
        return any((m.fold, m.instant) == (pointer.fold, instant) for m in moments)

    def after(self, instant_ms: int) -> Iterator[Pointer]:
        """Every occurrence later than `instant_ms`, in order; without end if the schedule has none."""
        pointer = self.next_after(instant_ms)
        while pointer is not None:
            yield pointer
            pointer = self.next_after(pointer.next_occurrence_ts)

    def previous(self, before_ms: int) -> Pointer | None:
        """The last occurrence earlier than `before_ms`; None when there is none."""
        distance = 1_000
        while (found := self._within(before_ms - distance, before_ms)) is None:
            if before_ms - distance < self._earliest_ms:
                return None
            distance *= 2
        # None lies behind `high`; halve what is between, until nothing is.
        low, high = found.next_occurrence_ts, before_ms - 1
        while low < high:
            middle = (low + high) // 2
            later = self._within(middle, before_ms)
            if later is None:
                high = middle
            else:
                found, low = later, later.next_occurrence_ts
        return found

    def _within(self, after_ms: int, before_ms: int) -> Pointer | None:
        found = self.next_after(after_ms)
        return found if found is not None and found.next_occurrence_ts < before_ms else None


@lru_cache(maxsize=16_384)
def compile_schedule(schedule: Schedule, data: ZoneData | None = None) -> Occurrences:
    """The occurrences of `schedule`; equal schedules share one. Raises InvalidSchedule, UnknownZone.

    `data` None: those that the process uses.
    """
    data = data or in_use()
    match schedule:
        case Rrule():
            found = recurrence(schedule, data)
            next_after = _in_ms(found.moments, found.earliest, schedule.end_ms)
            clockwork = Clockwork(found.zone, found.policy, found.elapsed, found.fixed)
            return Occurrences(next_after, clockwork, found.earliest * 1_000)
        case Cron():
            return _cron(schedule, data)
        case Every():
            return _every(schedule, data)


def admit(schedule: Schedule, most_counted: int = MOST_COUNTED, data: ZoneData | None = None) -> Schedule:
    """The schedule as it is to be stored: checked, and COUNT turned into the last occurrence.

    Raises InvalidSchedule, UnknownZone, and NeverOccurs for one without any occurrence. A COUNT beyond
    `most_counted` is refused unless a multiplication answers it.
    """
    if isinstance(schedule, Rrule) and schedule.last is None:
        schedule = replace(schedule, last=last_counted(schedule, data or in_use(), most_counted))
    if compile_schedule(schedule, data).first() is None:
        raise NeverOccurs(_name(schedule), "no date and time answers all of its parts")
    return schedule


def _name(schedule: Schedule) -> str:
    match schedule:
        case Rrule(rule=rule, start=start):
            return f"{rule or 'the list of dates'!r} from {start}"
        case Cron(expression=expression):
            return f"cron {expression!r}"
        case Every(interval_ms=interval_ms):
            return f"every {interval_ms} ms"


def _every(schedule: Every, data: ZoneData) -> Occurrences:
    interval, anchor, end = schedule.interval_ms, schedule.anchor_ms, _end(schedule.end_ms)
    if interval <= 0:
        raise InvalidSchedule("every", interval, "the interval must be at least a millisecond")
    zone = data.zone(schedule.zone)

    def next_after(after_ms: int) -> Pointer | None:
        instant = anchor if after_ms < anchor else after_ms + interval - (after_ms - anchor) % interval
        if instant >= end:
            return None
        segment = zone.segment(instant // 1_000)
        return Pointer(instant // 1_000 + segment.offset, segment.fold(instant // 1_000), instant)

    return Occurrences(next_after, Clockwork(zone, Policy(), elapsed=True), anchor)


def _cron(schedule: Cron, data: ZoneData) -> Occurrences:
    zone, times, policy = data.zone(schedule.zone), CronTimes(schedule.expression), schedule.policy
    start = -(-schedule.start_ms // 1_000)
    moments: Moments = OnWallClock(zone, times.next_local, policy.gap, policy.fold)
    elapsed = times.starred and policy.subday is Subday.ELAPSED
    if elapsed:
        moments = InElapsedTime(zone, lambda _offset, after, _until: times.next_local(after), start)
    next_after = _in_ms(moments, start, schedule.end_ms)
    return Occurrences(next_after, Clockwork(zone, policy, elapsed), start * 1_000)


def _in_ms(moments: Moments, start: int, end_ms: int | None) -> Callable[[int], Pointer | None]:
    """Nothing before `start` (seconds), nothing from `end_ms` on."""
    end = _end(end_ms)

    def next_after(after_ms: int) -> Pointer | None:
        if after_ms >= end:
            return None
        moment = moments(max(after_ms // 1_000, start - 1))
        if moment is None or moment.instant * 1_000 >= end:
            return None
        return Pointer(moment.nominal_local, moment.fold, moment.instant * 1_000)

    return next_after


def _end(end_ms: int | None) -> int:
    """The first ms at which nothing may occur: the schedule's end, at the latest the calendar's."""
    calendar_end = LAST_DAY * DAY * 1_000
    return calendar_end if end_ms is None else min(end_ms, calendar_end)
