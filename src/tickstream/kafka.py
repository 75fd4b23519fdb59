"""The only module that configures confluent-kafka, and the only one that reads its error codes.

No decision and no tickstream record may enter here. Every setting that differs from librdkafka's
default says why.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
    cimpl,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tickstream.errors import BrokerUnavailable, LaneLost, LayoutMismatch, RetryTransaction
from tickstream.model import bucket_of_key
from tickstream.settings import MAX_COMMAND_BYTES, MAX_RECORD_BYTES, LaneSettings, Settings
from tickstream.topics import Layout, Topic, TopicNames, layout_of

__all__ = [
    "Consumer",
    "KafkaError",
    "KafkaException",
    "Message",
    "Producer",
    "TopicPartition",
]

CONNECT_TIMEOUT_S: Final = 4.0
"""A broker that has not answered by then is reported as unreachable (promised: within 5 s)."""

_LEADER_MOVES_S: Final = 0.05
"""Pause before a partition is asked again whose leader is not there yet."""


def _common(settings: Settings, client_id: str) -> dict[str, Any]:
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


# --------------------------------------------------------------------------- producers


def plain_producer(settings: Settings, client_id: str, *, linger_ms: int = 5) -> Producer:
    """An idempotent producer, acks=all: for commands, reports and verdicts."""
    return Producer(
        _common(settings, client_id)
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
        }
    )


def transactional_producer(settings: Settings, transactional_id: str, lane: LaneSettings) -> Producer:
    """One of a lane's two producers; `init_transactions` is the caller's."""
    return Producer(
        _common(settings, transactional_id)
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
        }
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


# --------------------------------------------------------------------------- consumers


def state_consumer(settings: Settings, client_id: str, *, isolation: str = "read_committed") -> Consumer:
    """A consumer for manual assignment that never invents a position.

    `auto.offset.reset=error`: a position below the log start surfaces as an error of that
    partition instead of a silent jump.
    """
    return Consumer(
        _common(settings, client_id)
        | {
            "group.id": f"{settings.prefix}state",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "isolation.level": isolation,
            # Bounds the memory of a consumer that stands before a long log.
            "queued.max.messages.kbytes": 16_384,
            "fetch.message.max.bytes": MAX_RECORD_BYTES + 64 * 1024,
        }
    )


def lanes_consumer(settings: Settings, group: str, client_id: str, lane: LaneSettings) -> Consumer:
    """The dispatcher's group member: an assignment is only the right to try for a lane."""
    return Consumer(
        _common(settings, client_id)
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
    session_ms: int = 10_000,
    on_commit: Callable[[KafkaError | None, list[TopicPartition]], None],
) -> Consumer:
    """A worker's group member on `work.<queue>`: reads from the start of what nobody committed.

    `on_commit` hears, within poll, how an asynchronous commit ended.
    """
    return Consumer(
        _common(settings, client_id)
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


# --------------------------------------------------------------------------- errors, translated once


@contextlib.contextmanager
def transaction_errors() -> Iterator[None]:
    """Translate what a transactional producer raises into the recovery it asks for.

    RetryTransaction: abort it and decide again. LaneLost: fenced, fatal, or an outcome that
    nobody can know; the lane has to be claimed anew.
    """
    try:
        yield
    except KafkaException as error:
        raise transaction_error(error.args[0]) from error


def transaction_error(error: KafkaError) -> LaneLost | RetryTransaction:
    """The recovery that `error` asks of a lane."""
    if error.txn_requires_abort() and not error.fatal():
        return RetryTransaction(str(error))
    return LaneLost(f"{error.name()}: {error.str()}")


def is_fenced(error: KafkaError) -> bool:
    """Whether a newer owner (or the coordinator's time-out) took this producer's id."""
    return error.code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)


def is_out_of_range(error: KafkaError) -> bool:
    """Whether a consumer's position lies outside the log (`auto.offset.reset=error`)."""
    return error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


def end_of(consumer: Consumer, topic: str, partition: int, timeout_s: float = CONNECT_TIMEOUT_S) -> int:
    """The offset of the next record of one partition; asked again while its leader moves.

    Raises BrokerUnavailable after `timeout_s`.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        left = max(0.1, deadline - time.monotonic())
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=left)[1])
        except KafkaException as error:
            if time.monotonic() > deadline:
                raise BrokerUnavailable(
                    f"the end of {topic}, partition {partition}, could not be asked within {timeout_s:g} s: "
                    f"{error.args[0].str()}"
                ) from error
            time.sleep(_LEADER_MOVES_S)


# --------------------------------------------------------------------------- messages


def place(message: Message[bytes, bytes]) -> tuple[str, int, int]:
    """(topic, partition, offset) of a message that was read or delivered."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if topic is None or partition is None or offset is None:
        raise ValueError("the message has no place in a log: it was never delivered")
    return topic, partition, offset


# --------------------------------------------------------------------------- administration


_NOTHING_TO_DELETE: Final = (KafkaError.GROUP_ID_NOT_FOUND, KafkaError.NON_EMPTY_GROUP)


class Admin:
    """Metadata and administration of one cluster. Thread-safe; owns one connection."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client = AdminClient(_common(settings, "tickstream-admin"))

    def partitions(self, timeout_s: float = CONNECT_TIMEOUT_S) -> dict[str, int]:
        """Topic name → number of partitions. Raises BrokerUnavailable."""
        try:
            metadata = self._client.list_topics(timeout=timeout_s)
        except KafkaException as error:
            raise BrokerUnavailable(
                f"no Kafka broker answered at {self._settings.bootstrap} within {timeout_s:g} s "
                f"({error.args[0].str()}); is it running, and is the address right?"
            ) from error
        return {name: len(topic.partitions) for name, topic in metadata.topics.items() if topic.error is None}

    def layout(self, timeout_s: float = CONNECT_TIMEOUT_S) -> Layout:
        """The installation's layout. Raises BrokerUnavailable, LayoutMismatch."""
        return layout_of(TopicNames(self._settings.prefix), self.partitions(timeout_s))

    def topic_ids(self, topics: Sequence[str]) -> dict[str, bytes]:
        """Topic name → its 16-byte id. Raises BrokerUnavailable, LayoutMismatch."""
        ids: dict[str, bytes] = {}
        for name, future in self._client.describe_topics(TopicCollection(list(topics))).items():
            uuid = self._result(future, f"describe topic {name}").topic_id
            high, low = uuid.get_most_significant_bits(), uuid.get_least_significant_bits()
            ids[name] = high.to_bytes(8, "big", signed=True) + low.to_bytes(8, "big", signed=True)
        return ids

    def create(self, topics: Sequence[Topic], *, replication: int = 1, timeout_s: float = 30.0) -> list[str]:
        """Create what is missing and wait until it is seen; return the names created."""
        have = self.partitions()
        todo = [t for t in topics if t.name not in have]
        if not todo:
            return []
        sync = {
            "min.insync.replicas": str(max(1, replication - 1)),
            "unclean.leader.election.enable": "false",
        }
        futures = self._client.create_topics(
            [NewTopic(t.name, t.partitions, replication, config=dict(t.config) | sync) for t in todo]
        )
        for name, future in futures.items():
            self._result(future, f"create topic {name}", KafkaError.TOPIC_ALREADY_EXISTS)
        deadline = time.monotonic() + timeout_s
        while not self._are_led(todo):
            if time.monotonic() > deadline:
                raise BrokerUnavailable(f"topics were created and are still not seen after {timeout_s:g} s")
            time.sleep(_LEADER_MOVES_S)
        return [t.name for t in todo]

    def _are_led(self, topics: Sequence[Topic]) -> bool:
        """Whether every partition answers: metadata names a leader before it knows that it leads."""
        if not {t.name for t in topics} <= self.partitions().keys():
            return False
        probe = EndProbe(self._client, [(t.name, p) for t in topics for p in range(t.partitions)])
        return not probe.failed()

    def drift(self, topics: Sequence[Topic]) -> list[str]:
        """What differs between the table and the cluster, one sentence each; empty: nothing."""
        have = self.partitions()
        found = [f"{t.name} is missing" for t in topics if t.name not in have]
        present = [t for t in topics if t.name in have]
        found += [
            f"{t.name} has {have[t.name]} partitions, expected {t.partitions}"
            for t in present
            if have[t.name] != t.partitions
        ]
        resources = {t.name: ConfigResource(ResourceType.TOPIC, t.name) for t in present}
        if resources:
            futures = self._client.describe_configs(list(resources.values()))
            actual = {r.name: self._result(f, f"describe {r.name}") for r, f in futures.items()}
            found += [
                f"{t.name}: {key} is {actual[t.name][key].value}, expected {value}"
                for t in present
                for key, value in t.config.items()
                if actual[t.name][key].value != value
            ]
        return found

    def delete_topics(self, topics: Sequence[str]) -> None:
        """Delete the topics (tests, demo)."""
        for name, future in self._client.delete_topics(list(topics)).items():
            self._result(future, f"delete topic {name}", KafkaError.UNKNOWN_TOPIC_OR_PART)

    def ends(
        self, partitions: Sequence[tuple[str, int]], timeout_s: float = 10.0
    ) -> dict[tuple[str, int], int]:
        """(topic, partition) → high watermark, seen with READ_UNCOMMITTED."""
        return EndProbe(self._client, partitions).wait(timeout_s)

    def starts(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """(topic, partition) → log start offset."""
        wanted = {TopicPartition(t, p): OffsetSpec.earliest() for t, p in partitions}
        futures = self._client.list_offsets(wanted)
        return {
            (tp.topic, tp.partition): self._result(f, f"start of {tp.topic}").offset
            for tp, f in futures.items()
        }

    def probe_ends(self, partitions: Sequence[tuple[str, int]]) -> EndProbe:
        """Ask for the ends without waiting for the answer."""
        return EndProbe(self._client, partitions)

    def delete_records(self, before: Mapping[tuple[str, int], int]) -> None:
        """Purge each partition below the given offset."""
        futures = self._client.delete_records([TopicPartition(t, p, o) for (t, p), o in before.items()])
        for tp, future in futures.items():
            self._result(future, f"purge {tp.topic}")

    def groups_empty(self, group: str) -> bool:
        """Whether the consumer group has no members."""
        future = self._client.describe_consumer_groups([group])[group]
        return not self._result(future, f"describe group {group}").members

    def delete_groups(self, groups: Sequence[str]) -> None:
        """Delete the consumer groups (demo). One whose dead members have not timed out yet stays."""
        for name, future in self._client.delete_consumer_groups(list(groups)).items():
            self._result(future, f"delete group {name}", *_NOTHING_TO_DELETE)

    @staticmethod
    def _result(future: Any, what: str, *ignore: int) -> Any:
        try:
            return future.result(timeout=30)
        except KafkaException as error:
            code = error.args[0].code()
            if code in ignore:
                return None
            if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise LayoutMismatch(f"{what}: it does not exist") from error
            raise BrokerUnavailable(f"{what}: {error.args[0].str()}") from error


class EndProbe:
    """An end-offset request under way (READ_UNCOMMITTED: what is accepted, not what is visible)."""

    def __init__(self, client: AdminClient, partitions: Sequence[tuple[str, int]]) -> None:
        wanted = {TopicPartition(t, p): OffsetSpec.latest() for t, p in partitions}
        self._futures = client.list_offsets(
            wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=5.0
        )

    def done(self) -> bool:
        """Whether every answer is there."""
        return all(f.done() for f in self._futures.values())

    def failed(self) -> bool:
        """Whether, once done, the broker could not be asked."""
        return any(f.exception() is not None for f in self._futures.values())

    def ends(self) -> dict[tuple[str, int], int]:
        """The answer, once done and not failed."""
        return {(tp.topic, tp.partition): f.result().offset for tp, f in self._futures.items()}

    def wait(self, timeout_s: float) -> dict[tuple[str, int], int]:
        """The answer. Raises BrokerUnavailable."""
        try:
            return {
                (tp.topic, tp.partition): f.result(timeout=timeout_s).offset
                for tp, f in self._futures.items()
            }
        except (KafkaException, TimeoutError) as error:
            raise BrokerUnavailable(f"the ends of the topics could not be asked: {error}") from error
