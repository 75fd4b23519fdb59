"""Which offsets of a work topic may be committed.

Pure: no Kafka client, no thread, no clock may enter here. Owned by one thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping


class _Line:
    """One partition: what was taken and is not done, in order."""

    __slots__ = ("committed", "done", "next", "outstanding")

    def __init__(self, start: int) -> None:
        self.outstanding: deque[int] = deque()
        self.done: set[int] = set()
        """Done before an older one was."""
        self.next = start
        """One past the last taken."""
        self.committed = start

    @property
    def position(self) -> int:
        return self.outstanding[0] if self.outstanding else self.next


class OffsetLedger:
    """Outstanding offsets per partition → the position up to which everything is done.

    A committed position is the offset to go on from. The rule (docs/protocol.md): a record is done
    when its claim, its outcome or its release is acknowledged, and the position never passes one that
    is not. So a worker that dies leaves every such record to Kafka, which delivers it again, or to
    the dispatcher, which misses its heartbeats.
    """

    def __init__(self) -> None:
        self._lines: dict[int, _Line] = {}

    def take(self, partition: int, offset: int) -> None:
        """A record was read; offsets of one partition rise, with gaps.

        One that falls back means that the log is read anew from there: what was known beyond it
        will be met again.
        """
        line = self._lines.get(partition)
        if line is None or offset < line.next:
            line = self._lines[partition] = _Line(offset)
        line.outstanding.append(offset)
        line.next = offset + 1

    def done(self, partition: int, offset: int) -> None:
        """The record needs no second reading. Of a forgotten partition: ignored."""
        line = self._lines.get(partition)
        if line is None or not line.outstanding or not line.outstanding[0] <= offset < line.next:
            return
        line.done.add(offset)
        while line.outstanding and line.outstanding[0] in line.done:
            line.done.discard(line.outstanding.popleft())

    def position(self, partition: int) -> int | None:
        """The offset that may be committed, None where nothing was taken."""
        line = self._lines.get(partition)
        return None if line is None else line.position

    def to_commit(self) -> dict[int, int]:
        """Partition → position, where it lies beyond the last commit."""
        return {p: line.position for p, line in self._lines.items() if line.position > line.committed}

    def committed(self, positions: Mapping[int, int]) -> None:
        """A commit of these positions was sent off."""
        for partition, position in positions.items():
            if line := self._lines.get(partition):
                line.committed = position

    def commit_failed(self, partitions: Iterable[int]) -> None:
        """It did not arrive: the positions are due again."""
        for partition in partitions:
            if line := self._lines.get(partition):
                line.committed = -1

    def forget(self, partitions: Iterable[int]) -> None:
        """The partitions are no longer ours; late word on their records changes nothing."""
        for partition in partitions:
            self._lines.pop(partition, None)
