"""Calendar arithmetic on integers: days since 1970-01-01, and wall clock seconds since its midnight.

Proleptic Gregorian calendar, years 1 to 9999. No zone may enter here.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Final

DAY: Final = 86_400
"""Seconds."""
EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
FIRST_YEAR: Final = 2
LAST_YEAR: Final = 9_998
"""Between these, occurrences are looked for: in no zone and no week does Python's calendar end within them."""
LAST_DAY: Final = date(LAST_YEAR, 12, 31).toordinal() - EPOCH_ORDINAL

_EPOCH: Final = datetime(1970, 1, 1)
_SECOND: Final = timedelta(seconds=1)
_TOO_LARGE: Final = 253_402_300_799


def day_number(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01. Raises ValueError for no calendar date."""
    return date(year, month, day).toordinal() - EPOCH_ORDINAL


def date_of(day: int) -> date:
    """The date `day` days after 1970-01-01."""
    return date.fromordinal(day + EPOCH_ORDINAL)


def weekday(day: int) -> int:
    """0 for Monday … 6 for Sunday."""
    return (day + 3) % 7


def is_leap(year: int) -> bool:
    """Whether the year has 366 days."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def seconds_of(wall: datetime) -> int:
    """Seconds of a wall clock reading (without a zone) since 1970-01-01T00:00 on that clock."""
    return (wall - _EPOCH) // _SECOND


def wall_of(seconds: int) -> datetime:
    """The wall clock reading, without a zone."""
    return _EPOCH + timedelta(seconds=seconds)


def iso_local(seconds: int) -> str:
    """`2026-03-08T02:30:00`."""
    return wall_of(seconds).isoformat()


def utc_of(seconds: int) -> datetime:
    """The instant `seconds` after the epoch."""
    return datetime.fromtimestamp(min(seconds, _TOO_LARGE), UTC)
