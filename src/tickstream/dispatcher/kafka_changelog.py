"""The changelog on a real broker, and the inputs as logs to be purged. Thin, like kafka_log.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tickstream.dispatcher.ports import Input, LogRecord
from tickstream.dispatcher.purge import Place
from tickstream.errors import BrokerUnavailable, LaneLost
from tickstream.kafka import Admin, Consumer, TopicPartition, is_out_of_range, place, state_consumer
from tickstream.model import NEVER
from tickstream.settings import Settings
from tickstream.topics import TopicNames

_BEGINNING: Final = -2
"""librdkafka's OFFSET_BEGINNING."""


class KafkaChangelog:
    """`timers`, read back by a consumer of its own."""

    def __init__(self, settings: Settings, names: TopicNames, reader: str) -> None:
        """`reader`: who reads, as the broker's logs name it."""
        self._consumer: Consumer = state_consumer(settings, f"{names.prefix}{reader}")
        self._topic = names.timers

    def open(self, offsets: Mapping[int, int]) -> None:
        self._consumer.incremental_assign(
            [TopicPartition(self._topic, b, _BEGINNING if o == NEVER else o) for b, o in offsets.items()]
        )

    def read(self, timeout_s: float, limit: int) -> Sequence[LogRecord]:
        first = self._consumer.poll(timeout_s)
        if first is None:
            return ()
        found = []
        for message in (first, *self._consumer.consume(limit - 1, 0)):
            error = message.error()
            if error is not None:
                if is_out_of_range(error) or error.fatal():
                    raise LaneLost(f"the changelog cannot be read: {error.str()}")
                continue
            _, partition, offset = place(message)
            found.append(LogRecord(partition, offset, message.key(), message.value()))
        return found

    def positions(self) -> Mapping[int, int]:
        return {
            place.partition: place.offset for place in self._consumer.position(self._consumer.assignment())
        }

    def done(self, bucket: int) -> None:
        self._consumer.incremental_unassign([TopicPartition(self._topic, bucket)])

    def close(self) -> None:
        self._consumer.close()


class KafkaTimersEnds:
    """Where `timers` ends. Blocks: for threads that nobody waits for."""

    def __init__(self, admin: Admin, names: TopicNames, buckets: int) -> None:
        self._admin = admin
        self._partitions = [(names.timers, bucket) for bucket in range(buckets)]

    def high(self) -> Mapping[int, int]:
        return self._ends(stable=False)

    def stable(self) -> Mapping[int, int]:
        return self._ends(stable=True)

    def _ends(self, *, stable: bool) -> Mapping[int, int]:
        try:
            ends = self._admin.ends(self._partitions, stable=stable)
        except BrokerUnavailable as error:
            raise LaneLost(str(error)) from error
        return {bucket: end for (_, bucket), end in ends.items()}


class KafkaInputLogs:
    """`commands` and `reports` as logs. Blocks: for threads that nobody waits for."""

    def __init__(self, admin: Admin, names: TopicNames, buckets: int) -> None:
        self._admin = admin
        self._topics = {Input.COMMANDS: names.commands, Input.REPORTS: names.reports}
        self._sources = {topic: source for source, topic in self._topics.items()}
        self._partitions = [(topic, bucket) for topic in self._sources for bucket in range(buckets)]

    def topic_ids(self) -> Mapping[Input, bytes]:
        ids = self._admin.topic_ids(list(self._sources))
        return {source: ids[topic] for source, topic in self._topics.items()}

    def starts(self) -> Mapping[Place, int]:
        starts = self._admin.starts(self._partitions)
        return {(self._sources[topic], bucket): offset for (topic, bucket), offset in starts.items()}

    def first_since(self, wall_ms: int) -> Mapping[Place, int]:
        found = self._admin.offsets_at(self._partitions, wall_ms)
        return {(self._sources[topic], bucket): offset for (topic, bucket), offset in found.items()}

    def delete_before(self, offsets: Mapping[Place, int]) -> None:
        self._admin.delete_records({(self._topics[s], bucket): o for (s, bucket), o in offsets.items()})
