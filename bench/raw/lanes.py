"""Bare lanes: the transactional loop with two producers in turn, without engine, codec and store.

A thread a lane, as in the dispatcher; runs in processes of its own so that it has the same cores. What
it writes has the sizes and partitions of the real thing, and no content but an instant.
"""

from __future__ import annotations

import heapq
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle
from typing import Final, NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from bench.raw.configuration import CONSUMER, TRANSACTIONAL, with_cluster
from bench.raw.records import Stamp, stamped
from tickstream.model import buckets_of_lane
from tickstream.settings import Settings
from tickstream.topics import TopicNames

OPEN_MS: Final = 10
"""How long a transaction stays open for more."""
MAX_RECORDS: Final = 5_000
"""Timers or commands of a transaction."""
READY_S: Final = 60.0
_HEAD_START_S: Final = 0.2
"""From the gate to the first timer: time to fill the heap."""
_TAKE: Final = 500
"""Messages a call of `consume`: it waits for all of them or the time-out."""


class Output(NamedTuple):
    """One of the two records that are written for every record in."""

    topic: str
    size: int
    """Of its value, bytes."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What every lane of one run is told; crosses process borders."""

    settings: Settings
    buckets: int
    lanes: int
    outputs: tuple[Output, Output]
    """The second carries the stamp, where timers are fired."""
    progress: Output
    gate: threading.Barrier
    """All begin when everyone is ready: imports and fencing take long on a busy machine."""
    run: str
    """Makes transactional ids of one run its own."""
    open_ms: float = OPEN_MS
    elements: int = 1
    """Commands that a message to be copied holds: each of them makes two records."""


T = TypeVar("T")
_Timer = tuple[float, int, int]
"""Due (s since the epoch), number, bucket: in the order of a heap."""


class Copied(NamedTuple):
    """One lane's part of a copy; wall clock in s."""

    records: int
    began_s: float
    ended_s: float


class Fired(NamedTuple):
    """One timer of a lane; `stamp` is its instant and its number."""

    stamp: Stamp
    committed_ms: float


class _Lane:
    """Two transactional producers in turn over a lane's partitions."""

    def __init__(self, plan: Plan, lane: int) -> None:
        self.buckets = buckets_of_lane(lane, plan.buckets, plan.lanes)
        (self._first, first_bytes), (self._second, second_bytes) = plan.outputs
        self._filler = bytes(first_bytes)
        self._changelog, progress_bytes = plan.progress
        self._progress = bytes(progress_bytes)
        self.filler = bytes(second_bytes)
        self._turn = cycle([_initialised(plan, f"{plan.run}.{lane}.{side}") for side in "ab"])

    def begin(self) -> Producer:
        """The next producer, in an open transaction."""
        producer = next(self._turn)
        producer.begin_transaction()
        return producer

    def write(self, producer: Producer, bucket: int, key: bytes, second: bytes) -> None:
        """One record into each output."""
        producer.produce(self._first, self._filler, key, bucket)
        producer.produce(self._second, second, key, bucket)

    def commit(self, producer: Producer, touched: set[int]) -> None:
        """Progress of every touched bucket, and the commit."""
        for bucket in touched:
            producer.produce(self._changelog, self._progress, b"p", bucket)
        producer.commit_transaction(-1)


def _initialised(plan: Plan, transactional_id: str) -> Producer:
    configuration = TRANSACTIONAL | {"transactional.id": plan.settings.prefix + transactional_id}
    producer = Producer(with_cluster(plan.settings, configuration))
    producer.list_topics(timeout=10)
    producer.init_transactions(30)
    return producer


def copy(plan: Plan, lanes: Sequence[int], per_bucket: int) -> list[Copied]:
    """Copies the first `per_bucket` messages of every partition of `commands`: 1 in, 2 out, and Progress."""
    return _on_threads(lanes, lambda lane: _copy_lane(plan, lane, per_bucket))


def _copy_lane(plan: Plan, lane: int, per_bucket: int) -> Copied:
    writer = _Lane(plan, lane)
    commands = TopicNames(plan.settings.prefix).commands
    consumer = Consumer(with_cluster(plan.settings, CONSUMER | {"isolation.level": "read_committed"}))
    consumer.list_topics(timeout=10)
    began = begin(plan.gate)
    consumer.assign([TopicPartition(commands, bucket, 0) for bucket in writer.buckets])
    left, wanted = len(writer.buckets) * per_bucket, dict.fromkeys(writer.buckets, per_bucket)
    while left > 0:
        left -= _copy_once(consumer, writer, wanted, left, plan)
    ended = time.time()
    consumer.close()
    return Copied(len(writer.buckets) * per_bucket * plan.elements, began, ended)


def _copy_once(consumer: Consumer, writer: _Lane, wanted: dict[int, int], left: int, plan: Plan) -> int:
    """One transaction; how many messages of the wanted ones it copied."""
    producer: Producer | None = None
    touched: set[int] = set()
    copied, closes, most = 0, float("inf"), min(MAX_RECORDS // plan.elements, left)
    while copied < most and time.monotonic() < closes:
        for message in consumer.consume(min(_TAKE, most - copied), 0.002):
            bucket, offset = _place(message)
            if offset >= wanted[bucket]:
                continue
            if producer is None:
                producer, closes = writer.begin(), time.monotonic() + plan.open_ms / 1_000
            key = message.key() or b""
            for _ in range(plan.elements):
                writer.write(producer, bucket, key, writer.filler)
            touched.add(bucket)
            copied += 1
    if producer is not None:
        writer.commit(producer, touched)
    return copied


def _place(message: Message) -> tuple[int, int]:
    """Partition and offset. Raises KafkaException when the message is an error."""
    error = message.error()
    if error is not None:
        raise KafkaException(error)
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return partition, offset


def fire(plan: Plan, lanes: Sequence[int], *, rate_per_s: float, seconds: float) -> list[list[Fired]]:
    """Fires timers at random instants of `seconds`, `rate_per_s` over all lanes of the plan together."""
    return _on_threads(lanes, lambda lane: _fire_lane(plan, lane, rate_per_s / plan.lanes, seconds))


def _fire_lane(plan: Plan, lane: int, rate_per_s: float, seconds: float) -> list[Fired]:
    writer = _Lane(plan, lane)
    choice = random.Random(f"{plan.run} {lane}")
    start = begin(plan.gate) + _HEAD_START_S
    timers = [
        (start + choice.uniform(0, seconds), lane + plan.lanes * i, choice.choice(writer.buckets))
        for i in range(round(rate_per_s * seconds))
    ]
    heapq.heapify(timers)
    fired: list[Fired] = []
    while timers:
        _sleep_until(timers[0][0])
        producer = writer.begin()
        touched: set[int] = set()
        stamps = []
        for due, number, bucket in _within(timers, time.time() + plan.open_ms / 1_000):
            stamps.append(Stamp(due * 1_000, number))
            writer.write(producer, bucket, b"bench:00000000", stamped(stamps[-1], writer.filler))
            touched.add(bucket)
        writer.commit(producer, touched)
        committed_ms = time.time() * 1_000
        fired.extend(Fired(stamp, committed_ms) for stamp in stamps)
    return fired


def beat(plan: Plan, lanes: Sequence[int], *, seconds: float, every_s: float) -> float:
    """Nothing but a Progress of every bucket, one transaction a lane `every_s`; the process's CPU time, s."""

    def beat_lane(lane: int) -> float:
        writer = _Lane(plan, lane)
        start = begin(plan.gate)
        before = time.process_time()
        for number in range(round(seconds / every_s)):
            _sleep_until(start + number * every_s)
            writer.commit(writer.begin(), set(writer.buckets))
        _sleep_until(start + seconds)
        return time.process_time() - before

    return max(_on_threads(lanes, beat_lane))


def _within(timers: list[_Timer], closes: float) -> Iterator[_Timer]:
    """Timers as they fall due until `closes`; ends sooner when none falls due before that."""
    taken = 0
    while timers and taken < MAX_RECORDS and timers[0][0] <= closes:
        _sleep_until(timers[0][0])
        if time.time() > closes and taken:
            return
        taken += 1
        yield heapq.heappop(timers)


def _sleep_until(at_s: float) -> None:
    if (left := at_s - time.time()) > 0:
        time.sleep(left)


def begin(gate: threading.Barrier) -> float:
    """Wait until everyone is ready; the wall clock then (s). Raises BrokenBarrierError when someone is not."""
    gate.wait(READY_S)
    return time.time()


def _on_threads(lanes: Sequence[int], run: Callable[[int], T]) -> list[T]:
    with ThreadPoolExecutor(len(lanes)) as threads:
        return list(threads.map(run, lanes))
