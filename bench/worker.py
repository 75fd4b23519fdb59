"""`worker`: what one worker process gets done with handlers that do nothing, over a plain consumer loop.

The work topic is filled; then, round by round, three processes take the same records:

- the worker, as `tickstream worker run` starts it;
- *consume and report*, the floor: one thread that fetches read-committed, decodes each record and its
  body with fastavro, calls a function, and produces one array of reports a bucket and batch; five times a
  second it waits for the acknowledgements and commits. What anybody's own loop has to do so that the
  dispatcher hears of each run, and none is lost when it dies;
- *consume only*, which fetches and looks at nothing.

What the floor lacks is what a worker is for: slots, so that a slow handler holds up nobody; claims, leases
and timeouts; hand-backs; a group. No dispatcher runs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Final, NamedTuple

from bench.cluster import BUCKETS
from bench.environment import cpu_s
from bench.harness import Bench, Benchmark, Result
from bench.raw import produce, runs
from bench.raw.configuration import PRODUCER
from bench.raw.consuming import (
    CONSUMING,
    Rate,
    Starts,
    Told,
    committed,
    consume_and_report,
    consume_only,
    read_between,
)
from bench.raw.records import RawMessage, work_messages
from bench.stats import median, ratio
from bench.system import CONCURRENCY, start_worker
from tickstream.codec import decode_reports
from tickstream.errors import SendFailed
from tickstream.model import DEFAULT_QUEUE, ReportKind
from tickstream.settings import Settings
from tickstream.topics import TopicNames

RECORDS: Final = 100_000
ROUNDS: Final = 5
_READY_S: Final = 45.0
_LOOK_S: Final = 0.1
_AT_LEAST_PER_S: Final = 1_000
"""A worker that is slower is not waited for."""


def run(bench: Bench) -> Result:
    """Records a second of each, medians of interleaved rounds."""
    count = 20_000 if bench.quick else bench.options.records
    rounds = 1 if bench.quick else bench.options.rounds
    settings = bench.cluster.installation("worker")
    messages = work_messages(count, BUCKETS)
    worked, plain, consumed = [], [], []
    for number in range(rounds):
        bench.say(f"round {number + 1} of {rounds}: {count} records")
        starts = _fill(settings, messages)
        worked.append(_worker(settings, count, bench.options.concurrency))
        plain.append(elsewhere(consume_and_report, settings, starts, count))
        consumed.append(elsewhere(consume_only, settings, starts, count))
    worker_per_s = median([one.rate.per_s for one in worked])
    plain_per_s = median([one.per_s for one in plain])
    consumed_per_s = median([one.per_s for one in consumed])
    worker_us = median([one.rate.cpu_us for one in worked])
    plain_us = median([one.cpu_us for one in plain])
    lost, duplicates = sum(one.lost for one in worked), sum(one.duplicates for one in worked)
    return Result(
        metrics={
            "worker_per_s": round(worker_per_s),
            "worker_cpu_us": round(worker_us, 1),
            "tasks": count,
            "rounds": rounds,
            "lost": lost,
            "duplicates": duplicates,
        },
        floor={
            "plain_per_s": round(plain_per_s),
            "plain_cpu_us": round(plain_us, 1),
            "consume_only_per_s": round(consumed_per_s),
            "consume_only_cpu_us": round(median([one.cpu_us for one in consumed]), 1),
        },
        ratio={
            "floor": ratio(worker_per_s, plain_per_s),
            "consume_only": ratio(worker_per_s, consumed_per_s),
            "cpu": ratio(worker_us, plain_us),
        },
        settings={
            "worker": {"concurrency": bench.options.concurrency, "executor": "thread"},
            "consumer": CONSUMING,
            "producer": PRODUCER,
        },
        ok=not (lost or duplicates),
    )


class _Worked(NamedTuple):
    """What a worker did."""

    rate: Rate
    lost: int
    """Runs without a report."""
    duplicates: int
    """Surplus reports of one run."""


def _fill(settings: Settings, messages: Sequence[RawMessage]) -> Starts:
    """Put them into the work topic; where they begin."""
    topic = TopicNames(settings.prefix).work(DEFAULT_QUEUE)
    starts = runs.ends(settings, topic)
    produce.all_acked(settings, topic, messages)
    return starts


def elsewhere(
    loop: Callable[[Settings, Starts, int], Rate], settings: Settings, starts: Starts, count: int
) -> Rate:
    """The loop in a process of its own, as the worker has one."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(loop, settings, starts, count).result()


def _worker(settings: Settings, count: int, concurrency: int) -> _Worked:
    """A worker, from its first report to its last."""
    names = TopicNames(settings.prefix)
    work = names.work(DEFAULT_QUEUE)
    before, ends = runs.ends(settings, names.reports), runs.ends(settings, work)
    with start_worker(settings, "worker", concurrency=concurrency) as worker:
        worker.wait_event("ready", _READY_S)
        cpu = cpu_s(worker.pid)
        until = time.monotonic() + count / _AT_LEAST_PER_S
        # Asked of the group: reading the reports meanwhile would take the processor from the worker.
        while committed(settings, names.worker_group(DEFAULT_QUEUE), work, BUCKETS) != ends:
            if time.monotonic() > until:
                raise SendFailed(f"the worker did not get {count} records done; {worker.output_tail()}")
            time.sleep(_LOOK_S)
        cpu = cpu_s(worker.pid) - cpu
    told = read_between(settings, names.reports, before, runs.ends(settings, names.reports))
    return reckon(told, count, cpu)


def reckon(told: Sequence[Told], count: int, cpu: float) -> _Worked:
    """The rate between the broker's own times of the first and the last message of reports. Pure.

    `cpu`: processor seconds, of all.
    """
    first, last = min(one.at_ms for one in told), max(one.at_ms for one in told)
    ended = Counter[str]()
    counted = 0
    for one in told:
        reports = [r for r in decode_reports(one.value).reports if r.kind is ReportKind.SUCCEEDED]
        ended.update(report.task_id for report in reports)
        if one.at_ms > first:
            counted += len(reports)
    rate = Rate(counted / (last - first) * 1_000, cpu / count * 1e6)
    return _Worked(rate, lost=count - len(ended), duplicates=ended.total() - len(ended))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--records", type=int, default=RECORDS, help="work records a round (%(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help="of worker and loops in turn (%(default)s)"
    )
    parser.add_argument("--concurrency", type=int, default=CONCURRENCY, help="slots (%(default)s)")


BENCHMARK: Final = Benchmark(
    "worker", "no-op handlers a second of one worker process, over a plain consumer loop", run, _options
)
