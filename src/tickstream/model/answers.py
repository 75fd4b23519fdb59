"""The answers to commands, and how long they are remembered."""

from __future__ import annotations

from typing import Final, NamedTuple

from tickstream.clock import iso_utc_seconds
from tickstream.model.terms import Term
from tickstream.model.times import NEVER

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
    CLEAR = "CLEAR"
    """A calendar has nothing at that time; nothing was asked to be changed."""


class RecentCommand(NamedTuple):
    """An answered command, remembered so that a re-send changes nothing."""

    command_id: bytes
    kind: VerdictKind
    detail: str
    found: bytes = b""
    """What a calendar's check found, a CalendarAnswer encoded; empty: there was none."""


class VerdictConflict(NamedTuple):
    """An occurrence of the event asked about, and one that has time in common with it. Instants in ms, UTC."""

    occurrence_ts: int
    """Of the event asked about: which one."""
    with_uid: str
    """Whose time it is; the event's own uid when it meets itself."""
    with_occurrence_ts: int
    """Which of that event's occurrences."""
    start_ms: int
    """Where the time in common begins."""
    end_ms: int
    """Where it ends."""
    start_local: str
    """`start_ms` as the clock of the calendar's zone shows it."""
    end_local: str
    tentative: bool
    """One of the two is not settled yet."""


class CalendarAnswer(NamedTuple):
    """What a calendar's check of an event found."""

    uid: str
    """Of the event asked about."""
    zone: str
    """The calendar's, an IANA name."""
    conflicts: tuple[VerdictConflict, ...]
    """By start; at most 20."""
    more: bool
    """There may be more conflicts: the check stopped."""
    clear_until_ms: int
    """Apart from the conflicts the event is clear until then, ms UTC; NEVER: to its end."""

    def __str__(self) -> str:
        """In words; empty: clear for ever."""
        lines = [self._told(conflict) for conflict in self.conflicts]
        if self.more:
            lines.append("and more")
        if self.clear_until_ms != NEVER:
            lines.append(f"{'otherwise ' if lines else ''}clear until {iso_utc_seconds(self.clear_until_ms)}")
        return "; ".join(lines)

    def _told(self, conflict: VerdictConflict) -> str:
        who = "itself" if conflict.with_uid == self.uid else repr(conflict.with_uid)
        unsure = ", tentative" if conflict.tentative else ""
        return (
            f"{conflict.start_local} to {conflict.end_local} {self.zone} ({iso_utc_seconds(conflict.start_ms)} to "
            f"{iso_utc_seconds(conflict.end_ms)}) meets {who}{unsure}, "
            f"its occurrence of {iso_utc_seconds(conflict.with_occurrence_ts)}"
        )
