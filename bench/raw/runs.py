"""The floors as whole runs: processes around lanes.py and echo.py, and what they found.

Starts and ends the processes; measures nothing itself.
"""

from __future__ import annotations

import multiprocessing
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

from bench.cluster import BUCKETS, LANES
from bench.raw import echo, lanes
from bench.raw.configuration import CONSUMER, TRANSACTIONAL
from bench.raw.records import sizes
from tickstream.kafka import Admin
from tickstream.model import DEFAULT_QUEUE
from tickstream.settings import Settings
from tickstream.topics import TopicNames

T = TypeVar("T")

PROCESSES: Final = 2
"""As many as the dispatcher is run with."""
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


class _Crew:
    """Processes that begin together, when the last of them is ready."""

    def __init__(self, pool: ProcessPoolExecutor, gate: threading.Barrier) -> None:
        self._pool = pool
        self._futures: list[Future[Any]] = []
        self.gate = gate

    def submit(self, run: Callable[..., T], *arguments: object, **options: object) -> Future[T]:
        """Have one process run it. When that fails, nobody waits at the gate any longer."""
        future = self._pool.submit(run, *arguments, **options)
        future.add_done_callback(self._release_others)
        self._futures.append(future)
        return future

    def _release_others(self, future: Future[Any]) -> None:
        if future.exception() is not None:
            self.gate.abort()

    def begin(self) -> float:
        """Waits for the others; the wall clock then (s). Raises what kept one of them from coming."""
        try:
            return lanes.begin(self.gate)
        except threading.BrokenBarrierError:
            for future in self._futures:
                error = future.exception()
                if error is not None and not isinstance(error, threading.BrokenBarrierError):
                    raise error from None
            raise


@contextmanager
def _crew(processes: int, parties: int) -> Iterator[_Crew]:
    """`processes` processes, in which `parties` threads (and this one) wait at the gate."""
    # Spawned, not forked: librdkafka's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(processes, mp_context=context) as pool:
        try:
            yield _Crew(pool, manager.Barrier(parties + 1))
        except BaseException:
            _end_early()
            raise


def _end_early() -> None:
    """Ends the crew's processes at once: otherwise leaving the pool waits until their runs are over."""
    for child in multiprocessing.active_children():
        # The manager ends by itself, after the others: they still talk to it.
        if not child.name.startswith("SyncManager"):
            child.terminate()


def _plan(settings: Settings, crew: _Crew) -> lanes.Plan:
    """What is written for a timer that fires: its state, and work."""
    names, size = TopicNames(settings.prefix), sizes()
    outputs = (
        lanes.Output(names.timers, size.state_bytes),
        lanes.Output(names.work(DEFAULT_QUEUE), size.work_bytes),
    )
    progress = lanes.Output(names.timers, size.progress_bytes)
    return lanes.Plan(settings, BUCKETS, LANES, outputs, progress, crew.gate, uuid.uuid4().hex[:8])


def _shares(processes: int) -> list[list[int]]:
    return [list(range(first, LANES, processes)) for first in range(processes)]


def transactional_per_s(settings: Settings, records_per_bucket: int, *, processes: int = PROCESSES) -> float:
    """Commands copied a second (1 in, 2 out) by all lanes; `commands` holds that many in every bucket."""
    with _crew(processes, LANES) as crew:
        plan = _plan(settings, crew)
        copying = [crew.submit(lanes.copy, plan, share, records_per_bucket) for share in _shares(processes)]
        crew.begin()
        copied = [one for future in copying for one in future.result()]
    seconds = max(one.ended_s for one in copied) - min(one.began_s for one in copied)
    return sum(one.records for one in copied) / seconds


def scheduled_per_s(settings: Settings, *, elements: int) -> float:
    """Commands copied a second by one process, with what a Schedule writes: a spec and a state.

    The messages of `commands` hold `elements` each.
    """
    names, size = TopicNames(settings.prefix), sizes()
    outputs = (
        lanes.Output(names.timers, size.spec_bytes),
        lanes.Output(names.timers, size.scheduled_bytes),
    )
    per_bucket = min(ends(settings, names.commands).values())
    with _crew(1, LANES) as crew:
        plan = replace(_plan(settings, crew), outputs=outputs, elements=elements)
        copying = crew.submit(lanes.copy, plan, range(LANES), per_bucket)
        crew.begin()
        copied = copying.result()
    seconds = max(one.ended_s for one in copied) - min(one.began_s for one in copied)
    return sum(one.records for one in copied) / seconds


def drained_per_s(settings: Settings, count: int) -> float:
    """Timers a second until the last of `count`, due within one second, is committed; one process."""
    with _crew(1, LANES) as crew:
        plan = _plan(settings, crew)
        firing = crew.submit(lanes.fire, plan, range(LANES), rate_per_s=count, seconds=1.0)
        crew.begin()
        fired = [one for lane in firing.result() for one in lane]
    began_ms = min(one.stamp.at_ms for one in fired)
    return len(fired) / (max(one.committed_ms for one in fired) - began_ms) * 1_000


def beating_cpu_s(settings: Settings, *, buckets: int, lane_count: int, seconds: float) -> float:
    """CPU time of one process that writes Progress once a second in every lane, s."""
    with _crew(1, lane_count) as crew:
        plan = replace(_plan(settings, crew), buckets=buckets, lanes=lane_count)
        beating = crew.submit(lanes.beat, plan, range(lane_count), seconds=seconds, every_s=1.0)
        crew.begin()
        return beating.result()


def timers(settings: Settings, *, rate_per_s: float, seconds: float, warm_up_s: float) -> TimerRun:
    """Bare lanes at a rate: due → committed and due → fetched. What is due in the warm-up is not counted."""
    topic = TopicNames(settings.prefix).work(DEFAULT_QUEUE)
    starts = ends(settings, topic)
    count = LANES * round(rate_per_s / LANES * seconds)
    with _crew(PROCESSES + 1, LANES + 1) as crew:
        plan = _plan(settings, crew)
        fetching = crew.submit(
            echo.fetch,
            settings,
            topic,
            starts,
            _ISOLATION["committed"],
            count,
            gate=crew.gate,
            seconds=seconds + _DRAIN_S,
        )
        firing = [
            crew.submit(lanes.fire, plan, share, rate_per_s=rate_per_s, seconds=seconds)
            for share in _shares(PROCESSES)
        ]
        start = crew.begin()
        fired = [one for future in firing for lane in future.result() for one in lane]
        fetched = fetching.result()
    counted_from = (start + warm_up_s) * 1_000
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


def echo_ms(settings: Settings, *, rate_per_s: float, seconds: float, warm_up_s: float) -> list[float]:
    """Plain produce → consume at a rate, producer and consumer in two processes; ms, the warm-up left out."""
    topic = TopicNames(settings.prefix).work(DEFAULT_QUEUE)
    starts = ends(settings, topic)
    with _crew(2, 2) as crew:
        fetching = crew.submit(
            echo.fetch,
            settings,
            topic,
            starts,
            _ISOLATION["plain"],
            round(rate_per_s * seconds),
            gate=crew.gate,
            seconds=seconds + _DRAIN_S,
        )
        sending = crew.submit(
            echo.send,
            settings,
            topic,
            BUCKETS,
            gate=crew.gate,
            rate_per_s=rate_per_s,
            seconds=seconds,
            size=sizes().work_bytes,
        )
        start = crew.begin()
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
