"""Time as a port with two methods.

Nothing here knows what the time is used for; nobody else reads the system's clocks.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What every part of tickstream is told about time."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch, UTC. May step in either direction."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start. Never goes back."""
        ...


class SystemClock:
    """The clocks of this machine."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch, UTC."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds of the monotonic clock."""
        return time.monotonic()


def iso_utc(ms: int) -> str:
    """`ms` since the epoch as ISO 8601 in UTC with milliseconds: `2026-11-30T17:00:00.000Z`."""
    whole = datetime.fromtimestamp(ms // 1000, UTC)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"
