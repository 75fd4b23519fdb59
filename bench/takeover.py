"""`takeover`: a worker is killed in the middle of a task; how soon does the next attempt start elsewhere?

Each task has a queue and two workers to itself, so a kill meets one run. An attempt that is well
under way has its worker killed; once the next one has started, the dead worker is replaced. After three
kills the task is left to end. Lease and retries are the defaults.
"""

from __future__ import annotations

import random
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from bench.cluster import BUCKETS
from bench.handlers import lasting
from bench.harness import Bench, Benchmark, Result
from bench.outcomes import account
from bench.raw import echo
from bench.stats import percentile, ratio
from bench.system import start_worker, system
from tickstream.codec import decode_history
from tickstream.errors import SendFailed
from tickstream.ingest import Client
from tickstream.model import DEFAULT_TERMS, History, Outcome
from tickstream.ops.processes import ManagedProcess
from tickstream.settings import Settings
from tickstream.topics import TopicNames

TASKS: Final = 7
KILLS: Final = 3
"""Of each task's workers: fewer than the attempts that the policy allows."""
WORKERS: Final = 2
"""Of each queue."""
TASK_S: Final = 10.0
INTO_S: Final = (1.5, 5.5)
"""From a start to the kill, at random: the last heartbeat is then of any age."""
_LEAD_S: Final = 1.0
_SOON_S: Final = 60.0
"""By then the next attempt has started, or none will."""
_READY_S: Final = 60.0


class Kill(NamedTuple):
    """A worker's end and what followed. Wall clock, ms."""

    task_id: str
    attempt: int
    killed_ms: int
    started_ms: int
    """Of the next attempt."""


class _Start(NamedTuple):
    task_id: str
    attempt: int
    pid: int
    at_ms: int


def run(bench: Bench) -> Result:
    """Kill, wait for the next attempt, kill again; all tasks at the same time."""
    tasks = 2 if bench.quick else TASKS
    kills = 1 if bench.quick else KILLS
    queues = tuple(f"takeover{n}" for n in range(tasks))
    settings = bench.cluster.installation("takeover", queues=queues)
    bench.say(f"{tasks} tasks with {WORKERS} workers each; {kills} kills of each")
    with tempfile.TemporaryDirectory(prefix="tickstream-bench-") as directory:
        journal = Path(directory) / "starts"
        journal.touch()
        with system(settings, workers=0) as running, ExitStack() as owned:
            stages = [_Stage(settings, queue, journal, kills, owned) for queue in queues]
            for stage in stages:
                stage.wait_ready()
            run_at = int((time.time() + _LEAD_S) * 1_000)
            _schedule(settings, stages, run_at)
            with ThreadPoolExecutor(tasks) as threads:
                found = [kill for killed in threads.map(_Stage.play, stages) for kill in killed]
            scheduled = {stage.task_id: run_at for stage in stages}
            told = account(
                settings,
                scheduled,
                queues=queues,
                records=len(found) + tasks,
                until_s=time.time() + TASK_S + _SOON_S,
            )
            alarms = running.alarms(run_at)
    for alarm in alarms:
        bench.say(f"not clean: {dict(alarm)}")
    return _result(found, _expiries(settings), told.lost, told.double_outcomes, told.duplicates, len(alarms))


class _Stage:
    """One task, its queue and its workers."""

    def __init__(self, settings: Settings, queue: str, journal: Path, kills: int, owned: ExitStack) -> None:
        self.task_id = f"{queue}:task"
        self.queue = queue
        self.journal = journal
        self._settings = settings
        self._kills = kills
        self._owned = owned
        self._choice = random.Random(queue)
        self._workers = {w.pid: w for w in [self._start() for _ in range(WORKERS)]}

    def wait_ready(self) -> None:
        """Wait until all workers have joined their group. Raises ProcessFailed."""
        for worker in self._workers.values():
            worker.wait_event("ready", _READY_S)

    def _start(self) -> ManagedProcess:
        return self._owned.enter_context(start_worker(self._settings, self.queue, queue=self.queue))

    def play(self) -> list[Kill]:
        """The kills of this stage, each with the start of the next attempt."""
        found: list[Kill] = []
        start = self._wait_start(1)
        for attempt in range(1, self._kills + 1):
            time.sleep(max(0.0, start.at_ms / 1_000 + self._choice.uniform(*INTO_S) - time.time()))
            victim = self._workers.pop(start.pid)
            killed_ms = time.time_ns() // 1_000_000
            victim.kill()
            start = self._wait_start(attempt + 1)
            # Not before: a newcomer makes its group share out the dead one's partitions sooner.
            replacement = self._start()
            self._workers[replacement.pid] = replacement
            found.append(Kill(self.task_id, attempt, killed_ms, start.at_ms))
        return found

    def _wait_start(self, attempt: int) -> _Start:
        deadline = time.monotonic() + _SOON_S
        while time.monotonic() < deadline:
            for line in self.journal.read_text().splitlines():
                task_id, number, pid, at_ms = line.split()
                if (task_id, int(number)) == (self.task_id, attempt):
                    return _Start(task_id, attempt, int(pid), int(at_ms))
            time.sleep(0.01)
        raise SendFailed(f"attempt {attempt} of {self.task_id} did not start within {_SOON_S:g} s")


def _schedule(settings: Settings, stages: list[_Stage], run_at_ms: int) -> None:
    with Client(settings) as client:
        for stage in stages:
            call = lasting.bind(str(stage.journal), TASK_S)
            client.schedule(stage.task_id, run_at_ts=run_at_ms, call=call, queue=stage.queue).receipt()


def _expiries(settings: Settings) -> dict[tuple[str, int], History]:
    """The expired leases, by task and attempt."""
    messages = echo.read_all(settings, TopicNames(settings.prefix).history, BUCKETS)
    records = [decode_history(message.value) for message in messages]
    return {(h.task_id, h.attempt): h for h in records if h.outcome is Outcome.LEASE_EXPIRED}


def _result(
    kills: list[Kill],
    expiries: dict[tuple[str, int], History],
    lost: int,
    double_outcomes: int,
    duplicates: int,
    alarms: int,
) -> Result:
    whole = [kill.started_ms - kill.killed_ms for kill in kills]
    expired = [expiries[kill.task_id, kill.attempt].at_ms for kill in kills]
    until_expiry = [at_ms - kill.killed_ms for kill, at_ms in zip(kills, expired, strict=True)]
    until_start = [kill.started_ms - at_ms for kill, at_ms in zip(kills, expired, strict=True)]
    return Result(
        metrics={
            "worker_takeover_p50_ms": percentile(whole, 0.5),
            "worker_takeover_max_ms": max(whole),
            "lease_ms": DEFAULT_TERMS.lease_ms,
            "kills": len(kills),
            "killed_to_expired_p50_ms": percentile(until_expiry, 0.5),
            "killed_to_expired_max_ms": max(until_expiry),
            "expired_to_started_p50_ms": percentile(until_start, 0.5),
            "expired_to_started_max_ms": max(until_start),
            "lost": lost,
            "duplicates": duplicates,
            "double_outcomes": double_outcomes,
            "alarms": alarms,
        },
        floor={"lease_ms": DEFAULT_TERMS.lease_ms},
        ratio={"floor": ratio(max(whole), DEFAULT_TERMS.lease_ms)},
        settings={
            "system": {
                "tasks": len({kill.task_id for kill in kills}),
                "workers_per_task": WORKERS,
                "task_s": TASK_S,
                "killed_after_s": list(INTO_S),
            }
        },
        ok=not (lost or double_outcomes or duplicates),
    )


BENCHMARK: Final = Benchmark(
    "takeover", "SIGKILL of a worker in the middle of a task → the next attempt starts", run
)
