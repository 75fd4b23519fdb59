"""What takes place in a window of a calendar: its occurrences by start, who meets whom, and what the clock did to them.

Pure. No store may enter here: the caller has found the events that may have time in the window.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from tickstream import recurrence
from tickstream.calendar.conflicts import Conflict
from tickstream.calendar.expansion import Expansion
from tickstream.calendar.occupancy import Busy
from tickstream.calendar.stored import Booking
from tickstream.calendar.values import Occurrence
from tickstream.errors import InvalidInput
from tickstream.recurrence.civil import seconds_of
from tickstream.recurrence.grammar import parse_written
from tickstream.recurrence.zone_data import load_zone
from tickstream.recurrence.zones import Zone

MOST_NAMED: Final = 20
"""Conflicts that are listed with one occurrence; all of them are counted."""
MOST_LISTED: Final = 20_000
"""Occurrences that one window may have."""


class Listed(NamedTuple):
    """One occurrence, and whose it is."""

    booking: Booking
    occurrence: Occurrence

    @property
    def place(self) -> tuple[int, str, int]:
        """The order of a listing."""
        return self.occurrence.start_ms, self.booking.event.uid, self.occurrence.recurrence_ms

    @property
    def busy(self) -> Busy | None:
        """The time that it takes up; None: it blocks nothing."""
        start, end, recurrence_ms, blocks, tentative, _, _ = self.occurrence
        return Busy(start, end, self.booking.event.uid, recurrence_ms, tentative) if blocks else None


class Unreadable(NamedTuple):
    """An event that cannot be expanded here."""

    uid: str
    reason: str


class Listing(NamedTuple):
    """What takes place in a window."""

    listed: list[Listed]
    """By start; what is cancelled is left out."""
    unreadable: list[Unreadable]


class Met(NamedTuple):
    """What an occurrence meets."""

    named: tuple[Busy, ...]
    """At most MOST_NAMED of them, by start."""
    in_all: int


NOTHING_MET: Final = Met((), 0)


def occurrences_in(bookings: Iterable[Booking], start_ms: int, end_ms: int) -> Listing:
    """The occurrences with time in common with [start_ms, end_ms), or that start there.

    Raises InvalidInput when there are more than MOST_LISTED.
    """
    listed: list[Listed] = []
    unreadable: list[Unreadable] = []
    for booking in bookings:
        try:
            expansion = booking.expansion
        except InvalidInput as error:
            # Admitted with newer zone data: the rest of the calendar is shown all the same.
            unreadable.append(Unreadable(booking.event.uid, str(error)))
            continue
        for occurrence in expansion.overlapping(start_ms, end_ms):
            if len(listed) == MOST_LISTED:
                raise InvalidInput(
                    f"more than {MOST_LISTED:,} occurrences lie between start and end; ask for a shorter time"
                )
            if not occurrence.cancelled:
                listed.append(Listed(booking, occurrence))
    listed.sort(key=lambda one: one.place)
    return Listing(listed, unreadable)


def busy_of(listed: Iterable[Listed]) -> list[Busy]:
    """The time that these take up, by start."""
    return sorted(busy for one in listed if (busy := one.busy) is not None)


def met_by_each(busy: Sequence[Busy]) -> dict[Busy, Met]:
    """By stretch, what it meets of all the others; only those that meet something. `busy`: by start."""
    starts, ends = [one.start_ms for one in busy], sorted(one.end_ms for one in busy)
    found: dict[Busy, list[Busy]] = {one: [] for one in busy}
    going_on: list[tuple[int, Busy]] = []
    wanting: dict[Busy, None] = {}
    for one in busy:
        while going_on and going_on[0][0] <= one.start_ms:
            wanting.pop(heapq.heappop(going_on)[1], None)
        found[one] += (other for _, other in going_on[:MOST_NAMED])
        # Each of those that go on takes in at most MOST_NAMED: so the whole is linear, however much overlaps.
        for other in list(wanting):
            found[other].append(one)
            if len(found[other]) == MOST_NAMED:
                del wanting[other]
        heapq.heappush(going_on, (one.end_ms, one))
        if len(found[one]) < MOST_NAMED:
            wanting[one] = None
    return {
        one: Met(tuple(sorted(named)), bisect_left(starts, one.end_ms) - bisect_right(ends, one.start_ms) - 1)
        for one, named in found.items()
        if named
    }


def meetings(busy: Sequence[Busy], start_ms: int, end_ms: int) -> Iterator[Conflict]:
    """Every two stretches that have time of [start_ms, end_ms) in common, by where that begins. `busy`: by start.

    `Conflict.occurrence` is the one that starts earlier.
    """
    going_on: list[Busy] = []
    for one in busy:
        if one.start_ms >= end_ms:
            return
        going_on = [other for other in going_on if other.end_ms > one.start_ms]
        for other in going_on:
            if min(one.end_ms, other.end_ms) > start_ms:
                yield Conflict(other, one)
        going_on.append(one)


def clock_change(booking: Booking, occurrence: Occurrence) -> str | None:
    """`gap` when its wall clock time does not exist on that day, `fold` when it comes twice; else None."""
    expansion, zone, nominal = booking.expansion, booking.expansion.zone, None
    override = occurrence.override
    if override is not None and override.start is not None:
        written = parse_written("start", override.start)
        if written.is_utc:
            return None
        same_kind = booking.event.all_day is written.is_date
        zone = load_zone(
            override.zone or (booking.event.zone if same_kind else None) or booking.calendar_zone
        )
        nominal = seconds_of(written.wall)
    instant = occurrence.start_ms // 1_000
    readings = zone.readings(instant + zone.offset(instant))
    if len(readings.instants) > 1:
        return "fold"
    if nominal is None:
        nominal = _nominal(expansion, occurrence) if _may_be_shifted(zone, instant) else None
    return "gap" if nominal is not None and not zone.readings(nominal).instants else None


def _may_be_shifted(zone: Zone, instant: int) -> bool:
    """Whether the clock has just been put forward: only there a time can lie that does not exist."""
    segment = zone.segment(instant)
    return instant < segment.start + segment.change_before


def _nominal(expansion: Expansion, occurrence: Occurrence) -> int | None:
    """The wall clock time that the rule names for it, in seconds."""
    at = occurrence.recurrence_ms
    return next((p.nominal_local for p in recurrence.between(expansion.schedule, at, at + 1)), None)
