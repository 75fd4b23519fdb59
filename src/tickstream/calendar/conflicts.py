"""Which occurrences of an event meet time that is taken, or each other: a merge of two sorted rows.

Pure, over the port `Occupancy`. How busy time is stored may not enter here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from tickstream.calendar.expansion import Expansion, within_horizon
from tickstream.calendar.occupancy import CLASSES, Busy, Cursor, Occupancy, look_back
from tickstream.calendar.values import Occurrence


class Conflict(NamedTuple):
    """Two occurrences that have time in common; instants in ms, UTC."""

    occurrence: Busy
    """Of the event that was asked about."""
    busy: Busy
    """What it meets; of the same event when that conflicts with itself, the later of the two."""

    @property
    def start_ms(self) -> int:
        """Where the common time begins."""
        return max(self.occurrence.start_ms, self.busy.start_ms)

    @property
    def end_ms(self) -> int:
        """Where the common time ends."""
        return min(self.occurrence.end_ms, self.busy.end_ms)

    @property
    def with_itself(self) -> bool:
        """Whether both are of one event."""
        return self.occurrence.uid == self.busy.uid

    @property
    def tentative(self) -> bool:
        """Whether one of the two is not settled yet."""
        return self.occurrence.tentative or self.busy.tentative


class Checked(NamedTuple):
    """What a check found, by the candidate's start."""

    conflicts: tuple[Conflict, ...]
    more: bool
    """Whether the check stopped at its limit: there may be more conflicts."""
    clear_until_ms: int | None
    """Apart from the conflicts, the event is clear until then, ms UTC; None: to its end."""


def busy_time(expansion: Expansion, start_ms: int, end_ms: int) -> tuple[Busy, ...]:
    """What the event takes up of [start_ms, end_ms), whole stretches, by start. Raises InvalidEvent for too many."""
    return _busy(expansion.event.uid, within_horizon(expansion, start_ms, end_ms))


def check(
    expansion: Expansion,
    occupancy: Occupancy,
    start_ms: int,
    horizon_ms: int,
    *,
    limit: int | None = None,
    counts: Callable[[Conflict], bool] | None = None,
) -> Checked:
    """Every conflict of the event's occurrences overlapping [start_ms, horizon_ms), those of its own uid apart.

    Stops at `limit` conflicts. `counts` says which of them are meant, None: all. Raises InvalidEvent when the event has too many occurrences in that time.
    """
    occurrences = within_horizon(expansion, start_ms, horizon_ms)
    beyond = not expansion.ends() or expansion.next_after(horizon_ms - 1) is not None
    mine = _busy(expansion.event.uid, occurrences)
    found: list[Conflict] = []
    more = False
    for conflict in filter(counts, _conflicts(mine, occupancy)) if counts else _conflicts(mine, occupancy):
        if limit is not None and len(found) == limit:
            more = True
            break
        found.append(conflict)
    return Checked(tuple(found), more, horizon_ms if beyond else None)


def meeting(occupancy: Occupancy, start_ms: int, end_ms: int) -> tuple[Busy, ...]:
    """All busy time that [start_ms, end_ms) has a part in, by start."""
    return tuple(sorted(busy for sweep in _sweeps(occupancy) for busy in sweep.meeting(start_ms, end_ms)))


def _busy(uid: str, occurrences: Iterable[Occurrence]) -> tuple[Busy, ...]:
    return tuple(
        Busy(start, end, uid, recurrence, tentative)
        for start, end, recurrence, blocks, tentative, _, _ in occurrences
        if blocks
    )


def _conflicts(mine: Sequence[Busy], occupancy: Occupancy) -> Iterator[Conflict]:
    sweeps = list(_sweeps(occupancy))
    for place, occurrence in enumerate(mine):
        start, end, uid = occurrence.start_ms, occurrence.end_ms, occurrence.uid
        met: list[Busy] = []
        done = False
        for sweep in sweeps:
            for busy in sweep.meeting(start, end):
                if busy.uid != uid:
                    met.append(busy)
            done = done or sweep.done
        if done:  # most classes have nothing at all: they are asked once
            sweeps = [sweep for sweep in sweeps if not sweep.done]
        following = place + 1
        while following < len(mine) and mine[following].start_ms < end:
            met.append(mine[following])
            following += 1
        if len(met) > 1:
            met.sort()
        for busy in met:
            yield Conflict(occurrence, busy)


def _sweeps(occupancy: Occupancy) -> Iterator[_Sweep]:
    for length_class in range(CLASSES):
        yield _Sweep(occupancy.cursor(length_class), length_class)


class _Sweep:
    """A walk along one class, beside occurrences asked for by rising start: nothing is read twice or needlessly."""

    def __init__(self, cursor: Cursor, length_class: int) -> None:
        self._cursor: Final = cursor
        self._class: Final = length_class
        self._open: list[Busy] = []
        """Read, and not over yet at the start of the last occurrence."""
        self._next: tuple[int, int] | None = (0, 0)
        """The first stretch not read yet."""
        self._begun = False

    @property
    def done(self) -> bool:
        """Whether nothing is left that a later occurrence could meet."""
        return self._next is None and not self._open

    def meeting(self, start: int, end: int) -> Sequence[Busy]:
        """The stretches that have time in common with [start, end), whose start is no less than the last one's."""
        if self._open:
            self._open = [busy for busy in self._open if busy.end_ms > start]
        following = self._next
        if following is not None:
            # What begins more than the class's bound before `start` is over by then.
            since = look_back(self._class, start)
            if not self._begun or following[0] < since:
                self._begun = True
                following = self._cursor.seek(since)
            while following is not None and following[0] < end:
                if following[1] > start:
                    self._open.append(self._cursor.busy())
                following = self._cursor.next()
            self._next = following
        if not self._open:
            return ()
        return [busy for busy in self._open if busy.start_ms < end]
