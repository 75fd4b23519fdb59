"""What a worker says while it runs, one mapping an event.

How it is shown (JSON, plain lines) is the caller's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

from tickstream.clock import Clock

_ALARM_S: Final = 1.0


class Events:
    """Events from several threads, handed on one at a time and dated (`at_ms`, UTC)."""

    def __init__(self, sink: Callable[[Mapping[str, object]], None], clock: Clock) -> None:
        self._sink = sink
        self._clock = clock
        self._lock = threading.Lock()
        self._shown: dict[str, float] = {}
        self._unshown: dict[str, int] = {}

    def emit(self, event: str, **fields: object) -> None:
        """Hand on one event."""
        with self._lock:
            self._sink({"event": event, "at_ms": self._clock.wall_ms(), **fields})

    def alarm(self, kind: str, reason: str, **fields: object) -> None:
        """Hand on an alarm that may come once a record: at most one of a kind in a second.

        `count` says for how many it stands.
        """
        now = self._clock.monotonic()
        with self._lock:
            count = self._unshown.pop(kind, 0) + 1
            if now - self._shown.get(kind, -_ALARM_S) < _ALARM_S:
                self._unshown[kind] = count
                return
            self._shown[kind] = now
        self.emit("alarm", kind=kind, reason=reason, count=count, **fields)
