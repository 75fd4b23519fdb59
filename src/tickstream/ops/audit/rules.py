"""Whether a rule can name an instant: what is surely none of its occurrences is found by arithmetic on the wall clock.

Necessary conditions alone, each plain: an expander is what the audit is to judge, so none is here. Of what it
cannot tell, such as a day on which clocks change, it says that the rule may name it. Only facts may enter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import resources
from typing import Final
from zoneinfo import ZoneInfo

from tickstream.model import NEVER
from tickstream.ops.audit.facts import Rule

_DAY: Final = timedelta(days=1)
_WEEKDAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_DATES: Final = frozenset({"BYDAY", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO"})
_FREQUENCIES: Final = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
_WITHIN_A_DAY: Final = ("HOURLY", "MINUTELY", "SECONDLY")
_NAMES: Final = {
    name: str(number)
    for names in (
        ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"),
        ("", "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"),
    )
    for number, name in enumerate(names)
    if name
}
_STEP: Final = re.compile(r"(\*|\d+)(?:-(\d+))?(?:/(\d+))?")


def may_name(rule: Rule, at_ms: int) -> bool:
    """False: the rule surely does not name that instant."""
    if rule.end_ms != NEVER and at_ms >= rule.end_ms:
        return False
    if rule.kind == "EVERY":
        return at_ms >= rule.start_ms and (at_ms - rule.start_ms) % rule.interval_ms == 0
    if at_ms % 1_000:
        return False
    zone = _zone(rule.zone or "UTC")
    if zone is None:
        return True  # one that only the dispatcher's data have
    at = datetime.fromtimestamp(at_ms // 1_000, UTC)
    if (at - _DAY).astimezone(zone).utcoffset() != (at + _DAY).astimezone(zone).utcoffset():
        return True  # near a gap or a fold, of which a policy says what becomes
    wall = at.astimezone(zone).replace(tzinfo=None)
    if rule.kind == "CRON":
        return at_ms >= rule.start_ms and _cron(rule.text, wall)
    return _rrule(rule, wall, at)


@lru_cache
def _zone(name: str) -> ZoneInfo | None:
    """By the package's data, as everybody here has them, not the system's."""
    try:
        with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as data:
            return ZoneInfo.from_file(data, name)
    except (OSError, ValueError):
        return None


# --------------------------------------------------------------------------- cron


def _cron(text: str, wall: datetime) -> bool:
    fields = text.upper().split()
    if len(fields) == 5:
        fields = ["0", *fields]
    if len(fields) != 6:
        return True
    second, minute, hour, day, month, weekday = fields
    timely = (
        _in(second, wall.second, 59)
        and _in(minute, wall.minute, 59)
        and _in(hour, wall.hour, 23)
        and _in(month, wall.month, 12)
    )
    by_day = _in(day, wall.day, 31)
    by_weekday = _in(weekday, wall.isoweekday() % 7, 7) or _in(weekday, wall.isoweekday(), 7)
    # Where both are restricted, either may do.
    dated = by_day and by_weekday if day.startswith("*") or weekday.startswith("*") else by_day or by_weekday
    return timely and dated


def _in(field: str, value: int, most: int) -> bool:
    numbers = _numbers(field, most)
    return numbers is None or value in numbers


@lru_cache(1_024)
def _numbers(field: str, most: int) -> frozenset[int] | None:
    """What a field lists; None where it says more than numbers, ranges and steps."""
    found: set[int] = set()
    for part in re.sub("[A-Z]{3}", lambda name: _NAMES.get(name[0], name[0]), field).split(","):
        match = _STEP.fullmatch(part)
        if match is None:
            return None
        first, last, step = match[1], match[2], int(match[3] or 1)
        low = 0 if first == "*" else int(first)
        high = int(last) if last else most if first == "*" or match[3] else low
        if step == 0 or high < low:
            return None
        found.update(range(low, high + 1, step))
    return frozenset(found)


# --------------------------------------------------------------------------- RRULE


def _rrule(rule: Rule, wall: datetime, at: datetime) -> bool:
    begin = datetime.fromisoformat(rule.start)
    if wall in map(datetime.fromisoformat, rule.exdate):
        return False
    if wall == begin or wall in map(datetime.fromisoformat, rule.rdate):
        return True
    parts = _parts(rule.text)
    if not parts or wall < begin:
        return False
    if parts.keys() & {"RSCALE", "SKIP"} or parts.get("FREQ") not in _FREQUENCIES:
        return True
    until = parts.get("UNTIL", "")
    if until.endswith("Z") and at > datetime.strptime(until, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC):
        return False
    # Of a date alone, nothing that is said of the time is read.
    timely = wall.time() == begin.time() if _is_date(rule.start) else _time_of_day(parts, begin, wall)
    return timely and _date(parts, begin, wall) and _interval(parts, begin, wall)


def _is_date(start: str) -> bool:
    return "T" not in start


@lru_cache(1_024)
def _parts(text: str) -> Mapping[str, str]:
    return dict(part.split("=", 1) for part in text.upper().split(";") if "=" in part)


def _listed(parts: Mapping[str, str], name: str, value: int, otherwise: Callable[[], bool]) -> bool:
    if name not in parts:
        return otherwise()
    return value in map(int, parts[name].split(","))


def _time_of_day(parts: Mapping[str, str], begin: datetime, wall: datetime) -> bool:
    """A part of the time that nothing lists is DTSTART's, but where hours pass: some zones move by half of one."""
    runs = parts["FREQ"] in _WITHIN_A_DAY
    return (
        _listed(parts, "BYHOUR", wall.hour, lambda: runs or wall.hour == begin.hour)
        and _listed(parts, "BYMINUTE", wall.minute, lambda: runs or wall.minute == begin.minute)
        and _listed(parts, "BYSECOND", wall.second, lambda: runs or wall.second == begin.second)
    )


def _date(parts: Mapping[str, str], begin: datetime, wall: datetime) -> bool:
    if not _listed(parts, "BYMONTH", wall.month, lambda: True):
        return False
    days = parts.get("BYDAY", "").split(",")
    if "BYDAY" in parts and _WEEKDAYS[wall.weekday()] not in {day[-2:] for day in days}:
        return False
    if "BYMONTHDAY" in parts:
        last = ((wall.replace(day=1) + timedelta(days=31)).replace(day=1) - _DAY).day
        if not {wall.day, wall.day - last - 1} & set(map(int, parts["BYMONTHDAY"].split(","))):
            return False
    if parts.keys() & _DATES:
        return True
    match parts["FREQ"]:
        case "YEARLY":
            return wall.day == begin.day and ("BYMONTH" in parts or wall.month == begin.month)
        case "MONTHLY":
            return wall.day == begin.day
        case "WEEKLY":
            return wall.weekday() == begin.weekday()
    return True


def _interval(parts: Mapping[str, str], begin: datetime, wall: datetime) -> bool:
    interval = int(parts.get("INTERVAL", "1"))
    match parts["FREQ"]:
        case "YEARLY" if "BYWEEKNO" not in parts:
            return (wall.year - begin.year) % interval == 0
        case "MONTHLY":
            return (wall.year * 12 + wall.month - begin.year * 12 - begin.month) % interval == 0
        case "WEEKLY":
            start = _WEEKDAYS.index(parts.get("WKST", "MO"))
            weeks = [at.date() - timedelta(days=(at.weekday() - start) % 7) for at in (begin, wall)]
            return (weeks[1] - weeks[0]).days // 7 % interval == 0
        case "DAILY":
            return (wall.date() - begin.date()).days % interval == 0
    return True  # what runs through the day may count elapsed hours, or those on the clock
