"""The ports of a lane (dispatcher/ports.py) on the simulated broker.

A call takes effect at the instant at which it is made and keeps its caller busy for a while
(`Waiter`); what happens in between happens between two steps of the lane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tickstream.dispatcher.ports import Input, InputRecord, LogFacts, LogRecord, OutRecord, Side
from tickstream.errors import BucketStopped, LaneFenced, LaneLost, RetryTransaction
from tickstream.model import NEVER
from tickstream.testing.sim.faults import Dice
from tickstream.testing.sim.log import ABORT, COMMIT, OutOfRange, Partition
from tickstream.testing.sim.transactions import Broker, Credentials, Fenced
from tickstream.testing.sim.world import MS, SECOND, Process
from tickstream.topics import TopicNames


@dataclass(slots=True)
class Waiter:
    """How long the caller of ports is busy with its calls, and whether it only waits for news."""

    busy_us: int = 0
    wait_us: int = 0
    """Longest wait for something to arrive, 0: it does not wait."""


@dataclass(slots=True)
class Site:
    """Where a lane's ports stand: its process, its luck, the broker, the names."""

    process: Process
    dice: Dice
    broker: Broker
    names: TopicNames
    waiter: Waiter

    def call(self) -> None:
        """Any call to the broker."""
        self.waiter.busy_us += self.dice.delay()


@dataclass(slots=True)
class _Open:
    """A transaction as its producer sees it."""

    unsent: list[OutRecord] = field(default_factory=list)
    marks: dict[int, int] = field(default_factory=dict)
    wrote: bool = False


class SimTransactions:
    """Two transactional producers."""

    def __init__(self, site: Site, layout: int, lane: int, timeout_us: int) -> None:
        self._site = site
        self._ids = {side: site.names.transactional_id(layout, lane, side.value) for side in Side}
        self._held: dict[Side, Credentials] = {}
        self._timeout_us = timeout_us
        self._open: dict[Side, _Open] = {}

    def connect(self) -> None:
        site = self._site
        site.call()
        if site.dice.hit(site.dice.now.facts_lost):
            raise LaneLost("the broker does not answer")

    def init(self, side: Side) -> None:
        site = self._site
        site.call()
        site.waiter.busy_us += site.dice.init()
        lost = site.dice.hit(site.dice.now.init_lost)
        if lost and site.dice.rng.random() < 0.5:
            raise LaneLost("init timed out")
        self._held[side] = site.broker.init(self._ids[side])
        if lost:
            raise LaneLost("the answer to init was lost")

    def begin(self, side: Side) -> None:
        if side not in self._held:
            raise LaneLost(f"{self._ids[side]} was never initialised")
        self._open[side] = _Open()

    def produce(self, side: Side, records: Sequence[OutRecord]) -> None:
        # The client library sends in the background: some of it is out before anybody waits for it.
        unsent = self._open[side].unsent
        unsent.extend(records)
        early = self._site.dice.rng.randrange(len(unsent) + 1)
        self._send(side, early)

    def flush(self, side: Side) -> None:
        site = self._site
        site.call()
        if site.dice.hit(site.dice.now.aborted):
            self._send(side, site.dice.rng.randrange(len(self._open[side].unsent) + 1))
            raise RetryTransaction("not every record was delivered")
        self._send(side, len(self._open[side].unsent))

    def commit(self, side: Side) -> Mapping[int, int]:
        site = self._site
        site.call()
        transaction = self._open.get(side)
        if transaction is None:
            raise LaneLost("a commit of what was never begun")
        dice, held = site.dice, self._held[side]
        if not transaction.wrote:
            del self._open[side]
            # The client library asks nobody about a transaction that it knows to be empty.
            return {}
        if dice.hit(dice.now.commit_unknown):
            del self._open[side]
            luck = dice.rng.random()
            if luck < 0.4:
                self._end(held, COMMIT)
            elif luck < 0.8:
                # On its way still: it arrives, unless somebody has fenced the id by then.
                world = dice.world
                world.after(dice.later(), None, lambda: self._arrives(held))
            raise LaneLost("the outcome of the commit is unknown")
        if dice.hit(dice.now.aborted):
            raise RetryTransaction("the coordinator asks for an abort")
        del self._open[side]
        self._end(held, COMMIT)
        return transaction.marks

    def abort(self, side: Side) -> None:
        self._site.call()
        transaction = self._open.pop(side, None)
        if transaction is not None and transaction.wrote:
            self._end(self._held[side], ABORT)

    def _arrives(self, held: Credentials) -> None:
        try:
            self._site.broker.end(held, COMMIT)
        except Fenced:
            return  # as intended: its sender is told nothing any more

    def _end(self, held: Credentials, outcome: str) -> None:
        try:
            self._site.broker.end(held, outcome)
        except Fenced as fenced:
            raise LaneFenced(str(fenced)) from fenced

    def _send(self, side: Side, count: int) -> None:
        site, held, transaction = self._site, self._held[side], self._open[side]
        now_ms = site.process.clock.wall_ms()
        for record in transaction.unsent[:count]:
            try:
                offset = site.broker.write(
                    held, site.process.name, self._timeout_us, record.topic, record.partition,
                    record.key, record.value, now_ms, record.headers,
                )  # fmt: skip
            except Fenced as fenced:
                raise LaneFenced(str(fenced)) from fenced
            transaction.wrote = True
            if record.marks is not None:
                transaction.marks[record.marks] = offset
        del transaction.unsent[:count]


@dataclass(slots=True, eq=False)
class _Cursor:
    """One input partition, and how far it is read."""

    source: Input
    bucket: int
    partition: Partition
    at: int


class SimInputs:
    """`commands` and `reports` of a lane, read read_committed."""

    def __init__(self, site: Site, wake: Callable[[], None]) -> None:
        self._site = site
        self._wake = wake
        self._cursors: list[_Cursor] = []
        self._epoch = 0
        self._topics = {Input.COMMANDS: site.names.commands, Input.REPORTS: site.names.reports}

    def assign(self, positions: Mapping[tuple[Input, int], tuple[int, int]]) -> None:
        for (source, bucket), (offset, _) in positions.items():
            partition = self._site.broker.partitions[self._topics[source], bucket]
            self._cursors.append(_Cursor(source, bucket, partition, offset))
            partition.watch(self._wake)

    def poll(self, timeout_s: float, limit: int) -> Sequence[InputRecord]:
        dice = self._site.dice
        partial = dice.hit(dice.now.partial)
        if partial:
            limit = min(limit, dice.rng.choice((1, 2, 5)))
        found: list[InputRecord] = []
        for cursor in self._cursors:
            at, partition = cursor.at, cursor.partition
            if at == partition.stable and at >= partition.start:
                continue  # read to the end, as most are
            source, bucket = cursor.source, cursor.bucket
            try:
                records, cursor.at = partition.read(at, limit - len(found))
            except OutOfRange as error:
                self._cursors.remove(cursor)
                raise BucketStopped(bucket, str(error)) from error
            found += [InputRecord(source, bucket, r.offset, self._epoch, r.at_ms, r.value) for r in records]
            if len(found) >= limit:
                break
        if found:
            self._site.call()
        elif timeout_s > 0:
            self._site.waiter.wait_us = int(timeout_s * SECOND) + 1
        return found

    def positions(self) -> Mapping[tuple[Input, int], int]:
        return {(cursor.source, cursor.bucket): cursor.at for cursor in self._cursors}

    def close(self) -> None:
        """Stop listening."""
        for cursor in self._cursors:
            cursor.partition.unwatch(self._wake)


class SimChangelog:
    """`timers`, read back."""

    def __init__(self, site: Site, wake: Callable[[], None]) -> None:
        self._site = site
        self._wake = wake
        self._at: dict[int, int] = {}

    def open(self, offsets: Mapping[int, int]) -> None:
        for bucket, offset in offsets.items():
            partition = self._partition(bucket)
            self._at[bucket] = partition.start if offset == NEVER else offset
            partition.watch(self._wake)

    def read(self, timeout_s: float, limit: int) -> Sequence[LogRecord]:
        dice = self._site.dice
        if dice.hit(dice.now.partial):
            limit = min(limit, dice.rng.choice((1, 3, 10)))
        found: list[LogRecord] = []
        for bucket, at in list(self._at.items()):
            try:
                records, self._at[bucket] = self._partition(bucket).read(at, limit)
            except OutOfRange as error:
                raise LaneLost(f"the changelog cannot be read: {error}") from error
            found += [LogRecord(bucket, r.offset, r.key, r.value) for r in records]
        if found or timeout_s == 0:
            self._site.call()
        else:
            self._site.waiter.wait_us = int(timeout_s * SECOND)
        return found

    def positions(self) -> Mapping[int, int]:
        return dict(self._at)

    def done(self, bucket: int) -> None:
        self._at.pop(bucket, None)
        self._partition(bucket).unwatch(self._wake)

    def close(self) -> None:
        for bucket in list(self._at):
            self.done(bucket)

    def _partition(self, bucket: int) -> Partition:
        return self._site.broker.partitions[self._site.names.timers, bucket]


@dataclass(slots=True)
class SimEnds:
    """The end probe: asked now, looked at by the broker a little later, answered later still."""

    site: Site
    buckets: Iterable[int]
    wake: Callable[[], None]
    _question: int = 0
    _pending: bool = False
    _answer: dict[tuple[Input, int], int] | None = None

    def ask(self) -> None:
        self._question += 1
        self._pending, self._answer = True, None
        question, dice = self._question, self.site.dice
        failed = dice.hit(dice.now.facts_lost)

        def answered(ends: dict[tuple[Input, int], int] | None) -> None:
            if question == self._question:
                self._pending, self._answer = False, ends
                self.wake()

        def looked_at() -> None:
            names, partitions = self.site.names, self.site.broker.partitions
            topics = {Input.COMMANDS: names.commands, Input.REPORTS: names.reports}
            ends = {(s, b): partitions[topic, b].end for s, topic in topics.items() for b in self.buckets}
            dice.world.after(dice.delay(), self.site.process, lambda: answered(None if failed else ends))

        dice.world.after(dice.delay(), self.site.process, looked_at)

    def answer(self) -> Mapping[tuple[Input, int], int] | None:
        answer, self._answer = self._answer, None
        return answer

    def pending(self) -> bool:
        return self._pending


@dataclass(slots=True)
class SimReplies:
    """`verdicts` and `signals`: plain and best effort."""

    site: Site
    deliver: Callable[[bytes], None]
    """Hears of signals."""

    def send(self, client_id: str, partition: int, value: bytes) -> None:
        self._later(
            self.site.dice.now.verdict_lost,
            lambda: self._append(self.site.names.verdicts, partition, client_id.encode(), value),
        )

    def signal(self, run_id: bytes, value: bytes) -> None:  # noqa: ARG002 - the key of the message
        self._later(self.site.dice.now.signal_lost, lambda: self.deliver(value))

    def _later(self, lost: float, do: Callable[[], None]) -> None:
        dice = self.site.dice
        if not dice.hit(lost):
            dice.world.after(dice.delay(), self.site.process, do)

    def _append(self, topic: str, partition: int, key: bytes, value: bytes) -> None:
        self.site.broker.append(topic, partition, key, value)


@dataclass(slots=True)
class SimFacts:
    """Metadata of the simulated cluster."""

    site: Site
    buckets: int
    known: frozenset[str] = field(default_factory=lambda: frozenset({"default"}))

    def log(self) -> LogFacts:
        site = self.site
        site.call()
        if site.dice.hit(site.dice.now.facts_lost):
            raise LaneLost("metadata cannot be had")
        names, broker = site.names, site.broker
        topics = {Input.COMMANDS: names.commands, Input.REPORTS: names.reports}
        everywhere = range(self.buckets)
        return LogFacts(
            {source: broker.topic_ids[topic] for source, topic in topics.items()},
            broker.topic_ids[names.timers],
            {(s, b): broker.partitions[topic, b].start for s, topic in topics.items() for b in everywhere},
            {b: broker.partitions[names.timers, b].start for b in everywhere},
        )

    def queues(self) -> frozenset[str]:
        return self.known


__all__ = [
    "MS",
    "SimChangelog",
    "SimEnds",
    "SimFacts",
    "SimInputs",
    "SimReplies",
    "SimTransactions",
    "Site",
    "Waiter",
]
