"""The floors as whole runs: processes around lanes.py and echo.py, and what they found.

Starts and ends the processes; measures nothing itself.
"""

from __future__ import annotations

import multiprocessing
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Final, NamedTuple

from bench.cluster import BUCKETS, LANES
from bench.raw import echo, lanes
from bench.raw.configuration import CONSUMER, TRANSACTIONAL
from bench.raw.records import sizes
from tickstream.kafka import Admin
from tickstream.model import DEFAULT_QUEUE
from tickstream.settings import Settings
from tickstream.topics import TopicNames

PROCESSES: Final = 2
"""As many as the dispatcher is run with."""
_READY_S: Final = 3.0
"""From the start of a process to its first use: imports, connections, fencing."""
_DRAIN_S: Final = 15.0
_ISOLATION: Final = {"committed": "read_committed", "plain": "read_uncommitted"}


class TimerRun(NamedTuple):
    """What bare lanes did with timers; times in ms after each one's instant."""

    committed_ms: list[float]
    fetched_ms: list[float]
    """By a read-committed consumer of the work topic, in a process of its own."""
    scheduled: int
    early: int
    lost: int
    duplicates: int


@contextmanager
def _processes(count: int) -> Iterator[ProcessPoolExecutor]:
    # Spawned, not forked: librdkafka's threads do not survive a fork.
    with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def _plan(settings: Settings) -> lanes.Plan:
    start = time.time() + _READY_S
    return lanes.Plan(settings, DEFAULT_QUEUE, BUCKETS, LANES, sizes(), start, uuid.uuid4().hex[:8])


def _shares(processes: int) -> list[list[int]]:
    return [list(range(first, LANES, processes)) for first in range(processes)]


def transactional_per_s(settings: Settings, records_per_bucket: int, *, processes: int = PROCESSES) -> float:
    """Commands copied a second (1 in, 2 out) by all lanes; `commands` holds that many in every bucket."""
    with _processes(processes) as pool:
        plan = _plan(settings)
        futures = [pool.submit(lanes.copy, plan, share, records_per_bucket) for share in _shares(processes)]
        copied = [one for future in futures for one in future.result()]
    return sum(one.records for one in copied) / (max(one.ended_s for one in copied) - plan.start_s)


def timers(settings: Settings, *, rate_per_s: float, seconds: float, warm_up_s: float) -> TimerRun:
    """Bare lanes at a rate: due → committed and due → fetched. What is due in the warm-up is not counted."""
    topic = TopicNames(settings.prefix).work(DEFAULT_QUEUE)
    starts = ends(settings, topic)
    with _processes(PROCESSES + 1) as pool:
        plan = _plan(settings)
        count = LANES * round(rate_per_s / LANES * seconds)
        until = plan.start_s + seconds + _DRAIN_S
        fetching = pool.submit(echo.fetch, settings, topic, starts, _ISOLATION["committed"], count, until)
        firing = [
            pool.submit(lanes.fire, plan, share, rate_per_s=rate_per_s, seconds=seconds)
            for share in _shares(PROCESSES)
        ]
        fired = _flat(firing)
        fetched = fetching.result()
    counted_from = (plan.start_s + warm_up_s) * 1_000
    committed = [one.committed_ms - one.stamp.at_ms for one in fired if one.stamp.at_ms >= counted_from]
    arrived = [one.at_ms - one.stamp.at_ms for one in fetched if one.stamp.at_ms >= counted_from]
    numbers = {one.stamp.number for one in fetched}
    return TimerRun(
        committed,
        arrived,
        scheduled=count,
        early=sum(delay < 0 for delay in arrived),
        lost=count - len(numbers),
        duplicates=len(fetched) - len(numbers),
    )


def _flat(firing: Sequence[Future[list[list[lanes.Fired]]]]) -> list[lanes.Fired]:
    return [one for future in firing for lane in future.result() for one in lane]


def echo_ms(settings: Settings, *, rate_per_s: float, seconds: float, warm_up_s: float) -> list[float]:
    """Plain produce → consume at a rate, producer and consumer in two processes; ms, the warm-up left out."""
    topic = TopicNames(settings.prefix).work(DEFAULT_QUEUE)
    starts = ends(settings, topic)
    with _processes(2) as pool:
        start = time.time() + _READY_S
        count, until = round(rate_per_s * seconds), start + seconds + _DRAIN_S
        fetching = pool.submit(echo.fetch, settings, topic, starts, _ISOLATION["plain"], count, until)
        sending = pool.submit(
            echo.send,
            settings,
            topic,
            BUCKETS,
            start_s=start,
            rate_per_s=rate_per_s,
            seconds=seconds,
            size=sizes().work_bytes,
        )
        sending.result()
        seen = fetching.result()
    return [one.at_ms - one.stamp.at_ms for one in seen if one.stamp.at_ms >= (start + warm_up_s) * 1_000]


def ends(settings: Settings, topic: str) -> dict[int, int]:
    """Partition → end offset."""
    found = Admin(settings).ends([(topic, partition) for partition in range(BUCKETS)])
    return {partition: offset for (_, partition), offset in found.items()}


def transactional_settings() -> dict[str, object]:
    """Under which the bare lanes run, to be printed beside their figures."""
    return {
        **TRANSACTIONAL,
        "producers_in_turn": 2,
        "buckets": BUCKETS,
        "lanes": LANES,
        "processes": PROCESSES,
        "open_ms": lanes.OPEN_MS,
        "max_records": lanes.MAX_RECORDS,
        "consumer": dict(CONSUMER),
        **sizes()._asdict(),
    }
