"""`takeover`: a worker fails in the middle of a task; how soon does the next attempt start elsewhere?

Each task has a queue and two workers to itself, so a strike meets one run. An attempt that is well
under way has its worker killed (or stopped, or cut off; a handler that hangs does so from its start);
once the next one has started, the worker is replaced (or goes on), and after some strikes the task is left
to end. One ailment after the other; lease and retries are the defaults, but for the handler with a timeout.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from bench.ailments import AILMENTS, KILLED, TASK_S, Ailment, Worker, worker_of
from bench.cluster import BUCKETS
from bench.harness import Bench, Benchmark, Result
from bench.outcomes import Account, account
from bench.raw import echo
from bench.stats import percentile, ratio
from bench.system import system
from tickstream.codec import decode_history, decode_reports
from tickstream.errors import SendFailed
from tickstream.ingest import Client
from tickstream.model import DEFAULT_TERMS, Outcome, ReportKind
from tickstream.settings import Settings
from tickstream.topics import TopicNames

TASKS: Final = {KILLED.name: 7}
TASKS_ELSE: Final = 3
"""At the same time, of one ailment."""
STRIKES: Final = {KILLED.name: 3}
STRIKES_ELSE: Final = 2
"""Of each task: fewer than the attempts that the policy allows."""
WORKERS: Final = 2
"""Of each queue."""
INTO_S: Final = (1.5, 5.5)
"""From a start to the strike, at random: the last heartbeat is then of any age."""
_LEAD_S: Final = 1.0
_SOON_S: Final = 60.0
"""By then the next attempt has started, or none will."""
_READY_S: Final = 60.0


class Strike(NamedTuple):
    """What befell a worker and what followed. Wall clock, ms."""

    task_id: str
    attempt: int
    struck_ms: int
    """When it failed; of a handler with a timeout: when that was over."""
    started_ms: int
    """Of the next attempt."""


class _Start(NamedTuple):
    task_id: str
    attempt: int
    pid: int
    at_ms: int


class _Plan(NamedTuple):
    """The tasks of one ailment."""

    ailment: Ailment
    queues: tuple[str, ...]
    strikes: int


def run(bench: Bench) -> Result:
    """Every ailment that was asked for; strike, wait for the next attempt, strike again."""
    plans = [_plan(AILMENTS[name], bench.quick) for name in bench.options.ailments]
    queues = tuple(queue for plan in plans for queue in plan.queues)
    settings = bench.cluster.installation("takeover", queues=queues)
    found: dict[str, list[Strike]] = {}
    with tempfile.TemporaryDirectory(prefix="tickstream-bench-") as directory:
        journal = Path(directory) / "starts"
        journal.touch()
        with system(settings, workers=0) as running:
            scheduled: dict[str, int] = {}
            began_ms = time.time() * 1_000
            for plan in plans:
                bench.say(f"{plan.ailment.name}: {len(plan.queues)} tasks, {plan.strikes} strikes each")
                before = sum(map(len, found.values()))
                found[plan.ailment.name] = _play(settings, plan, journal, scheduled, before)
            told = account(
                settings,
                scheduled,
                queues=queues,
                records=sum(map(len, found.values())) + len(scheduled),
                until_s=time.time() + TASK_S + _SOON_S,
            )
            alarms = running.alarms(int(began_ms))
    for alarm in alarms:
        bench.say(f"not clean: {dict(alarm)}")
    return _result(found, _expiries(settings), _late(settings), told, len(alarms))


def _plan(ailment: Ailment, quick: bool) -> _Plan:
    tasks = 2 if quick else TASKS.get(ailment.name, TASKS_ELSE)
    strikes = 1 if quick else STRIKES.get(ailment.name, STRIKES_ELSE)
    return _Plan(ailment, tuple(f"{ailment.name}{n}" for n in range(tasks)), strikes)


def _play(
    settings: Settings, plan: _Plan, journal: Path, scheduled: dict[str, int], before: int
) -> list[Strike]:
    """All tasks of one ailment at the same time; adds them to `scheduled`. `before`: strikes up to now."""
    with ExitStack() as owned:
        stages = [_Stage(settings, plan, queue, journal, owned) for queue in plan.queues]
        for stage in stages:
            stage.wait_ready()
        run_at = int((time.time() + _LEAD_S) * 1_000)
        with Client(settings) as client:
            for stage in stages:
                stage.schedule(client, run_at)
        scheduled |= {stage.task_id: run_at for stage in stages}
        with ThreadPoolExecutor(len(stages)) as threads:
            struck = [strike for strikes in threads.map(_Stage.play, stages) for strike in strikes]
        # The workers stay for the last attempts, and for what is said late.
        records = before + len(struck) + len(scheduled)
        account(settings, scheduled, queues=(), records=records, until_s=time.time() + TASK_S + _SOON_S)
    return struck


class _Stage:
    """One task, its queue and its workers."""

    def __init__(self, settings: Settings, plan: _Plan, queue: str, journal: Path, owned: ExitStack) -> None:
        self.task_id = f"{queue}:task"
        self.queue = queue
        self._ailment = plan.ailment
        self._strikes = plan.strikes
        self._journal = journal
        self._settings = settings
        self._owned = owned
        self._choice = random.Random(queue)
        self._workers = {w.process.pid: w for w in [self._start() for _ in range(WORKERS)]}

    def wait_ready(self) -> None:
        """Wait until all workers have joined their group. Raises ProcessFailed."""
        for worker in self._workers.values():
            worker.process.wait_event("ready", _READY_S)

    def schedule(self, client: Client, run_at_ms: int) -> None:
        """Its task."""
        call = self._ailment.call(str(self._journal), self._strikes)
        client.schedule(
            self.task_id,
            run_at_ts=run_at_ms,
            call=call,
            queue=self.queue,
            timeout=self._ailment.timeout,
            retry=self._ailment.retry,
        ).receipt()

    def _start(self) -> Worker:
        return self._owned.enter_context(worker_of(self._settings, self.queue, linked=self._ailment.linked))

    def play(self) -> list[Strike]:
        """The strikes of this stage, each with the start of the next attempt."""
        found: list[Strike] = []
        start = self._wait_start(1)
        for attempt in range(1, self._strikes + 1):
            victim = self._workers[start.pid]
            struck_ms = self._strike(victim, start)
            start = self._wait_start(attempt + 1)
            if not self._ailment.recover(victim):
                # Not before: a newcomer makes its group share out the dead one's partitions sooner.
                del self._workers[victim.process.pid]
                replacement = self._start()
                self._workers[replacement.process.pid] = replacement
            found.append(Strike(self.task_id, attempt, struck_ms, start.at_ms))
        return found

    def _strike(self, victim: Worker, start: _Start) -> int:
        """Bring it about; when it happened (wall clock, ms)."""
        if self._ailment.at_start:
            timeout = self._ailment.timeout
            return start.at_ms + (0 if timeout is None else int(timeout.total_seconds() * 1_000))
        time.sleep(max(0.0, start.at_ms / 1_000 + self._choice.uniform(*INTO_S) - time.time()))
        struck_ms = time.time_ns() // 1_000_000
        self._ailment.strike(victim)
        return struck_ms

    def _wait_start(self, attempt: int) -> _Start:
        deadline = time.monotonic() + _SOON_S
        while time.monotonic() < deadline:
            for line in self._journal.read_text().splitlines():
                task_id, number, pid, at_ms = line.split()
                if (task_id, int(number)) == (self.task_id, attempt):
                    return _Start(task_id, attempt, int(pid), int(at_ms))
            time.sleep(0.01)
        raise SendFailed(f"attempt {attempt} of {self.task_id} did not start within {_SOON_S:g} s")


_Attempt = tuple[str, int]


def _expiries(settings: Settings) -> dict[_Attempt, int]:
    """When the leases expired that did, ms, by task and attempt."""
    messages = echo.read_all(settings, TopicNames(settings.prefix).history, BUCKETS)
    records = [decode_history(message.value) for message in messages]
    return {(h.task_id, h.attempt): h.at_ms for h in records if h.outcome is Outcome.LEASE_EXPIRED}


def _late(settings: Settings) -> set[_Attempt]:
    """The attempts that said they had succeeded."""
    messages = echo.read_all(settings, TopicNames(settings.prefix).reports, BUCKETS)
    said = [report for message in messages for report in decode_reports(message.value).reports]
    return {(r.task_id, r.attempt) for r in said if r.kind is ReportKind.SUCCEEDED}


def _result(
    found: dict[str, list[Strike]],
    expiries: dict[_Attempt, int],
    succeeded: set[_Attempt],
    told: Account,
    alarms: int,
) -> Result:
    metrics: dict[str, float] = {}
    for name, strikes in found.items():
        whole = [strike.started_ms - strike.struck_ms for strike in strikes]
        metrics[f"{name}_takeover_p50_ms"] = percentile(whole, 0.5)
        metrics[f"{name}_takeover_max_ms"] = max(whole)
    metrics |= _split(found.get(KILLED.name, ()), expiries)
    metrics |= {
        "lease_ms": DEFAULT_TERMS.lease_ms,
        "kills": sum(map(len, found.values())),
        "late": len(succeeded & expiries.keys()),
        "lost": told.lost,
        "duplicates": told.duplicates,
        "double_outcomes": told.double_outcomes,
        "alarms": alarms,
    }
    longest = {name: metrics[f"{name}_takeover_max_ms"] for name in found}
    main = KILLED.name if KILLED.name in found else next(iter(found))
    return Result(
        metrics=metrics,
        floor={"lease_ms": DEFAULT_TERMS.lease_ms},
        ratio={
            "floor": ratio(longest[main], DEFAULT_TERMS.lease_ms),
            **{name: ratio(ms, DEFAULT_TERMS.lease_ms) for name, ms in longest.items() if name != main},
        },
        settings={
            "system": {
                "tasks": {name: len({s.task_id for s in strikes}) for name, strikes in found.items()},
                "workers_per_task": WORKERS,
                "task_s": TASK_S,
                "struck_after_s": list(INTO_S),
            }
        },
        ok=not (told.lost or told.double_outcomes or told.duplicates),
    )


def _split(kills: Sequence[Strike], expiries: dict[_Attempt, int]) -> dict[str, float]:
    """Where the time goes after a kill: to the recorded expiry, and from there to the start."""
    if not kills:
        return {}
    expired = [expiries[kill.task_id, kill.attempt] for kill in kills]
    until_expiry = [at_ms - kill.struck_ms for kill, at_ms in zip(kills, expired, strict=True)]
    until_start = [kill.started_ms - at_ms for kill, at_ms in zip(kills, expired, strict=True)]
    return {
        "killed_to_expired_p50_ms": percentile(until_expiry, 0.5),
        "killed_to_expired_max_ms": max(until_expiry),
        "expired_to_started_p50_ms": percentile(until_start, 0.5),
        "expired_to_started_max_ms": max(until_start),
    }


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ailments",
        nargs="+",
        choices=list(AILMENTS),
        default=list(AILMENTS),
        metavar="NAME",
        help="what happens to workers: worker (SIGKILL), stopped, partitioned, blocked (its event loop), "
        "hung (a handler, past its timeout); all of them unless named",
    )


BENCHMARK: Final = Benchmark(
    "takeover", "a worker fails in the middle of a task → the next attempt starts", run, _options
)
