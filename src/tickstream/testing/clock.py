"""A clock that stands still until it is told to move."""

from __future__ import annotations

START_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z: where a ManualClock starts unless told otherwise."""


class ManualClock:
    """Wall and monotonic time, set by hand. Implements tickstream.clock.Clock."""

    def __init__(self, wall_ms: int = START_MS) -> None:
        self._wall_ms = wall_ms
        self._monotonic = 0.0

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""
        return self._wall_ms

    def monotonic(self) -> float:
        """Seconds since this clock was made."""
        return self._monotonic

    def advance(self, ms: int) -> None:
        """Let `ms` milliseconds pass on both clocks. Raises ValueError when negative."""
        if ms < 0:
            raise ValueError(f"time does not pass backwards ({ms} ms); step the wall clock with step()")
        self._wall_ms += ms
        self._monotonic += ms / 1000

    def step(self, ms: int) -> None:
        """Set the wall clock forward or back, as an administrator or NTP does."""
        self._wall_ms += ms
