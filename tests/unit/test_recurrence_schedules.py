"""Schedules as values: admission, where COUNT ends, pointers, dates beside a rule, and the ends of the calendar."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import islice

import pytest

from tickstream.errors import InvalidSchedule, NeverOccurs
from tickstream.recurrence import (
    Cron,
    Every,
    Fold,
    Gap,
    Policy,
    Rrule,
    Schedule,
    Subday,
    admit,
    between,
    first,
    next_after,
    preview,
    previous,
    take,
)

NEW_YORK = "America/New_York"


def ms(iso: str) -> int:
    return round(datetime.fromisoformat(iso).timestamp() * 1_000)


def utc(schedule: Schedule, count: int) -> list[str]:
    found = take(schedule, count)
    return [f"{datetime.fromtimestamp(p.next_occurrence_ts / 1_000, UTC):%Y-%m-%d %H:%M}" for p in found]


# --------------------------------------------------------------------------- admission


@pytest.mark.parametrize(
    ("rule", "last"),
    [
        ("FREQ=DAILY;COUNT=3", "2027-03-15 09:00"),
        ("FREQ=WEEKLY;BYDAY=MO,FR;COUNT=3", "2027-03-22 09:00"),
        ("FREQ=DAILY;COUNT=1000000", "4765-02-06 09:00"),
        ("FREQ=MONTHLY;BYMONTHDAY=31;COUNT=2", "2027-05-31 09:00"),
    ],
)
def test_admission_turns_count_into_the_last_wall_clock_time(rule: str, last: str) -> None:
    stored = admit(Rrule("2027-03-13T09:00:00", rule, NEW_YORK))
    assert isinstance(stored, Rrule)
    assert stored.last == ms(f"{last}+00:00") // 1_000
    assert admit(stored) == stored


def test_of_steps_in_elapsed_time_count_becomes_the_last_instant() -> None:
    stored = admit(Rrule("2027-03-14T00:00:00", "FREQ=HOURLY;COUNT=1000000000", NEW_YORK))
    assert isinstance(stored, Rrule)
    assert stored.last == ms("2027-03-14T05:00:00+00:00") // 1_000 + 999_999_999 * 3_600


def test_a_count_that_would_have_to_be_counted_for_long_is_refused() -> None:
    with pytest.raises(InvalidSchedule, match="give UNTIL instead"):
        admit(Rrule("2027-03-14T00:00:00", "FREQ=MINUTELY;BYHOUR=9;COUNT=100001", NEW_YORK))


@pytest.mark.parametrize(
    "schedule",
    [
        Rrule("2027-01-01T09:00:00", "FREQ=HOURLY;INTERVAL=24;BYHOUR=3", NEW_YORK),
        Rrule("2027-01-01T09:00:00", "FREQ=MINUTELY;BYYEARDAY=366;BYMONTH=1"),
        Rrule("2027-01-01T09:00:00", "FREQ=YEARLY;BYMONTH=1;BYYEARDAY=200"),
        Rrule("2027-01-01T09:00:00", "FREQ=WEEKLY;BYDAY=MO;BYSETPOS=2"),
        Rrule("2027-01-01T09:00:00", "FREQ=DAILY;UNTIL=20261231T090000"),
        Rrule("2027-01-01T09:00:00", None, exdate=("2027-01-01T09:00:00",)),
        # Every second Sunday of March, and only then, when 02:30 is in the gap.
        Rrule("2027-01-01T02:30:00", "FREQ=YEARLY;BYMONTH=3;BYDAY=2SU", NEW_YORK, policy=Policy(Gap.SKIP)),
        Cron("* * */20 * 1L"),
        Every(1_000, anchor_ms=5, end_ms=5),
    ],
)
def test_what_never_occurs_is_refused(schedule: Schedule) -> None:
    with pytest.raises(NeverOccurs, match="never occurs"):
        admit(schedule)


@pytest.mark.parametrize(
    ("schedule", "part"),
    [
        (Rrule("2027-01-01T09:00:00Z", "FREQ=DAILY"), "DTSTART"),
        (Rrule("0001-01-01T09:00:00", "FREQ=DAILY"), "DTSTART"),
        (Rrule("2027-01-01", "FREQ=HOURLY"), "FREQ"),
        (Rrule("2027-01-01T09:00:00", "FREQ=DAILY", exdate=("2027-01-01",)), "EXDATE"),
        (Rrule("2027-01-01", "FREQ=DAILY", rdate=("2027-01-01T09:00:00",)), "RDATE"),
        (Rrule("2027-01-01T09:00:00", "RSCALE=HEBREW;FREQ=DAILY"), "RSCALE"),
        (Rrule("2027-01-01T09:00:00", "RSCALE=GREGORIAN;FREQ=YEARLY;BYYEARDAY=366;SKIP=FORWARD"), "SKIP"),
        (Cron("60 * * * *"), "cron"),
        (Every(0), "every"),
    ],
)
def test_a_refusal_names_the_part(schedule: Schedule, part: str) -> None:
    with pytest.raises(InvalidSchedule) as refused:
        admit(schedule)
    assert refused.value.part == part


# --------------------------------------------------------------------------- pointers


def test_the_pointer_keeps_the_time_that_the_rule_names_and_which_of_two_it_is() -> None:
    daily = Rrule("2027-03-13T02:30:00", "FREQ=DAILY", NEW_YORK)
    shifted = take(daily, 2)[1]
    assert shifted == (ms("2027-03-14T02:30:00+00:00") // 1_000, 0, ms("2027-03-14T03:30:00-04:00"))
    twice = Rrule("2027-11-07T01:30:00", "FREQ=DAILY", NEW_YORK, policy=Policy(fold=Fold.BOTH))
    assert [(p.nominal_local, p.fold) for p in take(twice, 2)] == [
        (ms("2027-11-07T01:30:00+00:00") // 1_000, 0),
        (ms("2027-11-07T01:30:00+00:00") // 1_000, 1),
    ]


def test_a_time_that_always_comes_twice_is_found_every_year() -> None:
    """No occurrence lies far from a change, so none may be taken for granted."""
    yearly = Rrule("2020-11-01T01:30:00", "FREQ=YEARLY;BYMONTH=11;BYDAY=1SU", NEW_YORK)
    assert utc(yearly, 3) == ["2020-11-01 05:30", "2021-11-07 05:30", "2022-11-06 05:30"]


def test_a_start_in_a_gap_does_not_hide_what_the_clock_shows_before_it() -> None:
    rule = "FREQ=DAILY;BYHOUR=2,3;BYMINUTE=0,30;COUNT=3"
    assert utc(Rrule("2027-03-14T02:30:00", rule, NEW_YORK), 5) == ["2027-03-14 07:00", "2027-03-14 07:30"]


def test_threads_may_share_a_schedule() -> None:
    every_minute = Cron("* * * * *", NEW_YORK)
    with ThreadPoolExecutor(8) as pool:
        asked = [minute * 60_000 for minute in range(4_000)]
        found = pool.map(lambda instant: next_after(every_minute, instant), asked)
    assert [p and p.next_occurrence_ts for p in found] == [instant + 60_000 for instant in asked]


# --------------------------------------------------------------------------- RFC 7529, dates beside the rule


def test_skip_moves_a_date_that_its_month_does_not_have() -> None:
    rule = "RSCALE=GREGORIAN;FREQ=MONTHLY;BYMONTHDAY=31;SKIP="
    start = "2027-01-31T09:00:00"
    assert utc(Rrule(start, rule + "OMIT"), 2) == ["2027-01-31 09:00", "2027-03-31 09:00"]
    assert utc(Rrule(start, rule + "BACKWARD"), 3) == [
        "2027-01-31 09:00",
        "2027-02-28 09:00",
        "2027-03-31 09:00",
    ]
    assert utc(Rrule(start, rule + "FORWARD"), 3) == [
        "2027-01-31 09:00",
        "2027-03-01 09:00",
        "2027-03-31 09:00",
    ]
    # February's occurrence lies in March, which an interval of two months leaves out.
    every_second = "RSCALE=GREGORIAN;FREQ=MONTHLY;INTERVAL=2;SKIP=FORWARD"
    assert utc(Rrule("2026-12-31T09:00:00", every_second), 3) == [
        "2026-12-31 09:00", "2027-03-01 09:00", "2027-05-01 09:00",
    ]  # fmt: skip


def test_an_excluded_time_in_a_fold_is_read_as_the_schedule_reads_it() -> None:
    excluded = ("2027-11-07T01:30:00",)
    second = Rrule(
        "2027-11-07T01:30:00",
        "FREQ=DAILY;COUNT=2",
        NEW_YORK,
        exdate=excluded,
        policy=Policy(fold=Fold.SECOND),
    )
    assert utc(second, 2) == ["2027-11-08 06:30"]


def test_a_leap_second_is_the_second_before_it() -> None:
    assert (
        take(Rrule("2027-01-01T00:00:59", "FREQ=MINUTELY;BYSECOND=60"), 2)[1].next_occurrence_ts % 60_000
        == 59_000
    )


# --------------------------------------------------------------------------- the ends of the calendar


@pytest.mark.parametrize("start", ["0002-01-01T00:00:00", "1900-01-01", "9998-12-30T23:00:00"])
@pytest.mark.parametrize(
    "rule",
    ["FREQ=YEARLY", "FREQ=MONTHLY;BYDAY=-1FR", "FREQ=WEEKLY", "FREQ=DAILY", "FREQ=YEARLY;BYWEEKNO=53,1"],
)
@pytest.mark.parametrize("zone", [NEW_YORK, "Pacific/Kiritimati", None])
def test_at_the_ends_of_the_calendar_nothing_breaks(start: str, rule: str, zone: str | None) -> None:
    for schedule in (Rrule(start, rule, zone), Cron("*/5 * * * *", zone), Every(1_000, zone=zone)):
        for instant in (-(10**17), 0, ms("9998-12-31T00:00:00+00:00"), 10**15, 10**18):
            found = next_after(schedule, instant)
            assert found is None or found.next_occurrence_ts > instant
            before = previous(schedule, instant)
            assert before is None or before.next_occurrence_ts < instant
            assert len(list(islice(between(schedule, instant, instant + 10**9), 2))) <= 2
            preview(schedule, 2, instant)


def test_the_start_is_sought_not_walked_to() -> None:
    """A century of seconds lies between; walking would take hours."""
    schedule = Rrule("1970-01-01T00:00:00", "FREQ=SECONDLY;INTERVAL=7", policy=Policy(subday=Subday.WALL))
    found = next_after(schedule, ms("2070-01-01T00:00:00+00:00"))
    assert found is not None
    assert found.next_occurrence_ts % 7_000 == 0
    assert first(schedule) == (0, 0, 0)
