"""Many timers at once, by the shortest way into `commands`, the changelog, or a store.

Bytes are the product's own, from its codec and its store; only the way in is short. Nothing is measured here.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from bench.cluster import BUCKETS
from bench.raw import produce
from bench.raw.records import HANDLER, PAYLOAD_BYTES
from tickstream.codec import (
    PROGRESS,
    SPEC,
    STATE,
    ScheduleFrame,
    batch_of_elements,
    encode_command,
    encode_progress,
    encode_spec,
    encode_state,
    timers_key,
)
from tickstream.errors import SendFailed
from tickstream.kafka import Admin, partitioner
from tickstream.model import (
    DEFAULT_OPTIONS,
    DEFAULT_QUEUE,
    NEVER,
    InputPosition,
    Outcome,
    Progress,
    Rev,
    TaskSpec,
    TaskState,
)
from tickstream.settings import Settings
from tickstream.timer_store import BucketMeta, TaskChange, TimerStore
from tickstream.topics import TopicNames

FRAME: Final = ScheduleFrame(DEFAULT_QUEUE, DEFAULT_OPTIONS, HANDLER, {})
PER_MESSAGE: Final = 100
_RANDOM: Final = random.Random(5).randbytes(1 << 20)
_STRETCH: Final = 5_000
"""Timers in one WriteBatch."""
_POLL_EVERY: Final = 1_000

RunAt = Callable[[int], int]
"""Number of a timer → its instant, ms."""


def task_id(number: int) -> str:
    """The id of a timer."""
    return f"bench:{number:08d}"


@cache
def _murmur() -> Callable[[bytes, int], int]:
    return partitioner()


def bucket_of_number(number: int, buckets: int = BUCKETS) -> int:
    """Where a timer lives."""
    return _murmur()(task_id(number).encode(), buckets)


def command_id(number: int) -> bytes:
    """Sixteen bytes of its own for every timer."""
    return number.to_bytes(16, "big")


def payload_of(number: int) -> bytes:
    """PAYLOAD_BYTES that do not compress."""
    start = number * 61 % (len(_RANDOM) - PAYLOAD_BYTES)
    return _RANDOM[start : start + PAYLOAD_BYTES]


# --------------------------------------------------------------------------- commands


def fill_commands(
    settings: Settings, numbers: Sequence[int], run_at: RunAt, *, per_message: int, buckets: int = BUCKETS
) -> None:
    """A Schedule for each timer, `per_message` to a message, all acknowledged. Raises SendFailed."""
    topic = TopicNames(settings.prefix).commands
    producer = produce.ready_producer(settings, topic, ())
    for sent, (bucket, key, value) in enumerate(_arrays(numbers, run_at, per_message, buckets)):
        producer.produce(topic, value, key, bucket)
        if not sent % _POLL_EVERY:
            producer.poll(0)
    if producer.flush(60):
        raise SendFailed("not every command was acknowledged")


def _arrays(
    numbers: Sequence[int], run_at: RunAt, per_message: int, buckets: int
) -> Iterator[tuple[int, bytes, bytes]]:
    waiting: dict[int, list[bytes]] = defaultdict(list)
    for number in numbers:
        name, bucket = task_id(number).encode(), bucket_of_number(number, buckets)
        array = waiting[bucket]
        array.append(FRAME.element(command_id(number), name, run_at(number), payload_of(number)))
        if len(array) >= per_message:
            yield bucket, name, batch_of_elements("bench", NEVER, array)
            array.clear()
    for bucket, array in waiting.items():
        if array:
            yield bucket, b"", batch_of_elements("bench", NEVER, array)


# --------------------------------------------------------------------------- the changelog


def spec_and_state(number: int, at_ms: int) -> tuple[TaskSpec, TaskState]:
    """A timer that waits for its instant."""
    command = encode_command(FRAME.command(command_id(number), task_id(number), at_ms, payload_of(number)))
    rev = Rev(0, number)
    return TaskSpec(rev, command), TaskState(rev, at_ms, NEVER, (), None, NEVER, ())


def stub(number: int, ended_ms: int, forget_ms: int) -> TaskState:
    """What is left of a task that is done."""
    return TaskState(Rev(0, number), NEVER, ended_ms, (), Outcome.SUCCEEDED, ended_ms, (), forget_ms)


def progress_of(settings: Settings) -> bytes:
    """A Progress that stands at the start of both inputs."""
    names = TopicNames(settings.prefix)
    ids = Admin(settings).topic_ids([names.commands, names.reports])
    commands, reports = (InputPosition(ids[topic], 0, 0, NEVER) for topic in (names.commands, names.reports))
    return encode_progress(Progress(commands, reports, 0, 0, 0, "", 0))


def fill_changelog(
    settings: Settings, timers: int, run_at: RunAt, *, stubs: int = 0, ended_ms: int = 0, forget_ms: int = 0
) -> None:
    """The changelog of `timers` that wait and of `stubs`, as applied commands would have left it.

    Without transactions: what is measured afterwards only reads it. Raises SendFailed.
    """
    topic = TopicNames(settings.prefix).timers
    producer = produce.ready_producer(settings, topic, ())
    for number in range(timers):
        spec, state = spec_and_state(number, run_at(number))
        name, bucket = task_id(number), bucket_of_number(number)
        producer.produce(topic, encode_spec(spec), timers_key(SPEC, name), bucket)
        producer.produce(topic, encode_state(state), timers_key(STATE, name), bucket)
        if not number % _POLL_EVERY:
            producer.poll(0)
    for number in range(timers, timers + stubs):
        value = encode_state(stub(number, ended_ms, forget_ms))
        producer.produce(topic, value, timers_key(STATE, task_id(number)), bucket_of_number(number))
        if not number % _POLL_EVERY:
            producer.poll(0)
    progress = progress_of(settings)
    for bucket in range(BUCKETS):
        producer.produce(topic, progress, timers_key(PROGRESS), bucket)
    if producer.flush(60):
        raise SendFailed("not every record of the changelog was acknowledged")


# --------------------------------------------------------------------------- a store


def fill_store(
    settings: Settings, path: Path, timers: int, run_at: RunAt, *, now_ms: int, buckets: int = BUCKETS
) -> None:
    """A store as one dispatcher would have it, with nothing of its timers in the changelog.

    A take-over trusts it: it says that it was read up to the start of the log.
    """
    timers_id = Admin(settings).topic_ids([TopicNames(settings.prefix).timers])
    meta = BucketMeta(0, timers_id[TopicNames(settings.prefix).timers], now_ms, progress_of(settings))
    with TimerStore(path) as store:
        tokens = [store.acquire(bucket) for bucket in range(buckets)]
        waiting: dict[int, list[TaskChange]] = defaultdict(list)

        def write(bucket: int) -> None:
            store.apply(bucket, tokens[bucket], 0, waiting[bucket], meta)
            waiting[bucket].clear()

        for number in range(timers):
            spec, state = spec_and_state(number, run_at(number))
            bucket = bucket_of_number(number, buckets)
            waiting[bucket].append(
                TaskChange(task_id(number), None, None, spec, state, encode_spec(spec), encode_state(state))
            )
            if len(waiting[bucket]) >= _STRETCH:
                write(bucket)
        for bucket in range(buckets):
            write(bucket)
        store.flush()
