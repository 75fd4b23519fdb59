"""A cluster that is not there: what a client is given instead of Kafka in tests without a broker."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from tickstream.clock import Clock
from tickstream.codec import CommandBatch, decode_batch
from tickstream.ingest import Client
from tickstream.ingest.producer import OnDelivery
from tickstream.ingest.verdicts import VerdictTail
from tickstream.kafka import KafkaError
from tickstream.model import Command, bucket_of_key
from tickstream.settings import Settings
from tickstream.topics import Layout


class ManualClock:
    """Time that moves when told to."""

    def __init__(self, wall_ms: int = 1_900_000_000_000) -> None:
        self.now_ms = wall_ms

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic(self) -> float:
        return self.now_ms / 1_000

    def advance(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1_000)


class Delivered:
    """The part of a Message that a delivery callback looks at."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def offset(self) -> int:
        return self._offset


@dataclass
class Sent:
    """A message that was produced."""

    topic: str
    value: bytes
    key: bytes
    partition: int
    on_delivery: OnDelivery

    @property
    def batch(self) -> CommandBatch:
        return decode_batch(self.value)


class FakeProducer:
    """Acknowledges at the next poll, in order; keeps `room` messages until then."""

    def __init__(self, room: int = 1_000_000) -> None:
        self.room = room
        self.sent: list[Sent] = []
        self.waiting: list[Sent] = []
        self.most_waiting = 0
        self.failing: list[KafkaError] = []
        """Errors for the next messages, in order."""
        self.clock: ManualClock | None = None
        """Advanced by every poll, when there is one."""
        self.stuck = False
        self._ends: dict[int, int] = {}
        self._turn = threading.Condition(threading.RLock())
        """Several threads may poll; each message is acknowledged once, in order."""

    def produce(
        self, topic: str, value: bytes, key: bytes, partition: int, on_delivery: OnDelivery, /
    ) -> None:
        with self._turn:
            if len(self.waiting) >= self.room:
                raise BufferError("Local: Queue full")
            message = Sent(topic, value, key, partition, on_delivery)
            self.sent.append(message)
            self.waiting.append(message)
            self.most_waiting = max(self.most_waiting, len(self.waiting))
            self._turn.notify()

    def poll(self, timeout: float, /) -> int:
        if self.clock is not None:
            self.clock.advance(timeout)
        with self._turn:
            if self.clock is None and timeout:
                self._turn.wait_for(lambda: self.waiting and not self.stuck, timeout)
            return 0 if self.stuck else self._acknowledge()

    def _acknowledge(self) -> int:
        acknowledged, self.waiting = self.waiting, []
        for message in acknowledged:
            error = self.failing.pop(0) if self.failing else None
            offset = self._ends.get(message.partition, 0)
            if error is None:
                self._ends[message.partition] = offset + 1
            message.on_delivery(error, Delivered(offset))  # type: ignore[arg-type]
        return len(acknowledged)

    def flush(self, timeout: float, /) -> int:
        self.poll(timeout if self.clock is not None else 0)
        return len(self.waiting)


@dataclass
class FakeCluster:
    """Metadata and a producer; verdicts need a broker."""

    buckets: int = 8
    queues: frozenset[str] = frozenset({"default"})
    producer: FakeProducer = field(default_factory=FakeProducer)
    asked: int = 0
    """How often the metadata were fetched."""

    def bucket_of_key(self, key: bytes, buckets: int) -> int:
        return bucket_of_key(key, buckets)

    def layout(self) -> Layout:
        self.asked += 1
        return Layout(self.buckets, 4, 0, self.queues)

    def verdicts(self) -> VerdictTail:
        raise AssertionError("this test needs no verdicts")

    def client(self, clock: Clock | None = None, **dashboard: str) -> Client:
        """`dashboard`: address and token of one that is there."""
        return Client(
            Settings("nowhere:9092"),
            client_id="c-1",
            clock=clock,
            connect=lambda _settings, _client_id: self,
            **dashboard,
        )

    def commands(self) -> list[Command]:
        """Everything sent, in the order of the messages."""
        return [command for message in self.producer.sent for command in message.batch.commands]


def by_id(commands: Iterable[Command]) -> dict[str, Command]:
    return {command.task_id: command for command in commands}
