"""What a worker's reader and reporter use of confluent-kafka, on the simulated broker: a consumer, a producer.

Only what those two call; errors are Kafka's own. No decision of a worker may enter here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tickstream.kafka import KafkaError, KafkaException, TopicPartition
from tickstream.testing.sim.faults import Dice
from tickstream.testing.sim.group import SimGroup
from tickstream.testing.sim.log import OutOfRange, Record
from tickstream.testing.sim.transactions import Broker
from tickstream.testing.sim.world import MS, Crashed, Process

Rebalanced = Callable[[Any, list[TopicPartition]], None]
Committed = Callable[[KafkaError | None, list[TopicPartition]], None]


class SimMessage:
    """A record as a client hands it out."""

    __slots__ = ("_partition", "_record", "_topic")

    def __init__(self, topic: str, partition: int, record: Record) -> None:
        self._topic = topic
        self._partition = partition
        self._record = record

    def error(self) -> None:
        """There is none."""

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._record.offset

    def value(self) -> bytes | None:
        return self._record.value

    def timestamp(self) -> tuple[int, int]:
        return (1, self._record.at_ms)


class SimConsumer:
    """A member of a group that reads one topic read_committed, from the committed offsets or the start.

    Its calls are made from the worker's own events, so a rebalance is heard between two turns: in
    Kafka that is inside `poll`.
    """

    def __init__(
        self,
        process: Process,
        dice: Dice,
        broker: Broker,
        group: SimGroup,
        on_commit: Committed,
        wake: Callable[[], None],
    ) -> None:
        self._process = process
        self._dice = dice
        self._broker = broker
        self._group = group
        self._on_commit = on_commit
        self._wake = wake
        self._topic = ""
        self._at: dict[int, int] = {}
        self._paused: set[int] = set()
        self._busy = False
        """In a rebalance callback, which may wait: until it is over, nothing else is heard."""
        self._assigned: Rebalanced
        self._revoked: Rebalanced
        self._lost: Rebalanced

    def subscribe(
        self, topics: Sequence[str], *, on_assign: Rebalanced, on_revoke: Rebalanced, on_lost: Rebalanced
    ) -> None:
        (self._topic,) = topics
        self._assigned, self._revoked, self._lost = on_assign, on_revoke, on_lost
        self._group.join(self._process, self)

    # ------------------------------------------------------------------ the group speaks

    def on_assign(self, partitions: list[int]) -> None:
        """See GroupMember."""
        if self._busy:
            self._again(lambda: self.on_assign(partitions))
            return
        self._assigned(self, self._places(partitions))
        for number in partitions:
            self._at[number] = self._group.committed.get(number, 0)
            self._broker.partitions[self._topic, number].watch(self._wake)
        self._wake()

    def on_revoke(self, partitions: list[int], done: Callable[[], None]) -> None:
        """See GroupMember."""
        if self._busy:
            self._again(lambda: self.on_revoke(partitions, done))
            return
        self._busy = True
        try:
            self._revoked(self, self._places(partitions))
        except Crashed:
            return
        finally:
            self._busy = False
        self._unassign(partitions)
        done()

    def on_lost(self, partitions: list[int]) -> None:
        """See GroupMember."""
        if self._busy:
            self._again(lambda: self.on_lost(partitions))
            return
        self._lost(self, self._places(partitions))
        self._unassign(partitions)

    def _again(self, do: Callable[[], None]) -> None:
        self._dice.world.after(5 * MS, self._process, do)

    def _unassign(self, partitions: list[int]) -> None:
        for number in partitions:
            self._at.pop(number, None)
            self._paused.discard(number)
            self._broker.partitions[self._topic, number].unwatch(self._wake)

    # ------------------------------------------------------------------ what the reader calls

    def poll(self, _timeout_s: float) -> SimMessage | None:
        messages = self.consume(1, 0)
        return messages[0] if messages else None

    def consume(self, limit: int, _timeout_s: float) -> list[SimMessage]:
        if self._dice.hit(self._dice.now.partial):
            limit = min(limit, 1)
        found: list[SimMessage] = []
        for number, at in list(self._at.items()):
            if number in self._paused or len(found) >= limit:
                continue
            partition = self._broker.partitions[self._topic, number]
            if at == partition.stable:
                continue
            try:
                records, self._at[number] = partition.read(at, limit - len(found))
            except OutOfRange:
                self._at[number] = partition.start  # auto.offset.reset=earliest
                continue
            found += [SimMessage(self._topic, number, record) for record in records]
        return found

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        self._paused.update(tp.partition for tp in partitions)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        self._paused.difference_update(tp.partition for tp in partitions)

    def incremental_assign(self, _partitions: Sequence[TopicPartition]) -> None:
        """The partitions are taken in any case."""

    def commit(self, *, offsets: Sequence[TopicPartition], asynchronous: bool) -> list[TopicPartition] | None:
        """Taken from a member that has the partitions, whenever it arrives."""
        positions = {tp.partition: tp.offset for tp in offsets}
        lost = self._dice.hit(self._dice.now.write_lost)
        if not asynchronous:
            if lost or not self._take(positions):
                raise KafkaException(KafkaError(KafkaError.REBALANCE_IN_PROGRESS))
            return list(offsets)

        def arrives() -> None:
            taken = not lost and self._take(positions)
            error = None if taken else KafkaError(KafkaError.ILLEGAL_GENERATION)
            self._on_commit(error, list(offsets))

        self._dice.world.after(self._dice.delay(), self._process, arrives)
        return None

    def close(self) -> None:
        self._unassign(list(self._at))
        self._group.leave(self._process)

    def _take(self, positions: Mapping[int, int]) -> bool:
        if not all(self._group.holds(self._process, number) for number in positions):
            return False
        self._group.committed.update(positions)
        return True

    def _places(self, numbers: Sequence[int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, number) for number in numbers]


class SimProducer:
    """An idempotent producer: a write is acknowledged, or failed for good, which its log may not know.

    A write whose acknowledgement is lost is repeated by the client library under the same sequence
    number, so it stands in the log once; given up on, it may stand there all the same.
    """

    def __init__(self, process: Process, dice: Dice, broker: Broker, wake: Callable[[], None]) -> None:
        self._process = process
        self._dice = dice
        self._broker = broker
        self._wake = wake
        self._delivered: list[Callable[[], None]] = []

    def produce(
        self,
        topic: str,
        *,
        value: bytes,
        key: bytes,
        partition: int,
        on_delivery: Callable[[KafkaError | None, SimMessage], None],
    ) -> None:
        dice, world = self._dice, self._dice.world
        lost = dice.hit(dice.now.write_lost)
        unacked = dice.hit(dice.now.ack_lost)
        record = Record(-1, key, value, -1, -1)

        def arrives() -> None:
            if not lost:
                record.offset = self._broker.append(topic, partition, key, value)
            error = KafkaError(KafkaError._MSG_TIMED_OUT) if lost or unacked else None
            message = SimMessage(topic, partition, record)
            world.after(dice.delay(), self._process, lambda: self._answer(on_delivery, error, message))

        # What is sent stays sent, even if its sender dies now.
        world.after(dice.delay(), None, arrives)

    def poll(self, _timeout_s: float) -> int:
        """Serve delivery reports."""
        served, self._delivered = self._delivered, []
        for report in served:
            report()
        return len(served)

    def _answer(
        self,
        on_delivery: Callable[[KafkaError | None, SimMessage], None],
        error: KafkaError | None,
        message: SimMessage,
    ) -> None:
        self._delivered.append(lambda: on_delivery(error, message))
        self._wake()
