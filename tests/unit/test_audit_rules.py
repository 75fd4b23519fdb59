"""What the audit says of an instant and a rule: no occurrence that is right is ever called off its rule."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from hypothesis import given, settings

from tests.property.test_recurrence import INSTANTS, schedules
from tickstream.model import NEVER
from tickstream.ops.audit.facts import Rule
from tickstream.ops.audit.rules import may_name
from tickstream.recurrence import Every, Rrule, Schedule, next_after

CASES = Path(__file__).parents[1] / "cases"


def rule_of(case: dict[str, Any]) -> Rule:
    start = case["dtstart"][:10] if case["all_day"] else case["dtstart"]
    zone, dates = case["tz"] or "", (tuple(case["rdate"]), tuple(case["exdate"]))
    return Rule("RRULE", case["rrule"] or "", zone, start, 0, NEVER, 0, *dates)


def test_every_case_passes() -> None:
    cases = [json.loads(line) for line in (CASES / "recurrence.jsonl").read_text().splitlines()]
    off = {
        (case["id"], instant)
        for case in cases
        for instant in case["expect_utc"]
        if not may_name(rule_of(case), round(datetime.fromisoformat(instant).timestamp()) * 1_000)
    }
    assert off == set()


def test_most_instants_beside_an_occurrence_do_not() -> None:
    cases = [json.loads(line) for line in (CASES / "recurrence.jsonl").read_text().splitlines()]
    beside = [
        may_name(rule_of(case), round(datetime.fromisoformat(instant).timestamp()) * 1_000 + 61_000)
        for case in cases
        for instant in case["expect_utc"]
        if "LY" in (case["rrule"] or "") and "SECOND" not in case["rrule"] and "MINUTE" not in case["rrule"]
    ]
    assert beside.count(False) > 0.75 * len(beside)


def asked(schedule: Schedule) -> Rule:
    if isinstance(schedule, Every):
        return Rule(
            "EVERY", "", schedule.zone or "", "", schedule.anchor_ms, NEVER, schedule.interval_ms, (), ()
        )
    if isinstance(schedule, Rrule):
        return Rule("RRULE", schedule.rule or "", schedule.zone or "", schedule.start, 0, NEVER, 0, (), ())
    return Rule("CRON", schedule.expression, schedule.zone or "", "", 0, NEVER, 0, (), ())


@settings(deadline=None, max_examples=40)
@given(schedules(), INSTANTS)
def test_what_the_expander_names_may_be_named(schedule: Schedule, instant: int) -> None:
    rule = asked(schedule)
    for _ in range(4):
        found = next_after(schedule, instant)
        if found is None:
            return
        instant = found.next_occurrence_ts
        assert may_name(rule, instant), (rule, instant)
