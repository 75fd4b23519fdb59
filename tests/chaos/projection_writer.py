"""A process that writes an index as fast as it can, every state of it known by its position alone.

Commit n moves one of TASKS tasks to the instant NOON + n and is three records of `timers`; each
RARELY-th also lets an occurrence of `ended` end anew, with n as its worker. Run it with a directory; it goes on from what is there, flushes several times a second, and ends only by a signal.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tickstream.model import NEVER, History, Outcome, Rev, TaskState
from tickstream.projection import index as index_module
from tickstream.projection.fold import Step, fold
from tickstream.projection.index import Identity, IndexWriter
from tickstream.projection.rows import Columns, Definition, Position

TASKS = 40
RARELY = 61
ENDINGS = 3
NOON = 1_796_040_000_000
IDENTITY = Identity({"timers": b"t" * 16}, 1)


def task_of(commit: int) -> str:
    """The task that a commit moves."""
    return f"task-{commit * 7 % TASKS}"


def expected(commits: int) -> dict[str, int]:
    """task → instant after that many commits."""
    return {task_of(n): NOON + n for n in range(max(0, commits - TASKS), commits)}


def expected_workers(commits: int) -> dict[int, str]:
    """occurrence of `ended` → its worker after that many commits."""
    return {ending_of(n): str(n) for n in range(0, commits, RARELY)}


def ending_of(commit: int) -> int:
    """The occurrence that ends with a commit."""
    return NOON - 1 - commit // RARELY % ENDINGS


def step(commit: int) -> Step:
    """What commit n makes."""
    rev = Rev(commit, 0)
    task_id = task_of(commit)
    outcomes = []
    if commit % RARELY == 0:
        at = ending_of(commit)
        outcomes.append(
            History(
                commit,
                "ended",
                at,
                1,
                rev,
                Outcome.SUCCEEDED,
                at,
                "q",
                "h",
                str(commit),
                b"",
                at,
                at,
                at,
                at,
                "",
            )
        )
    return Step(
        0,
        {task_id: [Definition(rev, Columns("default", "handler", {}))]},
        {task_id: TaskState(rev, NOON + commit, NEVER, (), None, NEVER, ())},
        outcomes,
        Position(timers=3 * (commit + 1), applied_before_ms=NOON + commit, restoring=False),
    )


def main(data_dir: Path) -> None:
    """Write until killed; say once that it has begun."""
    index_module._FLUSH_BYTES = 200_000  # type: ignore[misc]
    with IndexWriter(data_dir, IDENTITY) as index:
        commit = index.positions([0])[0].timers // 3
        print("writing", flush=True)
        while True:
            index.apply(fold([step(commit)], index))
            commit += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]))
