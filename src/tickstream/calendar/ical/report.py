"""What became of each part of a file, line by line.

Values only.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Fate(StrEnum):
    """What became of an event of the file."""

    TAKEN = "taken"
    """It is new."""
    CHANGED = "changed"
    """It replaces an older one."""
    CANCELLED = "cancelled"
    UNCHANGED = "unchanged"
    IGNORED = "ignored"
    """A newer one is known (SEQUENCE)."""
    REJECTED = "rejected"
    NOTED = "noted"
    """Read otherwise than it is written, or left out, while the rest of it was taken."""


class Entry(NamedTuple):
    """One line of the report."""

    line: int
    """Of the file; where the event, or what is wrong with it, begins."""
    uid: str
    """Empty for what is no event."""
    fate: Fate
    reason: str = ""
