"""Raw produce: acknowledged messages a second, ours and that of Kafka's own tool.

No transaction and no consumer may enter here.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterable, Sequence
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from bench.raw.configuration import PRODUCER, with_cluster
from bench.raw.records import RawMessage
from tickstream.broker import Runtime
from tickstream.errors import SendFailed
from tickstream.settings import Settings

POLL_EVERY: Final = 1_000
"""Messages between two looks for delivery reports."""
BATCH: Final = 1_000
"""Messages a call of produce_batch."""

JAVA: Final = (
    "acks=all",
    "enable.idempotence=true",
    "linger.ms=5",
    "batch.size=262144",
    "buffer.memory=134217728",
)
"""Settings of ProducerPerformance."""
_JAVA_KEYS: Final = ("--key-distribution", "range", "--record-key-range", "100000")
_JAVA_RATE: Final = re.compile(r"(\d+) steady state records sent, ([\d.]+) records/sec")


class _Acks:
    """Counts delivery reports: what a client has to look at when it hands out receipts."""

    def __init__(self) -> None:
        self.last_offset = -1
        self.count = 0

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise SendFailed(f"the raw floor lost a message: {error.str()}")
        self.last_offset = message.offset() or 0
        self.count += 1


def ready_producer(settings: Settings, topic: str, partitions: Iterable[int]) -> Producer:
    """A producer that has sent one message to each partition: connections and its id are not to be measured."""
    producer = Producer(with_cluster(settings, PRODUCER))
    for partition in partitions:
        producer.produce(topic, b"", b"", partition)
    if producer.flush(30):
        raise SendFailed(f"the raw floor's producer could not reach every partition of {topic}")
    return producer


def _producer(settings: Settings, topic: str, messages: Sequence[RawMessage]) -> Producer:
    return ready_producer(settings, topic, {message.partition for message in messages})


def acked_per_s(settings: Settings, topic: str, messages: Sequence[RawMessage]) -> float:
    """One `produce()` a message, a delivery report with the offset for each; messages a second until all are acked."""
    producer, acks = _producer(settings, topic, messages), _Acks()
    began = time.perf_counter()
    for i, (partition, key, value) in enumerate(messages):
        producer.produce(topic, value, key, partition, acks)
        if not i % POLL_EVERY:
            producer.poll(0)
    producer.flush()
    return _rate(len(messages), acks.count, time.perf_counter() - began)


def batch_acked_per_s(settings: Settings, topic: str, messages: Sequence[RawMessage]) -> float:
    """As `acked_per_s` with `produce_batch`, whose price per message is one dict instead of one call."""
    producer, acks = _producer(settings, topic, messages), _Acks()
    began = time.perf_counter()
    for start in range(0, len(messages), BATCH):
        batch = [
            {"partition": partition, "key": key, "value": value}
            for partition, key, value in messages[start : start + BATCH]
        ]
        producer.produce_batch(topic, batch, on_delivery=acks)
        producer.poll(0)
    producer.flush()
    return _rate(len(messages), acks.count, time.perf_counter() - began)


def unreported_per_s(settings: Settings, topic: str, messages: Sequence[RawMessage]) -> float:
    """As `acked_per_s` without delivery reports: no message learns its offset, `flush` waits for all acks."""
    producer = _producer(settings, topic, messages)
    began = time.perf_counter()
    for i, (partition, key, value) in enumerate(messages):
        producer.produce(topic, value, key, partition)
        if not i % POLL_EVERY:
            producer.poll(0)
    left = producer.flush()
    return _rate(len(messages), len(messages) - left, time.perf_counter() - began)


def all_acked(settings: Settings, topic: str, messages: Sequence[RawMessage]) -> None:
    """These messages and no others, each acknowledged."""
    producer, acks = Producer(with_cluster(settings, PRODUCER)), _Acks()
    for i, (partition, key, value) in enumerate(messages):
        producer.produce(topic, value, key, partition, acks)
        if not i % POLL_EVERY:
            producer.poll(0)
    producer.flush()
    _rate(len(messages), acks.count, 1)


def _rate(wanted: int, acked: int, seconds: float) -> float:
    if acked != wanted:
        raise SendFailed(f"the raw floor produced {wanted} messages and {acked} were acknowledged")
    return wanted / seconds


def java_per_s(runtime: Runtime, settings: Settings, topic: str, *, records: int, record_bytes: int) -> float:
    """Acked messages a second of Kafka's own ProducerPerformance, keyed, in a process of its own.

    As many records again go before them, uncounted, while its just-in-time compiler warms up.
    Raises SendFailed, with what it printed, when it does not end well.
    """
    security = tuple(f"{name}={value}" for name, value in settings.kafka.items())
    command = runtime.command(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", str(2 * records), "--warmup-records", str(records)),
        *("--record-size", str(record_bytes), *_JAVA_KEYS, "--throughput", "-1"),
        *("--command-property", f"bootstrap.servers={settings.bootstrap}", *JAVA, *security),
        jvm_options=("-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"),
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    steady = _JAVA_RATE.search(done.stdout)
    if done.returncode != 0 or steady is None:
        raise SendFailed(f"ProducerPerformance failed ({done.returncode}):\n{done.stdout}\n{done.stderr}")
    return float(steady.group(2))
