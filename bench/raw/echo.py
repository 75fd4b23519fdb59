"""Plain consume: how fast a filled topic is read, and how soon a fresh record is.

No transaction is made here; whether a reader waits for commits is the caller's word.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from bench.raw.configuration import CONSUMER, PRODUCER, with_cluster
from bench.raw.lanes import begin
from bench.raw.records import RawMessage, Stamp, stamp_of, stamped
from tickstream.errors import SendFailed
from tickstream.settings import Settings

ECHO: Final = PRODUCER | {"linger.ms": 0}
"""Latency, not throughput: nothing waits for company."""
_TAKE: Final = 1_000
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

Positions = Mapping[int, int]
"""Partition → offset."""


class Fetched(NamedTuple):
    """A stamped record, and when it was in the reader's hands (ms since the epoch)."""

    stamp: Stamp
    at_ms: float


def _consumer(settings: Settings, isolation: str, more: Mapping[str, Any] = _NOTHING) -> Consumer:
    consumer = Consumer(with_cluster(settings, {**CONSUMER, "isolation.level": isolation, **more}))
    consumer.list_topics(timeout=10)
    return consumer


def consume_per_s(settings: Settings, topic: str, ends: Positions) -> float:
    """Messages a second from the start of every partition to its end, the first fetch included."""
    consumer = _consumer(settings, "read_committed")
    left = sum(ends.values())
    began = time.perf_counter()
    consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
    while left > 0:
        # A small time-out: `consume` waits for all the messages asked for, or for it.
        left -= len(consumer.consume(_TAKE, 0.02))
    seconds = time.perf_counter() - began
    consumer.close()
    return sum(ends.values()) / seconds


def read_all(
    settings: Settings, topic: str, partitions: int, *, at_least: int = 0, until_s: float = 0
) -> list[RawMessage]:
    """Every committed message of the topic, ready to be produced again.

    Waits as `committed` does.
    """
    read = committed(settings, topic, partitions, at_least=at_least, until_s=until_s)
    return [RawMessage(m.partition() or 0, m.key() or b"", m.value() or b"") for m in read]


def committed(
    settings: Settings, topic: str, partitions: int, *, at_least: int = 0, until_s: float = 0
) -> Iterator[Message]:
    """Every committed message of the topic, as it is read.

    It ends once each partition has been read to its end, whatever is written behind that meanwhile; or it waits
    for more while there were fewer than `at_least` and the wall clock
    (s) is below `until_s`.
    """
    consumer = _consumer(settings, "read_committed", {"enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    count = 0
    at_end: set[int] = set()
    try:
        while len(at_end) < partitions or (count < at_least and time.time() < until_s):
            for message in consumer.consume(_TAKE, 0.05):
                partition, error = message.partition() or 0, message.error()
                if error is None:
                    count += 1
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    at_end.add(partition)
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()


def fetch(
    settings: Settings,
    topic: str,
    starts: Positions,
    isolation: str,
    count: int,
    *,
    gate: threading.Barrier,
    seconds: float,
) -> list[Fetched]:
    """The next `count` records; fewer when `seconds` pass from the gate on.

    Meant for a process of its own, as a worker is.
    """
    consumer = _consumer(settings, isolation)
    consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in starts.items()])
    until = begin(gate) + seconds
    seen: list[Fetched] = []
    while len(seen) < count and time.time() < until:
        message = consumer.poll(0.2)
        if message is None:
            continue
        if (error := message.error()) is not None:
            raise KafkaException(error)
        seen.append(Fetched(stamp_of(message.value() or b""), time.time() * 1_000))
    consumer.close()
    return seen


def send(
    settings: Settings,
    topic: str,
    partitions: int,
    *,
    gate: threading.Barrier,
    rate_per_s: float,
    seconds: float,
    size: int,
) -> None:
    """Produces stamped records at random instants of `seconds` from the gate on."""
    producer = Producer(with_cluster(settings, ECHO))
    producer.list_topics(timeout=10)
    choice, filler = random.Random(7), bytes(size)
    delays = sorted(choice.uniform(0, seconds) for _ in range(round(rate_per_s * seconds)))
    start = begin(gate)
    for i, delay in enumerate(delays):
        if (left := start + delay - time.time()) > 0:
            time.sleep(left)
        producer.produce(topic, stamped(Stamp(time.time() * 1_000, i), filler), b"echo", i % partitions)
        producer.poll(0)
    if producer.flush(10):
        raise SendFailed("the echo's producer could not deliver all that it sent")
