"""How fast a projection builds its index from Kafka, beside plain consuming and decoding of the same records.

The records are as a dispatcher writes them: a spec and a state of each task, a history of every other
one, a Progress behind every thousand.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.cluster import BUCKETS
from bench.environment import rss_bytes
from bench.harness import Bench
from bench.raw.configuration import CONSUMER, PRODUCER, with_cluster
from tickstream import codec
from tickstream.errors import SendFailed
from tickstream.model import (
    DEFAULT_OPTIONS,
    NEVER,
    Body,
    Command,
    History,
    InputPosition,
    Outcome,
    Progress,
    Rev,
    TaskSpec,
    TaskState,
    Verb,
)
from tickstream.ops.processes import ManagedProcess, tickstream_command
from tickstream.settings import Settings
from tickstream.topics import TopicNames

_TOGETHER: Final = 1_000
_READY_S: Final = 3_600.0
_AT_MS: Final = 1_900_022_400_000
_TOPIC_ID: Final = b"bench-commands--"


class Built(NamedTuple):
    """Rows a second, and what the projection's process holds at the end."""

    rows_per_s: float
    raw_rows_per_s: float
    rss_bytes: int


def build(bench: Bench, rows: int) -> Built:
    """Write the log of `rows` tasks, read it plainly, and have a projection made of it."""
    settings = bench.cluster.installation("build")
    names = TopicNames(settings.prefix)
    bench.say(f"the log of {rows} tasks is written")
    records = _write(settings, names, rows)
    raw_s = _consume_and_decode_s(settings, names, records)
    with tempfile.TemporaryDirectory(prefix="tickstream-bench-") as scratch:
        command = tickstream_command(
            *("projection", "run", "--json", f"--data={Path(scratch) / 'projection'}"),
            *(f"--bootstrap={settings.bootstrap}", f"--prefix={settings.prefix}"),
        )
        began = time.perf_counter()
        with ManagedProcess.start(command, name="projection") as process:
            process.wait_event("ready", _READY_S)
            seconds = time.perf_counter() - began
            rss = rss_bytes(process.pid)
    return Built(rows / seconds, rows / raw_s, rss)


def _write(settings: Settings, names: TopicNames, rows: int) -> int:
    """Rows by turns to the buckets; returns how many records that took."""
    producer = Producer(with_cluster(settings, PRODUCER))
    written = 0
    offsets, numbers = dict.fromkeys(range(BUCKETS), 0), dict.fromkeys(range(BUCKETS), 0)
    body = codec.encode_body(Body("send-invoice", b"p" * 100, {}, {"customer": "acme", "region": "eu"}))
    for low in range(0, rows, _TOGETHER):
        bucket = low // _TOGETHER % BUCKETS

        def put(topic: str, key: bytes, value: bytes, partition: int = bucket) -> None:
            nonlocal written
            producer.produce(topic, value, key, partition)
            written += 1

        for number in range(low, min(rows, low + _TOGETHER)):
            offsets[bucket] += 1
            done = number % 2 == 0
            numbers[bucket] += done
            _task(put, names, number, Rev(offsets[bucket], 0), body, numbers[bucket] if done else None)
        position = InputPosition(_TOPIC_ID, offsets[bucket] + 1, 0, 0)
        progress = Progress(position, position, _AT_MS, numbers[bucket], 0, "2026b", 0)
        put(names.timers, codec.timers_key(codec.PROGRESS), codec.encode_progress(progress))
        producer.poll(0)
        if len(producer) > 50_000:
            producer.flush(30)
    if producer.flush(60):
        raise SendFailed("the log could not be written")
    return written


def _task(
    put: Callable[[str, bytes, bytes], None],
    names: TopicNames,
    number: int,
    rev: Rev,
    body: bytes,
    history_number: int | None,
) -> None:
    name, at_ms = f"order:{number:010d}", _AT_MS + number * 60
    command = Command(b"c" * 16, Verb.SCHEDULE, name, at_ms, "default", DEFAULT_OPTIONS, body)
    spec = codec.encode_spec(TaskSpec(rev, codec.encode_command(command)))
    put(names.timers, codec.timers_key(codec.SPEC, name), spec)
    state = TaskState(rev, at_ms, NEVER, (), None, NEVER, ())
    if history_number is not None:
        state = TaskState(rev, NEVER, at_ms, (), Outcome.SUCCEEDED, at_ms + 30, ())
        history = History(
            *(history_number, name, at_ms, 1, rev, Outcome.SUCCEEDED, at_ms + 30, "default", "send-invoice"),
            *("worker-1", b"r" * 16, at_ms + 3, at_ms + 9, at_ms + 10, at_ms + 28, ""),
        )
        put(names.history, name.encode(), codec.encode_history(history))
    put(names.timers, codec.timers_key(codec.STATE, name), codec.encode_state(state))


def _consume_and_decode_s(settings: Settings, names: TopicNames, records: int) -> float:
    """Seconds for every record of both logs: fetched, and decoded by the product's codec."""
    consumer = Consumer(with_cluster(settings, {**CONSUMER, "isolation.level": "read_committed"}))
    consumer.list_topics(timeout=10)
    began = time.perf_counter()
    topics = (names.timers, names.history)
    consumer.assign([TopicPartition(topic, b, 0) for topic in topics for b in range(BUCKETS)])
    while records > 0:
        for message in consumer.consume(1_000, 0.02):
            records -= 1
            value = message.value() or b""
            if message.topic() == names.history:
                codec.decode_history(value)
                continue
            kind, _ = codec.split_timers_key(message.key())
            if kind == codec.SPEC:
                codec.decode_body(codec.decode_command(codec.decode_spec(value).command).body)
            elif kind == codec.STATE:
                codec.decode_state(value)
    seconds = time.perf_counter() - began
    consumer.close()
    return seconds
