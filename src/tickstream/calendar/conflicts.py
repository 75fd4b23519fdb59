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
    asked = Busy(start_ms, end_ms, "", start_ms, tentative=False)
    return tuple(sorted(busy for sweep in _sweeps(occupancy) for busy in sweep.meeting(asked)))


def _busy(uid: str, occurrences: Iterable[Occurrence]) -> tuple[Busy, ...]:
    return tuple(
        Busy(start, end, uid, recurrence, tentative)
        for start, end, recurrence, blocks, tentative, _, _ in occurrences
        if blocks
    )


def _conflicts(mine: Sequence[Busy], occupancy: Occupancy) -> Iterator[Conflict]:
    sweeps = list(_sweeps(occupancy))
    for place, occurrence in enumerate(mine):
        met = [b for sweep in sweeps for b in sweep.meeting(occurrence) if b.uid != occurrence.uid]
        following = place + 1
        while following < len(mine) and mine[following].start_ms < occurrence.end_ms:
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

    def meeting(self, occurrence: Busy) -> list[Busy]:
        """The stretches that have time in common with `occurrence`, whose start is no less than the last one's."""
        start, end = occurrence.start_ms, occurrence.end_ms
        if self._open:
            self._open = [busy for busy in self._open if busy.end_ms > start]
        self._catch_up(start)
        following = self._next
        while following is not None and following[0] < end:
            if following[1] > start:
                self._open.append(self._cursor.busy())
            following = self._next = self._cursor.next()
        return [busy for busy in self._open if busy.start_ms < end]

    def _catch_up(self, start_ms: int) -> None:
        """Pass over what is over before `start_ms` for sure: it begins more than the class's bound before."""
        if self._next is None:
            return
        since = look_back(self._class, start_ms)
        if not self._begun or self._next[0] < since:
            self._begun = True
            self._next = self._cursor.seek(since)
