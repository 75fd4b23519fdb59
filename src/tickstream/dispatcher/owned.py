"""What a lane keeps in memory of each of its buckets, and of those to come. No I/O and no decision enters here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from tickstream.dispatcher.gates import Gates
from tickstream.dispatcher.sweep import Sweep
from tickstream.model import Progress


@dataclass(slots=True)
class OwnedBucket:
    """A bucket of an active lane."""

    token: int
    """Of the store: void as soon as somebody else acquires the bucket."""
    topic_id: bytes
    """Of `timers`."""
    next_offset: int
    """Of the store: what decisions are made on."""
    progress: Progress
    gates: Gates
    due_since_ms: int = 0
    """Nothing in the due index lies before this instant."""
    sweep: Sweep | None = None
    """While something is to be looked at that older zone data placed."""


class Latecomers(Protocol):
    """Buckets of the lane whose restore takes long (takeover.py)."""

    @property
    def behind(self) -> tuple[int, ...]:
        """Those that are not restored yet."""
        ...

    def more(self) -> Mapping[int, OwnedBucket]:
        """Restore a little; returns what is active by it. Raises LaneLost."""
        ...
