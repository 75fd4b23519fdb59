"""A time zone: which instants a wall clock reading names, and the other way round.

Where its data come from is zone_data.py's; nothing of schedules may enter here.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from tickstream.recurrence.civil import DAY

_BLOCK: Final = 1 << 25
"""Seconds (388 days) for which the changes of a zone are looked up at once."""
PROBE: Final = 1 << 18
"""Seconds (three days) between looks: every zone keeps an offset for longer than that (tested on all of them)."""
_MARGIN: Final = PROBE
"""Seconds; more than two days, and no clock was ever moved by more than one."""
_EARLIEST: Final = -62_135_510_400
"""0001-01-02T12:00Z: from here on, datetime can say what the clock shows in every zone."""
_LATEST: Final = 253_402_214_400
"""9999-12-31T00:00Z."""
_SECOND: Final = timedelta(seconds=1)


class Segment(NamedTuple):
    """A stretch of time with one UTC offset; all in seconds, UTC. Stretches are also cut two days outside a block."""

    start: int
    end: int
    offset: int
    """Local minus UTC."""
    change_before: int
    """By how much the clock moved at `start`; 0 when it did not."""
    change_after: int

    def fold(self, instant: int) -> int:
        """1 when the clock shows at `instant` what it has shown before, else 0."""
        return int(instant < self.start - self.change_before)


class Readings(NamedTuple):
    """The instants at which a wall clock shows one time, in seconds UTC: one, two (a fold) or none (a gap)."""

    instants: tuple[int, ...]
    gap_end: int = 0
    """In a gap: the instant at which it ends."""
    shifted: int = 0
    """In a gap: the reading with the offset in force before it."""


class Zone:
    """One zone of the tz database. What it answers is kept, by the year."""

    def __init__(self, key: str, info: ZoneInfo | None) -> None:
        """`info` None is UTC, which needs no data."""
        self.key: Final = key
        self._info: Final = info
        self._blocks: dict[int, tuple[tuple[int, ...], tuple[Segment, ...]]] = {}

    def segment(self, instant: int) -> Segment:
        """The stretch that holds `instant` (seconds, UTC)."""
        starts, segments = self._block(instant // _BLOCK)
        return segments[bisect_right(starts, instant) - 1]

    def offset(self, instant: int) -> int:
        """Local minus UTC at `instant`, in seconds."""
        return self.segment(instant).offset

    def readings(self, local: int) -> Readings:
        """When the wall clock shows `local` (seconds since 1970-01-01T00:00 on that clock)."""
        segment = self.segment(local - DAY)
        found: list[int] = []
        gap: tuple[int, int] | None = None
        while segment.start - DAY < local:  # no offset reaches a day
            instant = local - segment.offset
            # Stretches of two blocks overlap.
            if segment.start <= instant < segment.end and instant not in found:
                found.append(instant)
            following = self.segment(segment.end)
            # Before the end the clock is not that far yet, behind it is already past.
            if segment.end <= instant and local - following.offset < segment.end:
                gap = (segment.end, instant)
            segment = following
        if found or gap is None:
            return Readings(tuple(found))
        return Readings((), *gap)

    def _block(self, number: int) -> tuple[tuple[int, ...], tuple[Segment, ...]]:
        block = self._blocks.get(number)
        if block is None:
            segments = self._look_up(number * _BLOCK, (number + 1) * _BLOCK)
            block = self._blocks[number] = (tuple(s.start for s in segments), segments)
        return block

    def _look_up(self, start: int, end: int) -> tuple[Segment, ...]:
        if self._info is None:
            return (Segment(start, end, 0, 0, 0),)
        # Cut so far outside that every change which an instant of the block feels is one of these.
        start, end = start - _MARGIN, end + _MARGIN
        bounds, offsets = [start], [self._utcoffset(start)]
        for probe in range(start + PROBE, end + 1, PROBE):
            offset = self._utcoffset(probe)
            if offset != offsets[-1]:
                bounds.append(self._change(probe, offset))
                offsets.append(offset)
        moves = [0, *(after - before for before, after in pairwise(offsets)), 0]
        bounds.append(end)
        return tuple(
            Segment(bounds[i], bounds[i + 1], offset, moves[i], moves[i + 1])
            for i, offset in enumerate(offsets)
        )

    def _change(self, high: int, offset: int) -> int:
        """The first second with `offset`, which `high` has and the look before that had not."""
        low = high - PROBE
        while high - low > 1:
            middle = (low + high) // 2
            if self._utcoffset(middle) == offset:
                high = middle
            else:
                low = middle
        return high

    def _utcoffset(self, instant: int) -> int:
        held = min(max(instant, _EARLIEST), _LATEST)
        offset = datetime.fromtimestamp(held, self._info).utcoffset()
        return 0 if offset is None else offset // _SECOND


UTC_ZONE: Final = Zone("UTC", None)
