"""The idempotency store of tests: what it knows ends with the process.

No database client may enter here.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from tickstream.errors import RunDisplaced
from tickstream.worker.idempotency.protocol import Begun, Busy, Done, Fence, Fresh


class _Mark(NamedTuple):
    run_id: bytes
    fence: Fence
    result: bytes | None


class MemoryIdempotency:
    """Keys of one process. Thread-safe. Takes over a mark by a higher fence, as Redis does."""

    def __init__(self) -> None:
        self._marks: dict[str, _Mark] = {}
        self._lock = threading.Lock()

    def scope(self) -> AbstractContextManager[object]:
        """Nothing to share."""
        return nullcontext()

    def begin(self, key: str, run_id: bytes, fence: Fence) -> Begun:
        """As IdempotencyStore."""
        with self._lock:
            mark = self._marks.get(key)
            if mark is not None and mark.result is not None:
                return Done(mark.result)
            if mark is not None and mark.run_id != run_id and mark.fence >= fence:
                return Busy(mark.run_id)
            self._marks[key] = _Mark(run_id, fence, None)
            return Fresh()

    def complete(self, key: str, run_id: bytes, result: bytes) -> None:
        """As IdempotencyStore. Raises RunDisplaced."""
        with self._lock:
            mark = self._marks.get(key)
            if mark is None or mark.run_id != run_id:
                raise RunDisplaced(key)
            self._marks[key] = mark._replace(result=result)

    def abandon(self, key: str, run_id: bytes) -> None:
        """As IdempotencyStore."""
        with self._lock:
            mark = self._marks.get(key)
            if mark is not None and mark.run_id == run_id and mark.result is None:
                del self._marks[key]
