"""YEARLY, MONTHLY, WEEKLY and DAILY rules on the wall clock: the period is sought, never walked to.

The period of any time is found by arithmetic and expanded alone, so the next occurrence costs the same a
century after DTSTART as on its first day. All times are wall clock seconds; no zone may enter here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from math import gcd
from typing import Final, TypeAlias

from tickstream.recurrence.civil import DAY, LAST_DAY, date_of, day_number, is_leap, weekday
from tickstream.recurrence.days import YEARS_OF_CYCLE, DayFilter
from tickstream.recurrence.grammar import Freq, Skip
from tickstream.recurrence.times import TimesOfDay

_DAYS_OF_CYCLE: Final = 146_097
_CYCLE: Final = {
    Freq.YEARLY: YEARS_OF_CYCLE,
    Freq.MONTHLY: 12 * YEARS_OF_CYCLE,
    Freq.WEEKLY: _DAYS_OF_CYCLE // 7,
    Freq.DAILY: _DAYS_OF_CYCLE,
}
"""Periods after which the calendar repeats."""
_Days: TypeAlias = tuple[int, tuple[int, ...]]
"""The first day of a period, and the days in it that pass, counted from there."""


class PeriodRule:
    """A rule of one of the four frequencies, with everything filled in that DTSTART gives."""

    def __init__(
        self,
        freq: Freq,
        interval: int,
        start: int,
        days: DayFilter,
        times: TimesOfDay,
        setpos: tuple[int, ...] = (),
    ) -> None:
        """`start` is DTSTART in wall clock seconds; nothing before it is an occurrence."""
        self._freq: Final = freq
        self._interval: Final = interval
        self._start: Final = start
        self._filter: Final = days
        self._times: Final = times
        longest = times.count * {Freq.YEARLY: 367, Freq.MONTHLY: 32, Freq.WEEKLY: 7, Freq.DAILY: 1}[freq]
        self._setpos: Final = tuple(place for place in setpos if abs(place) <= longest)
        self._index_of: Final[Callable[[int], int]] = {
            Freq.YEARLY: _year_of,
            Freq.MONTHLY: _month_of,
            Freq.WEEKLY: self._week_of,
            Freq.DAILY: _day_of,
        }[freq]
        self._days_in: Final[Callable[[int], _Days]] = {
            Freq.YEARLY: self._year,
            Freq.MONTHLY: self._month,
            Freq.WEEKLY: self._week,
            Freq.DAILY: self._day,
        }[freq]
        self._weekdays: Final = tuple(
            sorted((day.weekday - days.parts.wkst) % 7 for day in days.parts.byday)
        ) or tuple(range(7))
        self._years: dict[tuple[int, bool, bool, bool], tuple[int, ...]] = {}
        self._origin: Final = self._index_of(start // DAY)
        self._last: Final = self._index_of(LAST_DAY)
        self._never: Final = (bool(setpos) and not self._setpos) or days.never() or self._misses_weekdays()
        self.simple_step: Final = self._simple_step()
        """The distance between occurrences, in seconds, where it is always the same; else None."""
        # All of the calendar's cycle, as many periods of it as the interval meets.
        self._patience: Final = _CYCLE[freq] // gcd(_CYCLE[freq], interval) + 2

    def next_local(self, after: int) -> int | None:
        """The first occurrence later than `after`; None when none follows."""
        after = max(after, self._start - 1)
        if self._never or after >= LAST_DAY * DAY:
            return None
        index = self._aligned(self._index_of(after // DAY) - self._reach())
        for _ in range(self._patience):
            if index > self._last:
                return None
            found = self._in_period(index, after)
            if found is not None:
                return found
            index = self._following(index)
        return None

    def _simple_step(self) -> int | None:
        if self._setpos or self._times.count > 1:
            return None
        if self._freq is Freq.DAILY and self._filter.all_days:
            return self._interval * DAY
        if self._freq is Freq.WEEKLY and len(self._weekdays) == 1 and not self._filter.parts.bymonth:
            return self._interval * 7 * DAY
        return None

    def _reach(self) -> int:
        # SKIP=FORWARD moves a month's last dates into the next period.
        return 1 if self._filter.parts.skip is Skip.FORWARD else 0

    def _aligned(self, index: int) -> int:
        """The first period at or after `index` that the interval meets."""
        return index + (self._origin - index) % self._interval if index > self._origin else self._origin

    def _following(self, index: int) -> int:
        if self._freq is Freq.DAILY and not self._filter.all_days:
            day = self._filter.next_day(index + 1)
            return self._last + 1 if day is None else self._aligned(day)
        return index + self._interval

    def _misses_weekdays(self) -> bool:
        """Whether steps of whole weeks from DTSTART never come to a day of BYDAY."""
        if self._freq is not Freq.DAILY or self._interval % 7 or not self._filter.parts.byday:
            return False
        return (self._start // DAY + 3) % 7 not in {day.weekday for day in self._filter.parts.byday}

    def _in_period(self, index: int, after: int) -> int | None:
        first, days = self._days_in(index)
        if not days:
            return None
        if self._setpos:
            return self._at_setpos(first, days, after)
        day, time = divmod(after, DAY)
        place = bisect_left(days, day - first)
        if place < len(days) and days[place] == day - first:
            later = self._times.from_(time + 1)
            if later is not None:
                return day * DAY + later
            place += 1
        return (first + days[place]) * DAY + self._times.first if place < len(days) else None

    def _at_setpos(self, first: int, days: tuple[int, ...], after: int) -> int | None:
        """BYSETPOS counts in the whole period, what lies before DTSTART included."""
        count = self._times.count
        total = len(days) * count
        for place in sorted({place - 1 if place > 0 else total + place for place in self._setpos}):
            if 0 <= place < total:
                day, time = divmod(place, count)
                found = (first + days[day]) * DAY + self._times.at(time)
                if found > after:
                    return found
        return None

    # ----------------------------------------------------------------------- the days of one period

    def _day(self, index: int) -> _Days:
        if self._filter.all_days:
            return index, (0,)
        date = date_of(index)
        return index, (0,) if date.day - 1 in self._filter.month(date.year, date.month) else ()

    def _week(self, index: int) -> _Days:
        first = index * 7 + self._filter.parts.wkst - 3
        months = self._filter.parts.bymonth
        if not months:
            return first, self._weekdays
        return first, tuple(day for day in self._weekdays if date_of(first + day).month in months)

    def _month(self, index: int) -> _Days:
        year, month = divmod(index, 12)
        days = self._filter.month(year, month + 1)
        return (day_number(year, month + 1, 1) if days else 0), days

    def _year(self, index: int) -> _Days:
        first = day_number(index, 1, 1)
        kind = (weekday(first), is_leap(index - 1), is_leap(index), is_leap(index + 1))
        days = self._years.get(kind)
        if days is None:
            days = self._years[kind] = tuple(
                day_number(index, month, 1) - first + day
                for month in range(1, 13)
                for day in self._filter.month(index, month)
            )
        return first, days

    def _week_of(self, day: int) -> int:
        return (day + 3 - self._filter.parts.wkst) // 7


def _day_of(day: int) -> int:
    return day


def _year_of(day: int) -> int:
    return date_of(day).year


def _month_of(day: int) -> int:
    date = date_of(day)
    return date.year * 12 + date.month - 1
