"""Recurring tasks on a real broker: a dispatcher that was away, runs that meet, and many of them at once."""

from __future__ import annotations

import time
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.rig import BODY, Rig
from tests.waiting import eventually
from tickstream import recurring
from tickstream.codec import decode_work
from tickstream.model import NEVER, Command, History, Options, Outcome, Verb

SECOND = timedelta(seconds=1)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def soon(in_ms: int) -> datetime:
    return datetime.fromtimestamp((now_ms() + in_ms) / 1_000, UTC)


def ms(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def send(rig: Rig, task_id: str, **asked: Any) -> None:
    options = Options(recurrence=recurring(**asked))
    rig.send(Command(rig.command_id(), Verb.SCHEDULE, task_id, NEVER, "default", options, BODY))


def finish(rig: Rig, runs: int, timeout_s: float = 60) -> dict[str, list[int]]:
    """Every run succeeds as soon as it is dispatched, until there were so many; their occurrences by task."""
    done: set[tuple[str, int]] = set()
    by_task: dict[str, list[int]] = defaultdict(list)
    for *_, value in rig.read(
        rig.names.work("default"), until=lambda _: len(done) >= runs, timeout_s=timeout_s
    ):
        work = decode_work(value)
        assert work.decided_ms >= work.occurrence_ts
        assert (work.task_id, work.occurrence_ts) not in done
        done.add((work.task_id, work.occurrence_ts))
        by_task[work.task_id].append(work.occurrence_ts)
        rig.report(work)
        if len(done) % 500 == 0:
            rig.flush()
    rig.flush()
    return by_task


def skips(history: list[History]) -> dict[str, list[tuple[int, int, str]]]:
    """By task: the first, how many, and the reason's first word."""
    by_task: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for h in history:
        if h.outcome is Outcome.SKIPPED:
            by_task[h.task_id].append((h.occurrence_ts, h.occurrences, h.error.split(":")[0]))
    return by_task


def test_a_dispatcher_down_for_three_occurrences(broker: str, prefix: str, tmp_path: Path) -> None:
    with Rig(broker, prefix, tmp_path) as rig:
        first = rig.dispatcher("first")
        rig.wait_active(first)
        start = soon(12_000)
        common = {"every": SECOND, "start": start, "end": start + 3 * SECOND, "grace": timedelta(0)}
        for misfire in ("latest", "all", "skip"):
            send(rig, misfire, misfire=misfire, **common)
        rig.flush()
        rig.wait_applied()
        first.stop()
        assert now_ms() < ms(start), "the machine was too slow to stop it in time"
        assert eventually(lambda: now_ms() > ms(start) + 3_000, 30)
        rig.dispatcher("first")
        done = finish(rig, 4)
        at = [ms(start) + n * 1_000 for n in range(3)]
        assert done == {"latest": at[2:], "all": at}
        rig.wait_applied()
        assert skips(rig.history()) == {"latest": [(at[0], 2, "misfire")], "skip": [(at[0], 3, "misfire")]}


def test_runs_that_meet(broker: str, prefix: str, tmp_path: Path) -> None:
    with Rig(broker, prefix, tmp_path) as rig:
        rig.wait_active(rig.dispatcher("only"))
        start = soon(3_000)
        for overlap in ("skip", "allow", "queue", "cancel_running"):
            send(rig, overlap, overlap=overlap, every=SECOND, start=start, end=start + 3 * SECOND)
        rig.flush()
        at = [ms(start) + n * 1_000 for n in range(3)]
        out = defaultdict(list)
        for work in rig.work(at_least=8, timeout_s=60):
            out[work.task_id].append(work.occurrence_ts)
        assert out == {"skip": at[:1], "allow": at, "queue": at[:1], "cancel_running": at}
        assert eventually(lambda: now_ms() > at[2])
        rig.wait_applied()
        done = finish(rig, 10)
        assert done["queue"] == at
        rig.wait_applied()
        assert skips(rig.history()) == {"skip": [(at[1], 1, "overlap"), (at[2], 1, "overlap")]}


@pytest.mark.parametrize(("tasks", "seconds"), [(100, 4), pytest.param(2_000, 60, marks=pytest.mark.chaos)])
def test_many_live_ones(tasks: int, seconds: int, broker: str, prefix: str, tmp_path: Path) -> None:
    """Each every two seconds, for so long: none lost, none twice, none early."""
    with Rig(broker, prefix, tmp_path) as rig:
        rig.wait_active(rig.dispatcher("only"))
        start = soon(4_000)
        end = start + seconds * SECOND
        for n in range(tasks):
            send(rig, f"t{n}", every=2 * SECOND, start=start, end=end, overlap="allow")
        rig.flush()
        expected = [ms(start) + n * 2_000 for n in range(seconds // 2)]
        done = finish(rig, tasks * len(expected), timeout_s=60 + 3 * seconds)
        assert {task_id: sorted(at) for task_id, at in done.items()} == {
            f"t{n}": expected for n in range(tasks)
        }
        rig.wait_applied()
        assert skips(rig.history()) == {}
