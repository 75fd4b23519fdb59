"""One stage for two casts: the ports of a lane on a real broker, and the same ports on the simulated log."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from tickstream.dispatcher.kafka_changelog import KafkaChangelog
from tickstream.dispatcher.kafka_log import KafkaEnds, KafkaInputs, KafkaTransactions
from tickstream.dispatcher.ports import Changelog, Ends, Inputs, Transactions
from tickstream.kafka import Admin, plain_producer
from tickstream.settings import LaneSettings, Settings
from tickstream.testing.sim.faults import NONE, Dice
from tickstream.testing.sim.lane_ports import (
    SimChangelog,
    SimEnds,
    SimInputs,
    SimTransactions,
    Site,
    Waiter,
)
from tickstream.testing.sim.transactions import Broker
from tickstream.testing.sim.world import MS, SECOND, SimClock, World
from tickstream.topics import TopicNames, topic_table

BUCKETS = 2
LIMITS = LaneSettings(transaction_timeout_ms=2_000, message_timeout_ms=1_500)
WAIT_S = 60.0
FILLER = b"filler"
_EAGER = {"segment.ms": "500", "min.cleanable.dirty.ratio": "0.01", "min.compaction.lag.ms": "0"}
"""The broker looks for something to compact every 15 s; then it is to find it."""


class Stage(Protocol):
    """What scenarios are played on."""

    names: TopicNames

    def transactions(self) -> Transactions:
        """The producers of one more claimant of lane 0."""
        ...

    def inputs(self) -> Inputs: ...
    def changelog(self) -> Changelog: ...
    def ends(self) -> Ends: ...

    def say(self, topic: str, bucket: int, value: bytes) -> int:
        """A plain, acknowledged write; its offset."""
        ...

    def delete_before(self, topic: str, bucket: int, offset: int) -> None:
        """delete_records."""
        ...

    def compact(self) -> None:
        """Have `timers` compacted, as far as that can be asked for."""
        ...

    def until(self, happened: Callable[[], bool]) -> None:
        """Let time pass until something has happened."""
        ...


class RealStage:
    """On a real broker."""

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self.names = TopicNames(prefix)
        self._settings = Settings(bootstrap, prefix)
        self._admin = Admin(self._settings)
        table = topic_table(self.names, buckets=BUCKETS, lanes=1)
        self._admin.create(
            [replace(t, config=t.config | _EAGER) if t.name == self.names.timers else t for t in table]
        )
        self._producer = plain_producer(self._settings, "stage", linger_ms=0)

    def transactions(self) -> Transactions:
        return KafkaTransactions(self._settings, self.names, 0, 0, LIMITS)

    def inputs(self) -> Inputs:
        return KafkaInputs(self._settings, self.names, 0)

    def changelog(self) -> Changelog:
        return KafkaChangelog(self._settings, self.names, 0)

    def ends(self) -> Ends:
        return KafkaEnds(self._admin, self.names, range(BUCKETS))

    def say(self, topic: str, bucket: int, value: bytes) -> int:
        offsets: list[int] = []
        self._producer.produce(
            topic,
            value,
            b"k",
            bucket,
            on_delivery=lambda _error, message: offsets.append(message.offset() or 0),
        )
        self._producer.flush(10)
        (offset,) = offsets
        return offset

    def delete_before(self, topic: str, bucket: int, offset: int) -> None:
        self._admin.delete_records({(topic, bucket): offset})

    def compact(self) -> None:
        # Only a segment that is not the newest is compacted, and only a write begins another.
        self.say(self.names.timers, 0, FILLER)

    def until(self, happened: Callable[[], bool]) -> None:
        give_up = time.monotonic() + WAIT_S
        while not happened():
            assert time.monotonic() < give_up, "it did not happen"


class SimStage:
    """On the simulated log, with nothing going wrong."""

    def __init__(self) -> None:
        self.names = TopicNames("stage.")
        self.world = World(0)
        self.world.calm = True
        topics = {t.name: t.partitions for t in topic_table(self.names, buckets=BUCKETS, lanes=1)}
        self.broker = Broker(self.world, topics)
        self._process = self.world.process("stage", SimClock(self.world))
        self.world.start(self._process)
        dice = Dice(self.world, self._process.rng, NONE)
        self._site = Site(self._process, dice, self.broker, self.names, Waiter())

    def transactions(self) -> Transactions:
        return _Settling(SimTransactions(self._site, 0, 0, LIMITS.transaction_timeout_ms * MS), self)

    def inputs(self) -> Inputs:
        return SimInputs(self._site, _nobody)

    def changelog(self) -> Changelog:
        return SimChangelog(self._site, _nobody)

    def ends(self) -> Ends:
        return SimEnds(self._site, range(BUCKETS), _nobody)

    def say(self, topic: str, bucket: int, value: bytes) -> int:
        return self.broker.append(topic, bucket, b"k", value)

    def delete_before(self, topic: str, bucket: int, offset: int) -> None:
        self.broker.partitions[topic, bucket].delete_before(offset)

    def compact(self) -> None:
        self.say(self.names.timers, 0, FILLER)
        partition = self.broker.partitions[self.names.timers, 0]
        partition.compact(partition.end)

    def until(self, happened: Callable[[], bool]) -> None:
        give_up = self.world.now + int(WAIT_S * SECOND)
        while not happened():
            assert self.world.now < give_up, "it did not happen"
            self.world.run(self.world.now + 100 * MS)

    def settle(self) -> None:
        """Let what is on its way arrive."""
        self.world.run(self.world.now + 5 * MS)


class _Settling:
    """Producers whose calls take their time: markers arrive meanwhile."""

    def __init__(self, inner: SimTransactions, stage: SimStage) -> None:
        self._inner = inner
        self._stage = stage

    def __getattr__(self, name: str) -> Callable[..., object]:
        call: Callable[..., object] = getattr(self._inner, name)

        def timed(*arguments: object) -> object:
            try:
                return call(*arguments)
            finally:
                self._stage.settle()

        return timed


def _nobody() -> None:
    """Nobody sleeps on a stage."""


def visible(stage: Stage, log: Changelog, at_least: int = 0) -> list[tuple[int, int, bytes | None]]:
    """(bucket, offset, value) of what a read brings: until `at_least` records are there, then until no more come."""
    found: list[tuple[int, int, bytes | None]] = []

    def enough() -> bool:
        found.extend((r.bucket, r.offset, r.value) for r in log.read(0.5, 100))
        return len(found) >= at_least

    stage.until(enough)
    while more := log.read(0.5, 100):
        found.extend((r.bucket, r.offset, r.value) for r in more)
    return sorted(found)


__all__ = ["RealStage", "Sequence", "SimStage", "Stage", "visible"]
