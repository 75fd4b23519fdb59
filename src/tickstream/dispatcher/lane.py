"""The loop of a lane that is owned: docs/protocol.md, "one transaction", step by step.

A lane has one thread, and this object is only ever touched by it. Decisions are made in
engine.py; everything that can block or fail is behind a port. `run_once` is a generator: each
yield is a numbered point at which a process may die, and at which a simulator may do otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tickstream.clock import Clock
from tickstream.codec import encode_signal
from tickstream.dispatcher.bucket import BucketOutcome, BucketTurn
from tickstream.dispatcher.decision import Rules
from tickstream.dispatcher.leases import Expired, LeaseBook
from tickstream.dispatcher.ports import Ends, Facts, Input, InputRecord, Inputs, Replies, Side, Transactions
from tickstream.dispatcher.records import EncodedOutcome, encode_outcome, encode_replies
from tickstream.errors import BucketStopped, LaneLost, RetryTransaction, StoreRefused
from tickstream.model import DeadReason, DueEntry, Progress
from tickstream.settings import EngineSettings, LaneSettings
from tickstream.timer_store import BucketMeta, TimerStore
from tickstream.topics import TopicNames

Events = Callable[[Mapping[str, object]], None]
_TRIES: Final = 3
"""Aborts of one batch before the lane is taken over anew."""
_PROBE_WAIT_S: Final = 0.01
"""The longest wait while the broker is answering the end probe."""
_LEASE_PROBE_S: Final = 0.05
"""How soon after a lease's end the broker is asked; also the shortest time between two such questions."""
_IDLE_WAIT_S: Final = 0.2
"""The longest wait in one poll, so that a stop request is seen soon."""


@dataclass(frozen=True, slots=True)
class LanePorts:
    """Everything outside the process that a lane touches."""

    transactions: Transactions
    inputs: Inputs
    ends: Ends
    replies: Replies
    facts: Facts


@dataclass(slots=True)
class OwnedBucket:
    """A bucket of an active lane."""

    token: int
    """Of the store: void as soon as somebody else acquires the bucket."""
    topic_id: bytes
    """Of `timers`."""
    next_offset: int
    """Of the store: what decisions are made on."""
    progress: Progress
    due_since_ms: int = 0
    """Nothing in the due index lies before this instant."""


class Batch(NamedTuple):
    """What one transaction is made of."""

    inputs: list[InputRecord]
    due: dict[int, list[DueEntry]]
    expired: list[Expired]
    heartbeat: bool
    """Write the Progress of every bucket, changed or not."""
    now_ms: int


@dataclass(slots=True)
class Lane:
    """An owned lane: made by a take-over, run until it is lost or stopped."""

    number: int
    buckets: int
    """B, of the whole installation."""
    names: TopicNames
    ports: LanePorts
    store: TimerStore
    clock: Clock
    engine: EngineSettings
    settings: LaneSettings
    events: Events
    owned: dict[int, OwnedBucket]
    leases: LeaseBook
    side: Side = Side.B
    """Whose turn it is. The Claim went through A, so B is next."""
    _probe_due: float = 0.0
    _probe_t0: int = 0
    _probe_started: float = 0.0
    _written_at: float = float("-inf")
    """When an end probe last made every bucket write its Progress."""
    _applied_before: dict[int, int] = field(default_factory=dict)
    _licensed: dict[int, float] = field(default_factory=dict)
    """T again, on the monotonic clock: what licenses leases to expire."""

    def run_once(self) -> Iterator[str]:
        """One transaction, or a wait that brought nothing.

        Raises LaneLost: the lane must be claimed anew, whatever became of the transaction.
        """
        try:
            batch = self._take()  # 1
        except BucketStopped as stopped:
            self._stop(stopped)
            return
        if not (batch.inputs or batch.due or batch.expired or batch.heartbeat):
            return
        yield "lane.taken"
        for _ in range(_TRIES):
            outcomes = self._decide(batch)  # 2
            encoded = [encode_outcome(o, self.names, self.buckets) for o in outcomes]
            yield "lane.decided"
            try:
                offsets = yield from self._commit(encoded)  # 3
            except RetryTransaction as aborted:
                self.events({"event": "transaction_aborted", "lane": self.number, "reason": str(aborted)})
                self.ports.transactions.abort(self.side)
                continue
            yield "lane.committed"
            self._apply(outcomes, encoded, offsets)  # 4
            yield "lane.stored"
            self._reply(outcomes)
            self.side = self.side.other
            return
        raise LaneLost(f"the same batch was aborted {_TRIES} times")

    # ------------------------------------------------------------------ 1 take

    def _take(self) -> Batch:
        """A bounded batch of inputs and a bounded page of due entries per bucket."""
        heartbeat = self._probe()
        limit = self.settings.batch_records
        inputs = list(self.ports.inputs.poll(0.0 if heartbeat else self._wait_s(), limit))
        if inputs:
            self._fill(inputs, limit)
        now = self.clock.wall_ms()
        due = {}
        for number, bucket in self.owned.items():
            page = self.store.due(number, now, self.settings.due_page, since_ms=bucket.due_since_ms)
            if page:
                due[number] = page
                bucket.due_since_ms = page[0].at_ms
        expired = [e for e in self.leases.expired(self._licensed) if e.bucket in self.owned]
        return Batch([r for r in inputs if r.bucket in self.owned], due, expired, heartbeat, now)

    def _fill(self, inputs: list[InputRecord], limit: int) -> None:
        """Keep a started batch open for more, briefly: a commit costs the same for ten as for one."""
        # Never past the next due instant: lateness is what users feel, batches are what we save by.
        open_s = min(self.settings.batch_open_ms / 1000, self._until_due_s())
        close_at = self.clock.monotonic() + open_s
        size = sum(len(r.value or b"") for r in inputs)
        while len(inputs) < limit and size < self.settings.batch_bytes:
            left = close_at - self.clock.monotonic()
            more = self.ports.inputs.poll(left, limit - len(inputs)) if left > 0 else ()
            if not more:
                return
            inputs.extend(more)
            size += sum(len(r.value or b"") for r in more)

    def _wait_s(self) -> float:
        """How long nothing is to be done, seconds."""
        probe = max(0.0, self._next_probe() - self.clock.monotonic())
        if self.ports.ends.pending():
            probe = _PROBE_WAIT_S
        return min(_IDLE_WAIT_S, probe, self._until_due_s())

    def _until_due_s(self) -> float:
        """How long until the next due entry of any bucket, seconds."""
        now, wait = self.clock.wall_ms(), _IDLE_WAIT_S
        for number, bucket in self.owned.items():
            at_ms = self.store.next_due_ms(number, since_ms=bucket.due_since_ms)
            if at_ms is not None:
                bucket.due_since_ms = at_ms
                wait = min(wait, max(0, at_ms - now) / 1000)
        return wait

    def _probe(self) -> bool:
        """Drive the end probe; True when its answer is to be written as the buckets' T.

        A bucket whose positions have reached the ends asked for at t0 has applied everything
        accepted before t0.
        """
        ends = self.ports.ends.answer()
        if ends is not None:
            own = self._reached()
            for number in self.owned:
                if all(own[i, number] >= ends.get((i, number), 0) for i in Input):
                    self._applied_before[number] = self._probe_t0
                    self._licensed[number] = self._probe_started
            written_s = self.clock.monotonic() - self._written_at
            if written_s < self.settings.probe_ms / 2000:
                return False  # an extra probe, for a lease: it licenses, and writes nothing
            self._written_at = self.clock.monotonic()
            return True
        now = self.clock.monotonic()
        if not self.ports.ends.pending() and now >= self._next_probe():
            # Lanes of one process start at different moments, which staggers them.
            self._probe_due = now + self.settings.probe_ms / 1000
            self._probe_t0, self._probe_started = self.clock.wall_ms(), now
            self.ports.ends.ask()
        return False

    def _next_probe(self) -> float:
        """The next end probe: once a second, and sooner where a lease is at its end."""
        deadline = self.leases.next_deadline()
        if deadline is None:
            return self._probe_due
        return min(self._probe_due, max(deadline, self._probe_started) + _LEASE_PROBE_S)

    def _reached(self) -> Mapping[tuple[Input, int], int]:
        """Positions applied, past control and aborted records behind the last one."""
        read = self.ports.inputs.positions()
        reached = {}
        for number, bucket in self.owned.items():
            for source, position in (
                (Input.COMMANDS, bucket.progress.commands),
                (Input.REPORTS, bucket.progress.reports),
            ):
                # All that was read is applied by now: the loop takes nothing that it leaves.
                reached[source, number] = max(position.offset, read.get((source, number), 0))
        return reached

    # ------------------------------------------------------------------ 2 decide

    def _decide(self, batch: Batch) -> list[BucketOutcome]:
        """The outcome of every bucket touched. Pure but for reads of the store."""
        rules = Rules(self.engine, self.ports.facts.queues())
        touched = {r.bucket for r in batch.inputs} | batch.due.keys() | {e.bucket for e in batch.expired}
        turns = {
            number: self._turn(number, rules, batch.now_ms)
            for number in (self.owned if batch.heartbeat else sorted(touched))
        }
        for r in batch.inputs:
            if r.source is Input.COMMANDS:
                turns[r.bucket].commands(r.offset, r.leader_epoch, r.appended_ms, r.value)
            else:
                turns[r.bucket].reports(r.offset, r.leader_epoch, r.value)
        for number, page in batch.due.items():
            for entry in page:
                turns[number].due(entry)
        for lease in batch.expired:
            # Last: a report of this very batch may have ended or renewed it.
            turns[lease.bucket].expired(lease)
        return [turn.outcome() for turn in turns.values()]

    def _turn(self, number: int, rules: Rules, now_ms: int) -> BucketTurn:
        """The bucket's share, with T as the last end probe licensed it."""
        progress = self.owned[number].progress
        applied_before = max(progress.applied_before_ms, self._applied_before.get(number, 0))
        progress = progress._replace(applied_before_ms=applied_before)
        return BucketTurn(number, self.buckets, self.store, progress, rules, now_ms)

    # ------------------------------------------------------------------ 3 transaction

    def _commit(self, encoded: list[EncodedOutcome]) -> Generator[str, None, Mapping[int, int]]:
        """Inputs and effects in one transaction; returns bucket → offset of its Progress."""
        transactions = self.ports.transactions
        transactions.begin(self.side)
        yield "lane.begun"
        for outcome in encoded:
            transactions.produce(self.side, outcome.records)
        yield "lane.produced"
        # Delivered before the commit is asked for: a record that was refused aborts the
        # transaction, and nothing is committed without it.
        transactions.flush(self.side)
        yield "lane.delivered"
        return transactions.commit(self.side)

    # ------------------------------------------------------------------ 4 store, reply

    def _apply(
        self, outcomes: list[BucketOutcome], encoded: list[EncodedOutcome], offsets: Mapping[int, int]
    ) -> None:
        """After the commit, never before: one WriteBatch per bucket, under its token."""
        now = self.clock.wall_ms()
        for outcome, written in zip(outcomes, encoded, strict=True):
            bucket = self.owned[outcome.bucket]
            meta = BucketMeta(offsets[outcome.bucket] + 1, bucket.topic_id, now, written.progress_bytes)
            try:
                added = self.store.apply(
                    outcome.bucket, bucket.token, bucket.next_offset, written.changes, meta
                )
                if written.stale:
                    self.store.drop_due(outcome.bucket, bucket.token, written.stale)
            except StoreRefused as refused:
                raise LaneLost(str(refused)) from refused
            bucket.next_offset = meta.next_offset
            bucket.progress = outcome.progress
            if added is not None:
                # A late insert may lie before the place from which the due index is read.
                bucket.due_since_ms = min(bucket.due_since_ms, added)
            self._hold(outcome)

    def _hold(self, outcome: BucketOutcome) -> None:
        """Keep the leases as the committed state has them."""
        now = self.clock.monotonic()
        for task_id, task in outcome.after.items():
            self.leases.keep_only(outcome.bucket, task_id, task.state)
        for lease in outcome.leases:
            self.leases.begin(outcome.bucket, lease, now)
            self.leases.keep_only(outcome.bucket, lease.task_id, outcome.after[lease.task_id].state)
        for report in outcome.heartbeats:
            self.leases.renew(outcome.bucket, report, now)

    def _reply(self, outcomes: list[BucketOutcome]) -> None:
        for outcome in outcomes:
            for client, partition, value in encode_replies(outcome.replies):
                self.ports.replies.send(client, partition, value)
            for signal in outcome.signals:
                self.ports.replies.signal(signal.run_id, encode_signal(signal))
            for letter in outcome.dead_letters:
                if letter.reason is not DeadReason.GAVE_UP:
                    self.events({"event": "alarm", "bucket": outcome.bucket, "reason": letter.detail})

    def _stop(self, stopped: BucketStopped) -> None:
        """One bucket cannot go on; the lane's others do."""
        self.owned.pop(stopped.bucket, None)
        self.events({"event": "alarm", "bucket": stopped.bucket, "reason": stopped.reason})
