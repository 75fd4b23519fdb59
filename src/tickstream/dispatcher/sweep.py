"""Looking at everything of a bucket that older zone data placed: in pages, what is due soon first.

No decision may enter here (moving.py), and nothing is written: what moves goes into an ordinary transaction.
Where it stands is not kept. Progress says that it is not over, so whoever dies on the way begins again, and
what is placed already stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, Protocol

from tickstream.clock import iso_utc
from tickstream.dispatcher.decision import Rules, Task
from tickstream.dispatcher.moving import moves, recurs, takes_time
from tickstream.dispatcher.outcome import BucketOutcome, TaskView
from tickstream.model import DueEntry, DueKind, Outcome, TaskState

SOON_MS: Final = 48 * 3_600_000
"""What is due within that time is looked at first; no clock was ever moved by more than a day."""
_ROWS: Final = 1_000
"""Looked at in one page: some 2 ms for tasks that run once."""
_PLACED: Final = 100
"""Tasks that recur looked at in one page: some 10 ms."""
_TIME: Final = 10
"""As how many of those an event counts, whose time is looked at in the transaction."""


class SweepView(TaskView, Protocol):
    """A bucket's tasks in two orders."""

    def due(
        self, bucket: int, until_ms: int, limit: int, *, after: DueEntry | None = None
    ) -> list[DueEntry]: ...
    def tasks(self, bucket: int, after: str = "") -> Iterator[tuple[str, TaskState]]: ...


class Sweep:
    """One bucket's, from its take-over to its end."""

    def __init__(self, bucket: int, now_ms: int) -> None:
        self.ended = False
        self._bucket: Final = bucket
        self._soon_ms: Final = now_ms + SOON_MS
        self._due: DueEntry | None = None
        """The last one looked at."""
        self._soon = True
        self._looked: Final[set[str]] = set()
        """Events among those due soon: what they meet is told once."""
        self._task_id = ""
        """The last one looked at, of all of them."""

    def page(self, view: SweepView, rules: Rules) -> list[str]:
        """The tasks of the next page that have to move, or to be looked at. Raises StoreCorrupted, StoreFailed."""
        found, looked = [], 0
        for task_id, state in self._rows(view):
            if state is None or not recurs(state):
                continue
            of_time = takes_time(state) and task_id not in self._looked
            looked += _TIME if of_time else 1
            if of_time:
                if self._soon:
                    self._looked.add(task_id)
                found.append(task_id)
            elif moves(task_id, Task(view.spec(self._bucket, task_id), state), rules):
                found.append(task_id)
            if looked >= _PLACED:
                break
        return found

    def _rows(self, view: SweepView) -> Iterator[tuple[str, TaskState | None]]:
        """The next rows; each is done with once it is given."""
        if self._soon:
            due = view.due(self._bucket, self._soon_ms, _ROWS, after=self._due)
            for entry in due:
                self._due = entry
                if entry.kind is DueKind.FIRE:
                    yield entry.task_id, view.state(self._bucket, entry.task_id)
            self._soon = len(due) == _ROWS
            return
        rows = 0
        for task_id, state in islice(view.tasks(self._bucket, self._task_id), _ROWS):
            self._task_id = task_id
            rows += 1
            yield task_id, state
        self.ended = rows < _ROWS


def moving_events(outcome: BucketOutcome) -> Iterator[dict[str, object]]:
    """What a transaction moved, for the log."""
    for history in outcome.history:
        if history.outcome is Outcome.MOVED:
            yield {
                "event": "occurrence_moved",
                "bucket": outcome.bucket,
                "task_id": history.task_id,
                "from": iso_utc(history.occurrence_ts),
                "to": iso_utc(history.through_ts),
                "reason": history.error,
            }
