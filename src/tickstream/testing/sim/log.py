"""The simulated log: partitions of records, with what a reader may see of them.

Offsets are never used twice; control records and aborted ones occupy theirs. Who may write is
transactions.py's. No time passes here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Final

COMMIT: Final = "commit"
ABORT: Final = "abort"


class OutOfRange(Exception):
    """A position outside the log."""


class Record:
    """One record where it lies."""

    __slots__ = ("aborted", "at_ms", "control", "headers", "key", "offset", "pid", "true_us", "txn", "value")

    def __init__(
        self,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        at_ms: int,
        true_us: int,
        pid: int = -1,
        txn: object | None = None,
        control: str = "",
        headers: tuple[tuple[str, bytes], ...] = (),
    ) -> None:
        self.offset = offset
        self.key = key
        self.value = value
        self.at_ms = at_ms
        """Its timestamp: the broker's for LogAppendTime, else its writer's."""
        self.true_us = true_us
        """When it was appended, in true time: for the auditor, nobody else can know."""
        self.pid = pid
        self.txn = txn
        """The transaction it belongs to."""
        self.control = control
        """COMMIT or ABORT of a marker, else empty."""
        self.headers = headers
        self.aborted = False


class Partition:
    """One partition. `start`: first offset there is; `end`: the next one (the high watermark)."""

    __slots__ = (
        "_offsets",
        "archive",
        "end",
        "number",
        "open",
        "records",
        "stable",
        "start",
        "topic",
        "watchers",
    )

    def __init__(self, topic: str, number: int) -> None:
        self.topic = topic
        self.number = number
        self.start = 0
        self.end = 0
        self.records: list[Record] = []
        self._offsets: list[int] = []
        self.archive: list[Record] = []
        """Everything ever appended, compacted away or not: for the auditor."""
        self.open: dict[int, int] = {}
        """pid → first offset of its transaction here that has no marker yet."""
        self.stable = 0
        """The last stable offset: a read_committed reader sees nothing from here on."""
        self.watchers: dict[Callable[[], None], None] = {}
        """Called when something becomes visible, in the order in which they came."""

    def append(self, record: Record) -> int:
        """Put a record at the end; its offset."""
        record.offset = self.end
        self.end += 1
        self.records.append(record)
        self._offsets.append(record.offset)
        self.archive.append(record)
        if record.control:
            first = self.open.pop(record.pid)
            if record.control == ABORT:
                for other in self.records[bisect_left(self._offsets, first) :]:
                    if other.pid == record.pid and other.txn is record.txn:
                        other.aborted = True
        elif record.txn is not None:
            self.open.setdefault(record.pid, record.offset)
        stable = min(self.open.values()) if self.open else self.end
        if stable != self.stable:
            self.stable = stable
            for watcher in tuple(self.watchers):
                watcher()
        return record.offset

    def watch(self, told: Callable[[], None]) -> None:
        """Have `told` called from now on, once for each change."""
        self.watchers[told] = None

    def unwatch(self, told: Callable[[], None]) -> None:
        """No longer."""
        self.watchers.pop(told, None)

    def read(self, offset: int, limit: int, *, committed: bool = True) -> tuple[list[Record], int]:
        """Up to `limit` records from `offset`, and the position after them.

        The position passes what a reader is not shown: control records, aborted ones when
        `committed`, and what compaction took. Raises OutOfRange.
        """
        if not self.start <= offset <= self.end:
            raise OutOfRange(f"{self.topic}[{self.number}]: {offset} lies outside [{self.start}, {self.end}]")
        bound = self.stable if committed else self.end
        if offset >= bound:
            return [], offset
        found: list[Record] = []
        records = self.records
        for index in range(bisect_left(self._offsets, offset), len(records)):
            record = records[index]
            if record.offset >= bound:
                break
            if record.control or (committed and record.aborted):
                continue
            if len(found) == limit:
                return found, found[-1].offset + 1
            found.append(record)
        return found, bound

    def compact(self, upto: int) -> int:
        """Drop what a later committed record of the same key replaces, below `upto`; how many.

        As the cleaner does: nothing at or above the last stable offset is touched, the last record
        of the log stays, aborted records and markers of what is gone may go. Offsets remain.
        """
        upto = min(upto, self.stable, self.end - 1)
        newest: dict[bytes, int] = {}
        for record in self.records:
            if record.offset >= self.stable:
                break
            if record.key is not None and not record.control and not record.aborted:
                newest[record.key] = record.offset
        kept = [
            r
            for r in self.records
            if r.offset >= upto
            or not (r.control or r.aborted or (r.key is not None and newest[r.key] != r.offset))
        ]
        dropped = len(self.records) - len(kept)
        self._keep(kept)
        return dropped

    def delete_before(self, offset: int) -> None:
        """delete_records: the log starts at `offset`."""
        if not self.start <= offset <= self.end:
            raise OutOfRange(f"{self.topic}[{self.number}]: {offset} lies outside [{self.start}, {self.end}]")
        self.start = offset
        self._keep([r for r in self.records if r.offset >= offset])

    def clear(self) -> None:
        """Forget every record, and who watches."""
        self._keep(())
        self.archive.clear()
        self.watchers.clear()

    def _keep(self, records: Iterable[Record]) -> None:
        self.records = list(records)
        self._offsets = [r.offset for r in self.records]
