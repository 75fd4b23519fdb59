"""Which waiting run gets the next free slot: weighted fair between queues, first come first served within.

Pure: no Kafka client, no thread, no clock may enter here; whoever shares one holds a lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tickstream.worker.run import Run


class Share(NamedTuple):
    """What one queue gets of a worker."""

    weight: float = 1.0
    """Of the slots, relative to the other queues, while all of them have work."""
    limit: int | None = None
    """Runs at the same time, None: as many as there are slots."""


ALL: Final = Share()


class _Line:
    """One queue."""

    __slots__ = ("running", "share", "turn", "waiting")

    def __init__(self, share: Share) -> None:
        self.share = share
        self.waiting: deque[Run] = deque()
        self.running = 0
        self.turn = 0.0
        """Start of its next turn in virtual time; each run moves it by 1/weight."""

    @property
    def at_limit(self) -> bool:
        return self.share.limit is not None and self.running >= self.share.limit


class FairQueue:
    """Runs that wait for one kind of slot.

    Start-time fair queueing: the queue whose turn begins first is next; one that was idle does not
    catch up on what it did not ask for.
    """

    def __init__(self, size: int, shares: Mapping[str, Share], ahead: int = 0) -> None:
        """`ahead`: how many are handed out beyond `size`, so that a slot need not come here for each."""
        self._size = size
        self._ahead = ahead
        self._lines = {queue: _Line(share) for queue, share in shares.items()}
        self._limited = frozenset(queue for queue, share in shares.items() if share.limit is not None)
        self._running = 0
        self._now = 0.0
        """Virtual time: the turn of the run handed out last."""

    def add(self, runs: Iterable[Run]) -> None:
        """They wait, in this order within their queues."""
        for run in runs:
            line = self._line(run.queue)
            if not line.waiting and not line.running:
                line.turn = max(line.turn, self._now)
            line.waiting.append(run)

    def take(self) -> Run | None:
        """The next run; None when none may be started. Those that were dropped meanwhile are passed."""
        while self._running < self._size + self._ahead:
            line = None
            for other in self._lines.values():
                if other.waiting and (line is None or other.turn < line.turn) and not other.at_limit:
                    line = other
            if line is None:
                return None
            run = line.waiting.popleft()
            if not run.begun:
                self._now = line.turn
                line.turn += 1 / line.share.weight
                line.running += 1
                self._running += 1
                return run
        return None

    def done(self, queue: str) -> None:
        """A run of `queue` that was taken left its slot, or never got one."""
        self._line(queue).running -= 1
        self._running -= 1

    def full(self, queue: str) -> bool:
        """Whether a run of `queue` would have to wait."""
        return self._running >= self._size or self._line(queue).at_limit

    def limited(self, queue: str) -> bool:
        """Whether the end of a run of `queue` may let another begin that a free slot does not."""
        return queue in self._limited

    def clear(self) -> None:
        """Nothing waits any more."""
        for line in self._lines.values():
            line.waiting.clear()

    @property
    def running(self) -> int:
        """Slots in use."""
        return min(self._running, self._size)

    def _line(self, queue: str) -> _Line:
        if queue not in self._lines:
            self._lines[queue] = _Line(ALL)
        return self._lines[queue]
