"""Workers that come, go, are killed and are slow: work is done again, never lost, never blocked."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka.worker_app import hold, note
from tests.kafka.worker_kit import BUCKETS, DEADLINE_S, Stage, eventually, local_worker, start_process
from tickstream.model import ReportKind
from tickstream.worker import App, Context


@pytest.fixture
def stage(broker: str, prefix: str) -> Iterator[Stage]:
    stage = Stage(broker, prefix)
    yield stage
    stage.close()


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A named pipe: `hold` waits until something is written to it."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    return gate


@pytest.mark.chaos
def test_a_worker_killed_in_a_handler_leaves_its_run_to_the_next(stage: Stage, gate: Path) -> None:
    with start_process(stage, "victim") as victim:
        victim.wait_event("ready")
        stage.put(note.bind(), "before")
        stage.put(hold.bind(str(gate)), "held")
        victim.wait_event(lambda e: e.get("task_id") == "held")
        assert [t.worker for t in stage.reports(1)] == ["victim"]
        stage.await_committed({0: 1})
        victim.kill()
    with start_process(stage, "heir") as heir:
        heir.wait_event(lambda e: e.get("task_id") == "held")
        gate.write_bytes(b"go")
        (told,) = stage.reports(1)
        assert (told.report.task_id, told.report.kind) == ("held", ReportKind.SUCCEEDED)
        assert told.worker == "heir"
        stage.await_committed({0: 2})
        assert [e["task_id"] for e in heir.events if e["event"] == "handling"] == ["held"]


@pytest.mark.chaos
def test_sigterm_lets_running_handlers_end_and_leaves_the_rest_to_others(stage: Stage, gate: Path) -> None:
    with start_process(stage, "leaving", "--concurrency", "1") as leaving:
        leaving.wait_event("ready")
        stage.put(hold.bind(str(gate)), "held")
        leaving.wait_event("handling")
        stage.put(note.bind(), "waiting")
        stage.put(note.bind(), "waiting too", partition=1)
        leaving.send(signal.SIGTERM)
        leaving.wait_event("draining")
        gate.write_bytes(b"go")
        assert [(t.report.task_id, t.report.kind) for t in stage.reports(1)] == [
            ("held", ReportKind.SUCCEEDED)
        ]
        assert leaving.wait(DEADLINE_S) == 0
        assert [e["abandoned"] for e in leaving.events if e["event"] == "drained"] == [0]
        assert [e["task_id"] for e in leaving.events if e["event"] == "handling"] == ["held"]
    assert stage.committed() == {0: 1}
    # It left the group: nobody waits for its session to end.
    with start_process(stage, "staying") as staying:
        assert {t.report.task_id for t in stage.reports(2)} == {"waiting", "waiting too"}
        stage.await_committed({0: 2, 1: 1})
        assert len([e for e in staying.events if e["event"] == "handling"]) == 2


def test_a_grace_that_ends_leaves_the_run_to_the_next(stage: Stage) -> None:
    app, gate, started = App(), threading.Event(), threading.Semaphore(0)

    @app.handler()
    def stuck(_ctx: Context) -> None:
        started.release()
        gate.wait(DEADLINE_S)

    try:
        with local_worker(stage, app, grace_s=0.1) as worker:
            stage.put(stuck.bind(), "stuck")
            assert started.acquire(timeout=DEADLINE_S)
        assert [e["abandoned"] for e in worker.events if e["event"] == "drained"] == [1]
    finally:
        gate.set()
    assert stage.committed() == {}
    with local_worker(stage, app, worker_id="next"):
        (told,) = stage.reports(1)
        assert (told.report.task_id, told.worker) == ("stuck", "next")


def test_slow_handlers_block_neither_the_group_nor_other_workers(stage: Stage) -> None:
    app, gate, started = App(), threading.Event(), threading.Semaphore(0)

    @app.handler()
    def job(_ctx: Context) -> None:
        started.release()
        gate.wait(DEADLINE_S)

    quick = App()
    quick.handler("job")(lambda _ctx: None)
    jobs = {f"job {p}.{n}": p for n in range(3) for p in range(BUCKETS)}
    try:
        with local_worker(stage, app, concurrency=2, worker_id="first") as first:
            for task_id, partition in jobs.items():
                stage.put(job.bind(), task_id, partition=partition)
            assert started.acquire(timeout=DEADLINE_S)
            assert started.acquire(timeout=DEADLINE_S)
            # Its slots and its reserve are full, it has paused; a second worker gets its share all the same.
            with local_worker(stage, quick, worker_id="second") as second:
                share = next(
                    e["partitions"] for e in second.events if e["event"] == "assigned" and e["partitions"]
                )
                mine = {task_id for task_id, p in jobs.items() if p in share}
                told = stage.reports(len(mine))
                assert {t.report.task_id for t in told} == mine
                assert {t.worker for t in told} == {"second"}
                gate.set()
                eventually(lambda: sum(stage.committed().values()), lambda total: total == len(jobs))
        assert not [e for e in first.events if e["event"] in ("lost", "alarm")]
    finally:
        gate.set()


def test_a_run_in_flight_is_not_started_again_when_its_record_returns(stage: Stage) -> None:
    app, gate, started = App(), threading.Event(), []

    @app.handler()
    def slow(ctx: Context) -> None:
        started.append(ctx.task_id)
        gate.wait(DEADLINE_S)

    @app.handler()
    def behind(ctx: Context) -> None:
        started.append(ctx.task_id)

    visitor, idle = App(), threading.Event()
    visitor.handler("slow")(lambda _ctx: idle.wait(DEADLINE_S))
    tasks = [f"slow {p}" for p in range(BUCKETS)]
    try:
        with local_worker(stage, app, concurrency=2 * BUCKETS) as worker:
            for partition, task_id in enumerate(tasks):
                stage.put(slow.bind(), task_id, partition=partition)
            eventually(lambda: sorted(started), lambda found: found == tasks)
            # Some of the partitions go to a second worker, unfinished, and come back.
            with local_worker(stage, visitor, worker_id="visitor", grace_s=0.0):
                moved = worker.wait_event("revoked")["partitions"]
                assert isinstance(moved, list)
            worker.wait_event("assigned", partitions=moved)
            later = [f"tail {p}" for p in moved]
            for partition, task_id in zip(moved, later, strict=True):
                stage.put(behind.bind(), task_id, partition=partition)
            # What lies behind them was read, so they were read again.
            eventually(lambda: sorted(started), lambda found: found[BUCKETS:] == later)
            gate.set()
            told = stage.reports(BUCKETS + len(moved))
            assert sorted(t.report.task_id for t in told) == [*tasks, *later]
            stage.await_committed({p: 2 if p in moved else 1 for p in range(BUCKETS)})
            assert sorted(started) == [*tasks, *later]
    finally:
        gate.set()
        idle.set()


@pytest.mark.chaos
def test_a_worker_that_was_asleep_past_its_session_commits_nothing_of_others(
    stage: Stage, gate: Path
) -> None:
    with start_process(stage, "sleeper") as sleeper:
        sleeper.wait_event("ready")
        stage.put(hold.bind(str(gate)), "held")
        sleeper.wait_event("handling")
        sleeper.send(signal.SIGSTOP)
        with start_process(stage, "heir") as heir:
            heir.wait_event("handling")
            sleeper.send(signal.SIGCONT)
            lost = sleeper.wait_event("lost")
            assert lost["partitions"] == list(range(BUCKETS))
            stage.put(note.bind(), "behind")
            assert [t.report.task_id for t in stage.reports(1)] == ["behind"]
            assert stage.committed() == {}
            gate.write_bytes(b"go")
            # Both say so; which word counts is the dispatcher's to decide.
            told = stage.reports(2)
            assert sorted((t.report.task_id, t.worker) for t in told) == [
                ("held", "heir"),
                ("held", "sleeper"),
            ]
            stage.await_committed({0: 2})
