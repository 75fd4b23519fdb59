"""Free and busy time as stretches that do not overlap: what is taken, and the gaps between that are long enough.

Pure. Where busy time comes from may not enter here. Instants are ms since the epoch, UTC; intervals are half open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tickstream.calendar.occupancy import Busy


class Stretch(NamedTuple):
    """Time that is taken."""

    start_ms: int
    end_ms: int
    tentative: bool
    """Only by what is not settled yet."""


class Slot(NamedTuple):
    """Time that is free."""

    start_ms: int
    end_ms: int


def busy_stretches(busy: Iterable[Busy], start_ms: int, end_ms: int) -> list[Stretch]:
    """What is taken of [start_ms, end_ms), by start; what is settled and what is tentative are stretches of their own."""
    edges: list[tuple[int, int, bool]] = []
    for stretch in busy:
        begin, end = max(stretch.start_ms, start_ms), min(stretch.end_ms, end_ms)
        if begin < end:
            edges += (begin, 1, stretch.tentative), (end, -1, stretch.tentative)
    edges.sort()
    found: list[Stretch] = []
    settled = tentative = since = 0
    for at, step, unsure in edges:
        if (settled or tentative) and at > since:
            _extend(found, Stretch(since, at, not settled))
        tentative, settled = tentative + step * unsure, settled + step * (not unsure)
        since = at
    return found


def _extend(found: list[Stretch], stretch: Stretch) -> None:
    if found and found[-1][1:] == (stretch.start_ms, stretch.tentative):
        stretch = found.pop()._replace(end_ms=stretch.end_ms)
    found.append(stretch)


def free_slots(
    busy: Iterable[Stretch], start_ms: int, end_ms: int, least_ms: int, limit: int | None = None
) -> list[Slot]:
    """The first gaps of [start_ms, end_ms) that last `least_ms` or longer, whole, at most `limit`.

    `busy`: by start, as `busy_stretches` gives it.
    """
    found: list[Slot] = []
    for gap in _gaps(busy, start_ms, end_ms):
        if limit is not None and len(found) == limit:
            break
        if gap.end_ms > gap.start_ms and gap.end_ms - gap.start_ms >= least_ms:
            found.append(gap)
    return found


def _gaps(busy: Iterable[Stretch], start_ms: int, end_ms: int) -> Iterator[Slot]:
    since = start_ms
    for stretch in busy:
        yield Slot(since, stretch.start_ms)
        since = max(since, stretch.end_ms)
    yield Slot(since, end_ms)


def common_slots(one: Sequence[Slot], other: Sequence[Slot], least_ms: int) -> list[Slot]:
    """What is free in both for `least_ms` or longer, by start, as both are."""
    found: list[Slot] = []
    here = there = 0
    while here < len(one) and there < len(other):
        both = Slot(
            max(one[here].start_ms, other[there].start_ms), min(one[here].end_ms, other[there].end_ms)
        )
        if both.end_ms > both.start_ms and both.end_ms - both.start_ms >= least_ms:
            found.append(both)
        if one[here].end_ms <= other[there].end_ms:
            here += 1
        else:
            there += 1
    return found
