"""`lateness`: how long after its instant a handler starts, over the whole path as real processes.

The floor runs before and after on the same broker: bare lanes fire timers at the same rate, and a
read-committed consumer takes them. No engine, no store and no worker is in it.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from bench.harness import Bench, Benchmark, Result
from bench.outcomes import Account, account
from bench.raw import echo, runs
from bench.raw.records import HANDLER, payload
from bench.stats import latency, ratio
from bench.system import CONCURRENCY, DISPATCHERS, System, Usage, system
from tickstream.errors import SendFailed
from tickstream.ingest import Client, Item
from tickstream.ingest.request import NO_LEAD
from tickstream.model import History
from tickstream.settings import Settings

RATE_PER_S: Final = 500
SECONDS: Final = 20.0
WARM_UP_S: Final = 3.0
WORKERS: Final = 2
_APPLY_PER_S: Final = 8_000
"""Commands a second that the system is trusted to apply before the first instant."""
_LEAD_S: Final = 3.0
_DRAIN_S: Final = 15.0


class _Lengths(NamedTuple):
    """How long each part runs, s."""

    measured: float
    warm_up: float
    floor: float
    """Each of the two runs of bare lanes; its first second is not counted."""
    echo: float


class _Run(NamedTuple):
    """What the system did."""

    account: Account
    measured: list[History]
    """Of the tasks that fell due after the warm-up."""
    scheduled: int
    dispatchers: Usage
    workers: Usage
    seconds: float
    alarms: int


def run(bench: Bench) -> Result:
    """Floor, system, floor; due → handler start of the system over that of the floor."""
    rate, lengths = bench.options.rate, _lengths(bench)
    bare = bench.cluster.installation("floor")
    floors = [_bare(bench, bare, rate, lengths)]
    bench.say(f"plain echo at {rate}/s")
    echoed = runs.echo_ms(bare, rate_per_s=rate, seconds=lengths.echo, warm_up_s=lengths.echo / 4)
    ran = _system(bench, bench.cluster.installation("system"), rate, lengths)
    if not bench.quick:
        floors.append(_bare(bench, bare, rate, lengths))
    late = split(ran.measured)
    floor = {
        **latency([ms for one in floors for ms in one.fetched_ms]),
        **latency([ms for one in floors for ms in one.committed_ms], "committed"),
        **latency(echoed, "echo"),
    }
    sins = ran.account.lost + ran.account.duplicates + ran.account.early
    return Result(
        metrics={
            "rate_per_s": rate,
            **late,
            "scheduled": ran.scheduled,
            "ran": len(ran.account.ran),
            "measured": len(ran.measured),
            "lost": ran.account.lost,
            "duplicates": ran.account.duplicates,
            "early": ran.account.early,
            "alarms": ran.alarms,
            "dispatchers_cpu_s": round(ran.dispatchers.cpu_s, 2),
            "dispatchers_rss_bytes": ran.dispatchers.rss_bytes,
            "workers_cpu_s": round(ran.workers.cpu_s, 2),
            "workers_rss_bytes": ran.workers.rss_bytes,
            "run_s": round(ran.seconds, 1),
        },
        floor=floor,
        ratio={
            "floor": ratio(late["p99_ms"], floor["p99_ms"]),
            "p50": ratio(late["p50_ms"], floor["p50_ms"]),
            "p99": ratio(late["p99_ms"], floor["p99_ms"]),
        },
        settings={
            "transactional": runs.transactional_settings(),
            "echo": echo.ECHO,
            "system": {
                "dispatcher_processes": DISPATCHERS,
                "worker_processes": bench.options.workers,
                "worker_concurrency": CONCURRENCY,
                "lead_ms": bench.options.lead,
            },
        },
        ok=sins == 0,
    )


def _lengths(bench: Bench) -> _Lengths:
    if bench.quick:
        return _Lengths(measured=3, warm_up=1, floor=2, echo=1)
    return _Lengths(measured=bench.options.seconds, warm_up=WARM_UP_S, floor=7, echo=4)


def _bare(bench: Bench, settings: Settings, rate: float, lengths: _Lengths) -> runs.TimerRun:
    bench.say(f"floor: bare lanes at {rate}/s for {lengths.floor:g} s")
    timed = runs.timers(
        settings, rate_per_s=rate, seconds=lengths.floor, warm_up_s=min(2.0, lengths.floor / 4)
    )
    if timed.lost or timed.duplicates or timed.early:
        raise SendFailed(
            f"the floor lost {timed.lost}, doubled {timed.duplicates} and was early with {timed.early}"
        )
    return timed


def _system(bench: Bench, settings: Settings, rate: float, lengths: _Lengths) -> _Run:
    bench.say(f"{DISPATCHERS} dispatcher processes, {bench.options.workers} workers")
    with system(settings, workers=bench.options.workers) as running:
        lead = timedelta(milliseconds=bench.options.lead)
        count = round(rate * (lengths.warm_up + lengths.measured))
        start = time.time() + lead.total_seconds() + _LEAD_S + count / _APPLY_PER_S
        end = start + lengths.warm_up + lengths.measured
        scheduled = schedule(settings, count, start, end, lead)
        if time.time() > start:
            raise SendFailed("scheduling took longer than the lead; is the machine this busy?")
        bench.say(f"{count} tasks scheduled, due over {end - start:g} s")
        _sleep_until(start)
        before = _usage(running)
        _sleep_until(end)
        after = _usage(running)
        found = account(settings, scheduled, until_s=end + _DRAIN_S, lead_ms=bench.options.lead)
        alarms = running.alarms(int(start * 1_000))
    for alarm in alarms:
        bench.say(f"not clean: {dict(alarm)}")
    counted_from = (start + lengths.warm_up) * 1_000
    measured = [history for history in found.ran if history.occurrence_ts >= counted_from]
    if not measured:
        raise SendFailed(f"none of {len(scheduled)} tasks ran; {running.dispatcher.output_tail()}")
    used = [Usage(a.cpu_s - b.cpu_s, a.rss_bytes) for a, b in zip(after, before, strict=True)]
    return _Run(found, measured, count, used[0], used[1], end - start, len(alarms))


def schedule(
    settings: Settings, count: int, start_s: float, end_s: float, lead: timedelta = NO_LEAD
) -> dict[str, int]:
    """Tasks at uniformly random instants in [start, end), to be sent `lead` ahead; task_id → run_at, ms."""
    choice = random.Random(11)
    scheduled = {f"late:{i:07d}": int(choice.uniform(start_s, end_s) * 1_000) for i in range(count)}
    items = (
        Item(task_id, run_at_ts=at_ms, payload=payload(choice), handler=HANDLER, lead=lead)
        for task_id, at_ms in scheduled.items()
    )
    with Client(settings) as client:
        refused = [result for result in client.schedule_many(items) if result.error is not None]
    if refused:
        raise SendFailed(f"{len(refused)} of {count} tasks were not accepted; the first: {refused[0].error}")
    return scheduled


def split(ran: Sequence[History]) -> dict[str, float]:
    """Due → started, and its parts, ms."""
    return {
        **latency([h.started_ms - h.occurrence_ts for h in ran]),
        **latency([h.decided_ms - h.occurrence_ts for h in ran], "due_to_decided"),
        **latency([h.fetched_ms - h.decided_ms for h in ran], "decided_to_fetched"),
        **latency([h.started_ms - h.fetched_ms for h in ran], "fetched_to_started"),
    }


def _usage(running: System) -> tuple[Usage, Usage]:
    return Usage.of(running.dispatcher_pids), Usage.of(running.worker_pids)


def _sleep_until(at_s: float) -> None:
    time.sleep(max(0.0, at_s - time.time()))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rate", type=int, default=RATE_PER_S, help="tasks due a second (%(default)s)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long is measured (%(default)s)")
    parser.add_argument(
        "--lead",
        type=int,
        default=0,
        metavar="MS",
        help="send work so far ahead of its instant (%(default)s)",
    )
    parser.add_argument("--workers", type=int, default=WORKERS, help="worker processes (%(default)s)")


BENCHMARK: Final = Benchmark("lateness", "due → handler start over the whole path, at a rate", run, _options)
