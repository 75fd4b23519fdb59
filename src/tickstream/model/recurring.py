"""How a task recurs, as it is asked for and stored: the schedule in plain parts, and its policies.

Which instants it names is computed in recurrence/; nothing here computes.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from tickstream.model.times import NEVER


class RecurrenceKind(Enum):
    """What kind of recurring schedule it is."""

    EVERY = "EVERY"
    CRON = "CRON"
    RRULE = "RRULE"


class Misfire(Enum):
    """What becomes of occurrences that could not be dispatched in time."""

    LATEST = "LATEST"
    """The latest of them is dispatched, the others are recorded as skipped."""
    ALL = "ALL"
    """Every one is dispatched, in order, up to a limit."""
    SKIP = "SKIP"
    """All are recorded as skipped."""


class Overlap(Enum):
    """What an occurrence does while another of the same task is in flight."""

    SKIP = "SKIP"
    ALLOW = "ALLOW"
    QUEUE = "QUEUE"
    """It waits for the one in flight to end."""
    CANCEL_RUNNING = "CANCEL_RUNNING"
    """It asks the one in flight to stop, and is dispatched at once."""


class Recurrence(NamedTuple):
    """When a task recurs, and what happens when an occurrence is missed or meets another."""

    kind: RecurrenceKind
    rule: str = ""
    """CRON: the expression; RRULE: its value, empty for dates alone."""
    zone: str = ""
    """IANA name; empty: UTC."""
    start: str = ""
    """RRULE: DTSTART on the clock of `zone`, as `2026-03-01T09:00:00` or `2026-03-01`."""
    start_ms: int = 0
    """EVERY: the first occurrence; CRON: the first instant that may be one."""
    end_ms: int = NEVER
    """The first instant that may be no occurrence."""
    interval_ms: int = 0
    """EVERY."""
    rdate: tuple[str, ...] = ()
    exdate: tuple[str, ...] = ()
    gap: str = "shift"
    """shift, next_valid or skip. Plain text here and in the log: an unknown one is rejected, not unreadable."""
    fold: str = "first"
    """first, second or both."""
    subday: str = "elapsed"
    """elapsed or wall."""
    misfire: Misfire = Misfire.LATEST
    grace_ms: int = 60_000
    """How late an occurrence may be dispatched before it counts as missed."""
    overlap: Overlap = Overlap.SKIP
    jitter_ms: int = 0
    """Occurrences are dispatched up to that much later, each by its own share."""
