"""How many records may wait in this process for a free slot.

Pure: no Kafka client, no thread, no clock may enter here.
"""

from __future__ import annotations

from typing import Final

_WINDOW_S: Final = 0.05
MOST: Final = 512
"""Upper bound of the reserve: what a worker that turns slow can hold up."""


class Intake:
    """Slots, plus a reserve that follows what they get done.

    The reserve is what the slots finished in the last 50 ms, at least one record a slot: long jobs
    hold up no work that another worker could do, and short ones never wait for the next fetch.
    """

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._reserve = concurrency
        self._finished = 0
        self._since = 0.0

    @property
    def limit(self) -> int:
        """Records that may be handed out and not finished."""
        return self._concurrency + self._reserve

    def finished(self, count: int, now: float) -> None:
        """`count` records were finished by `now` (monotonic seconds)."""
        self._finished += count
        elapsed = now - self._since
        if elapsed >= _WINDOW_S:
            recent = int(self._finished * _WINDOW_S / elapsed)
            self._reserve = max(self._concurrency, min(recent, MOST))
            self._finished = 0
            self._since = now

    def room(self, outstanding: int) -> int:
        """How many to take now. None before half the reserve is free: few large steps, not many small."""
        free = self.limit - outstanding
        return free if free >= self._step else 0

    def excess(self, outstanding: int) -> int:
        """How many must finish before there is room again."""
        return max(0, outstanding - self.limit + self._step)

    @property
    def _step(self) -> int:
        return max(1, self._reserve // 2)
