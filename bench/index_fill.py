"""An index of any size, put there by the projection's own writer: no Kafka, no fold.

Rows stand 60 ms apart around NOON_MS: what is before it has finished, what is behind it waits. So a
minute holds a thousand rows at every size. One row in a hundred is of another queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tickstream.model import NEVER, History, Outcome, Phase, Rev, TaskState
from tickstream.projection.fold import Changes, finished_row
from tickstream.projection.index import Identity, IndexWriter
from tickstream.projection.keys import minute_of
from tickstream.projection.rows import Columns, Definition, LiveRow, Position, Row, TaskRecord, waiting

NOON_MS: Final = 1_900_022_400_000
SPACING_MS: Final = 60
BUCKETS: Final = 8
RARE: Final = "rare"
"""The queue of one row in a hundred."""
_STEP: Final = 10_000
_LABELS: Final = {"customer": "acme", "region": "eu"}


def open_index(data_dir: Path) -> IndexWriter:
    """A writer on `data_dir`."""
    return IndexWriter(data_dir, Identity({"timers": b"bench-timers-id-"}, BUCKETS))


def fill(index: IndexWriter, start: int, end: int, say: Callable[[str], None]) -> None:
    """Put the rows number `start` to `end` there."""
    for low in range(start, end, _STEP):
        high = min(end, low + _STEP)
        changes = Changes()
        for number in range(low, high):
            _add(changes, number)
        changes.positions = {b: Position(high, high, high, NOON_MS, high, 0, False) for b in range(BUCKETS)}
        index.apply(changes)
        if high % 1_000_000 == 0:
            say(f"{high} rows")


def run_at(number: int) -> int:
    """Instant of a row, ms: even numbers before noon, odd ones behind it."""
    distance = (number // 2 + 1) * SPACING_MS
    return NOON_MS - distance if number % 2 == 0 else NOON_MS + distance


def task_id(number: int) -> str:
    """Id of a row's task: its order says nothing of its instant."""
    return f"order:{number * 2_654_435_761 % 2**32:010d}:{number}"


def _add(changes: Changes, number: int) -> None:
    name, at_ms, rev = task_id(number), run_at(number), Rev(number, 0)
    columns = Columns(RARE if number % 200 < 2 else "default", "send-invoice", _LABELS)
    if number % 2 == 0:
        history = History(
            *(number, name, at_ms, 1, rev, Outcome.SUCCEEDED, at_ms + 30, columns.queue, columns.handler),
            *("worker-1", b"r" * 16, at_ms + 3, at_ms + 9, at_ms + 10, at_ms + 28, ""),
        )
        row = finished_row(history, columns)
        changes.finished[name, at_ms] = row
        state = TaskState(rev, NEVER, at_ms, (), Outcome.SUCCEEDED, at_ms + 30, ())
        changes.tasks[name] = TaskRecord(None, state, ())
    else:
        definition = Definition(rev, columns)
        state = TaskState(rev, at_ms, NEVER, (), None, NEVER, ())
        row = waiting(name, at_ms, Phase.SCHEDULED, definition)
        changes.live[False, name, at_ms] = row
        changes.tasks[name] = TaskRecord(definition, state, (LiveRow(row, True),))
    _count(changes.counts, row, 1)


def move(index: IndexWriter, numbers: range, round_: int) -> None:
    """What a replace of these tasks does: each that waits is moved by a millisecond within its minute."""
    changes = Changes()
    for number in numbers:
        if number % 2:
            name = task_id(number)
            record = index.task(name)
            if record is None or record.definition is None or record.state is None:
                raise LookupError(f"{name} is not in the index")
            before = record.live[0].row
            at_ms = run_at(number) + round_ % 2
            after = before._replace(occurrence_ts=at_ms)
            changes.live[False, name, before.occurrence_ts] = None
            changes.live[False, name, at_ms] = after
            state = record.state._replace(next_occurrence_ts=at_ms)
            changes.tasks[name] = TaskRecord(record.definition, state, (LiveRow(after, True),))
            _count(changes.counts, before, -1)
            _count(changes.counts, after, 1)
    index.apply(changes)


def _count(counts: Counter[tuple[Phase, int, str]], row: Row, difference: int) -> None:
    counts[row.state, minute_of(row.occurrence_ts), row.queue] += difference
