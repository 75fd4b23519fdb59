"""`tradeoffs`: buckets, lanes, processes and the time a batch stays open, against lateness, commits, CPU and take-over.

One row a configuration, each on topics of its own: left alone, then timers at a rate, then one of two processes
killed; then the limits of a transaction (bursts.py). The floor is a store partitioned by minute and polled, which is
computed: see `polled`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Consumer, TopicPartition

from bench import bulk, bursts
from bench.environment import cpu_s
from bench.harness import Bench, Benchmark, Result
from bench.raw.configuration import CONSUMER, with_cluster
from bench.scraped import commit_ms
from bench.stats import percentile, ratio
from bench.system import start_dispatcher, wait_active
from tickstream.codec import decode_work
from tickstream.errors import SendFailed
from tickstream.model import DEFAULT_QUEUE
from tickstream.ops.processes import ManagedProcess
from tickstream.settings import Settings
from tickstream.topics import TopicNames

RATE_PER_S: Final = 500
SECONDS: Final = 10.0
_IDLE_S: Final = 6.0
_LEAD_S: Final = 5.0
_PLACED_PER_S: Final = 4_000
_DRAIN_S: Final = 10.0
_READY_S: Final = 90.0
_MINUTE_S: Final = 60


class Shape(NamedTuple):
    """One configuration."""

    buckets: int
    lanes: int
    processes: int
    open_ms: int

    @property
    def name(self) -> str:
        """As figures are named."""
        return f"b{self.buckets}_l{self.lanes}_p{self.processes}_o{self.open_ms}"


SHAPES: Final = (
    Shape(8, 1, 1, 10),
    Shape(8, 2, 1, 10),
    Shape(8, 4, 1, 10),
    Shape(8, 8, 1, 10),
    Shape(4, 4, 1, 10),
    Shape(16, 4, 1, 10),
    Shape(64, 16, 1, 10),
    Shape(8, 4, 1, 2),
    Shape(8, 4, 1, 50),
    Shape(8, 4, 2, 10),
    Shape(64, 16, 2, 10),
)


class Row(NamedTuple):
    """What one configuration came to."""

    p50_ms: float
    """Due → in the hands of a read-committed consumer."""
    p99_ms: float
    commit_ms: float
    """The mean of its transactions, begun to committed."""
    idle_cpu_pct: float
    """Of one core, all processes together."""
    load_cpu_pct: float
    takeover_s: float
    """From SIGKILL of one of two processes until the other has all lanes; 0 for one process."""


class Polled(NamedTuple):
    """A store partitioned by minute, polled: computed."""

    p50_ms: float
    p99_ms: float
    held: int
    """Timers of the two minutes that have to be at hand."""


def polled(every_s: float, rate_per_s: float) -> Polled:
    """Lateness alone by waiting for the next poll, which meets an instant at random; reading is free here."""
    return Polled(every_s * 500, every_s * 990, round(2 * _MINUTE_S * rate_per_s))


def run(bench: Bench) -> Result:
    """Every shape in turn; the lines of docs/tradeoffs.md go to the terminal."""
    shapes = SHAPES[2:4] if bench.quick else SHAPES
    metrics: dict[str, float] = {"rate_per_s": bench.options.rate}
    rows: dict[Shape, Row] = {}
    for shape in shapes:
        bench.say(
            f"{shape.buckets} buckets, {shape.lanes} lanes, {shape.processes} processes, {shape.open_ms} ms"
        )
        row = rows[shape] = _measure(bench, shape)
        metrics |= {f"{shape.name}_{figure}": value for figure, value in row._asdict().items()}
    bench.say(
        "| buckets | lanes | processes | open ms | p50 ms | p99 ms | commit ms | idle CPU % | CPU % | take-over s |"
    )
    bench.say("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for shape, row in rows.items():
        bench.say("| " + " | ".join(f"{figure:g}" for figure in (*shape, *row)) + " |")
    metrics |= bursts.measured(bench)
    floor: dict[str, float] = {}
    for every_s in (0.1, 1.0, 5.0, 60.0):
        found = polled(every_s, bench.options.rate)
        floor |= {f"polled_{every_s:g}s_p50_ms": found.p50_ms, f"polled_{every_s:g}s_p99_ms": found.p99_ms}
        bench.say(
            f"polled every {every_s:g} s: p50 {found.p50_ms:g} ms, p99 {found.p99_ms:g} ms, {found.held} at hand"
        )
    usual = rows[Shape(8, 4, 1, 10)]
    return Result(metrics, floor, {"floor": ratio(usual.p50_ms, floor["polled_0.1s_p50_ms"])})


def _measure(bench: Bench, shape: Shape) -> Row:
    rate = bench.options.rate
    seconds = 3.0 if bench.quick else bench.options.seconds
    settings = bench.cluster.installation(shape.name, buckets=shape.buckets, lanes=shape.lanes)
    count = round(rate * seconds)
    with (
        tempfile.TemporaryDirectory(prefix="tickstream-bench-") as data,
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool,
        start_dispatcher(
            settings,
            Path(data),
            "--health-port=0",
            f"--batch-open-ms={shape.open_ms}",
            processes=shape.processes,
        ) as dispatcher,
    ):
        wait_active(dispatcher, lanes=shape.lanes, timeout_s=_READY_S)
        pids = dispatcher.child_pids if shape.processes > 1 else (dispatcher.pid,)
        idle = _cpu_pct(pids, lambda: time.sleep(2.0 if bench.quick else _IDLE_S))
        start_ms = int((time.time() + _LEAD_S + count / _PLACED_PER_S) * 1_000)
        until_s = start_ms / 1_000 + seconds + _DRAIN_S
        watching = pool.submit(watch, settings, shape.buckets, count, until_s)
        bulk.fill_commands(
            settings,
            range(count),
            lambda n: start_ms + int(n * 1_000 / rate),
            per_message=20,
            buckets=shape.buckets,
        )
        time.sleep(max(0.0, start_ms / 1_000 - time.time()))
        load = _cpu_pct(pids, lambda: time.sleep(seconds))
        late = watching.result()
        if len(late) < count:
            raise SendFailed(f"{shape.name}: {count - len(late)} of {count} timers did not come")
        commit = commit_ms(dispatcher)
        takeover_s = _take_over_s(dispatcher, shape.lanes) if shape.processes > 1 else 0.0
    return Row(
        round(percentile(late, 0.5), 1),
        round(percentile(late, 0.99), 1),
        round(commit, 1),
        round(idle, 1),
        round(load, 1),
        round(takeover_s, 2),
    )


def watch(settings: Settings, buckets: int, count: int, until_s: float) -> list[float]:
    """Due → fetched of the first `count` work records, ms; fewer when the wall clock says `until_s`."""
    consumer = Consumer(with_cluster(settings, {**CONSUMER, "isolation.level": "read_committed"}))
    topic = TopicNames(settings.prefix).work(DEFAULT_QUEUE)
    consumer.assign([TopicPartition(topic, bucket, 0) for bucket in range(buckets)])
    late: list[float] = []
    while len(late) < count and time.time() < until_s:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            late.append(time.time() * 1_000 - decode_work(message.value()).occurrence_ts)
    consumer.close()
    return late


def _cpu_pct(pids: tuple[int, ...], wait: Callable[[], None]) -> float:
    before, began = sum(map(cpu_s, pids)), time.monotonic()
    wait()
    return (sum(map(cpu_s, pids)) - before) / (time.monotonic() - began) * 100


def _take_over_s(dispatcher: ManagedProcess, lanes: int) -> float:
    """SIGKILL one process; until every lane that it had is active again."""
    owners: dict[int, int] = {}
    for event in dispatcher.events:
        if event["event"] == "lane_active":
            owners[event["lane"]] = event["pid"]
    victim = next(pid for pid in dispatcher.child_pids if pid in owners.values())
    lost = [lane for lane in range(lanes) if owners[lane] == victim]
    seen, killed = len(dispatcher.events), time.time()
    os.kill(victim, signal.SIGKILL)
    back = [
        dispatcher.wait_event(
            lambda e, lane=lane: e["event"] == "lane_active" and e["lane"] == lane, _READY_S, since=seen
        )
        for lane in lost
    ]
    return max(float(event["at_ms"]) for event in back) / 1_000 - killed


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rate", type=int, default=RATE_PER_S, help="timers due a second (%(default)s)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each row (%(default)s)")


BENCHMARK: Final = Benchmark(
    "tradeoffs",
    "buckets, lanes, processes and open batches against lateness, CPU and take-over",
    run,
    _options,
)
