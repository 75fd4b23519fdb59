"""A start, a rule, and the dates beside it (RFC 5545, 3.8.5) as moments; what depends on DTSTART is checked here.

Pure: no clock, no I/O.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from tickstream.errors import InvalidSchedule
from tickstream.recurrence.civil import DAY, FIRST_YEAR, LAST_DAY, LAST_YEAR, seconds_of, wall_of, weekday
from tickstream.recurrence.days import DayParts, day_filter
from tickstream.recurrence.grammar import Freq, NumberedDay, Rule, Skip, Until, parse_rule, parse_written
from tickstream.recurrence.moments import InElapsedTime, LocalTimes, Moment, OnWallClock, resolve
from tickstream.recurrence.periods import PeriodRule
from tickstream.recurrence.steps import StepRule
from tickstream.recurrence.times import TimesOfDay
from tickstream.recurrence.values import Gap, Policy, Rrule, Subday
from tickstream.recurrence.zone_data import ZoneData
from tickstream.recurrence.zones import Zone

MOST_COUNTED: Final = 100_000
"""The largest COUNT of a rule whose end has to be found by counting."""

Moments: TypeAlias = Callable[[int], Moment | None]
"""The first moment later than an instant, in seconds UTC; None when none follows."""


class Start(NamedTuple):
    """DTSTART, and what it decides for everything beside it."""

    zone: Zone
    floating: bool
    all_day: bool
    policy: Policy
    local: int
    """Wall clock seconds."""
    instant: int


class Recurrence(NamedTuple):
    """What a schedule says, ready to be asked."""

    zone: Zone
    moments: Moments
    earliest: int
    """Seconds UTC; nothing occurs before."""
    policy: Policy
    """The schedule's; an all-day schedule has one of its own."""
    elapsed: bool
    """Whether it steps in elapsed time, past every gap and fold."""
    fixed: frozenset[int]
    """Instants among them that are given in UTC (RDATE): no zone's data move those."""


def recurrence(schedule: Rrule, data: ZoneData) -> Recurrence:
    """Rule and RDATE, less EXDATE. Raises InvalidSchedule, UnknownZone."""
    start = _start(schedule, data)
    excluded = frozenset(m.instant for text in schedule.exdate for m in _dates(start, "EXDATE", text))
    added = [m for text in schedule.rdate for m in _dates(start, "RDATE", text)]
    moments: Moments = _nothing
    elapsed = False
    if schedule.rule is None:
        added += resolve(start.zone, start.local, start.policy.gap, start.policy.fold)
    else:
        rule = parse_rule(schedule.rule)
        elapsed = _is_elapsed(start, rule)
        moments = _bounded(start, rule, schedule.last)
    # A start that a gap shifts may come to lie behind the times that follow it on the clock.
    earliest = min([start.instant if elapsed else start.instant - DAY, *(m.instant for m in added)])
    if added or excluded:
        moments = _combined(moments, added, excluded)
    written = [parse_written("RDATE", text) for text in schedule.rdate]
    fixed = frozenset(seconds_of(date.wall) for date in written if date.is_utc)
    return Recurrence(start.zone, moments, earliest, start.policy, elapsed, fixed)


def last_counted(schedule: Rrule, data: ZoneData, most: int = MOST_COUNTED) -> int | None:
    """Where COUNT ends the rule: wall clock seconds; for steps in elapsed time seconds UTC. None without COUNT.

    Raises InvalidSchedule, also for a COUNT beyond `most` that no multiplication can answer.
    """
    rule = None if schedule.rule is None else parse_rule(schedule.rule)
    if rule is None or rule.count is None:
        return None
    return _last(_start(schedule, data), rule, rule.count, most)


def _start(schedule: Rrule, data: ZoneData) -> Start:
    zone = data.zone(schedule.zone)
    written = parse_written("DTSTART", schedule.start)
    if written.is_utc:
        raise InvalidSchedule(
            "DTSTART", schedule.start, "is local time; leave out the Z, and give UTC as its zone"
        )
    if not FIRST_YEAR <= written.wall.year <= LAST_YEAR:
        raise InvalidSchedule(
            "DTSTART",
            schedule.start,
            f"lies outside the years {FIRST_YEAR} to {LAST_YEAR}, which are known here",
        )
    # An all-day occurrence begins when its day does, whatever the clock shows then.
    policy = Policy(Gap.NEXT_VALID) if written.is_date else schedule.policy
    local = seconds_of(written.wall)
    gap = Gap.SHIFT if policy.gap is Gap.SKIP else policy.gap
    instant = resolve(zone, local, gap, policy.fold)[0].instant
    return Start(zone, schedule.zone is None, written.is_date, policy, local, instant)


def _dates(start: Start, part: str, text: str) -> tuple[Moment, ...]:
    written = parse_written(part, text)
    if written.is_date is not start.all_day:
        raise InvalidSchedule(
            part, text, "must be a DATE where DTSTART is one, else a DATE-TIME (RFC 5545, 3.8.5)"
        )
    seconds = seconds_of(written.wall)
    if not written.is_utc:
        return resolve(start.zone, seconds, start.policy.gap, start.policy.fold)
    segment = start.zone.segment(seconds)
    return (Moment(seconds + segment.offset, segment.fold(seconds), seconds),)


def _nothing(_after: int) -> None:
    return None


def _combined(rule: Moments, added: list[Moment], excluded: frozenset[int]) -> Moments:
    added = sorted(added, key=lambda moment: moment.instant)
    instants = [moment.instant for moment in added]

    def next_moment(after: int) -> Moment | None:
        while True:
            place = bisect_right(instants, after)
            candidates = [*added[place : place + 1], *filter(None, (rule(after),))]
            found = min(candidates, key=lambda moment: moment.instant, default=None)
            if found is None or found.instant not in excluded:
                return found
            after = found.instant

    return next_moment


# --------------------------------------------------------------------------- the rule and its end


def _bounded(start: Start, rule: Rule, last: int | None) -> Moments:
    if last is None and rule.count is not None:
        last = _last(start, rule, rule.count)
    end = None if rule.until is None else _end(start, rule.until)
    if _is_elapsed(start, rule):
        return _ending(_elapsed(start, rule), last if end is None else end)
    if start.all_day and end is not None:
        last, end = end, None
    return _ending(_on_wall_clock(start, rule, last), end)


def _ending(moments: Moments, last: int | None) -> Moments:
    if last is None:
        return moments

    def next_moment(after: int) -> Moment | None:
        moment = moments(after)
        return None if moment is None or moment.instant > last else moment

    return next_moment


def _end(start: Start, until: Until) -> int:
    """UNTIL in seconds UTC; for an all-day start, wall clock seconds."""
    if until.is_date is not start.all_day:
        needed = "a DATE, since DTSTART is one" if start.all_day else "a DATE-TIME, since DTSTART is one"
        raise InvalidSchedule("UNTIL", until.text, f"must be {needed} (RFC 5545, 3.3.10)")
    if not start.all_day and until.is_utc is start.floating:
        needed = (
            "local time, without a Z, as DTSTART is"
            if start.floating
            else "UTC, with a Z, since DTSTART has a zone"
        )
        raise InvalidSchedule("UNTIL", until.text, f"must be {needed} (RFC 5545, 3.3.10)")
    return seconds_of(until.wall)


def _is_elapsed(start: Start, rule: Rule) -> bool:
    return rule.freq > Freq.DAILY and start.policy.subday is Subday.ELAPSED


def _elapsed(start: Start, rule: Rule) -> Moments:
    steps = _steps(start, rule)
    return InElapsedTime(
        start.zone,
        lambda offset, after, until: steps.next_local(start.instant + offset, after, until),
        start.instant,
    )


def _on_wall_clock(start: Start, rule: Rule, last: int | None) -> Moments:
    times = _local_times(start, rule)

    def until_last(after: int) -> int | None:
        local = times(after)
        return None if local is None or (last is not None and local > last) else local

    return OnWallClock(start.zone, until_last, start.policy.gap, start.policy.fold)


def _last(start: Start, rule: Rule, count: int, most: int = MOST_COUNTED) -> int:
    if _is_elapsed(start, rule):
        moments = _elapsed(start, rule)
        return _counted(
            rule,
            count,
            start.instant,
            _steps(start, rule).simple_step,
            lambda after: _instant(moments(after)),
            most,
        )
    if rule.freq > Freq.DAILY:
        step = _steps(start, rule).simple_step
        return _counted(rule, count, start.local, step, _local_times(start, rule), most)
    periods = _periods(start, rule)
    return _counted(rule, count, start.local, periods.simple_step, periods.next_local, most)


def _instant(moment: Moment | None) -> int | None:
    return None if moment is None else moment.instant


def _counted(rule: Rule, count: int, start: int, step: int | None, times: LocalTimes, most: int) -> int:
    found = times(start - 1)
    if found is None:
        return start
    if step is not None:
        return found + (count - 1) * step
    if count > most:
        raise InvalidSchedule(
            "COUNT",
            rule.count,
            f"is more than {most:,}, too many to be counted for this rule; give UNTIL instead",
        )
    for _ in range(count - 1):
        following = times(found)
        if following is None:
            break
        found = following
    return found


# --------------------------------------------------------------------------- what DTSTART fills in


def _local_times(start: Start, rule: Rule) -> LocalTimes:
    if rule.freq <= Freq.DAILY:
        return _periods(start, rule).next_local
    steps, end = _steps(start, rule), LAST_DAY * DAY

    def next_local(after: int) -> int | None:
        local = steps.next_local(start.local, after, end)
        return None if local is None or local >= end else local

    return next_local


def _steps(start: Start, rule: Rule) -> StepRule:
    if start.all_day:
        raise InvalidSchedule(
            "FREQ", rule.freq.name, "an all-day schedule has no time of day to step through"
        )
    parts = DayParts(rule.bymonth, (), rule.byyearday, rule.bymonthday, rule.byday, rule.wkst)
    return StepRule(rule, start.local % 60, day_filter(parts))


def _periods(start: Start, rule: Rule) -> PeriodRule:
    """What a rule does not say is DTSTART's: the month, the day, the time (RFC 5545, 3.3.10)."""
    wall = wall_of(start.local)
    parts = DayParts(
        rule.bymonth,
        rule.byweekno,
        rule.byyearday,
        rule.bymonthday,
        rule.byday,
        rule.wkst,
        numbered_in_year=rule.freq is Freq.YEARLY and not rule.bymonth,
        skip=rule.skip if rule.freq <= Freq.MONTHLY else Skip.OMIT,
    )
    if not (rule.byyearday or rule.bymonthday or rule.byday):
        if rule.freq is Freq.WEEKLY or rule.byweekno:
            parts = parts._replace(byday=(NumberedDay(0, weekday(start.local // DAY)),))
        elif rule.freq < Freq.WEEKLY:
            month = rule.bymonth or ((wall.month,) if rule.freq is Freq.YEARLY else ())
            parts = parts._replace(bymonth=month, bymonthday=(wall.day,))
    # BYHOUR, BYMINUTE and BYSECOND are ignored where DTSTART is a DATE.
    hours, minutes, seconds = ((), (), ()) if start.all_day else (rule.byhour, rule.byminute, rule.bysecond)
    times = TimesOfDay(hours or (wall.hour,), minutes or (wall.minute,), seconds or (wall.second,))
    return PeriodRule(rule.freq, rule.interval, start.local, day_filter(parts), times, rule.bysetpos)
