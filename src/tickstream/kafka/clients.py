"""Producers and consumers, each configured for one purpose.

Every setting that differs from librdkafka's default says why.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition, cimpl

from tickstream.codec import check_format, formats, in_format
from tickstream.model import bucket_of_key
from tickstream.settings import MAX_COMMAND_BYTES, MAX_RECORD_BYTES, LaneSettings, Settings
from tickstream.topics import TopicNames


def common(settings: Settings, client_id: str) -> dict[str, Any]:
    """What every connection is configured with."""
    return {
        "bootstrap.servers": settings.bootstrap,
        "client.id": client_id,
        # Warnings of a dead broker would be printed by C code past every logger.
        "log_level": 0,
        # A restarted broker should be found again at once, not after the default ten seconds.
        "reconnect.backoff.max.ms": 1_000,
        # A topic created a moment ago, and a leader that moved, are seen within a second.
        "topic.metadata.refresh.fast.interval.ms": 100,
        "topic.metadata.refresh.interval.ms": 5_000,
        **settings.kafka,
    }


class _OlderFormat(Producer):
    """A producer for a cluster in which older releases still read: it writes what they understand.

    Raises NotInFormat where a record says what they have no words for. Dead letters are kept as they came.
    """

    def __init__(self, config: dict[str, Any], version: int, as_they_came: str) -> None:
        super().__init__(config)
        self._version = version
        self._as_they_came = as_they_came

    def produce(self, topic: str, value: Any = None, *args: Any, **kwargs: Any) -> None:
        if value is not None and topic != self._as_they_came:
            value = in_format(value, self._version)
        super().produce(topic, value, *args, **kwargs)


def _producer(settings: Settings, config: dict[str, Any]) -> Producer:
    """The newest format is written unless `format.write` holds it back. Raises InvalidInput."""
    if settings.format_write is None or check_format(settings.format_write) == formats()[-1]:
        return Producer(config)
    return _OlderFormat(config, settings.format_write, TopicNames(settings.prefix).dead_letter)


def plain_producer(settings: Settings, client_id: str, *, linger_ms: int = 5) -> Producer:
    """An idempotent producer, acks=all: for commands, reports and verdicts."""
    return _producer(
        settings,
        common(settings, client_id)
        | {
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": linger_ms,
            "message.timeout.ms": 8_000,
            "message.max.bytes": MAX_RECORD_BYTES + 64 * 1024,
            # The broker holds a whole batch against the topic's max.message.bytes; with the default
            # of 1 MB it refuses batches of messages that are small enough each.
            "batch.size": MAX_COMMAND_BYTES - 1024,
            "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": 64 * 1024,
        },
    )


def transactional_producer(settings: Settings, transactional_id: str, lane: LaneSettings) -> Producer:
    """One of a lane's two producers; `init_transactions` is the caller's."""
    return _producer(
        settings,
        common(settings, transactional_id)
        | {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": lane.transaction_timeout_ms,
            # Below the transaction's, or a commit could outlive what it commits.
            "message.timeout.ms": lane.message_timeout_ms,
            "linger.ms": 2,
            # With the default of 100 ms back-to-back transactions stall on CONCURRENT_TRANSACTIONS.
            "retry.backoff.ms": 5,
            "message.max.bytes": MAX_RECORD_BYTES + 64 * 1024,
            "queue.buffering.max.messages": 200_000,
        },
    )


def partitioner() -> Callable[[bytes, int], int]:
    """`model.bucket_of_key` by librdkafka's own code, at a third of its price.

    The library that confluent-kafka has loaded exports its partitioners; where it is built without
    exports, the pure function does the same.
    """
    try:
        library = ctypes.PyDLL(cimpl.__file__)
        compute = library.rd_kafka_msg_partitioner_murmur2
    except (OSError, AttributeError):
        return bucket_of_key
    # (topic, key, size of the key, partitions, two opaque pointers)
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32
    compute.argtypes = [pointer, ctypes.c_char_p, size, number, pointer, pointer]
    compute.restype = number
    return lambda key, partitions: compute(None, key, len(key), partitions, None, None)


def state_consumer(
    settings: Settings,
    client_id: str,
    *,
    isolation: str = "read_committed",
    ahead_kbytes: int = 16_384,
    fetch_bytes: int = 52_428_800,
) -> Consumer:
    """A consumer for manual assignment that never invents a position.

    `auto.offset.reset=error`: a position below the log start surfaces as an error of that
    partition instead of a silent jump. `ahead_kbytes` and `fetch_bytes` bound what it holds before it is
    asked for, and one answer of a broker; small records cost three times their bytes there.
    """
    return Consumer(
        common(settings, client_id)
        | {
            "group.id": f"{settings.prefix}state",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "isolation.level": isolation,
            # Bounds the memory of a consumer that stands before a long log.
            "queued.max.messages.kbytes": ahead_kbytes,
            "fetch.max.bytes": fetch_bytes,
            "fetch.message.max.bytes": MAX_RECORD_BYTES + 64 * 1024,
        }
    )


def lanes_consumer(settings: Settings, group: str, client_id: str, lane: LaneSettings) -> Consumer:
    """The dispatcher's group member: an assignment is only the right to try for a lane."""
    return Consumer(
        common(settings, client_id)
        | {
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": lane.session_ms,
            "heartbeat.interval.ms": max(200, lane.session_ms // 6),
            "max.poll.interval.ms": max(60_000, lane.session_ms),
        }
    )


def worker_consumer(
    settings: Settings,
    group: str,
    client_id: str,
    *,
    session_ms: int = 6_000,
    on_commit: Callable[[KafkaError | None, list[TopicPartition]], None],
) -> Consumer:
    """A worker's group member on `work.<queue>`: reads from the start of what nobody committed.

    `on_commit` hears, within poll, how an asynchronous commit ended.
    """
    return Consumer(
        common(settings, client_id)
        | {
            "group.id": group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": max(200, session_ms // 6),
            "on_commit": on_commit,
            # A partition that is assigned or resumed waits for the fetch under way: by default half a second.
            "fetch.wait.max.ms": 100,
            "queued.max.messages.kbytes": 16_384,
        }
    )
