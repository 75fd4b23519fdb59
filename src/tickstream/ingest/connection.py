"""What a client holds of Kafka: metadata, a producer, a reader of verdicts.

The only file of this room that opens connections.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from zlib import crc32

from tickstream.ingest.changelog import Changelog, KafkaChangelog
from tickstream.ingest.producer import ProducerPort
from tickstream.ingest.verdicts import VerdictTail
from tickstream.kafka import (
    Admin,
    TopicPartition,
    end_of,
    is_out_of_range,
    partitioner,
    plain_producer,
    state_consumer,
)
from tickstream.settings import Settings
from tickstream.topics import Layout, TopicNames


class Connection(Protocol):
    """What a client needs of a cluster."""

    @property
    def producer(self) -> ProducerPort:
        """Sends commands."""
        ...

    @property
    def bucket_of_key(self) -> Callable[[bytes, int], int]:
        """What `model.bucket_of_key` is."""
        ...

    def layout(self) -> Layout:
        """The layout now. Raises BrokerUnavailable, LayoutMismatch."""
        ...

    def verdicts(self) -> VerdictTail:
        """A reader of this client's answers, from now on. Raises BrokerUnavailable."""
        ...

    def changelog(self) -> Changelog:
        """Where tasks stand, and what became of their occurrences."""
        ...


class KafkaConnection:
    """A connection to a real cluster; nothing is asked of it until `layout`."""

    def __init__(self, settings: Settings, client_id: str) -> None:
        self._settings = settings
        self._client_id = client_id
        self._names = TopicNames(settings.prefix)
        self._admin = Admin(settings)
        self._producer = plain_producer(settings, client_id)
        self.bucket_of_key = partitioner()

    @property
    def producer(self) -> ProducerPort:
        """Sends commands."""
        return self._producer

    def layout(self) -> Layout:
        """The layout now. Raises BrokerUnavailable, LayoutMismatch."""
        return self._admin.layout()

    def verdicts(self) -> VerdictTail:
        """A reader of one partition of `verdicts`, from its present end on. Raises BrokerUnavailable."""
        topic = self._names.verdicts
        partition = crc32(self._client_id.encode()) % self._admin.partitions()[topic]
        consumer = state_consumer(self._settings, self._client_id, isolation="read_uncommitted")

        def to_end() -> None:
            end = end_of(consumer, topic, partition)
            consumer.assign([TopicPartition(topic, partition, end)])

        to_end()
        return VerdictTail(consumer, partition, self._client_id, is_out_of_range, to_end)

    def changelog(self) -> Changelog:
        """Where tasks stand, and what became of their occurrences."""
        return KafkaChangelog(self._settings, self._client_id, self._admin)


def connect_kafka(settings: Settings, client_id: str) -> Connection:
    """A connection to the cluster that `settings` name."""
    return KafkaConnection(settings, client_id)
