"""Loading a task file: everything is checked before anything is sent, and every line is accounted for.

What a line means is task_file.py's, how commands travel the client's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from tickstream.errors import InvalidInput
from tickstream.ingest.bulk import ItemResult
from tickstream.ingest.client import Client
from tickstream.ingest.request import Item
from tickstream.ops.journal import JournalWriter
from tickstream.ops.task_file import BadLine, TaskLine, read_tasks

SHOWN: Final = 20
"""Bad lines that are named one by one."""


class BadTaskFile(InvalidInput):
    """Lines of the file cannot be loaded, so none was."""

    def __init__(self, path: Path, bad: int, first: Iterable[BadLine]) -> None:
        shown = [str(line) for line in islice(first, SHOWN)]
        more = [f"… and {bad - len(shown)} more"] if bad > len(shown) else []
        super().__init__(
            "\n  ".join(
                [
                    f"{path}: {bad} bad lines, nothing was loaded (--keep-going loads the others)",
                    *shown,
                    *more,
                ]
            )
        )


class TaskFile:
    """A task file with the instant from which its offsets count, ms since the epoch, UTC."""

    def __init__(self, path: Path, *, start_ms: int, queues: Collection[str]) -> None:
        self.path = path
        self._start_ms = start_ms
        self._queues = queues

    def lines(self) -> Iterator[TaskLine | BadLine]:
        """Every line, checked; the file is read as they are taken."""
        # Bytes that are no UTF-8 become characters that no check lets pass, so the line is named.
        with self.path.open(encoding="utf-8", errors="surrogateescape") as file:
            yield from read_tasks(file, start_ms=self._start_ms, queues=self._queues)

    def tasks(self) -> Iterator[TaskLine]:
        """The good lines."""
        return (line for line in self.lines() if isinstance(line, TaskLine))

    def check(self) -> tuple[int, list[BadLine]]:
        """How many lines are bad, and the first of them."""
        bad = (line for line in self.lines() if isinstance(line, BadLine))
        first = list(islice(bad, SHOWN))
        return len(first) + sum(1 for _ in bad), first


class Loading:
    """A load under way; its counts are right at any time, however it ends."""

    def __init__(self, client: Client, journal: JournalWriter | None) -> None:
        self._client = client
        self._journal = journal
        self._unanswered: deque[TaskLine] = deque()
        self.accepted = 0
        """Acknowledged by the broker."""
        self.failed = 0
        """Refused or not acknowledged."""
        self.errors: list[BadLine] = []
        """The first of those."""

    def run(self, tasks: Iterable[TaskLine]) -> None:
        """Schedule all of `tasks`. Raises SendFailed, BrokerUnavailable, LayoutMismatch."""
        for result in self._client.schedule_many(self._items(tasks)):
            self._settle(self._unanswered.popleft(), result)

    @property
    def unanswered(self) -> int:
        """Taken from the file, and not known what became of them."""
        return len(self._unanswered)

    def _items(self, tasks: Iterable[TaskLine]) -> Iterator[Item]:
        for task in tasks:
            self._unanswered.append(task)
            yield Item(
                task.task_id,
                run_at_ts=task.run_at_ms,
                payload=task.payload,
                handler=task.handler,
                queue=task.queue,
                labels=task.labels,
            )

    def _settle(self, task: TaskLine, result: ItemResult) -> None:
        """Results come in the order of the items."""
        if result.receipt is None:
            self.failed += 1
            if len(self.errors) < SHOWN:
                self.errors.append(BadLine(task.number, str(result.error)))
            return
        self.accepted += 1
        if self._journal is not None:
            self._journal.schedule(task.task_id, task.run_at_ms, result.receipt)
