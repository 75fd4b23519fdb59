"""Which reports are sent in which message, and when.

Pure: no Kafka client, no thread, no clock may enter here. Owned by one thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tickstream.model import Report, ReportKind
from tickstream.worker.run import Run

MAX_REPORTS: Final = 256
"""In one message."""
MAX_BYTES: Final = 384 * 1024
"""Of texts and results in one message: leaves room for names and for characters of several bytes."""
RETRY_S: Final = 1.0


class Entry(NamedTuple):
    """A run and what is to be said of it."""

    run: Run
    report: Report


class Batch(NamedTuple):
    """One message: reports of one bucket."""

    bucket: int
    entries: tuple[Entry, ...]


class Outbox:
    """Reports waiting to be sent, by bucket.

    After a quiet spell a report goes at once; the following ones are gathered for `coalesce_s`,
    so that a busy worker sends one message a bucket and interval. What the broker refused comes
    again after a second, but for heartbeats: a late one would say of its run what was true before.
    """

    def __init__(self, coalesce_s: float) -> None:
        self._coalesce_s = coalesce_s
        self._waiting: dict[int, list[Entry]] = {}
        self._refused: list[tuple[float, Batch]] = []
        self._next_send = 0.0

    def add(self, entry: Entry) -> None:
        """A report to be sent."""
        self._waiting.setdefault(entry.run.work.bucket, []).append(entry)

    def refused(self, batch: Batch, now: float) -> None:
        """The batch was not acknowledged."""
        kept = tuple(e for e in batch.entries if e.report.kind is not ReportKind.HEARTBEAT)
        if kept:
            self._refused.append((now + RETRY_S, Batch(batch.bucket, kept)))

    @property
    def empty(self) -> bool:
        """Whether nothing waits, refused batches included."""
        return not self._waiting and not self._refused

    def wait_s(self, now: float) -> float | None:
        """Seconds until something is to be sent; None: nothing is."""
        times = [at for at, _ in self._refused]
        if self._waiting:
            times.append(self._next_send)
        return max(0.0, min(times) - now) if times else None

    def take(self, now: float) -> list[Batch]:
        """What is to be sent now."""
        batches = [batch for at, batch in self._refused if at <= now]
        self._refused = [(at, batch) for at, batch in self._refused if at > now]
        if self._waiting and now >= self._next_send:
            for bucket, entries in self._waiting.items():
                batches += [Batch(bucket, part) for part in _parts(entries)]
            self._waiting = {}
            self._next_send = now + self._coalesce_s
        return batches


def _parts(entries: Sequence[Entry]) -> Iterator[tuple[Entry, ...]]:
    """`entries` in messages that stay below the limits."""
    start = size = 0
    for i, (_, report) in enumerate(entries):
        length = len(report.error) + len(report.result) + len(report.note)
        if i > start and (i - start == MAX_REPORTS or size + length > MAX_BYTES):
            yield tuple(entries[start:i])
            start, size = i, 0
        size += length
    yield tuple(entries[start:])
