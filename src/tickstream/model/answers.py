"""The answers to commands, and how long they are remembered."""

from __future__ import annotations

from typing import Final, NamedTuple

from tickstream.model.terms import Term

RECENT_COMMANDS: Final = 8
"""How many answered commands a task remembers beside the one that made its definition."""


class VerdictKind(Term):
    """The answers to a command."""

    SCHEDULED = "SCHEDULED"
    REPLACED = "REPLACED"
    CANCELLED = "CANCELLED"
    TOO_LATE = "TOO_LATE"
    ALREADY_RAN = "ALREADY_RAN"
    UNKNOWN = "UNKNOWN"
    REJECTED = "REJECTED"
    PAUSED = "PAUSED"
    RESUMED = "RESUMED"
    TRIGGERED = "TRIGGERED"
    LIMITED = "LIMITED"
    """The limits of a queue are set."""
    CONFLICT = "CONFLICT"
    """A calendar has something at that time."""


class RecentCommand(NamedTuple):
    """An answered command, remembered so that a re-send changes nothing."""

    command_id: bytes
    kind: VerdictKind
    detail: str
