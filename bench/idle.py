"""`idle`: what a dispatcher costs while nothing is due: processor time, and what it writes.

The floor writes the same Progress records, one transaction a lane and second, and does nothing else.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from bench import bulk
from bench.cluster import BUCKETS, LANES
from bench.environment import cpu_s, rss_bytes
from bench.harness import Bench, Benchmark, Result
from bench.raw import echo, runs
from bench.stats import ratio
from bench.system import start_dispatcher, wait_active
from tickstream.settings import Settings
from tickstream.topics import TopicNames

SECONDS: Final = 30.0
_SETTLE_S: Final = 3.0
_WEEK_MS: Final = 7 * 24 * 3_600_000
_TIMERS: Final = 1_000


class Layout(NamedTuple):
    """Into how much the topics are cut."""

    buckets: int
    lanes: int


PRODUCTION: Final = Layout(64, 16)
_LAYOUTS: Final = {"dev": Layout(BUCKETS, LANES), "production": PRODUCTION}


class Quiet(NamedTuple):
    """What some seconds of a dispatcher with nothing to do came to."""

    cpu_pct: float
    """Of one core."""
    broker_cpu_pct: float
    """Of its broker, 0 when that is not ours."""
    rss_bytes: int
    records_per_s: float
    """Into the changelog; control records are not counted."""
    bytes_per_s: float
    """Keys and values of those."""


def run(bench: Bench) -> Result:
    """One dispatcher with far timers, for the dev layout and for production's, and the floor of each."""
    seconds = 4.0 if bench.quick else bench.options.seconds
    metrics: dict[str, float] = {}
    floor: dict[str, float] = {}
    ratios: dict[str, float] = {}
    far = int(time.time() * 1_000) + _WEEK_MS
    for name, (buckets, lanes) in _LAYOUTS.items():
        bench.say(f"{name}: {buckets} buckets in {lanes} lanes, {seconds:g} s")
        bare = bench.cluster.installation(f"{name}floor", buckets=buckets, lanes=lanes)
        raw = runs.beating_cpu_s(bare, buckets=buckets, lane_count=lanes, seconds=seconds) / seconds * 100
        settings = bench.cluster.installation(name, buckets=buckets, lanes=lanes)
        if name == "dev":
            bulk.fill_changelog(settings, _TIMERS, lambda n: far + n)
        with (
            tempfile.TemporaryDirectory(prefix="tickstream-bench-") as data,
            start_dispatcher(settings, Path(data)) as dispatcher,
        ):
            wait_active(dispatcher, lanes=lanes)
            time.sleep(_SETTLE_S)
            found = quiet(settings, dispatcher.pid, bench.cluster.owned_pids, buckets, seconds)
        metrics |= {f"{name}_{figure}": value for figure, value in found._asdict().items()}
        floor[f"{name}_raw_cpu_pct"] = round(raw, 2)
        ratios[name] = ratio(found.cpu_pct, raw)
    return Result(
        metrics,
        floor,
        {"floor": ratios["dev"], **ratios},
        settings={
            "transactional": runs.transactional_settings() | {"processes": 1},
            "layouts": {name: list(layout) for name, layout in _LAYOUTS.items()},
        },
    )


def quiet(settings: Settings, pid: int, broker_pids: tuple[int, ...], buckets: int, seconds: float) -> Quiet:
    """Watch a dispatcher process for `seconds`."""
    began_ms = time.time() * 1_000
    before, broker_before = cpu_s(pid), sum(map(cpu_s, broker_pids))
    time.sleep(seconds)
    used, broker_used = cpu_s(pid) - before, sum(map(cpu_s, broker_pids)) - broker_before
    until_ms = time.time() * 1_000
    written = [
        len(message.key() or b"") + len(message.value() or b"")
        for message in echo.committed(settings, TopicNames(settings.prefix).timers, buckets)
        if began_ms <= message.timestamp()[1] <= until_ms
    ]
    return Quiet(
        round(used / seconds * 100, 2),
        round(broker_used / seconds * 100, 2),
        rss_bytes(pid),
        round(len(written) / seconds, 1),
        round(sum(written) / seconds),
    )


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each layout (%(default)s)")


BENCHMARK: Final = Benchmark("idle", "a dispatcher with nothing due: CPU, records and bytes", run, _options)
