"""Real worker processes: claims, heartbeats, timeouts, signals, children; the test plays the dispatcher."""

import itertools
import json
from collections.abc import Iterator

import pytest

from tests.kafka import worker_lease_app
from tests.kafka.worker_kit import Stage, Told, eventually, start_process
from tickstream.codec import decode_body
from tickstream.model import NEVER, NO_RETRY, Report, ReportKind, SignalKind
from tickstream.ops.processes import ManagedProcess
from tickstream.worker.lease import MARGIN

pytestmark = pytest.mark.chaos


@pytest.fixture
def stage(broker: str, prefix: str) -> Iterator[Stage]:
    stage = Stage(broker, prefix)
    yield stage
    stage.close()


@pytest.fixture
def worker(stage: Stage) -> Iterator[ManagedProcess]:
    with start_process(stage, "w", "--grace", "0.2", "--concurrency", "4", app="worker_lease_app") as worker:
        worker.wait_event("ready")
        yield worker


def beats(stage: Stage, task_id: str, count: int) -> list[Told]:
    """The next `count` heartbeats of that task."""
    return [stage.report_of(ReportKind.HEARTBEAT, task_id) for _ in range(count)]


def _outcomes(stage: Stage, count: int) -> dict[str, Report]:
    return {t.report.task_id: t.report for t in stage.outcomes(count)}


def test_a_run_that_goes_on_is_claimed_then_renewed_and_says_how_far_it_is(
    stage: Stage, worker: ManagedProcess
) -> None:
    stage.put(worker_lease_app.patient.bind(), "long", partition=2, lease_ms=900)
    claim = stage.report_of(ReportKind.CLAIMED, "long")
    stage.await_committed({2: 1})
    (first, *_, last) = beats(stage, "long", 4)
    assert {t.report.run_id for t in (first, last)} == {claim.report.run_id}
    assert (last.report.progress, last.report.note) == (250, "a quarter")
    # A third of the lease apart, give or take what a shared machine takes.
    assert 500 <= last.report.ended_ms - first.report.ended_ms <= 1_800
    fence = worker.wait_event("handling")["fence"]
    assert isinstance(fence, list)
    assert (fence[0], len(fence)) == (1, 2)


def test_a_thread_that_spins_stops_nobodys_heartbeats_and_is_ended_in_time(
    stage: Stage, worker: ManagedProcess
) -> None:
    stage.put(worker_lease_app.patient.bind(), "beside", lease_ms=900)
    stage.put(worker_lease_app.spin.bind(), "spin", partition=1, lease_ms=900, timeout_ms=2_000)
    told: dict[str, list[Report]] = {"beside": [], "spin": []}
    while not (told["spin"] and told["spin"][-1].kind is ReportKind.FAILED):
        for t in stage.reports(1):
            told[t.report.task_id].append(t.report)
    failure = told["spin"][-1]
    assert failure.error.startswith("TimeoutError: it ran longer than its timeout of 2000 ms")
    assert failure.retry_ms == NEVER
    assert 2_000 <= failure.ended_ms - failure.started_ms <= 2_600
    stamps = [r.ended_ms for r in told["beside"] if r.kind is not ReportKind.CLAIMED]
    assert len(stamps) >= 3
    assert max(b - a for a, b in itertools.pairwise(stamps)) < 900 * (1 - MARGIN)
    # It looked at ctx.cancelled and is gone: nothing more is said of it.
    assert [r.kind for r in told["spin"] if r.kind is ReportKind.FAILED] == [ReportKind.FAILED]


def test_a_thread_that_looks_at_nothing_keeps_its_slot_and_is_an_alarm(
    stage: Stage, worker: ManagedProcess
) -> None:
    stage.put(worker_lease_app.hang.bind(), "hang", lease_ms=900, timeout_ms=500)
    assert stage.report_of(ReportKind.FAILED, "hang").report.error.startswith("TimeoutError: ")
    alarm = worker.wait_event(lambda e: e.get("kind") == "stuck_slot")
    assert alarm["stuck"] == 1
    stage.await_committed({0: 1})


def test_an_async_handler_is_cancelled_when_its_time_is_over(stage: Stage, worker: ManagedProcess) -> None:
    stage.put(worker_lease_app.sleeper.bind(), "sleeper", timeout_ms=500)
    assert stage.report_of(ReportKind.FAILED, "sleeper").report.error.startswith("TimeoutError: ")
    worker.wait_event("woken")


def test_a_blocked_event_loop_renews_nothing_on_it(stage: Stage, worker: ManagedProcess) -> None:
    stage.put(worker_lease_app.sleeper.bind(), "sleeper", lease_ms=900)
    beats(stage, "sleeper", 1)
    stage.put(worker_lease_app.blocker.bind(), "blocker", partition=1, lease_ms=900)
    stage.put(worker_lease_app.patient.bind(), "thread", partition=2, lease_ms=900)
    worker.wait_event(lambda e: e.get("kind") == "event_loop_blocked")
    worker.wait_event(lambda e: e.get("kind") == "lease_lost")
    beats(stage, "thread", 2)
    later = [t for t in stage.reports(3) if t.report.task_id != "thread"]
    assert later == []


def test_a_signal_stops_what_runs_and_it_is_not_tried_again(stage: Stage, worker: ManagedProcess) -> None:
    calls = {
        "thread": worker_lease_app.patient.bind(),
        "async": worker_lease_app.sleeper.bind(),
        "child": worker_lease_app.child.bind("spin"),
    }
    told: dict[str, Report] = {}
    for task, call in calls.items():
        stage.put(call, task)
        stage.signal(stage.report_of(ReportKind.CLAIMED, task), SignalKind.CANCELLED)
        told |= _outcomes(stage, 1)
    # It saw that it was cancelled, and ended its work in good order: what it says counts.
    assert (told["thread"].kind, json.loads(told["thread"].result)) == (ReportKind.SUCCEEDED, "cancelled")
    for task in ("async", "child"):
        assert (told[task].kind, told[task].retry_ms) == (ReportKind.FAILED, NO_RETRY)
        assert told[task].error == "Cancelled: the task was cancelled while it ran"


def test_a_child_returns_fails_dies_and_is_killed_and_the_next_run_finds_one(
    stage: Stage, worker: ManagedProcess
) -> None:
    told: dict[str, Report] = {}
    for n, what in enumerate(("return", "raise", "retry", "die", "spin", "return")):
        # Only the one that spins is to meet its timeout, however slowly a child starts.
        timeout_ms = 1_000 if what == "spin" else 60_000
        stage.put(worker_lease_app.child.bind(what), f"{n} {what}", lease_ms=900, timeout_ms=timeout_ms)
        told |= _outcomes(stage, 1)
    for n in (0, 5):
        result = json.loads(told[f"{n} return"].result)
        assert result["attempt"] == 1
        assert len(result["fence"]) == 2
    assert (told["1 raise"].error, told["1 raise"].retry_ms) == ("ValueError: no such user", NEVER)
    assert told["2 retry"].retry_ms == 3_000
    assert told["3 die"].error == "ChildDied: the handler's process ended with exit status 7"
    assert told["4 spin"].error.startswith("TimeoutError: ")
    pids = {e["task_id"]: e["pid"] for e in worker.events if e["event"] == "handling"}
    parents = {e["parent"] for e in worker.events if e["event"] == "handling"}
    assert len(parents) == 1
    eventually(lambda: alive(int(str(pids["4 spin"]))), lambda found: not found)


def test_what_a_child_schedules_is_in_the_log_before_its_outcome(
    stage: Stage, worker: ManagedProcess
) -> None:
    work = stage.put(worker_lease_app.child.bind("schedule"), "from a child")
    outcome = _outcomes(stage, 1)["from a child"]
    assert outcome.kind is ReportKind.SUCCEEDED
    (batch,) = stage.commands()
    (command,) = batch.commands
    assert command.task_id == f"from a child@{work.occurrence_ts}/next"
    assert (command.when, command.queue) == (work.occurrence_ts, "default")
    assert decode_body(command.body).labels == {"of": "child"}
    # What the client refuses is raised where it was asked for, and nothing of it was sent.
    assert "nowhere" in str(worker.wait_event("refused")["reason"])


def test_children_end_with_their_parent(stage: Stage, worker: ManagedProcess) -> None:
    stage.put(worker_lease_app.child.bind("spin"), "spin")
    pid = int(str(worker.wait_event("handling")["pid"]))
    assert alive(pid)
    worker.kill()
    eventually(lambda: alive(pid), lambda found: not found)


def alive(pid: int) -> bool:
    """Whether a process with that id runs."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_superseded_run_knows_that_it_is_lost(stage: Stage, worker: ManagedProcess) -> None:
    stage.put(worker_lease_app.patient.bind(), "displaced", lease_ms=900)
    claim = stage.report_of(ReportKind.CLAIMED, "displaced")
    stage.signal(claim, SignalKind.SUPERSEDED)
    told = _outcomes(stage, 1)["displaced"]
    assert (told.kind, json.loads(told.result)) == (ReportKind.SUCCEEDED, "lost")
