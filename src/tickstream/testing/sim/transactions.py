"""The simulated broker: topics, plain writes, and the coordinator of transactions.

As Kafka does it: an id has one epoch at a time, `init` raises it and aborts what was open under the
last, a commit is decided at one instant while its markers arrive in each partition at their own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from tickstream.testing.clock import START_MS
from tickstream.testing.sim.log import ABORT, COMMIT, Partition, Record
from tickstream.testing.sim.world import MS, World

MARKER_US: Final = (100, 400, 900, 3_000)
"""How long a marker is on its way to its partition, drawn from here."""
SLOW_MARKER_US: Final = 400_000
_APART: Final = 0.3
"""Share of transactions whose markers arrive each at its own time."""
_SLOW: Final = 0.03


class Fenced(Exception):
    """Another holder of the transactional id has a higher epoch."""


class Credentials(NamedTuple):
    """What a producer got from `init`."""

    txid: str
    pid: int
    epoch: int


class Txn:
    """One transaction: what it wrote to, and what became of it."""

    __slots__ = ("ended_us", "outcome", "owner", "partitions", "pending")

    def __init__(self, owner: str) -> None:
        self.owner = owner
        """Which process wrote it: for a reader of the history."""
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.outcome = ""
        """COMMIT or ABORT once that is decided."""
        self.pending: set[tuple[str, int]] = set()
        """Partitions whose marker is not written yet."""
        self.ended_us = -1


class _Id:
    __slots__ = ("epoch", "last", "open", "pid")

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.epoch = -1
        self.open: Txn | None = None
        self.last: Txn | None = None
        """The last that was decided; its markers may still be on their way."""


class Broker:
    """All partitions, and who may write transactionally."""

    def __init__(self, world: World, topics: Mapping[str, int]) -> None:
        self._world = world
        self._rng = random.Random(f"{world.seed}/broker")
        self.partitions = {(t, p): Partition(t, p) for t, count in topics.items() for p in range(count)}
        self.topic_ids = {topic: topic.encode()[-16:].rjust(16, b".") for topic in topics}
        self._ids: dict[str, _Id] = {}

    # ------------------------------------------------------------------ plain writes

    def append(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, at_ms: int | None = None
    ) -> int:
        """A plain write; without `at_ms` the broker's own time stands on it. Returns the offset."""
        now = self._world.now
        stamp = START_MS + now // MS if at_ms is None else at_ms
        return self.partitions[topic, partition].append(Record(-1, key, value, stamp, now))

    # ------------------------------------------------------------------ transactions

    def init(self, txid: str) -> Credentials:
        """Abort what the id has open, wait for what it has decided, raise the epoch."""
        own = self._ids.get(txid)
        if own is None:
            own = self._ids[txid] = _Id(1_000 + len(self._ids))
        if own.open is not None:
            self._decide(own, ABORT)
        self._settle(own, own.last)
        own.epoch += 1
        return Credentials(txid, own.pid, own.epoch)

    def write(
        self,
        who: Credentials,
        owner: str,
        timeout_us: int,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        at_ms: int,
        headers: tuple[tuple[str, bytes], ...] = (),
    ) -> int:
        """A write within the id's transaction, which it begins when none is open. Raises Fenced."""
        own = self._own(who)
        if own.open is None:
            self._settle(own, own.last)
            txn = own.open = Txn(owner)
            self._world.after(timeout_us, None, lambda: self._time_out(own, txn))
        place = self.partitions[topic, partition]
        own.open.partitions[topic, partition] = place
        return place.append(
            Record(-1, key, value, at_ms, self._world.now, own.pid, own.open, headers=headers)
        )

    def end(self, who: Credentials, outcome: str) -> None:
        """Commit or abort. Said again, it is answered again. Raises Fenced."""
        own = self._own(who)
        if own.open is None:
            if own.last is None or own.last.outcome != outcome:
                raise Fenced(f"{who.txid} has nothing to {outcome}")
            return
        self._decide(own, outcome)

    def _own(self, who: Credentials) -> _Id:
        own = self._ids[who.txid]
        if own.epoch != who.epoch:
            raise Fenced(f"{who.txid}: epoch {who.epoch} is fenced by {own.epoch}")
        return own

    def _time_out(self, own: _Id, txn: Txn) -> None:
        """The coordinator's own abort: it fences the producer whose transaction it was."""
        if own.open is txn:
            self._decide(own, ABORT)
            own.epoch += 1

    def _decide(self, own: _Id, outcome: str) -> None:
        txn = own.open
        assert txn is not None
        own.open, own.last = None, txn
        txn.outcome, txn.ended_us = outcome, self._world.now
        txn.pending = set(txn.partitions)
        luck = 1.0 if self._world.calm else self._rng.random()
        if luck > _APART:
            # Most arrive all but together.
            self._world.after(self._rng.choice(MARKER_US), None, lambda: self._settle(own, txn))
            return
        for place in txn.partitions:
            delay = self._rng.randrange(SLOW_MARKER_US) if luck < _SLOW else self._rng.choice(MARKER_US)
            self._world.after(delay, None, self._marker(own, txn, place))

    def _marker(self, own: _Id, txn: Txn, place: tuple[str, int]) -> Callable[[], None]:
        return lambda: self._mark(own, txn, place)

    def _mark(self, own: _Id, txn: Txn, place: tuple[str, int]) -> None:
        if place in txn.pending:
            txn.pending.discard(place)
            now = self._world.now
            marker = Record(-1, None, None, START_MS + now // MS, now, own.pid, txn, txn.outcome)
            txn.partitions[place].append(marker)

    def _settle(self, own: _Id, txn: Txn | None) -> None:
        """Every marker is written. A client waits for that before it may go on (CONCURRENT_TRANSACTIONS)."""
        if txn is not None and txn.pending:
            for place in sorted(txn.pending):
                self._mark(own, txn, place)


__all__ = ["ABORT", "COMMIT", "Broker", "Credentials", "Fenced", "Txn"]
