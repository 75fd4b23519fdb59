"""In which zones two releases of the tz database differ, and when.

Pure: the releases' files are read by whoever made them (zone_data.py). Tasks may not enter here.
"""

from __future__ import annotations

from typing import NamedTuple

from tickstream.recurrence.zone_data import ZoneData
from tickstream.recurrence.zones import Zone


class Stretch(NamedTuple):
    """A stretch of time [start, end) in which two releases have the clock show different times. Seconds."""

    start: int
    """UTC."""
    end: int
    """UTC; where nobody looked further, the end of what was looked at."""
    before: int
    """Local minus UTC by the older release."""
    after: int


class ZoneChange(NamedTuple):
    """What becomes of one zone."""

    zone: str
    stretches: tuple[Stretch, ...]
    """In order; empty: the zone is gone."""

    @property
    def gone(self) -> bool:
        """Whether the newer release does not have the zone at all."""
        return not self.stretches


def zone_changes(old: ZoneData, new: ZoneData, start: int, end: int) -> tuple[ZoneChange, ...]:
    """The zones of `old` that differ in [start, end) (seconds, UTC), by name."""
    found = []
    for key in sorted(old.keys):
        if key not in new.keys:
            found.append(ZoneChange(key, ()))
        elif old.bytes_of(key) != new.bytes_of(key):
            stretches = differences(old.zone(key), new.zone(key), start, end)
            if stretches:
                found.append(ZoneChange(key, stretches))
    return tuple(found)


def differences(old: Zone, new: Zone, start: int, end: int) -> tuple[Stretch, ...]:
    """When the clocks of two zones show different times in [start, end)."""
    found: list[Stretch] = []
    while start < end:
        before, after = old.segment(start), new.segment(start)
        upto = min(before.end, after.end, end)
        if before.offset != after.offset:
            stretch = Stretch(start, upto, before.offset, after.offset)
            # Zones are looked up year by year: one difference may come in pieces.
            if found and found[-1].end == start and found[-1][2:] == stretch[2:]:
                stretch = stretch._replace(start=found.pop().start)
            found.append(stretch)
        start = upto
    return tuple(found)
