"""What a schedule is, as values: the three kinds, the clock-change policies, the pointer.

Nothing here computes; no zone data and no I/O may enter.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias


class Gap(StrEnum):
    """What to do with a wall clock time that the clock jumps over."""

    SHIFT = "shift"
    """Read it with the offset in force before the gap, so that the clock shows it later (RFC 5545 erratum 4271)."""
    NEXT_VALID = "next_valid"
    """Take the instant at which the gap ends."""
    SKIP = "skip"
    """No occurrence."""


class Fold(StrEnum):
    """What to do with a wall clock time that comes twice."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"
    """Two occurrences."""


class Subday(StrEnum):
    """How steps shorter than a day (HOURLY, MINUTELY, SECONDLY, cron with a starred hour or minute) cross a change."""

    ELAPSED = "elapsed"
    """In elapsed time; what the rule says of hours and dates is read off the wall clock at each step."""
    WALL = "wall"
    """On the wall clock, as it reads; gap and fold then apply."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What happens when clocks change; the defaults are those of RFC 5545."""

    gap: Gap = Gap.SHIFT
    fold: Fold = Fold.FIRST
    subday: Subday = Subday.ELAPSED


@dataclass(frozen=True, slots=True)
class Rrule:
    """Recurrence by RFC 5545: a start, a rule, and dates added and taken out.

    `start` is wall clock time in `zone` as `2026-03-01T09:00:00`, or `2026-03-01` for all-day events, whose
    occurrences begin when that local day begins. `zone` None is floating time, read as UTC. `rule` is the
    RRULE's value, or None: only the start and `rdate`. `rdate` and `exdate` are written as `start` is, or in
    UTC with a `Z`. `last` is the last occurrence that COUNT leaves, as `admit` finds it: in seconds as `Pointer.nominal_local`,
    for steps in elapsed time in seconds UTC. `end_ms` is the first instant that may be no occurrence.
    """

    start: str
    rule: str | None
    zone: str | None = None
    rdate: tuple[str, ...] = ()
    exdate: tuple[str, ...] = ()
    policy: Policy = Policy()
    last: int | None = None
    end_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Cron:
    """Recurrence by a cron expression of five fields, or six with seconds first, on the clock of `zone`.

    `start_ms` is the first instant that may be an occurrence, `end_ms` the first that may not.
    """

    expression: str
    zone: str | None = None
    start_ms: int = 0
    end_ms: int | None = None
    policy: Policy = Policy()


@dataclass(frozen=True, slots=True)
class Every:
    """Every `interval_ms`, counted from `anchor_ms`, which is the first: it never drifts.

    `zone` is only what the wall clock in a preview shows. `end_ms` is the first instant that may not occur.
    """

    interval_ms: int
    anchor_ms: int = 0
    end_ms: int | None = None
    zone: str | None = None


Schedule: TypeAlias = Rrule | Cron | Every


class Pointer(NamedTuple):
    """Where a schedule stands: one occurrence."""

    nominal_local: int
    """The wall clock time that the rule names, in seconds since 1970-01-01T00:00 on that same clock."""
    fold: int
    """1: the second of the two instants at which the clock shows this."""
    next_occurrence_ts: int
    """The instant, ms since the epoch, UTC."""
