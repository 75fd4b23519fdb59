"""`client`: what a caller of `schedule()` and `schedule_many()` gets, over raw messages of the same bytes.

The raw floor produces the very messages that the client produced: they are read back from the topic
first. No dispatcher runs.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from bench.cluster import BUCKETS
from bench.harness import Bench, Benchmark, Result
from bench.raw import echo, produce
from bench.raw.configuration import PRODUCER
from bench.raw.records import HANDLER, PAYLOAD_BYTES, RawMessage, payload
from bench.stats import interleaved, median, ratio
from tickstream.clock import SystemClock
from tickstream.codec import encode_batch, encode_body, encode_command
from tickstream.errors import SendFailed
from tickstream.ingest import Client, Item
from tickstream.ingest.ids import CommandIds
from tickstream.model import DEFAULT_OPTIONS, DEFAULT_QUEUE, NEVER, Body, Command, Verb, bucket_of
from tickstream.settings import Settings
from tickstream.topics import TopicNames

_HOUR_MS: Final = 3_600_000
_REPEATS: Final = 8
"""The raw arrays are gone in some 50 ms otherwise: too short a time to measure."""


class _Task(NamedTuple):
    """The arguments of one call, made beforehand."""

    task_id: str
    run_at_ts: int
    payload: bytes


def run(bench: Bench) -> Result:
    """Tasks a second until all are acknowledged, medians of interleaved rounds."""
    count = 10_000 if bench.quick else 60_000
    rounds = 3 if bench.quick else 7
    tasks = _tasks(count)
    bench.say("warm up, and read back what the client sends")
    one_each = _messages_of(bench.cluster.installation("single"), _single, tasks)
    arrays = _messages_of(bench.cluster.installation("many"), _many, tasks)
    settings = bench.cluster.installation("timed")
    topic = TopicNames(settings.prefix).commands
    bench.say(f"client and raw in turn, {rounds} rounds of {count} tasks each")
    per_message = count / len(arrays)
    taken = interleaved(
        {
            "single": lambda: _single(settings, tasks),
            "raw": lambda: produce.acked_per_s(settings, topic, one_each),
            "many": lambda: _many(settings, tasks),
            "raw_many": lambda: per_message * produce.acked_per_s(settings, topic, arrays * _REPEATS),
            "encoded": lambda: _bare_loop(settings, tasks, round(per_message)),
            "raw_batch": lambda: produce.batch_acked_per_s(settings, topic, one_each),
            "raw_unreported": lambda: produce.unreported_per_s(settings, topic, one_each),
        },
        rounds,
    )
    middle = {name: median(rates) for name, rates in taken.items()}
    return Result(
        metrics={
            "single_per_s": round(middle["single"]),
            "many_per_s": round(middle["many"]),
            "tasks": count,
            "rounds": rounds,
            "message_bytes": _mean_bytes(one_each),
            "array_bytes": _mean_bytes(arrays),
        },
        floor={
            "raw_per_s": round(middle["raw"]),
            "raw_many_per_s": round(middle["raw_many"]),
            "encoded_per_s": round(middle["encoded"]),
            "raw_batch_per_s": round(middle["raw_batch"]),
            "raw_unreported_per_s": round(middle["raw_unreported"]),
        },
        ratio={
            "floor": ratio(middle["many"], middle["raw_many"]),
            "single": ratio(middle["single"], middle["raw"]),
            "many_over_encoded": ratio(middle["many"], middle["encoded"]),
            "many_over_raw_single": ratio(middle["many"], middle["raw"]),
            "single_over_unreported": ratio(middle["single"], middle["raw_unreported"]),
        },
        settings={
            "raw": PRODUCER | {"keyed": True, "payload_bytes": PAYLOAD_BYTES},
            "tasks_a_message": round(per_message, 1),
        },
    )


def _tasks(count: int) -> list[_Task]:
    choice = random.Random(3)
    soonest = SystemClock().wall_ms() + _HOUR_MS
    return [
        _Task(f"bench:{i:08d}", soonest + choice.randrange(_HOUR_MS), payload(choice)) for i in range(count)
    ]


def _single(settings: Settings, tasks: Sequence[_Task]) -> float:
    """One `schedule()` a task."""
    with Client(settings) as client:
        _warm_up(client)
        began = time.perf_counter()
        for task_id, run_at_ts, data in tasks:
            client.schedule(task_id, run_at_ts=run_at_ts, payload=data, handler=HANDLER)
        client.flush(60)
        return len(tasks) / (time.perf_counter() - began)


def _many(settings: Settings, tasks: Sequence[_Task]) -> float:
    """One `schedule_many()` for all; every item's receipt is looked at."""
    with Client(settings) as client:
        _warm_up(client)
        began = time.perf_counter()
        accepted = sum(
            result.receipt is not None for result in client.schedule_many(_items(tasks), paced=False)
        )
        seconds = time.perf_counter() - began
    if accepted != len(tasks):
        raise SendFailed(f"{len(tasks) - accepted} of {len(tasks)} items were not acknowledged")
    return len(tasks) / seconds


def _warm_up(client: Client) -> None:
    """One task into (nearly) every bucket: connections are not to be measured, as with the raw producer."""
    for i in range(8 * BUCKETS):
        client.schedule(f"warm:{i}", run_at_ts=SystemClock().wall_ms() + _HOUR_MS, payload=b"")
    client.flush()


def _items(tasks: Sequence[_Task]) -> Iterator[Item]:
    for task_id, run_at_ts, data in tasks:
        yield Item(task_id, run_at_ts=run_at_ts, payload=data, handler=HANDLER)


def _bare_loop(settings: Settings, tasks: Sequence[_Task], per_message: int) -> float:
    """The least that Python does for such arrays: encode, find the bucket, produce. No check, no handle, no result."""
    topic, ids = TopicNames(settings.prefix).commands, CommandIds(SystemClock())
    producer = produce.ready_producer(settings, topic, range(BUCKETS))
    arrays: list[list[bytes]] = [[] for _ in range(BUCKETS)]
    began = time.perf_counter()
    for task_id, run_at_ts, data in tasks:
        bucket = bucket_of(task_id, BUCKETS)
        body = encode_body(Body(HANDLER, data, {}, {}))
        command = Command(ids.next(), Verb.SCHEDULE, task_id, run_at_ts, DEFAULT_QUEUE, DEFAULT_OPTIONS, body)
        arrays[bucket].append(encode_command(command))
        if len(arrays[bucket]) >= per_message:
            producer.produce(topic, encode_batch("bench", NEVER, arrays[bucket]), task_id.encode(), bucket)
            arrays[bucket] = []
    for bucket, array in enumerate(arrays):
        producer.produce(topic, encode_batch("bench", NEVER, array), b"", bucket)
    if producer.flush(60):
        raise SendFailed("the bare loop's messages were not all acknowledged")
    return len(tasks) / (time.perf_counter() - began)


def _messages_of(
    settings: Settings, send: Callable[[Settings, Sequence[_Task]], float], tasks: Sequence[_Task]
) -> list[RawMessage]:
    """What `send` puts into `commands` of a fresh installation."""
    send(settings, tasks)
    sent = echo.read_all(settings, TopicNames(settings.prefix).commands, BUCKETS)
    return [message for message in sent if not message.key.startswith(b"warm:")]


def _mean_bytes(messages: Sequence[RawMessage]) -> int:
    return round(sum(len(message.value) for message in messages) / len(messages))


BENCHMARK: Final = Benchmark(
    "client", "schedule() and schedule_many() over raw messages of the same bytes", run
)
