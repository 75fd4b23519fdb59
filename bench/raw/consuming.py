"""Plain consumer loops over Work records: one that only reads, and one that does what a worker must.

fastavro and confluent-kafka as anybody would use them: no part of the product's worker, and of its codec
only the schemas.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Mapping
from io import BytesIO
from typing import Any, Final, NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from fastavro import schemaless_reader, schemaless_writer

from bench.environment import cpu_s
from bench.raw.configuration import CONSUMER, PRODUCER, with_cluster
from tickstream.codec.avro import HEADER_BYTES, Schema
from tickstream.errors import SendFailed
from tickstream.model import DEFAULT_QUEUE
from tickstream.settings import Settings
from tickstream.topics import TopicNames

CONSUMING: Final = CONSUMER | {"isolation.level": "read_committed"}
_TAKE: Final = 1_000
_READ_S: Final = 0.02
_COMMIT_S: Final = 0.2
"""Between two commits, each after all reports before it are acknowledged: a worker's own rhythm."""
_STALLED_S: Final = 30.0
_RUN_ID: Final = bytes(16)

Starts = Mapping[int, int]
"""Partition → offset."""


class Rate(NamedTuple):
    """What a loop did."""

    per_s: float
    cpu_us: float
    """Processor time of its process a record, librdkafka's threads included."""


class Told(NamedTuple):
    """A message, and when the broker appended it (ms since the epoch)."""

    at_ms: int
    value: bytes


class _Loop(Protocol):
    """What is done with what was fetched."""

    def take(self, messages: list[Message]) -> None:
        """One batch."""
        ...

    def settle(self) -> None:
        """Whatever is on its way has arrived, so offsets may be committed."""
        ...


class _Nothing:
    """Reads, and no more."""

    def take(self, messages: list[Message]) -> None:
        """See _Loop."""

    def settle(self) -> None:
        """See _Loop."""


class _Reporting:
    """Decodes each record, calls a function with its payload, and reports: one array a bucket and batch.

    No slots, leases, timeouts or signals, no group and no orderly end.
    """

    def __init__(self, settings: Settings, topic: str) -> None:
        self._work, self._body = Schema("Work").parsed, Schema("Body").parsed
        self._batch = Schema("ReportBatch")
        self._topic = topic
        self._handlers = {"noop": _noop}
        self._producer = Producer(with_cluster(settings, PRODUCER))
        self._producer.list_topics(timeout=10)

    def take(self, messages: list[Message]) -> None:
        """See _Loop."""
        fetched_ms = time.time_ns() // 1_000_000
        waiting: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
        for message in messages:
            work = _read(message.value() or b"", self._work)
            body = _read(work["body"], self._body)
            started_ms = time.time_ns() // 1_000_000
            self._handlers[body["handler"]](body["payload"])
            waiting[work["bucket"]].append(
                {
                    "kind": "SUCCEEDED",
                    "task_id": work["task_id"],
                    "occurrence_ts": work["occurrence_ts"],
                    "attempt": work["attempt"],
                    "run_id": _RUN_ID,
                    "handler": body["handler"],
                    "fetched_ms": fetched_ms,
                    "started_ms": started_ms,
                    "ended_ms": time.time_ns() // 1_000_000,
                    "error": "",
                    "retry_ms": -1,
                    "result": b"",
                    "progress": -1,
                    "note": "",
                }
            )
        for bucket, reports in waiting.items():
            out = BytesIO()
            out.write(self._batch.header)
            schemaless_writer(out, self._batch.parsed, {"worker": "plain", "reports": reports})
            self._producer.produce(self._topic, out.getvalue(), None, bucket, _acknowledged)
        self._producer.poll(0)

    def settle(self) -> None:
        """See _Loop."""
        if self._producer.flush(10):
            raise SendFailed("the plain loop's producer could not deliver all that it sent")


def consume_only(settings: Settings, starts: Starts, count: int) -> Rate:
    """`count` records of the work topic, fetched in batches and looked at no further."""
    return _run(_Nothing(), settings, starts, count)


def consume_and_report(settings: Settings, starts: Starts, count: int) -> Rate:
    """`count` records of the work topic, each decoded, run and reported to `reports`; offsets committed."""
    loop = _Reporting(settings, TopicNames(settings.prefix).reports)
    return _run(loop, settings, starts, count)


def committed(settings: Settings, group: str, topic: str, partitions: int) -> dict[int, int]:
    """Partition → committed offset of the group; no entry where there is none."""
    consumer = Consumer(with_cluster(settings, CONSUMER | {"group.id": group}))
    found = consumer.committed([TopicPartition(topic, p) for p in range(partitions)], timeout=10)
    consumer.close()
    return {tp.partition: tp.offset for tp in found if tp.offset >= 0}


def read_between(settings: Settings, topic: str, starts: Starts, ends: Starts) -> list[Told]:
    """The messages of a topic of LogAppendTime from `starts` to before `ends`, none of them transactional."""
    consumer = Consumer(with_cluster(settings, CONSUMING))
    consumer.assign([TopicPartition(topic, partition, start) for partition, start in starts.items()])
    left = sum(ends.values()) - sum(starts.values())
    told: list[Told] = []
    while len(told) < left:
        told += [Told(message.timestamp()[1], message.value() or b"") for message in _batch(consumer)]
    consumer.close()
    return told


def _run(loop: _Loop, settings: Settings, starts: Starts, count: int) -> Rate:
    """The first batch is not counted: what it waits for is the broker's."""
    topic = TopicNames(settings.prefix).work(DEFAULT_QUEUE)
    consumer = Consumer(with_cluster(settings, CONSUMING))
    consumer.list_topics(timeout=10)
    consumer.assign([TopicPartition(topic, partition, start) for partition, start in starts.items()])
    first = _batch(consumer)
    loop.take(first)
    began, cpu, commit_at = time.perf_counter(), cpu_s(os.getpid()), 0.0
    seen = len(first)
    while seen < count:
        messages = _batch(consumer)
        loop.take(messages)
        seen += len(messages)
        if time.perf_counter() >= commit_at:
            loop.settle()
            consumer.commit(message=messages[-1], asynchronous=True)
            commit_at = time.perf_counter() + _COMMIT_S
    loop.settle()
    seconds, cpu = time.perf_counter() - began, cpu_s(os.getpid()) - cpu
    consumer.close()
    counted = seen - len(first)
    return Rate(counted / seconds, cpu / counted * 1e6)


def _batch(consumer: Consumer) -> list[Message]:
    """What there is, at least one record. Raises SendFailed when nothing comes."""
    until = time.perf_counter() + _STALLED_S
    while not (messages := consumer.consume(_TAKE, _READ_S)):
        if time.perf_counter() > until:
            raise SendFailed(f"a plain loop got nothing for {_STALLED_S:g} s")
    for message in messages:
        if (error := message.error()) is not None:
            raise KafkaException(error)
    return messages


def _read(value: bytes, schema: Any) -> Any:
    source = BytesIO(value)
    source.seek(HEADER_BYTES)
    return schemaless_reader(source, schema, None)


def _noop(_payload: bytes) -> None:
    """The plain loop's handler."""


def _acknowledged(error: KafkaError | None, _message: Message) -> None:
    if error is not None:
        raise SendFailed(f"the plain loop lost a report: {error.str()}")
