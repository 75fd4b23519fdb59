"""An index on disk made of hand-written logs, for tests of what reads it."""

from __future__ import annotations

from pathlib import Path

from tests.projection_log import LogWriter
from tickstream.projection.fold import fold
from tickstream.projection.index import Identity, IndexWriter
from tickstream.projection.steps import BucketBuffer

IDENTITY = Identity({"timers": b"t" * 16}, 2)


def new_index(data_dir: Path) -> IndexWriter:
    """An empty index of two buckets."""
    return IndexWriter(data_dir, IDENTITY)


def fold_in(index: IndexWriter, *logs: LogWriter, stamp_ms: int = 0) -> None:
    """Take in all of the logs, from where the index stands; their records are stamped `stamp_ms`."""
    steps = []
    for log in logs:
        position = index.positions([log.bucket])[log.bucket]
        buffer = BucketBuffer(log.bucket, position)
        for offset in range(position.timers, len(log.timers)):
            buffer.add_timers(offset, *log.timers[offset], stamp_ms)
        for offset in range(position.history, len(log.history)):
            buffer.add_history(offset, log.history[offset])
        steps.append(buffer.take())
    index.apply(fold([step for step in steps if step is not None], index))
