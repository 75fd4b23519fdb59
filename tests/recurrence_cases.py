"""The case files' `rrule` and `reject` cases through the public code: a case in, instants out.

Reads the input fields of a case only, never an expected one.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tickstream import recurrence
from tickstream.recurrence import Fold, Gap, Policy, Rrule, Subday


def schedule(case: dict[str, Any]) -> Rrule:
    """The schedule that the case describes."""
    policy = case["policy"]
    return Rrule(
        start=case["dtstart"].removesuffix("T00:00:00") if case["all_day"] else case["dtstart"],
        rule=case["rrule"],
        zone=case["tz"],
        rdate=tuple(case["rdate"]),
        exdate=tuple(case["exdate"]),
        policy=Policy(Gap(policy["gap"]), Fold(policy["fold"]), Subday(policy["subday"])),
    )


def occurrences(case: dict[str, Any]) -> list[str]:
    """The case's occurrences as `2026-03-08T07:30:00Z`. Raises InvalidInput for what must be refused."""
    return taken(schedule(case), case)


def taken(schedule: Rrule, case: dict[str, Any]) -> list[str]:
    """As many of the schedule's occurrences as the case asks for, from where it asks."""
    after = case["after_utc"]
    after_ms = None if after is None else round(datetime.fromisoformat(after).timestamp() * 1_000)
    found = recurrence.take(schedule, case["limit"], after_ms)
    return [f"{datetime.fromtimestamp(p.next_occurrence_ts / 1_000, UTC):%Y-%m-%dT%H:%M:%SZ}" for p in found]
