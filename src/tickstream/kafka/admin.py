"""Metadata and administration: topics, offsets, groups."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tickstream.errors import BrokerUnavailable, LayoutMismatch
from tickstream.kafka.clients import common
from tickstream.settings import Settings
from tickstream.topics import Layout, Topic, TopicNames, layout_of

CONNECT_TIMEOUT_S: Final = 4.0
"""A broker that has not answered by then is reported as unreachable (promised: within 5 s)."""
_ANSWER_S: Final = 30.0
_LEADER_MOVES_S: Final = 0.05
"""Pause before a partition is asked again whose leader is not there yet."""

_NOTHING_TO_DELETE: Final = (KafkaError.GROUP_ID_NOT_FOUND, KafkaError.NON_EMPTY_GROUP)


class Admin:
    """Metadata and administration of one cluster. Thread-safe; owns one connection."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client = AdminClient(common(settings, "tickstream-admin"))

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
        self, partitions: Sequence[tuple[str, int]], timeout_s: float = 10.0, *, stable: bool = False
    ) -> dict[tuple[str, int], int]:
        """(topic, partition) → high watermark, or with `stable` the last stable offset."""
        return EndProbe(self._client, partitions, stable=stable).wait(timeout_s)

    def starts(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """(topic, partition) → log start offset."""
        wanted = {TopicPartition(t, p): OffsetSpec.earliest() for t, p in partitions}
        futures = self._client.list_offsets(wanted)
        return {
            (tp.topic, tp.partition): self._result(f, f"start of {tp.topic}").offset
            for tp, f in futures.items()
        }

    def offsets_at(self, partitions: Sequence[tuple[str, int]], at_ms: int) -> dict[tuple[str, int], int]:
        """(topic, partition) → offset of the first record at or after the instant; without those that have none."""
        wanted = {TopicPartition(t, p): OffsetSpec.for_timestamp(at_ms) for t, p in partitions}
        futures = self._client.list_offsets(wanted)
        found = {
            (tp.topic, tp.partition): self._result(f, f"offset of {tp.topic} at {at_ms}").offset
            for tp, f in futures.items()
        }
        return {place: offset for place, offset in found.items() if offset >= 0}

    def probe_ends(self, partitions: Sequence[tuple[str, int]]) -> EndProbe:
        """Ask for the ends without waiting for the answer."""
        return EndProbe(self._client, partitions)

    def delete_records(self, before: Mapping[tuple[str, int], int]) -> None:
        """Purge each partition below the given offset."""
        futures = self._client.delete_records([TopicPartition(t, p, o) for (t, p), o in before.items()])
        for tp, future in futures.items():
            self._result(future, f"purge {tp.topic}")

    def delete_groups(self, groups: Sequence[str]) -> None:
        """Delete the consumer groups (demo). One whose dead members have not timed out yet stays."""
        for name, future in self._client.delete_consumer_groups(list(groups)).items():
            self._result(future, f"delete group {name}", *_NOTHING_TO_DELETE)

    def groups(self) -> dict[str, bool]:
        """Group → whether it has members now. Raises BrokerUnavailable.

        Asks each broker for what it knows, and so no coordinator: on a cluster that never had a group
        one has to be made first, which takes seconds.
        """
        listed = self._result(
            self._client.list_consumer_groups(request_timeout=CONNECT_TIMEOUT_S), "list groups"
        )
        if listed.errors:
            raise BrokerUnavailable(f"list groups: {listed.errors[0]}")
        nobody = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)
        return {group.group_id: group.state not in nobody for group in listed.valid}

    def members(self, groups: Sequence[str]) -> dict[str, list[GroupMember]]:
        """Group → its members now, none of a group that does not exist. Raises BrokerUnavailable."""
        found: dict[str, list[GroupMember]] = {}
        for group, future in self._client.describe_consumer_groups(list(groups)).items():
            described = self._result(future, f"describe group {group}", KafkaError.GROUP_ID_NOT_FOUND)
            found[group] = [
                GroupMember(
                    member.client_id,
                    member.host.lstrip("/"),
                    tuple((p.topic, p.partition) for p in member.assignment.topic_partitions),
                )
                for member in (described.members if described is not None else ())
            ]
        return found

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """(topic, partition) → the group's committed offset, where there is one. Raises BrokerUnavailable."""
        asked = ConsumerGroupTopicPartitions(group)
        (future,) = self._client.list_consumer_group_offsets([asked]).values()
        answer = self._result(future, f"offsets of group {group}", KafkaError.GROUP_ID_NOT_FOUND)
        partitions = answer.topic_partitions if answer is not None else ()
        return {(p.topic, p.partition): p.offset for p in partitions if p.offset >= 0}

    @staticmethod
    def _result(future: Any, what: str, *ignore: int) -> Any:
        try:
            return future.result(timeout=_ANSWER_S)
        except KafkaException as error:
            code = error.args[0].code()
            if code in ignore:
                return None
            if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise LayoutMismatch(f"{what}: it does not exist") from error
            raise BrokerUnavailable(f"{what}: {error.args[0].str()}") from error
        except TimeoutError as error:
            raise BrokerUnavailable(f"{what}: the broker did not answer within {_ANSWER_S:g} s") from error


class GroupMember(NamedTuple):
    """A member of a consumer group."""

    client_id: str
    host: str
    assigned: tuple[tuple[str, int], ...]
    """(topic, partition) of each."""


class EndProbe:
    """An end-offset request under way: what is accepted, or with `stable` what is visible of it."""

    def __init__(
        self, client: AdminClient, partitions: Sequence[tuple[str, int]], *, stable: bool = False
    ) -> None:
        wanted = {TopicPartition(t, p): OffsetSpec.latest() for t, p in partitions}
        level = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
        self._futures = client.list_offsets(wanted, isolation_level=level, request_timeout=5.0)

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
