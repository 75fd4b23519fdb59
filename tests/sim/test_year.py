"""A simulated year of recurring tasks over all zones, every occurrence as dateutil has it.

`make chaos` runs some 200,000 occurrences; `python -m bench year` runs 6 million.
"""

from __future__ import annotations

import pytest

from bench.year import SMALL_TASKS, simulate


@pytest.mark.parametrize("tasks", [120, pytest.param(SMALL_TASKS, marks=pytest.mark.chaos)])
def test_every_occurrence_of_a_year_exactly_once_at_its_instant(tasks: int) -> None:
    year = simulate(tasks, print)
    assert (year.wrong, year.early, year.skipped, year.missing) == (0, 0, 0, 0)
    assert year.dispatched > 40 * tasks
