"""What a client knows of the installation: the number of buckets, and which queues exist.

No command may enter here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tickstream.clock import Clock
from tickstream.errors import LayoutMismatch, UnknownQueue
from tickstream.topics import Layout

_FRESH_S: Final = 5.0
_REMEMBERED: Final = 1_000
_ASK_AGAIN_S: Final = 1.0
"""A queue that was looked up and is not there is not looked up again for so long."""


class LayoutWatch:
    """The layout as the cluster's metadata show it, at most five seconds old."""

    def __init__(self, fetch: Callable[[], Layout], clock: Clock) -> None:
        """Ask the cluster. Raises BrokerUnavailable, LayoutMismatch."""
        self._fetch = fetch
        self._clock = clock
        self._missing: dict[str, float] = {}
        layout = fetch()
        self.buckets = layout.buckets
        self.queues = layout.queues
        """Those that existed at the last look."""
        self.stale_at = clock.monotonic() + _FRESH_S
        """When the last look becomes too old, on the monotonic clock (s)."""

    def check(self) -> None:
        """Look again when the last look is too old. Raises BrokerUnavailable, LayoutMismatch."""
        if self._clock.monotonic() >= self.stale_at:
            self._refresh()
            self._missing.clear()

    def check_queue(self, queue: str) -> None:
        """Raises UnknownQueue when the queue does not exist, and what `check` raises."""
        self.check()
        if queue in self.queues:
            return
        # It may have been created a moment ago; a flood of misspelt ones must not ask each time.
        now = self._clock.monotonic()
        if now >= self._missing.get(queue, now):
            self._refresh()
            if len(self._missing) >= _REMEMBERED:
                self._missing.clear()
            self._missing[queue] = now + _ASK_AGAIN_S
        if queue not in self.queues:
            raise UnknownQueue(queue, sorted(self.queues))

    def _refresh(self) -> None:
        layout = self._fetch()
        if layout.buckets != self.buckets:
            raise LayoutMismatch(
                f"the number of buckets changed from {self.buckets} to {layout.buckets} while this client was open; "
                "nothing was sent, because tasks would land in buckets where nobody looks for them"
            )
        self.queues = layout.queues
        self.stale_at = self._clock.monotonic() + _FRESH_S
