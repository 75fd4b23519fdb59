"""`pipeline`: tasks a second from `schedule_many` to their recorded outcomes, all parts at work at once.

A client schedules tasks that are due at once; dispatcher processes apply the commands, dispatch the work,
workers run a handler that does nothing and report, dispatchers record the outcomes. The clock runs from the
client's first call to the dispatcher's last outcome.

The floor is what the broker and the clients' own code cost without the product, stage by stage, each alone
on the machine: the client's messages produced raw, records copied in transactions (1 in, 2 out) once for the
dispatch and once for the outcome, and a plain consumer loop that reports. One after the other that takes
`serial_per_s`, the main floor: the product's stages share two processors with each other and the broker, as
the floor's would have to. `slowest_stage_per_s` is the floor if they did not.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterable
from typing import Final, NamedTuple

from bench.cluster import BUCKETS
from bench.environment import cpu_s
from bench.harness import Bench, Benchmark, Figures, Result
from bench.outcomes import Account, account
from bench.raw import produce, runs
from bench.raw.configuration import PRODUCER
from bench.raw.consuming import CONSUMING, consume_and_report
from bench.raw.records import HANDLER, command_messages, payload, work_messages
from bench.stats import ratio
from bench.system import CONCURRENCY, DISPATCHERS, System, system
from bench.worker import elsewhere
from tickstream.errors import SendFailed
from tickstream.ingest import Client, Item
from tickstream.model import DEFAULT_QUEUE
from tickstream.settings import Settings
from tickstream.topics import TopicNames

TASKS: Final = 60_000
WORKERS: Final = 1
WARM_UP: Final = 4_000
"""Tasks that go before: connections, compiled code and stores are not to be measured."""
_AT_LEAST_PER_S: Final = 400
"""A system that is slower is not waited for."""
_SETTLE_S: Final = 30.0


class _Ran(NamedTuple):
    """What the system did."""

    account: Account
    began_ms: float
    accepted_s: float
    """Until the client had every acknowledgement."""
    dispatchers_cpu_s: float
    workers_cpu_s: float
    alarms: int


def run(bench: Bench) -> Result:
    """The floor's stages, then the system."""
    count = 10_000 if bench.quick else bench.options.tasks
    floor = _floor(bench, count)
    ran = _system(bench, count)
    ended = ran.account.ran
    if not ended:
        raise SendFailed(f"none of {count} tasks ran")
    decided_s = (max(h.decided_ms for h in ended) - ran.began_ms) / 1_000
    ended_s = (max(h.at_ms for h in ended) - ran.began_ms) / 1_000
    per_s = len(ended) / ended_s
    lost, duplicates, early = ran.account.lost, ran.account.duplicates, ran.account.early
    return Result(
        metrics={
            "pipeline_per_s": round(per_s),
            "accepted_s": round(ran.accepted_s, 2),
            "dispatched_s": round(decided_s, 2),
            "ended_s": round(ended_s, 2),
            "dispatchers_cpu_s": round(ran.dispatchers_cpu_s, 2),
            "workers_cpu_s": round(ran.workers_cpu_s, 2),
            "tasks": count,
            "ran": len(ended),
            "lost": lost,
            "duplicates": duplicates,
            "early": early,
            "alarms": ran.alarms,
        },
        floor=floor,
        ratio={
            "floor": ratio(per_s, floor["serial_per_s"]),
            "slowest_stage": ratio(per_s, floor["slowest_stage_per_s"]),
        },
        settings={
            "producer": PRODUCER,
            "consumer": CONSUMING,
            "transactional": runs.transactional_settings(),
            "system": {
                "dispatcher_processes": DISPATCHERS,
                "worker_processes": bench.options.workers,
                "worker_concurrency": CONCURRENCY,
            },
        },
        ok=not (lost or duplicates or early),
    )


def _floor(bench: Bench, count: int) -> Figures:
    bench.say(f"floor: {count} messages produced, copied in transactions, consumed and reported")
    settings = bench.cluster.installation("floor")
    names = TopicNames(settings.prefix)
    commands = command_messages(count, BUCKETS)
    produced = produce.acked_per_s(settings, names.commands, commands)
    copied = runs.transactional_per_s(settings, min(runs.ends(settings, names.commands).values()))
    # A fresh installation: the copies above lie in the work topic, and are no Work records.
    plain = bench.cluster.installation("plain")
    topic = TopicNames(plain.prefix).work(DEFAULT_QUEUE)
    starts = runs.ends(plain, topic)
    produce.all_acked(plain, topic, work_messages(count, BUCKETS))
    consumed = elsewhere(consume_and_report, plain, starts, count).per_s
    serial = 1 / (1 / produced + 2 / copied + 1 / consumed)
    return {
        "produce_per_s": round(produced),
        "transactional_per_s": round(copied),
        "plain_per_s": round(consumed),
        "serial_per_s": round(serial),
        "slowest_stage_per_s": round(min(produced, copied / 2, consumed)),
    }


def _system(bench: Bench, count: int) -> _Ran:
    settings = bench.cluster.installation("system")
    bench.say(
        f"{DISPATCHERS} dispatcher processes, {bench.options.workers} workers, {count} tasks due at once"
    )
    with system(settings, workers=bench.options.workers) as running:
        warm = _schedule(settings, "warm", WARM_UP)
        account(settings, warm, until_s=_patience(WARM_UP))
        before = _cpu_s(running)
        began = time.time()
        scheduled = _schedule(settings, "pipe", count)
        accepted_s = time.time() - began
        found = account(settings, scheduled, until_s=_patience(count), records=WARM_UP + count)
        after = _cpu_s(running)
        alarms = running.alarms(int(began * 1_000))
    for alarm in alarms:
        bench.say(f"not clean: {dict(alarm)}")
    dispatchers, workers = (used - had for used, had in zip(after, before, strict=True))
    return _Ran(found, began * 1_000, accepted_s, dispatchers, workers, len(alarms))


def _schedule(settings: Settings, name: str, count: int) -> dict[str, int]:
    """Tasks due now; task_id → run_at, ms."""
    choice, now_ms = random.Random(3), time.time_ns() // 1_000_000
    scheduled = {f"{name}:{i:07d}": now_ms for i in range(count)}
    items: Iterable[Item] = (
        Item(task_id, run_at_ts=now_ms, payload=payload(choice), handler=HANDLER) for task_id in scheduled
    )
    with Client(settings) as client:
        refused = [result for result in client.schedule_many(items) if result.error is not None]
    if refused:
        raise SendFailed(f"{len(refused)} of {count} tasks were not accepted; the first: {refused[0].error}")
    return scheduled


def _patience(count: int) -> float:
    """The wall clock (s) until which `count` tasks are waited for."""
    return time.time() + _SETTLE_S + count / _AT_LEAST_PER_S


def _cpu_s(running: System) -> tuple[float, float]:
    return sum(map(cpu_s, running.dispatcher_pids)), sum(map(cpu_s, running.worker_pids))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tasks", type=int, default=TASKS, help="scheduled at once (%(default)s)")
    parser.add_argument("--workers", type=int, default=WORKERS, help="worker processes (%(default)s)")


BENCHMARK: Final = Benchmark(
    "pipeline", "schedule → due → run → outcome, tasks a second with all parts at work", run, _options
)
