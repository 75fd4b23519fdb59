"""Recurrence against dateutil outside its named faults, and against itself: strictly later, nothing skipped.

The long run compares 100,000 rules with dateutil; without the variable it is a short one:
`TICKSTREAM_RULES=50000 python -m pytest -n 2 tests/property/test_recurrence.py -k dateutil`
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.rules import STARTS, ZONES, dateutils, outside_the_faults, pinned, rules, wall_times
from tickstream.recurrence import (
    Cron,
    Every,
    Fold,
    Gap,
    Policy,
    Rrule,
    Schedule,
    Subday,
    between,
    compile_schedule,
    next_after,
    previous,
    take,
)
from tickstream.recurrence.grammar import WEEKDAYS

RULES: Final = int(os.environ.get("TICKSTREAM_RULES", "200"))
pytestmark = pytest.mark.timeout(max(180.0, RULES * 0.25))
COMPARED: Final = 12
"""Occurrences of each rule."""
PATIENCE: Final = {
    "YEARLY": timedelta(days=40 * 365),
    "MONTHLY": timedelta(days=10 * 365),
    "WEEKLY": timedelta(days=6 * 365),
    "DAILY": timedelta(days=3 * 365),
    "HOURLY": timedelta(days=200),
    "MINUTELY": timedelta(days=6),
    "SECONDLY": timedelta(hours=12),
}
"""How far dateutil is asked to go, since it walks."""
YEAR_MS: Final = 365 * 86_400_000

quick = settings(max_examples=max(RULES // 4, 50), deadline=None, suppress_health_check=list(HealthCheck))
slow = settings(max_examples=RULES, deadline=None, suppress_health_check=list(HealthCheck))


def ours(schedule: Schedule, start: datetime, rule: str) -> list[int]:
    """The first occurrences, as many as dateutil can be asked for."""
    limit = (start + PATIENCE[rule.split(";")[0].removeprefix("FREQ=")]).replace(
        tzinfo=UTC
    ).timestamp() * 1_000
    return [p.next_occurrence_ts for p in take(schedule, COMPARED) if p.next_occurrence_ts <= limit]


@slow
@given(rules().filter(outside_the_faults), STARTS)
def test_no_difference_from_dateutil_outside_its_named_faults(rule: str, start: datetime) -> None:
    found = wall_times(ours(Rrule(start.isoformat(), rule), start, rule))
    assume(found)  # without one, dateutil would look until the year 9999
    assert found == dateutils(rule, start, len(found))


@slow
@given(rules(("YEARLY", "MONTHLY", "WEEKLY", "DAILY")).filter(outside_the_faults), STARTS, ZONES)
def test_in_zones_it_is_dateutil_anchored_anew_at_every_occurrence(
    rule: str, start: datetime, zone: str
) -> None:
    """Python's fold=0 reads a gap with the offset before it, as RFC 5545 does."""
    found = ours(Rrule(start.isoformat(), rule, zone), start, rule)
    assume(found)
    walls = dateutils(rule, start, len(found))
    anchored = {round(wall.replace(tzinfo=pinned(zone)).timestamp() * 1_000) for wall in walls}
    # Two wall clock times may come to one instant; then dateutil's last few lie behind ours.
    assert found[: len(anchored)] == sorted(anchored)[: len(found)]


@quick
@given(rules(("HOURLY", "MINUTELY", "SECONDLY")).filter(outside_the_faults), STARTS, ZONES)
def test_short_steps_in_zones_are_read_off_the_clock_as_time_passes(
    rule: str, start: datetime, zone: str
) -> None:
    """Without BYMINUTE and BYSECOND an occurrence is a step from DTSTART, in elapsed time, that the clock lets pass."""
    parts = dict(part.split("=") for part in rule.split(";"))
    step = {"HOURLY": 3_600, "MINUTELY": 60, "SECONDLY": 1}[parts["FREQ"]] * int(parts.get("INTERVAL", "1"))
    assume(not {"BYMINUTE", "BYSECOND", "BYSETPOS", "BYYEARDAY", "BYMONTHDAY"} & set(parts))
    info = pinned(zone)
    at = start.replace(tzinfo=info).timestamp()
    expected = []
    for number in range(3_000):
        wall = datetime.fromtimestamp(at + number * step, info)
        if (
            wall.hour in _listed(parts, "BYHOUR", range(24))
            and wall.month in _listed(parts, "BYMONTH", range(1, 13))
            and ("BYDAY" not in parts or WEEKDAYS[wall.weekday()] in parts["BYDAY"])
        ):
            expected.append(round((at + number * step) * 1_000))
    found = [
        p.next_occurrence_ts for p in take(Rrule(start.isoformat(), rule, zone), len(expected[:COMPARED]))
    ]
    assert found == expected[:COMPARED]


def _listed(parts: dict[str, str], name: str, everything: range) -> set[int]:
    return {int(entry) for entry in parts[name].split(",")} if name in parts else set(everything)


# --------------------------------------------------------------------------- against itself

POLICIES = st.builds(Policy, st.sampled_from(Gap), st.sampled_from(Fold), st.sampled_from(Subday))
CRONS = st.sampled_from(
    [
        "30 2 * * *",
        "*/20 * * * *",
        "0 0 13 * FRI",
        "15,45 1-3 * * 0",
        "*/30 30 2 * * *",
        "0 12 L * *",
        "0 0 29 2 *",
    ]
)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """Any schedule; rules of short steps are thinned out by nothing, so their walks stay near the start."""
    zone, policy = draw(ZONES), draw(POLICIES)
    start = draw(STARTS)
    build: Callable[[], Schedule] = draw(
        st.sampled_from(
            [
                lambda: Rrule(start.isoformat(), draw(rules()), zone, policy=policy),
                lambda: Rrule(
                    start.isoformat(), draw(rules(("DAILY", "WEEKLY", "HOURLY"))), zone, policy=policy
                ),
                lambda: Cron(draw(CRONS), zone, policy=policy),
                lambda: Every(draw(st.integers(1, 10**9)), draw(st.integers(0, 10**12)), zone=zone),
            ]
        )
    )
    return build()


INSTANTS = st.integers(0, 130 * YEAR_MS)


@slow
@given(schedules(), INSTANTS)
def test_next_is_strictly_later_in_utc_and_grows_with_what_it_is_asked(
    schedule: Schedule, instant: int
) -> None:
    for _ in range(4):
        found = next_after(schedule, instant)
        if found is None:
            return
        assert found.next_occurrence_ts > instant
        # Nothing lies between: from any instant before it, the answer is the same.
        assert next_after(schedule, (instant + found.next_occurrence_ts) // 2) == found or (
            found.next_occurrence_ts - instant == 1
        )
        assert next_after(schedule, found.next_occurrence_ts - 1) == found
        instant = found.next_occurrence_ts


@quick
@given(schedules(), INSTANTS, st.integers(1, YEAR_MS))
def test_between_is_next_repeated(schedule: Schedule, start: int, length: int) -> None:
    repeated, at = [], start - 1
    while (found := next_after(schedule, at)) is not None and found.next_occurrence_ts < start + length:
        repeated.append(found)
        at = found.next_occurrence_ts
        if len(repeated) == 50:
            break
    assert list(islice(between(schedule, start, start + length), 50)) == repeated


@quick
@given(schedules(), INSTANTS)
def test_previous_is_the_way_back(schedule: Schedule, instant: int) -> None:
    found = next_after(schedule, instant)
    assume(found is not None)
    assert found is not None
    assert previous(schedule, found.next_occurrence_ts + 1) == found
    before = previous(schedule, found.next_occurrence_ts)
    if before is None:
        assert compile_schedule(schedule).first() == found
    else:
        assert before.next_occurrence_ts <= instant
        assert next_after(schedule, before.next_occurrence_ts) == found


@quick
@given(rules(), STARTS, ZONES, POLICIES)
def test_the_pointer_says_which_wall_clock_time_it_is(
    rule: str, start: datetime, zone: str, policy: Policy
) -> None:
    info = pinned(zone)
    for pointer in take(Rrule(start.isoformat(), rule, zone, policy=policy), 5):
        shown = datetime.fromtimestamp(pointer.next_occurrence_ts / 1_000, info)
        nominal = datetime(1970, 1, 1) + timedelta(seconds=pointer.nominal_local)
        if shown.replace(tzinfo=None, fold=0) == nominal:
            assert shown.fold == pointer.fold
        else:  # the clock never shows it
            assert policy.gap is not Gap.SKIP
            assert (
                nominal.replace(tzinfo=info).astimezone(UTC).astimezone(info).replace(tzinfo=None) != nominal
            )
