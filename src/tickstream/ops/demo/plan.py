"""What the demo does to its tasks, and when: decided beforehand, from a seed.

Pure: no clock, no process and no broker may enter here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from enum import Enum
from random import Random
from typing import Final, NamedTuple

from tickstream.ops.task_file import TaskLine

SHARE: Final = 0.05
"""Of the tasks: so many are cancelled, and so many others replaced."""
_NOTICE_MS: Final = 2_000
"""A change is made at least this long before its task is due."""
_LONGEST_DELAY_MS: Final = 5_000
"""A replaced task moves by up to this much."""
_QUIET_BEFORE_MS: Final = 750
_QUIET_AFTER_MS: Final = 4_000
"""As long as a take-over may last with the dev broker's session."""
_STEP_MS: Final = 50


class ChangeKind(Enum):
    """What is done to a task that is not due yet."""

    CANCEL = "cancel"
    REPLACE = "replace"


class Change(NamedTuple):
    """One cancel or replace."""

    at_ms: int
    kind: ChangeKind
    task: TaskLine
    run_at_ms: int
    """The new instant of a replaced task, the old one of a cancelled."""


def plan_changes(tasks: Sequence[TaskLine], rng: Random, *, start_ms: int) -> list[Change]:
    """Cancels and replaces for 5 % of `tasks` each, spread over the run, in the order of their time.

    Nothing is done before `start_ms`, nor to a task that falls due within two seconds; nothing is moved
    past the last instant of `tasks`.
    """
    changeable = [task for task in tasks if task.run_at_ms >= start_ms + _NOTICE_MS]
    count = min(round(len(tasks) * SHARE), len(changeable) // 2)
    last_ms = max((task.run_at_ms for task in tasks), default=start_ms)
    chosen = rng.sample(changeable, 2 * count)
    kinds = [ChangeKind.CANCEL] * count + [ChangeKind.REPLACE] * count
    return sorted(
        (_change(task, kind, rng, start_ms, last_ms) for task, kind in zip(chosen, kinds, strict=True)),
        key=lambda change: change.at_ms,
    )


def _change(task: TaskLine, kind: ChangeKind, rng: Random, start_ms: int, last_ms: int) -> Change:
    at_ms = rng.randint(start_ms, task.run_at_ms - _NOTICE_MS)
    moved_ms = min(task.run_at_ms + rng.randint(1, _LONGEST_DELAY_MS), last_ms)
    return Change(at_ms, kind, task, moved_ms if kind is ChangeKind.REPLACE else task.run_at_ms)


def quiet_moment(run_at_ms: Sequence[int]) -> int:
    """The instant near the middle of the run around which the fewest tasks fall due.

    What falls due while a lane moves says nothing about the steady state and is left out of its lateness;
    a peak there would leave out too much. `run_at_ms` is ascending and not empty.
    """
    middle = (run_at_ms[0] + run_at_ms[-1]) // 2
    reach = (run_at_ms[-1] - run_at_ms[0]) // 8

    def disturbed(at_ms: int) -> int:
        after = bisect_right(run_at_ms, at_ms + _QUIET_AFTER_MS)
        return after - bisect_left(run_at_ms, at_ms - _QUIET_BEFORE_MS)

    candidates = range(middle - reach, middle + reach + 1, _STEP_MS)
    return min(candidates, key=lambda at_ms: (disturbed(at_ms), abs(at_ms - middle)))
