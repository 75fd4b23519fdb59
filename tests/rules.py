"""Random recurrence rules for property tests, and dateutil's answers to them."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from importlib import resources
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import tzdata
from dateutil.rrule import rrulestr
from hypothesis import strategies as st

from tickstream.recurrence.grammar import WEEKDAYS

FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
STARTS = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)).map(
    lambda start: start.replace(microsecond=0)
)
ZONES = st.sampled_from(
    [
        "America/New_York",
        "Europe/Berlin",
        "Australia/Lord_Howe",
        "Antarctica/Troll",
        "America/Santiago",
        "Africa/Casablanca",
        "Asia/Kathmandu",
        "Pacific/Apia",
        "America/St_Johns",
        "Asia/Tehran",
        "UTC",
    ]
)


def _some(least: int, greatest: int, most: int = 4, *, signed: bool = False) -> st.SearchStrategy[str]:
    numbers = st.integers(least, greatest)
    if signed:
        numbers = numbers | numbers.map(lambda number: -number)
    return st.lists(numbers, min_size=1, max_size=most, unique=True).map(
        lambda some: ",".join(map(str, some))
    )


def _days(draw: st.DrawFn, numbered: int) -> str:
    days = draw(st.lists(st.sampled_from(WEEKDAYS), min_size=1, max_size=4, unique=True))
    if not numbered:
        return ",".join(days)
    numbers = st.one_of(st.just(""), st.integers(1, numbered).map(str), st.integers(-numbered, -1).map(str))
    return ",".join(draw(numbers) + day for day in days)


@st.composite
def rules(draw: st.DrawFn, frequencies: tuple[str, ...] = FREQUENCIES) -> str:
    """A rule that RFC 5545 allows, without COUNT and UNTIL."""
    freq = draw(st.sampled_from(frequencies))
    parts = {"FREQ": freq}

    def maybe(name: str, value: st.SearchStrategy[str], chance: int = 3) -> None:
        if draw(st.integers(0, chance)) == 0:
            parts[name] = draw(value)

    maybe("INTERVAL", st.integers(1, 40).map(str), 2)
    maybe("BYMONTH", _some(1, 12))
    if freq == "YEARLY":
        maybe("BYWEEKNO", _some(1, 53, signed=True), 5)
    if freq in ("YEARLY", "HOURLY", "MINUTELY", "SECONDLY"):
        maybe("BYYEARDAY", _some(1, 366, 12, signed=True), 6)
    if freq != "WEEKLY":
        maybe("BYMONTHDAY", _some(1, 31, signed=True))
    numbered = {"YEARLY": 53, "MONTHLY": 5}.get(freq, 0)
    if "BYWEEKNO" in parts:
        numbered = 0
    elif "BYMONTH" in parts:
        numbered = min(numbered, 5)
    if draw(st.integers(0, 2)) == 0:
        parts["BYDAY"] = _days(draw, numbered)
    maybe("BYHOUR", _some(0, 23))
    maybe("BYMINUTE", _some(0, 59))
    maybe("BYSECOND", _some(0, 59), 5)
    if any(name.startswith("BY") for name in parts):
        maybe("BYSETPOS", _some(1, 6, 3, signed=True))
    maybe("WKST", st.sampled_from(WEEKDAYS))
    return ";".join(f"{name}={value}" for name, value in parts.items())


@cache
def pinned(zone: str) -> ZoneInfo:
    """The zone of the pinned tzdata package, as Python reads it; the system may have older data."""
    with resources.files(tzdata).joinpath("zoneinfo", *zone.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=zone)


def wall_times(schedule_times: list[int]) -> list[datetime]:
    """Instants in ms as wall clock times of UTC, without a zone."""
    return [datetime.fromtimestamp(instant / 1_000, UTC).replace(tzinfo=None) for instant in schedule_times]


def dateutils(rule: str, start: datetime, count: int) -> list[datetime]:
    """dateutil's first occurrences on the wall clock. It looks for them until the year 9999 if it must."""
    found: Any = rrulestr(rule, dtstart=start)
    return list(islice(found, count))


def outside_the_faults(rule: str) -> bool:
    """Whether dateutil is known to be right about rules like this one: see tests/unit/test_dateutil_faults.py."""
    parts = dict(part.split("=") for part in rule.split(";"))
    days = parts.get("BYDAY", "").split(",")
    weeks = [int(week) for week in parts.get("BYWEEKNO", "0").split(",")]
    mixed = len({len(day) > 2 for day in days}) > 1
    reaching_over = any(abs(week) >= 52 for week in weeks)
    without_a_day = "BYWEEKNO" in parts and not {"BYDAY", "BYMONTHDAY", "BYYEARDAY"} & set(parts)
    in_first_week = parts["FREQ"] == "WEEKLY" and "BYSETPOS" in parts
    return not (mixed or reaching_over or without_a_day or in_first_week)
