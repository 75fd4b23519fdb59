"""What may be set for a queue: pauses and limits. Each bucket keeps its own copy."""

from __future__ import annotations

from typing import Final, NamedTuple

from tickstream.model.answers import RecentCommand

NO_LIMIT: Final = -1
EVERY_QUEUE: Final = ""
"""The name under which a pause of everything is kept."""


class QueueLimits(NamedTuple):
    """Limits of one queue, enforced within each bucket."""

    max_running: int = NO_LIMIT
    """Occurrences in flight at once."""
    starts: int = NO_LIMIT
    """Dispatches per `per_ms`."""
    per_ms: int = 1_000


class QueueState(NamedTuple):
    """What is set for a queue in one bucket."""

    queue: str
    paused: bool = False
    limits: QueueLimits | None = None
    recent: tuple[RecentCommand, ...] = ()
