"""What a worker knows of itself: whether it is ready, and its figures.

Read by health.py; nothing is decided here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping

from tickstream.model import ReportKind
from tickstream.worker.events import Events
from tickstream.worker.keeper import LeaseKeeper
from tickstream.worker.pool import HandlerPool
from tickstream.worker.reader import QueueReader
from tickstream.worker.reporter import Reporter


class Readiness:
    """Says `ready` once, when every queue has partitions."""

    def __init__(self, queues: Iterable[str], events: Events) -> None:
        self._queues = sorted(queues)
        self._missing = set(self._queues)
        self._events = events
        self._lock = threading.Lock()

    @property
    def reached(self) -> bool:
        """Whether it was said."""
        return not self._missing

    def assigned(self, queue: str) -> None:
        """`queue` has partitions now. Any thread."""
        with self._lock:
            if queue not in self._missing:
                return
            self._missing.discard(queue)
            if not self._missing:
                self._events.emit("ready", pid=os.getpid(), queues=self._queues)


class WorkerVitals:
    """See health.Vitals."""

    def __init__(
        self,
        slots: int,
        readers: Mapping[str, QueueReader],
        reporter: Reporter,
        keeper: LeaseKeeper,
        pool: HandlerPool,
        readiness: Readiness,
        alive: Callable[[], bool],
        stop: threading.Event,
    ) -> None:
        self.slots = slots
        self.alive = alive
        self._readers = readers
        self._reporter = reporter
        self._keeper = keeper
        self._pool = pool
        self._readiness = readiness
        self._stop = stop

    def ready(self) -> bool:
        """Whether it takes work."""
        return self._readiness.reached and not self._stop.is_set()

    def running(self) -> Mapping[str, int]:
        """Kind of slot → slots in use."""
        return {str(kind): count for kind, count in self._pool.running.items()}

    def unacknowledged(self) -> Mapping[str, int]:
        """Queue → runs whose outcome the broker does not have."""
        return {queue: reader.unacknowledged for queue, reader in self._readers.items()}

    def reports(self) -> Mapping[tuple[str, ReportKind], int]:
        """(queue, kind) → reports acknowledged so far."""
        return self._reporter.told.copy()

    @property
    def stuck(self) -> int:
        """Slots whose run was ended and that are not free."""
        return self._keeper.stuck

    @property
    def lost(self) -> int:
        """Leases lost so far."""
        return self._keeper.lost

    @property
    def timed_out(self) -> int:
        """Runs ended for their timeout so far."""
        return self._keeper.timed_out
