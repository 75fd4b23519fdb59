"""Longer stories of leases: a partitioned worker, a killed dispatcher, a rolling restart under load."""

import signal
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from bench.link import Link, NoNetwork, linked_process
from tests.kafka import lease_app as app
from tests.kafka import rig
from tests.kafka.lease_kit import (
    DEADLINE_S,
    LEASE_MS,
    PROMISE_MS,
    Crew,
    Said,
    end,
    handling,
    now_ms,
    percentile,
    show,
)
from tickstream.model import Outcome, ReportKind
from tickstream.ops.processes import ManagedProcess
from tickstream.worker.intake import HOLD_S, ROUNDS

pytestmark = [pytest.mark.kafka, pytest.mark.chaos]

IN_FLIGHT = 500
RATE_PER_S = 500
AHEAD_MS = 4_000
"""How far ahead tasks are scheduled while workers come and go."""
GRACE_S = 2
GATE_MS = 20
"""So often a run that waits for a file looks for it."""
BEYOND = "beyond the grace"


@pytest.fixture
def crew(broker: str, prefix: str, tmp_path: Path) -> Iterator[Crew]:
    with Crew(broker, prefix, tmp_path / "data") as crew:
        yield crew


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A file that is not there yet."""
    return tmp_path / "gate"


def test_a_partitioned_worker_is_replaced_and_its_late_word_does_not_count(
    crew: Crew, gate: Path, tmp_path: Path
) -> None:
    crew.wait_active(crew.dispatcher("dispatcher"))
    command = crew.worker_command("apart")
    with cut_off(command, crew.settings.bootstrap, tmp_path) as (apart, link):
        apart.wait_event("ready", DEADLINE_S)
        crew.put(app.until_lost.bind(str(gate)), "task", "default")
        handling(apart, "task")
        crew.reports(ReportKind.HEARTBEAT, 1, task_id="task")
        with crew.workers("default", "heir", beside=[apart]) as (heir,):
            link.cut()
            cut_ms = now_ms()
            # It is alive and hears nothing from outside: it finds out by its own clock.
            apart.wait_event("lost_seen", DEADLINE_S)
            handling(heir, "task")
            link.heal()
            (late,) = crew.reports(ReportKind.SUCCEEDED, 1, task_id="task", attempt=1)
            assert late.worker == "apart"
            # It came while attempt 2 runs, and is applied: it ends nothing.
            (lost,) = crew.history_now("task")
            gate.touch()
            crew.outcomes("task")
            history = crew.history_now("task")
    assert history[0] == lost
    assert [(h.attempt, h.outcome, h.worker) for h in history] == [
        (1, Outcome.LEASE_EXPIRED, "apart"),
        (2, Outcome.SUCCEEDED, "heir"),
    ]
    takeover_ms = history[1].started_ms - cut_ms
    show("partitioned worker", takeover_ms=takeover_ms, lease_ms=LEASE_MS)
    assert takeover_ms <= LEASE_MS + PROMISE_MS


def test_a_killed_dispatcher_loses_no_run_in_flight_and_expires_none(crew: Crew, gate: Path) -> None:
    first = crew.dispatcher("first")
    crew.wait_active(first)
    with in_flight(crew, gate) as tasks:
        first.kill()
        killed_ms = now_ms()
        crew.wait_active(crew.dispatcher("second"))
        show("dispatcher killed", runs=len(tasks), active_again_ms=now_ms() - killed_ms)
        # Each is heard of for two leases more: one that were to expire would have.
        await_heartbeats(crew, tasks, now_ms() + 2 * LEASE_MS)


def test_a_dispatcher_that_slept_past_all_leases_expires_none(
    crew: Crew, gate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It keeps its lanes, and its leases with deadlines long past: it must read the heartbeats first.
    monkeypatch.setattr(rig, "SESSION_MS", 20_000)
    dispatcher = crew.dispatcher("sleeper")
    crew.wait_active(dispatcher)
    with in_flight(crew, gate) as tasks:
        dispatcher.send(signal.SIGSTOP)
        stopped_ms = now_ms()
        await_heartbeats(crew, tasks, stopped_ms + 2 * LEASE_MS)
        dispatcher.send(signal.SIGCONT)
        show("dispatcher stopped", runs=len(tasks), ms=now_ms() - stopped_ms)
        crew.wait_applied()
    assert not [e for e in dispatcher.events if e["event"] == "lane_lost"]


def test_a_rolling_restart_of_four_workers_wastes_no_attempt_but_what_exceeds_the_grace(crew: Crew) -> None:
    crew.wait_active(crew.dispatcher("dispatcher"))
    options = [f"--grace={GRACE_S}"]
    with ExitStack() as running:
        workers = running.enter_context(crew.workers("default", *"abcd", options=options))
        crew.put(app.long.bind(), BEYOND, "default")
        crew.reports(ReportKind.HEARTBEAT, 1, task_id=BEYOND)
        tasks: list[str] = []
        due = now_ms() + 500
        begun_ms = due

        def ahead(until_ms: int) -> None:
            nonlocal due
            while due < until_ms:
                task_id = f"task {len(tasks)}"
                crew.put_later(app.short.bind(0.02), task_id, "default", due)
                tasks.append(task_id)
                due += 1_000 // RATE_PER_S
            crew.flush()

        ahead(now_ms() + AHEAD_MS)
        for number, leaving in enumerate(workers):
            leaving.send(signal.SIGTERM)
            new = crew.start_worker(f"new {number}", "default", *options)
            running.callback(end, new)
            assert leaving.wait(DEADLINE_S) == 0
            new.wait_event("ready", DEADLINE_S)
            ahead(now_ms() + AHEAD_MS)
        restarted_ms = now_ms()
        history = crew.outcomes(*tasks, timeout_s=90)
        beyond = crew.outcomes(BEYOND)
    late = [h.started_ms - h.occurrence_ts for h in history]
    rate = len(tasks) * 1_000 / (due - begun_ms)
    show("rolling restart", tasks=len(tasks), per_s=round(rate), took_ms=restarted_ms - begun_ms)
    show("lateness", p50=percentile(late, 0.5), p99=percentile(late, 0.99), max=max(late))
    abandoned = [e["abandoned"] for w in workers for e in w.events if e["event"] == "drained"]
    assert sorted(abandoned) == [0, 0, 0, 1]
    for worker in workers:
        # Its partitions are for others before the grace, not after it.
        ending = [e["event"] for e in worker.events if e["event"] in ("draining", "revoked", "drained")]
        assert ending[-3:] == ["draining", "revoked", "drained"]
    assert [(h.attempt, h.outcome) for h in beyond] == [(1, Outcome.LEASE_EXPIRED), (2, Outcome.SUCCEEDED)]
    runs = defaultdict(set)
    for worker, report in crew.reports(ReportKind.SUCCEEDED):
        runs[report.task_id].add((worker, report.run_id))
    twice = {task_id: sorted(ids) for task_id, ids in runs.items() if len(ids) > 1}
    assert Counter((h.attempt, h.outcome) for h in history) == {(1, Outcome.SUCCEEDED): len(tasks)}
    assert not twice, f"{len(twice)} ran twice: {list(twice.items())[:5]}"


def test_where_all_are_full_a_slot_that_comes_free_has_work_soon(crew: Crew, gate: Path) -> None:
    crew.wait_active(crew.dispatcher("dispatcher"))
    slots = ["--concurrency=2"]
    with crew.workers("default", "a", "b", options=slots) as workers:
        for n in range(4):
            crew.put(app.until_open.bind(str(gate)), f"long {n}", "default")
        long = {f"long {n}" for n in range(4)}
        crew.reports_until(lambda seen: long <= of_kind(seen, ReportKind.CLAIMED))
        waiting = {f"waiting {n}" for n in range(4)}
        for task_id in waiting:
            crew.put(app.noop.bind(), task_id, "default")
        # Each has been everywhere by then.
        crew.reports_until(
            lambda seen: (
                waiting
                <= {r.task_id for _, r in seen if r.kind is ReportKind.RELEASED and r.attempt > ROUNDS}
            )
        )
        gate.touch()
        opened_ms = now_ms()
        ended = [h for h in crew.outcomes(*waiting) if h.outcome.terminal]
        assert all(worker.returncode is None for worker in workers)
    late = sorted(h.started_ms - opened_ms for h in ended)
    show("all full, then free", late_ms=late)
    # With pauses at the dispatcher it was up to 10 s.
    assert late[-1] < 1_000 * HOLD_S + GATE_MS + PROMISE_MS


@contextmanager
def cut_off(command: list[str], bootstrap: str, scratch: Path) -> Iterator[tuple[ManagedProcess, Link]]:
    """The process behind a link, or no test where there can be none."""
    with ExitStack() as running:
        try:
            linked = running.enter_context(linked_process(command, bootstrap, scratch, "apart"))
        except NoNetwork as reason:
            pytest.skip(str(reason))
        yield linked


@contextmanager
def in_flight(crew: Crew, gate: Path) -> Iterator[set[str]]:
    """Hundreds of runs, claimed, on two workers; afterwards each is let go and ends as its first attempt."""
    tasks = {f"run {n}" for n in range(IN_FLIGHT)}
    with crew.workers("default", "a", "b", options=[f"--concurrency={IN_FLIGHT}"]):
        call, start = app.until_open_async.bind(str(gate)), now_ms()
        for task_id in tasks:
            crew.put_later(call, task_id, "default", start)
        crew.flush()
        crew.reports_until(lambda seen: tasks <= of_kind(seen, ReportKind.CLAIMED))
        crew.wait_applied()
        yield tasks
        gate.touch()
        history = crew.outcomes(*tasks)
    assert Counter((h.attempt, h.outcome) for h in history) == {(1, Outcome.SUCCEEDED): len(tasks)}
    assert len(crew.history_now(*tasks)) == len(tasks)


def await_heartbeats(crew: Crew, tasks: set[str], from_ms: int) -> None:
    """Until each was heard of at that time or later."""
    crew.reports_until(lambda seen: tasks <= of_kind(seen, ReportKind.HEARTBEAT, from_ms))


def of_kind(seen: list[Said], kind: ReportKind, from_ms: int = 0) -> set[str]:
    """The tasks of such reports, said at `from_ms` or later."""
    return {r.task_id for _, r in seen if r.kind is kind and r.ended_ms >= from_ms}
