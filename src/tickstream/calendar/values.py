"""What an event is, as values: its start and length, its rule, the occurrences changed by hand, who it blocks.

Nothing here computes an instant; no zone data and no I/O may enter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from tickstream.errors import InvalidEvent

DAY_MS: Final = 86_400_000
_DURATION: Final = re.compile(
    r"\+?P(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)S)?)?",
    re.ASCII,
)


class Status(StrEnum):
    """STATUS of RFC 5545, 3.8.1.11."""

    CONFIRMED = "confirmed"
    TENTATIVE = "tentative"
    """Blocks, and a conflict with it says so."""
    CANCELLED = "cancelled"
    """Does not block and does not take place."""


class Transparency(StrEnum):
    """TRANSP of RFC 5545, 3.8.2.7: whether the event takes up its time."""

    OPAQUE = "opaque"
    TRANSPARENT = "transparent"


class Length(NamedTuple):
    """How long an occurrence lasts: whole days on the local clock (of 23 or 25 hours over a change), then exact time."""

    days: int = 0
    ms: int = 0

    def bound_ms(self) -> int:
        """No occurrence of this length lasts longer: no clock was ever moved by more than a day."""
        return self.ms + (self.days + 1) * DAY_MS if self.days else self.ms

    def iso(self) -> str:
        """As RFC 5545, 3.3.6 writes it: `P1DT2H30M`."""
        hours, rest = divmod(self.ms // 1_000, 3_600)
        minutes, seconds = divmod(rest, 60)
        parts = ((hours, "H"), (minutes, "M"), (seconds, "S"))
        time = "".join(f"{number}{unit}" for number, unit in parts if number)
        days = f"{self.days}D" if self.days else ""
        return f"P{days}T{time}" if time else f"P{days}" if days else "PT0S"


NO_LENGTH: Final = Length()


def parse_length(text: str) -> Length:
    """`PT1H30M`, `P1D`, `P2W`: weeks and days nominal, the rest exact. Raises InvalidEvent."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        raise InvalidEvent(
            "duration", text, "is written as PT1H30M, P1D or P2W, and is not negative (RFC 5545, 3.3.6)"
        )
    number = {name: int(value or 0) for name, value in found.groupdict().items()}
    seconds = (number["hours"] * 60 + number["minutes"]) * 60 + number["seconds"]
    return Length(number["weeks"] * 7 + number["days"], seconds * 1_000)


class Added(NamedTuple):
    """An occurrence beside the rule (RDATE): its start, and its length where that is its own (VALUE=PERIOD)."""

    start: str
    length: Length | None = None


class Reminder(NamedTuple):
    """Something to do at a distance from each occurrence (VALARM)."""

    offset_ms: int
    """Negative: before. Exact time."""
    from_end: bool = False
    """Counted from the end of the occurrence, not from its start."""


@dataclass(frozen=True, slots=True)
class Details:
    """What an event says and the scheduler does not read."""

    summary: str = ""
    location: str = ""
    description: str = ""
    attendees: tuple[str, ...] = ()
    """As plain text, mostly addresses."""


NO_DETAILS: Final = Details()


@dataclass(frozen=True, slots=True)
class Override:
    """One occurrence changed by hand (RECURRENCE-ID); what is None is as in the series."""

    recurrence_id: str
    """The start that it replaces, written as `Event.start`, or in UTC with a `Z`: the occurrence's identity."""
    start: str | None = None
    zone: str | None = None
    """Of `start`; None: the event's. A date or a `Z` needs none."""
    length: Length | None = None
    status: Status | None = None
    transparency: Transparency | None = None
    details: Details | None = None
    reminders: tuple[Reminder, ...] | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a calendar, single or recurring; `calendar.admit` checks it.

    `start` is wall clock time in `zone` as `2026-03-01T09:00:00`, in UTC with a `Z`, or a date `2026-03-01` for an
    all-day event. `zone` None is floating: the calendar's zone. `rule` is the RRULE's value. `exdate` and
    the starts in `rdate` are written as `start` is, or in UTC.
    """

    uid: str
    start: str
    zone: str | None = None
    length: Length = NO_LENGTH
    rule: str | None = None
    rdate: tuple[Added, ...] = ()
    exdate: tuple[str, ...] = ()
    overrides: tuple[Override, ...] = ()
    status: Status = Status.CONFIRMED
    transparency: Transparency = Transparency.OPAQUE
    sequence: int = 0
    """Raised by every change (RFC 5545, 3.8.7.4); an older one is ignored."""
    details: Details = NO_DETAILS
    reminders: tuple[Reminder, ...] = ()
    continues: str = ""
    """The uid of the series from which this one was split off ("this and following")."""
    last: int | None = None
    """Where COUNT ends the rule, as `recurrence.Rrule.last`; `calendar.admit` finds it."""

    @property
    def all_day(self) -> bool:
        """Whether it covers whole days."""
        return "T" not in self.start

    @property
    def recurring(self) -> bool:
        """Whether it can have more than one occurrence."""
        return self.rule is not None or bool(self.rdate)


class Occurrence(NamedTuple):
    """One occurrence of an event; instants in ms, UTC; the end is not part of it."""

    start_ms: int
    end_ms: int
    recurrence_ms: int
    """Where the rule puts it, wherever it was moved: its identity."""
    blocks: bool
    """Opaque and not cancelled, and not of length zero."""
    tentative: bool
    cancelled: bool
    override: Override | None
