"""Which days a rule's BY parts let through, month by month.

After the defaults of DTSTART are filled in, every BY part about days only limits: the days of a YEARLY or
MONTHLY rule are those of its year or month that pass all of them. A month's answer depends on few things
(its weekdays, its length, the leap years around it), so it is computed once for each kind of month and kept.

Days only: no time of day and no zone may enter here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from tickstream.recurrence.civil import LAST_YEAR, date_of, day_number, is_leap, weekday
from tickstream.recurrence.grammar import NumberedDay, Skip

_LENGTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_LONGEST: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
YEARS_OF_CYCLE: Final = 400
"""After which the Gregorian calendar repeats, weekdays included."""


class DayParts(NamedTuple):
    """The BY parts about days; empty ones let everything through."""

    bymonth: tuple[int, ...] = ()
    byweekno: tuple[int, ...] = ()
    byyearday: tuple[int, ...] = ()
    bymonthday: tuple[int, ...] = ()
    byday: tuple[NumberedDay, ...] = ()
    wkst: int = 0
    numbered_in_year: bool = False
    """Whether `2MO` is the second Monday of the year, not of the month."""
    skip: Skip = Skip.OMIT


class DayFilter:
    """The days that pass `DayParts`."""

    def __init__(self, parts: DayParts) -> None:
        self.parts: Final = parts
        self.all_days: Final = parts._replace(wkst=0) == DayParts()
        self._weekdays: Final = {day.weekday for day in parts.byday if not day.nth}
        self._numbered: Final = {day for day in parts.byday if day.nth}
        self._months: Final = parts.bymonth or tuple(range(1, 13))
        self._kinds: dict[tuple[int, ...], tuple[int, ...]] = {}

    def month(self, year: int, month: int) -> tuple[int, ...]:
        """Days of the month that pass, 0 for the first, ascending.

        With SKIP=FORWARD, one past the month's end stands for the first of the next month.
        """
        if month not in self._months:
            return ()
        first = day_number(year, 1, 1)
        kind = (month, weekday(first), is_leap(year), is_leap(year - 1), is_leap(year + 1))
        days = self._kinds.get(kind)
        if days is None:
            days = self._kinds[kind] = tuple(self._days_of(year, month))
        return days

    def never(self) -> bool:
        """Whether BYMONTH and BYMONTHDAY alone leave no day, as in a 30 February."""
        return not any(self._possible(month) for month in self._months)

    def next_day(self, day: int) -> int | None:
        """The first day at or after `day` that passes; None when none of the next 400 years does.

        In days since 1970-01-01. Also None behind the year 9999.
        """
        if self.all_days:
            return day
        date = date_of(day)
        year, month, within = date.year, date.month, date.day - 1
        for _ in range(12 * YEARS_OF_CYCLE + 1):
            if month in self._months:
                for passing in self.month(year, month):
                    if passing >= within:
                        return day_number(year, month, 1) + passing
            within = 0
            month += 1
            if month == 13:
                year, month = year + 1, 1
                if year > LAST_YEAR:
                    return None
        return None

    def _possible(self, month: int) -> bool:
        """Whether `month` is ever long enough for one of BYMONTHDAY."""
        if self.parts.skip is not Skip.OMIT:
            return True
        shortest = min(map(abs, self.parts.bymonthday), default=1)
        return shortest <= _LONGEST[month - 1]

    def _days_of(self, year: int, month: int) -> list[int]:
        year = 2_000 + year % YEARS_OF_CYCLE  # a year like it, whose neighbours all exist
        length = month_length(year, month)
        first = day_number(year, month, 1)
        new_year = day_number(year, 1, 1)
        year_length = 365 + is_leap(year)
        parts = self.parts
        return [
            day
            for day in self._of_month(length)
            if _among(parts.byyearday, first + day - new_year, year_length)
            and (not parts.byweekno or self._in_week(first + day, year))
            and (
                not parts.byday
                or self._on_weekday(first + day, day, length, first + day - new_year, year_length)
            )
        ]

    def _of_month(self, length: int) -> list[int]:
        """The days of a month that BYMONTHDAY names, 0 for the first, with SKIP applied."""
        monthdays = self.parts.bymonthday
        if not monthdays:
            return list(range(length))
        named = {day - 1 if day > 0 else length + day for day in monthdays}
        days = {day for day in named if 0 <= day < length}
        missing = any(day >= length for day in named) or any(day < 0 for day in named)
        if missing and self.parts.skip is Skip.BACKWARD:
            days.add(length - 1)
        if missing and self.parts.skip is Skip.FORWARD:
            days.add(length)
        return sorted(days)

    def _on_weekday(self, day: int, in_month: int, month_length: int, in_year: int, year_length: int) -> bool:
        this = weekday(day)
        if this in self._weekdays:
            return True
        if not self._numbered:
            return False
        position, length = (in_year, year_length) if self.parts.numbered_in_year else (in_month, month_length)
        from_start, from_end = position // 7 + 1, -((length - 1 - position) // 7 + 1)
        return (
            NumberedDay(from_start, this) in self._numbered or NumberedDay(from_end, this) in self._numbered
        )

    def _in_week(self, day: int, year: int) -> bool:
        """Whether the week that `day` lies in has one of BYWEEKNO's numbers, in the year that the week counts to."""
        wkst = self.parts.wkst
        week_year = year + (day >= first_week(year + 1, wkst)) - (day < first_week(year, wkst))
        start, end = first_week(week_year, wkst), first_week(week_year + 1, wkst)
        return _among(self.parts.byweekno, (day - start) // 7, (end - start) // 7)


def _among(numbers: tuple[int, ...], position: int, length: int) -> bool:
    """Whether `numbers`, counted from 1 or from the end by -1, name `position` (from 0) of `length`."""
    return not numbers or position + 1 in numbers or position - length in numbers


def month_length(year: int, month: int) -> int:
    """28 to 31."""
    return 29 if month == 2 and is_leap(year) else _LENGTHS[month - 1]


def first_week(year: int, wkst: int) -> int:
    """The day on which week 1 begins: the first week with at least four days in the year (3.3.10)."""
    new_year = day_number(year, 1, 1)
    into_week = (weekday(new_year) - wkst) % 7
    return new_year - into_week + (0 if into_week <= 3 else 7)


@lru_cache(maxsize=4_096)
def day_filter(parts: DayParts) -> DayFilter:
    """The filter for `parts`; equal ones share what they have computed."""
    return DayFilter(parts)
