"""Every case of the files in tests/cases: the right occurrences, the schedules that must be refused, the conflicts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.recurrence_cases import conflicts, occurrences, schedule, taken
from tickstream.errors import InvalidInput, InvalidSchedule, UnknownZone
from tickstream.recurrence import Rrule, admit, tzdata_version

CASES = Path(__file__).parents[1] / "cases"


def cases(name: str, wanted: Callable[[dict[str, Any]], object] = bool) -> list[Any]:
    lines = (CASES / name).read_text().splitlines()
    return [pytest.param(case, id=case["id"]) for case in map(json.loads, lines) if wanted(case)]


@pytest.mark.parametrize("case", cases("recurrence.jsonl"))
def test_the_occurrences_are_the_right_ones(case: dict[str, Any]) -> None:
    if case.get("tz_min", "") > tzdata_version():
        pytest.fail(f"needs tzdata {case['tz_min']}, this is {tzdata_version()}: raise the pin")
    assert occurrences(case) == case["expect_utc"], case["why"]


@pytest.mark.parametrize("case", cases("recurrence.jsonl", lambda case: case["expect_utc"]))
def test_a_stored_schedule_answers_as_the_written_one(case: dict[str, Any]) -> None:
    stored = admit(schedule(case))
    assert isinstance(stored, Rrule)
    assert "COUNT" not in (stored.rule or "") or stored.last is not None
    assert taken(stored, case) == case["expect_utc"], case["why"]


@pytest.mark.parametrize("case", cases("rejects.jsonl"))
def test_what_the_standard_forbids_is_refused_before_anything_is_stored(case: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        occurrences(case)
    with pytest.raises(InvalidInput) as refused:
        admit(schedule(case))
    assert isinstance(refused.value, InvalidSchedule | UnknownZone), case["why"]
    assert isinstance(refused.value, UnknownZone) or "RFC " in str(refused.value)


@pytest.mark.parametrize("case", cases("conflicts.jsonl"))
def test_every_overlap_is_found_and_nothing_else(case: dict[str, Any]) -> None:
    assert sorted(conflicts(case)) == sorted(case["conflicts"]), case["why"]
