"""Occurrences of recurring tasks: those that get rows, and those that a question finds beyond them.

Pure: no database, no clock may enter here. The next occurrence stands in the task's state; behind it
rows are made for a day, at most MOST_ROWS. Where they end is the task's frontier: beyond it the rule is
expanded by whoever asks, so that an answer is complete however far it looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final

from tickstream.errors import InvalidSchedule, UnknownZone
from tickstream.model import NEVER, Phase, Recurrence, TaskState
from tickstream.projection.rows import Coming, Definition, Row, waiting
from tickstream.recurrence.stored import occurrences_of

AHEAD_MS: Final = 24 * 3_600_000
MOST_ROWS: Final = 64
_STRETCH_MS: Final = 60_000
_FEW, _MANY = 32, 1_000
"""Of a stretch going back: it grows below, and shrinks above."""


def stands_at(state: TaskState) -> int:
    """Where a task's next occurrence is listed: at its instant, that of a calendar's event where it was moved to.

    Otherwise it would look overdue from its old instant on.
    """
    extras = state.extras
    moved = extras.busy_until_ms != NEVER and extras.fire_at_ms != NEVER
    return extras.fire_at_ms if moved else state.next_occurrence_ts


def to_come(recurrence: Recurrence, state: TaskState, known: Sequence[int]) -> tuple[list[int], int]:
    """The occurrences from the next one on that get rows, and the frontier.

    `known`: those that had rows under the same definition, ascending: what is still to come of them is
    not computed again.
    """
    first = stands_at(state)
    found = list(known[known.index(first) :]) if first in known else [first]
    found = [at for at in found if at < first + AHEAD_MS]
    for at in _after(recurrence, state.extras.last_local, found[-1]):
        if len(found) >= MOST_ROWS or at >= first + AHEAD_MS:
            return found, found[-1]
        if at != state.next_occurrence_ts:
            found.append(at)
    return found, NEVER


def expand(task_id: str, frontier_ms: int, coming: Coming, start_ms: int, end_ms: int) -> Iterator[Row]:
    """The rows behind the frontier with start_ms <= occurrence_ts < end_ms, ascending."""
    recurrence = coming.definition.recurrence
    phase = Phase.PAUSED if coming.paused else Phase.SCHEDULED
    if recurrence is not None:
        begin = max(frontier_ms, start_ms - 1)
        for at in takewhile(lambda at: at < end_ms, _after(recurrence, coming.last_local, begin)):
            yield waiting(task_id, at, phase, coming.definition)


def expand_back(task_id: str, frontier_ms: int, coming: Coming, start_ms: int, end_ms: int) -> Iterator[Row]:
    """The same, descending: a stretch at a time, since rules only go forward."""
    low, high, width = max(frontier_ms + 1, start_ms), end_ms, _STRETCH_MS
    while high > low:
        begin = max(low, high - width)
        found = list(expand(task_id, frontier_ms, coming, begin, high))
        yield from reversed(found)
        high = begin
        width = (
            width * 2 if len(found) < _FEW else max(_STRETCH_MS, width // 2) if len(found) > _MANY else width
        )


def coming_of(definition: Definition, state: TaskState) -> Coming:
    """What is kept at the frontier."""
    return Coming(definition, state.extras.last_local, state.extras.paused)


def _after(recurrence: Recurrence, last_local: int | None, instant_ms: int) -> Iterator[int]:
    try:
        occurrences = occurrences_of(recurrence, last_local)
    except (InvalidSchedule, UnknownZone):
        # Admitted by a dispatcher with newer zone data, or a newer policy: its next occurrence is known, no more.
        return
    for pointer in occurrences.after(instant_ms):
        yield pointer.next_occurrence_ts
