"""Workers that come, go, are killed and are slow: work is done again, never lost, never blocked."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka.worker_app import hold, note
from tests.kafka.worker_kit import BUCKETS, DEADLINE_S, Stage, eventually, local_worker, start_process
from tickstream.model import NEVER, ReportKind
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
        assert [t.worker for t in stage.outcomes(1)] == ["victim"]
        claim = stage.report_of(ReportKind.CLAIMED, "held").report
        stage.await_committed({0: 2})
        victim.kill()
    # Kafka has nothing to deliver again: the lease that the claim began is what finds the run missing.
    with start_process(stage, "heir") as heir:
        heir.wait_event("ready")
        stage.put(note.bind(), "behind")
        assert [t.report.task_id for t in stage.reports(1)] == ["behind"]
        assert [e["task_id"] for e in heir.events if e["event"] == "handling"] == ["behind"]
    assert (claim.attempt, len(claim.run_id)) == (1, 16)


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
        assert [(t.report.task_id, t.report.kind) for t in stage.outcomes(1)] == [
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


def test_a_grace_that_ends_leaves_the_run_to_its_lease(stage: Stage) -> None:
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
        # Claimed and then silent; nothing says that it failed.
        assert {t.report.kind for t in stage.reports(1)} == {ReportKind.CLAIMED}
        assert stage.committed() == {0: 1}
    finally:
        gate.set()


def test_what_finds_no_slot_goes_back_and_the_group_is_served(stage: Stage) -> None:
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
            told = stage.outcomes(len(jobs) - 2)
            assert {t.report.kind for t in told} == {ReportKind.RELEASED}
            assert {t.report.started_ms for t in told} == {NEVER}
            # All of it is behind the worker: what runs is claimed, the rest is the dispatcher's again.
            eventually(lambda: sum(stage.committed().values()), lambda total: total == len(jobs))
            # While the slots are busy nothing waits for them any more.
            stage.put(job.bind(), "late")
            (late,) = stage.outcomes(1)
            assert (late.report.task_id, late.report.kind) == ("late", ReportKind.RELEASED)
            assert late.report.ended_ms - late.report.fetched_ms < 100
            with local_worker(stage, quick, worker_id="second") as second:
                share = next(
                    e["partitions"] for e in second.events if e["event"] == "assigned" and e["partitions"]
                )
                for partition in share:
                    stage.put(job.bind(), f"for second {partition}", partition=partition)
                told = stage.outcomes(len(share))
                assert {(t.worker, t.report.kind) for t in told} == {("second", ReportKind.SUCCEEDED)}
                gate.set()
                assert {t.report.kind for t in stage.outcomes(2)} == {ReportKind.SUCCEEDED}
        assert not [e for e in first.events if e["event"] in ("lost", "alarm")]
    finally:
        gate.set()


def test_what_runs_goes_on_when_its_partition_leaves_and_returns(stage: Stage) -> None:
    app, gate, started = App(), threading.Event(), []

    @app.handler()
    def slow(ctx: Context) -> None:
        started.append(ctx.task_id)
        gate.wait(DEADLINE_S)

    @app.handler()
    def behind(ctx: Context) -> None:
        started.append(ctx.task_id)

    visitor, visited = App(), []
    visitor.handler("slow")(lambda ctx: visited.append(ctx.task_id))
    tasks = [f"slow {p}" for p in range(BUCKETS)]
    try:
        with local_worker(stage, app, concurrency=2 * BUCKETS) as worker:
            for partition, task_id in enumerate(tasks):
                stage.put(slow.bind(), task_id, partition=partition)
            eventually(lambda: sorted(started), lambda found: found == tasks)
            with local_worker(stage, visitor, worker_id="visitor", grace_s=0.0):
                moved = worker.wait_event("revoked")["partitions"]
                assert isinstance(moved, list)
            worker.wait_event("assigned", partitions=moved)
            later = [f"tail {p}" for p in moved]
            for partition, task_id in zip(moved, later, strict=True):
                stage.put(behind.bind(), task_id, partition=partition)
            eventually(lambda: sorted(started), lambda found: found[BUCKETS:] == later)
            gate.set()
            told = stage.outcomes(BUCKETS + len(moved))
            assert sorted(t.report.task_id for t in told) == [*tasks, *later]
            assert {t.worker for t in told} == {"local"}
            stage.await_committed({p: 2 if p in moved else 1 for p in range(BUCKETS)})
            assert (sorted(started), visited) == ([*tasks, *later], [])
    finally:
        gate.set()


@pytest.mark.chaos
def test_a_worker_that_was_asleep_past_its_lease_knows_and_commits_nothing_of_others(
    stage: Stage, gate: Path
) -> None:
    with start_process(stage, "sleeper") as sleeper:
        sleeper.wait_event("ready")
        stage.put(hold.bind(str(gate)), "held", lease_ms=1_000)
        stage.report_of(ReportKind.CLAIMED, "held")
        stage.await_committed({0: 1})
        sleeper.send(signal.SIGSTOP)
        with start_process(stage, "heir") as heir:
            stage.put(note.bind(), "behind")
            heir.wait_event("handling")
            stage.await_committed({0: 2})
            sleeper.send(signal.SIGCONT)
            lost = sleeper.wait_event("lost")
            assert lost["partitions"] == list(range(BUCKETS))
            sleeper.wait_event(lambda e: e.get("kind") == "lease_lost")
            gate.write_bytes(b"go")
            # Its late word is told all the same; what it is worth is the dispatcher's to decide.
            told = {t.report.task_id: t for t in stage.outcomes(2)}
            assert (told["held"].worker, told["held"].report.kind) == ("sleeper", ReportKind.SUCCEEDED)
            assert stage.committed() == {0: 2}
