"""Where dateutil, which our answers are compared with, is known to be wrong: one test for each fault.

Each shows dateutil's answer and ours; `tests.rules.outside_the_faults` keeps these rules out of the comparison.
A test that fails because dateutil was mended is good news: take the fault out of both.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from dateutil.rrule import rrulestr

from tests.recurrence_cases import occurrences
from tests.rules import pinned
from tickstream.errors import InvalidSchedule, NeverOccurs
from tickstream.recurrence import Rrule, admit, take


def dateutils(rule: str, start: str, count: int, zone: str | None = None) -> list[str]:
    aware = datetime.fromisoformat(start).replace(tzinfo=None if zone is None else pinned(zone))
    found: Any = rrulestr(rule, dtstart=aware)
    return [
        shown(wall.replace(tzinfo=UTC) if zone is None else wall.astimezone(UTC))
        for wall in islice(found, count)
    ]


def ours(rule: str, start: str, count: int, zone: str | None = None) -> list[str]:
    found = take(Rrule(start, rule, zone), count)
    return [shown(datetime.fromtimestamp(p.next_occurrence_ts / 1_000, UTC)) for p in found]


def shown(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M}"


def test_weekdays_with_and_without_numbers_are_intersected_instead_of_joined() -> None:
    rule, start = "FREQ=MONTHLY;BYDAY=MO,3FR", "2025-12-01T20:15:00"
    assert ours(rule, start, 4) == [
        "2025-12-01 20:15",
        "2025-12-08 20:15",
        "2025-12-15 20:15",
        "2025-12-19 20:15",
    ]
    assert dateutils("FREQ=MONTHLY;BYDAY=MO,3FR;UNTIL=20270101T000000", start, 4) == []


def test_byweekno_alone_takes_every_day_of_the_week_instead_of_the_starts() -> None:
    rule, start = "FREQ=YEARLY;BYWEEKNO=2", "2013-01-08T00:00:00"
    assert ours(rule, start, 2) == ["2013-01-08 00:00", "2014-01-07 00:00"]
    assert dateutils(rule, start, 2) == ["2013-01-08 00:00", "2013-01-09 00:00"]


def test_week_53_is_seen_in_years_whose_new_year_lies_in_week_52() -> None:
    rule, start = "FREQ=YEARLY;BYWEEKNO=53;BYDAY=SA", "2033-01-01T09:00:00"
    assert datetime(2039, 1, 1).isocalendar().week == 52
    assert ours(rule, start, 4) == [
        "2033-01-01 09:00",
        "2038-01-02 09:00",
        "2044-01-02 09:00",
        "2049-01-02 09:00",
    ]
    assert dateutils(rule, start, 4) != ours(rule, start, 4)


def test_bysetpos_of_a_weekly_rule_counts_from_the_start_instead_of_from_the_weeks_beginning() -> None:
    rule, start = "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=1,2", "2026-01-06T00:00:00"
    assert ours(rule, start, 2) == ["2026-01-06 00:00", "2026-01-12 00:00"]
    assert dateutils(rule, start, 2) == ["2026-01-06 00:00", "2026-01-07 00:00"]


def test_short_steps_are_taken_on_the_wall_clock_so_the_repeated_hour_passes_without_one() -> None:
    rule, start, zone = "FREQ=HOURLY", "2026-11-01T00:00:00", "America/New_York"
    assert ours(rule, start, 4, zone) == [
        "2026-11-01 04:00", "2026-11-01 05:00", "2026-11-01 06:00", "2026-11-01 07:00",
    ]  # fmt: skip
    assert dateutils(rule, start, 3, zone) == ["2026-11-01 04:00", "2026-11-01 05:00", "2026-11-01 07:00"]


def test_in_a_gap_an_instant_comes_twice() -> None:
    rule, start, zone = "FREQ=DAILY", "2011-12-29T09:00:00", "Pacific/Apia"
    assert ours(rule, start, 3, zone) == ["2011-12-29 19:00", "2011-12-30 19:00", "2011-12-31 19:00"]
    assert dateutils(rule, start, 3, zone) == ["2011-12-29 19:00", "2011-12-30 19:00", "2011-12-30 19:00"]


def test_an_all_day_start_does_not_make_it_ignore_the_time_parts() -> None:
    case = {
        "dtstart": "2025-01-06T00:00:00", "all_day": True, "tz": None, "rrule": "FREQ=WEEKLY;BYMINUTE=30;COUNT=1",
        "rdate": [], "exdate": [], "after_utc": None, "limit": 1,
        "policy": {"gap": "shift", "fold": "first", "subday": "elapsed"},
    }  # fmt: skip
    assert occurrences(case) == ["2025-01-06T00:00:00Z"]
    assert dateutils(str(case["rrule"]), "2025-01-06T00:00:00", 1) == ["2025-01-06 00:30"]


def test_a_rule_whose_steps_never_meet_its_limits_is_an_error_instead_of_no_occurrence() -> None:
    rule, start = "FREQ=HOURLY;INTERVAL=24;BYHOUR=3", "2025-01-01T09:00:00"
    assert ours(rule, start, 1) == []
    with pytest.raises(ValueError, match="empty set"):
        dateutils(rule, start, 1)


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=DAILY;BYHOUR=9;BYSETPOS=2",
        "FREQ=DAILY;INTERVAL=7;BYDAY=TU",
    ],
)
def test_a_rule_that_never_occurs_is_walked_to_the_year_9999(rule: str) -> None:
    """Here the answer comes at once, and admission says so; dateutil is not asked, since it takes seconds."""
    with pytest.raises(NeverOccurs, match="never occurs"):
        admit(Rrule("2025-01-06T09:00:00", rule))


@pytest.mark.parametrize(
    ("rule", "part"),
    [
        ("FREQ=DAILY;COUNT=3;UNTIL=20250110T140000", "COUNT"),
        ("FREQ=DAILY;COUNT=2;COUNT=3", "COUNT"),
        ("FREQ=WEEKLY;BYDAY=2MO", "BYDAY"),
        ("FREQ=YEARLY;BYMONTH=13", "BYMONTH"),
        ("FREQ=MONTHLY;BYMONTHDAY=32", "BYMONTHDAY"),
        ("FREQ=WEEKLY;BYMONTHDAY=20", "BYMONTHDAY"),
        ("FREQ=DAILY;BYWEEKNO=2", "BYWEEKNO"),
        ("FREQ=MONTHLY;BYSETPOS=-1", "BYSETPOS"),
    ],
)
def test_what_the_standard_forbids_is_accepted(rule: str, part: str) -> None:
    rrulestr(rule, dtstart=datetime(2025, 1, 6, 9))
    with pytest.raises(InvalidSchedule) as refused:
        admit(Rrule("2025-01-06T09:00:00", rule))
    assert refused.value.part == part


def test_its_score_on_the_case_files_lies_below_ours() -> None:
    """All of ours are right, see test_recurrence_cases.py; `pytest -rP` shows dateutil's."""
    command = [sys.executable, "-m", "tests.dateutil_score"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], check=True, capture_output=True, text=True)
    score = json.loads(done.stdout)
    print(
        f"dateutil: {score['right']} of {score['cases']} right, {score['refused']} of {score['rejects']} refused"
    )
    assert score["right"] < score["cases"]
    assert score["refused"] < score["rejects"]
