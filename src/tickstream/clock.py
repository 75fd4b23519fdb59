"""Time as a port with two methods.

Nothing here knows what the time is used for; nobody else reads the system's clocks.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""Where instants are counted from."""
_MS: Final = timedelta(milliseconds=1)


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


def moment_of(ms: int) -> datetime:
    """`ms` since the epoch as an aware datetime, UTC."""
    return EPOCH + timedelta(milliseconds=ms)


def ceil_ms(moment: datetime) -> int:
    """An aware datetime as ms since the epoch; parts of one round up, so that nothing is early.

    Raises TypeError when it has no time zone, or is no datetime.
    """
    return -((EPOCH - moment) // _MS)


def iso_utc_seconds(ms: int) -> str:
    """`ms` since the epoch as ISO 8601 in UTC, without parts of a second: `2026-11-30T17:00:00Z`."""
    return f"{moment_of(ms):%Y-%m-%dT%H:%M:%SZ}"


def iso_utc(ms: int) -> str:
    """`ms` since the epoch as ISO 8601 in UTC with milliseconds: `2026-11-30T17:00:00.000Z`."""
    whole = datetime.fromtimestamp(ms // 1000, UTC)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"
