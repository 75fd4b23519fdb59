"""`scale`: ten million live timers in one dispatcher process: memory, disk, idle time, lateness, restart.

The timers are written into the store directly, in its real format; the floor of every figure that can
have one is the same dispatcher with an empty store, in the same run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from rocksdict import Options, Rdict

from bench import bulk
from bench.cluster import BUCKETS
from bench.harness import Bench, Benchmark, Result
from bench.idle import PRODUCTION, Quiet, quiet
from bench.lateness import schedule, split
from bench.outcomes import Account, account
from bench.raw.records import PAYLOAD_BYTES
from bench.stats import ratio
from bench.system import alarms, start_dispatcher, start_worker, wait_active
from tickstream.codec import SPEC, STATE, encode_spec, encode_state, timers_key
from tickstream.errors import SendFailed
from tickstream.settings import Settings

COUNT: Final = 10_000_000
PRODUCTION_SHARE: Final = 10
"""In the production layout only so much less: idle, what waits costs nothing, which the dev layout shows."""
RATE_PER_S: Final = 200
SECONDS: Final = 20.0
IDLE_S: Final = 20.0
_SETTLE_S: Final = 5.0
_WARM_UP_S: Final = 3.0
_LEAD_S: Final = 4.0
_DRAIN_S: Final = 15.0
_READY_S: Final = 120.0
_WEEK_MS: Final = 7 * 24 * 3_600_000


class _Held(NamedTuple):
    """A dispatcher with what it holds."""

    restart_s: float
    idle: Quiet
    late: dict[str, float]
    account: Account
    alarms: int
    rss_bytes: int
    """After the run at the rate."""


def run(bench: Bench) -> Result:
    """Build, compact, weigh; then the empty dispatcher and the full one, each idle and at a rate."""
    count = 50_000 if bench.quick else bench.options.n
    empty = _hold(bench, bench.cluster.installation("empty"), None, "empty")
    settings = bench.cluster.installation("full")
    with tempfile.TemporaryDirectory(prefix="tickstream-bench-") as data:
        store = Path(data) / "0" / "store"
        bench.say(f"{count} timers into a store")
        build_s, compact_s = _in_own_process(settings, store, count)
        disk = sum(file.stat().st_size for file in store.rglob("*") if file.is_file())
        full = _hold(bench, settings, Path(data), f"{count} timers")
    production = _production(bench, count // PRODUCTION_SHARE)
    per_timer = disk / count
    sins = [run.account.lost + run.account.duplicates + run.account.early for run in (empty, full)]
    return Result(
        metrics={
            "timers": count,
            "rss_bytes": full.rss_bytes,
            "idle_rss_bytes": full.idle.rss_bytes,
            "disk_bytes": disk,
            "disk_timer_bytes": round(per_timer, 1),
            "disk_beyond_payload_bytes": round(per_timer - PAYLOAD_BYTES, 1),
            "topic_timer_bytes": _topic_bytes(),
            "idle_cpu_pct": full.idle.cpu_pct,
            "production_idle_cpu_pct": production.cpu_pct,
            "restart_s": full.restart_s,
            **full.late,
            "lost": full.account.lost,
            "duplicates": full.account.duplicates,
            "early": full.account.early,
            "alarms": full.alarms,
            "build_s": round(build_s, 1),
            "compact_s": round(compact_s, 1),
        },
        floor={
            "empty_rss_bytes": empty.rss_bytes,
            "empty_idle_cpu_pct": empty.idle.cpu_pct,
            "empty_restart_s": empty.restart_s,
            **{f"empty_{name}": value for name, value in empty.late.items()},
        },
        ratio={
            "floor": ratio(full.late["p99_ms"], empty.late["p99_ms"]),
            "p50": ratio(full.late["p50_ms"], empty.late["p50_ms"]),
            "p99": ratio(full.late["p99_ms"], empty.late["p99_ms"]),
        },
        settings={
            "system": {"dispatcher_processes": 1, "worker_processes": 1, "rate_per_s": RATE_PER_S},
            "production": {**PRODUCTION._asdict(), "timers": count // PRODUCTION_SHARE},
        },
        ok=not any(sins),
    )


# --------------------------------------------------------------------------- the store


def _in_own_process(
    settings: Settings, store: Path, count: int, buckets: int = BUCKETS
) -> tuple[float, float]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(build, settings, store, count, buckets).result()


def build(settings: Settings, store: Path, count: int, buckets: int) -> tuple[float, float]:
    """Write and compact the store; the seconds that each took."""
    began, now = time.perf_counter(), int(time.time() * 1_000)
    far = now + _WEEK_MS
    bulk.fill_store(settings, store, count, lambda n: far + n, now_ms=now, buckets=buckets)
    built = time.perf_counter()
    options, families = Options.load_latest(str(store))
    db = Rdict(str(store), options, column_families=families)
    for name in families:
        db.get_column_family(name).compact_range(None, None)
    db.close()
    return built - began, time.perf_counter() - built


def _topic_bytes() -> int:
    """Keys and values of one timer in the changelog; the log's own framing is some ten bytes a record more."""
    number = 1
    spec, state = bulk.spec_and_state(number, int(time.time() * 1_000))
    records = ((SPEC, encode_spec(spec)), (STATE, encode_state(state)))
    return sum(len(timers_key(kind, bulk.task_id(number))) + len(value) for kind, value in records)


# --------------------------------------------------------------------------- the dispatcher


def _hold(bench: Bench, settings: Settings, data: Path | None, what: str) -> _Held:
    """Start it, twice; leave it alone; let tasks fall due at the rate."""
    seconds = 3.0 if bench.quick else bench.options.seconds
    idle_s = 3.0 if bench.quick else bench.options.idle_seconds
    with tempfile.TemporaryDirectory(prefix="tickstream-bench-") as scratch:
        directory = data or Path(scratch)
        # The first start claims and writes; what is measured is a restart.
        with start_dispatcher(settings, directory) as dispatcher:
            wait_active(dispatcher, timeout_s=_READY_S)
        began = time.time()
        with start_dispatcher(settings, directory) as dispatcher:
            active = wait_active(dispatcher, timeout_s=_READY_S)
            restart_s = max(event["at_ms"] for event in active) / 1_000 - began
            bench.say(f"{what}: idle for {idle_s:g} s")
            time.sleep(_SETTLE_S)
            idle = quiet(settings, dispatcher.pid, bench.cluster.owned_pids, BUCKETS, idle_s)
            bench.say(f"{what}: {RATE_PER_S} tasks a second for {seconds:g} s")
            with start_worker(settings, "worker") as worker:
                worker.wait_event("ready", _READY_S)
                start = time.time() + _LEAD_S
                end = start + _WARM_UP_S + seconds
                scheduled = schedule(settings, round(RATE_PER_S * (_WARM_UP_S + seconds)), start, end)
                found = account(settings, scheduled, until_s=end + _DRAIN_S)
            told = alarms(dispatcher, start * 1_000)
            resident = quiet(settings, dispatcher.pid, (), BUCKETS, 1.0).rss_bytes
    for alarm in told:
        bench.say(f"not clean: {dict(alarm)}")
    measured = [h for h in found.ran if h.occurrence_ts >= (start + _WARM_UP_S) * 1_000]
    if not measured:
        raise SendFailed(f"none of {len(scheduled)} tasks ran")
    return _Held(round(restart_s, 2), idle, split(measured), found, len(told), resident)


def _production(bench: Bench, count: int) -> Quiet:
    """A dispatcher in the production layout, left alone with `count` timers."""
    idle_s = 3.0 if bench.quick else bench.options.idle_seconds
    settings = bench.cluster.installation("production", buckets=PRODUCTION.buckets, lanes=PRODUCTION.lanes)
    bench.say(f"production: {PRODUCTION.buckets} buckets in {PRODUCTION.lanes} lanes, {count} timers, idle")
    with tempfile.TemporaryDirectory(prefix="tickstream-bench-") as data:
        _in_own_process(settings, Path(data) / "0" / "store", count, PRODUCTION.buckets)
        with start_dispatcher(settings, Path(data)) as dispatcher:
            wait_active(dispatcher, lanes=PRODUCTION.lanes, timeout_s=_READY_S)
            time.sleep(_SETTLE_S)
            return quiet(settings, dispatcher.pid, bench.cluster.owned_pids, PRODUCTION.buckets, idle_s)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--n", type=int, default=COUNT, help="timers (%(default)s)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="at the rate (%(default)s)")
    parser.add_argument("--idle-seconds", type=float, default=IDLE_S, help="with nothing due (%(default)s)")


BENCHMARK: Final = Benchmark("scale", "ten million timers in one process, beside an empty one", run, _options)
