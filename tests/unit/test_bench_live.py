"""`bench live` counts by itself: what it expects of its tasks, and what it holds against them."""

from __future__ import annotations

from typing import Any

import pytest

from bench.live import Live, Reckoned, plan, reckon
from tickstream import recurring
from tickstream.model import History, Outcome, RecurrenceKind, Rev, Work
from tickstream.recurrence import between
from tickstream.recurrence.stored import schedule_of

START = 1_900_000_020_000  # a whole minute
REV = Rev(1, 0)


@pytest.mark.parametrize("start_ms", [START, START + 55 * 60_000], ids=["within an hour", "over its end"])
def test_its_tasks_are_of_every_kind_and_occur_within_the_run_alone(start_ms: int) -> None:
    tasks = plan(100, start_ms, 8)
    end_ms = start_ms + 8 * 60_000
    assert {live.recurrence.kind for live in tasks.values()} == set(RecurrenceKind)
    for live in tasks.values():
        assert len(live.expected) >= 8
        # What it expects is dateutil's; that it has nothing between acceptance and start is ours to see.
        accepted_ms = start_ms - 300_000
        found = between(schedule_of(live.recurrence), accepted_ms, end_ms + 120_000)
        assert tuple(p.next_occurrence_ts for p in found) == live.expected


def work(at: int, **fields: Any) -> Work:
    made = Work(0, 1, "t", at, 1, REV, decided_ms=at, lease_ms=1, timeout_ms=1, body=b"")
    return made._replace(**fields)


def ended(at: int, **fields: Any) -> History:
    made = History(1, "t", at, 1, REV, Outcome.SUCCEEDED, at, "default", "h", "w", b"", at, at, at, at, "")
    return made._replace(**fields)


AT = (START, START + 5_000)
TASKS = {"t": Live(recurring(cron="* * * * *"), "UTC", AT)}
CLEAN = [work(at) for at in AT], [ended(at) for at in AT]


@pytest.mark.parametrize(
    ("works", "history", "found"),
    [
        (*CLEAN, Reckoned(2, 0, 0, 0, 0, 0)),
        (CLEAN[0][:1], CLEAN[1][:1], Reckoned(1, 1, 0, 0, 0, 0)),
        (CLEAN[0], CLEAN[1][:1], Reckoned(1, 1, 0, 0, 0, 0)),
        ([*CLEAN[0], work(AT[0])], CLEAN[1], Reckoned(2, 0, 1, 0, 0, 0)),
        (CLEAN[0], [*CLEAN[1], ended(AT[0])], Reckoned(2, 0, 1, 0, 0, 0)),
        ([work(AT[0], decided_ms=AT[0] - 1), CLEAN[0][1]], CLEAN[1], Reckoned(2, 0, 0, 1, 0, 0)),
        ([*CLEAN[0], work(AT[1] + 1)], CLEAN[1], Reckoned(2, 0, 0, 0, 1, 0)),
        (
            CLEAN[0][:1],
            [CLEAN[1][0], ended(AT[1], outcome=Outcome.SKIPPED, occurrences=1)],
            Reckoned(1, 1, 0, 0, 0, 1),
        ),
    ],
    ids=["clean", "lost", "no end", "work twice", "two ends", "early", "off its rule", "skipped"],
)
def test_each_sin_is_counted(works: list[Work], history: list[History], found: Reckoned) -> None:
    assert reckon(TASKS, works, history) == found
