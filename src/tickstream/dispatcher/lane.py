"""The loop of a lane that is owned: docs/protocol.md, "one transaction", step by step.

A lane has one thread, and this object is only ever touched by it. Decisions are made in
engine.py; everything that can block or fail is behind a port. `run_once` is a generator: each
yield is a numbered point at which a process may die, and at which a simulator may do otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tickstream.clock import Clock
from tickstream.codec import encode_signal
from tickstream.dispatcher.batch import Batch, Piece, halves
from tickstream.dispatcher.bucket import BucketTurn
from tickstream.dispatcher.decision import Rules
from tickstream.dispatcher.freshness import Freshness
from tickstream.dispatcher.leases import LeaseBook
from tickstream.dispatcher.outcome import BucketOutcome
from tickstream.dispatcher.owned import Latecomers, OwnedBucket
from tickstream.dispatcher.ports import Ends, Facts, Input, InputRecord, Inputs, Replies, Side, Transactions
from tickstream.dispatcher.records import EncodedOutcome, encode_outcome, encode_replies
from tickstream.dispatcher.sweep import moving_events
from tickstream.dispatcher.tally import LaneTally
from tickstream.errors import (
    BatchPoisoned,
    BucketStopped,
    LaneLost,
    RecordRefused,
    RetryTransaction,
    StoreCorrupted,
    StoreFailed,
    StoreRefused,
)
from tickstream.model import bucket_of_key
from tickstream.recurrence.zone_data import ZoneData, in_use
from tickstream.settings import EngineSettings, LaneSettings
from tickstream.timer_store import BucketMeta, TimerStore
from tickstream.topics import TopicNames

Events = Callable[[Mapping[str, object]], None]
_TRIES: Final = 3
"""Aborts of one batch before it is halved."""
_RESTORING_WAIT_S: Final = 0.005
"""The longest wait in one poll while a bucket is restored in between."""


@dataclass(frozen=True, slots=True)
class LanePorts:
    """Everything outside the process that a lane touches."""

    transactions: Transactions
    inputs: Inputs
    ends: Ends
    replies: Replies
    facts: Facts
    bucket_of_key: Callable[[bytes, int], int] = bucket_of_key
    """As in Rules."""


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
    latecomers: Latecomers | None = None
    tally: LaneTally = field(default_factory=LaneTally)
    zones: ZoneData = field(default_factory=in_use)
    _freshness: Freshness = field(init=False)

    def __post_init__(self) -> None:
        self._freshness = Freshness(
            self.ports.ends, self.clock, self.settings.probe_ms, self.number, self._alarm
        )

    def run_once(self) -> Iterator[str]:
        """One transaction, or a wait that brought nothing.

        Raises LaneLost: the lane must be claimed anew, whatever became of the transaction; or there is none to
        come, for no bucket is left.
        """
        if self.latecomers is not None and self.latecomers.behind:
            self.owned.update(self.latecomers.more())
            yield "lane.restoring"
        elif not self.owned:
            # It would never write again, so nothing could fence it: the group might give the lane to this
            # process anew, and find it running.
            raise LaneLost("none of its buckets can go on")
        try:
            batch = self._take()  # 1
        except BucketStopped as stopped:
            self._stop(stopped)
            return
        if not batch.empty:
            yield "lane.taken"
            yield from self._carry_out(batch)

    def _carry_out(self, batch: Batch) -> Iterator[str]:
        """Decide and commit: the batch whole, or halved until what cannot be applied stands alone."""
        for stopped in batch.touched - self.owned.keys():
            batch = batch.without(stopped)
        if batch.empty or not self.owned:
            return
        try:
            yield from self._transact(batch)
        except BatchPoisoned as poisoned:
            parts = halves(batch, self._applied)
            if parts is None:
                yield from self._give_up(batch, poisoned)
            else:
                for part in parts:
                    yield from self._carry_out(part)

    def _transact(self, batch: Batch) -> Iterator[str]:
        """One transaction, decided anew after an abort. Raises BatchPoisoned, LaneLost."""
        reason, by_content = "", False
        for _ in range(_TRIES):
            outcomes, encoded = self._decided(batch)  # 2
            yield "lane.decided"
            begun = self.clock.monotonic()
            try:
                offsets = yield from self._commit(encoded)  # 3
            except RetryTransaction as aborted:
                reason, by_content = str(aborted), isinstance(aborted, RecordRefused)
                self.events({"event": "transaction_aborted", "lane": self.number, "reason": reason})
                self.ports.transactions.abort(self.side)
                continue
            yield "lane.committed"
            open_s = self.clock.monotonic() - begun
            self.tally.committed(batch, outcomes, self.buckets, open_s, self.clock.wall_ms())
            self._apply(outcomes, encoded, offsets)  # 4
            yield "lane.stored"
            self._reply(outcomes)
            self.side = self.side.other
            return
        raise BatchPoisoned(f"the same batch was aborted {_TRIES} times: {reason}", by_content=by_content)

    def _give_up(self, batch: Batch, poisoned: BatchPoisoned) -> Iterator[str]:
        """What is left of a poisoned batch is one element: put it aside and go on without it.

        Unless nothing says that it is to blame: then the lane is taken over anew, from the log.
        """
        if not poisoned.by_content:
            raise LaneLost(poisoned.reason) from poisoned
        if not batch.touched:
            raise poisoned  # a fault of the program, not of its input: the process ends and says so
        (bucket,) = batch.touched
        if batch.given_up:
            self._stop(BucketStopped(bucket, poisoned.reason))
            return
        yield from self._carry_out(batch._replace(given_up=poisoned.reason))

    def _applied(self, record: InputRecord) -> int:
        """How many elements of a message are applied already."""
        progress = self.owned[record.bucket].progress
        position = progress.commands if record.source is Input.COMMANDS else progress.reports
        return position.item if position.offset == record.offset else 0

    # ------------------------------------------------------------------ 1 take

    def _take(self) -> Batch:
        """A bounded batch of inputs and a bounded page of due entries per bucket."""
        heartbeat = self._freshness.drive(self.owned, self._reached, self.leases.next_deadline())
        limit = self.settings.batch_records
        inputs = list(self.ports.inputs.poll(0.0 if heartbeat else self._wait_s(), limit))
        if inputs:
            self._fill(inputs, limit)
            self._freshness.has_input({r.bucket for r in inputs})
        now = self.clock.wall_ms()
        due = []
        for number, bucket in self.owned.items():
            page = self.store.due(number, now, self.settings.due_page, since_ms=bucket.due_since_ms)
            if page:
                due += [(number, entry) for entry in page]
                bucket.due_since_ms = page[0].at_ms
            due += [(number, entry) for entry in bucket.gates.leaving(number, self.store, now)]
        expired = [e for e in self.leases.expired(self._freshness.licensed) if e.bucket in self.owned]
        pieces = [Piece(r) for r in inputs if r.bucket in self.owned]
        moves, placed = self._sweep()
        return Batch(pieces, due, expired, heartbeat and bool(self.owned), now, moves, placed)

    def _sweep(self) -> tuple[list[tuple[int, str]], frozenset[int]]:
        """A page of what other zone data place elsewhere, and the buckets in which nothing of that is left."""
        moves: list[tuple[int, str]] = []
        placed = set()
        for number, bucket in self.owned.items():
            if bucket.sweep is None:
                continue
            if bucket.sweep.ended:
                bucket.sweep = None
                placed.add(number)
            else:
                moves += [(number, task_id) for task_id in bucket.sweep.page(self.store, self._rules())]
        return moves, frozenset(placed)

    def _fill(self, inputs: list[InputRecord], limit: int) -> None:
        """Keep a started batch open for more, briefly: a commit costs the same for ten as for one."""
        # Never past the next due instant: lateness is what users feel, batches are what we save by.
        open_s = min(self.settings.batch_open_ms / 1000, self._until_due_s())
        close_at = self.clock.monotonic() + open_s
        size = sum(len(r.value or b"") for r in inputs)
        while len(inputs) < limit and size < self.settings.batch_bytes:
            left = close_at - self.clock.monotonic()
            try:
                more = self.ports.inputs.poll(left, limit - len(inputs)) if left > 0 else ()
            except BucketStopped as stopped:
                self._stop(stopped)
                return
            if not more:
                return
            inputs.extend(more)
            size += sum(len(r.value or b"") for r in more)

    def _wait_s(self) -> float:
        """How long nothing is to be done, seconds."""
        fresh_s = self._freshness.wait_s(self.leases.next_deadline())
        if any(bucket.sweep is not None for bucket in self.owned.values()):
            return 0.0
        longest_s = _RESTORING_WAIT_S if self.latecomers and self.latecomers.behind else fresh_s
        return min(longest_s, fresh_s, self._until_due_s())

    def _until_due_s(self) -> float:
        """How long until the next due entry of any bucket, seconds; never longer than an idle wait."""
        now, wait = self.clock.wall_ms(), self.settings.idle_wait_ms / 1000
        for number, bucket in self.owned.items():
            at_ms = self.store.next_due_ms(number, since_ms=bucket.due_since_ms)
            if at_ms is not None:
                bucket.due_since_ms = at_ms
                wait = min(wait, max(0, at_ms - now) / 1000)
            opens_ms = bucket.gates.next_open_ms(now)
            if opens_ms is not None:
                wait = min(wait, max(0, opens_ms - now) / 1000)
        return wait

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

    def _decided(self, batch: Batch) -> tuple[list[BucketOutcome], list[EncodedOutcome]]:
        """Decisions and their bytes. Raises BatchPoisoned when there are none to be had."""
        try:
            outcomes = self._decide(batch)
            return outcomes, [encode_outcome(o, self.names, self.buckets) for o in outcomes]
        except (StoreCorrupted, StoreFailed, MemoryError):
            raise  # not what the batch holds
        except Exception as error:
            raise BatchPoisoned(f"{type(error).__name__}: {error}", by_content=True) from error

    def _decide(self, batch: Batch) -> list[BucketOutcome]:
        """The outcome of every bucket touched. Pure but for reads of the store."""
        rules = self._rules()
        turns = {
            number: self._turn(number, rules, batch.now_ms)
            for number in (self.owned if batch.heartbeat else sorted(batch.touched))
        }
        why = batch.given_up
        for r, until in batch.inputs:
            turn = turns[r.bucket]
            if r.source is Input.COMMANDS:
                turn.commands(r.offset, r.leader_epoch, r.appended_ms, r.value, until=until, given_up=why)
            else:
                turn.reports(r.offset, r.leader_epoch, r.value, until=until, given_up=why)
        for number, entry in batch.due:
            turns[number].due(entry, given_up=why)
        for lease in batch.expired:
            # Last: a report of this very batch may have ended or renewed it.
            turns[lease.bucket].expired(lease, given_up=why)
        for number, task_id in batch.moves:
            turns[number].moves(task_id, given_up=why)
        for number in batch.placed:
            turns[number].placed()
        return [turn.outcome() for turn in turns.values()]

    def _rules(self) -> Rules:
        return Rules(
            self.engine, self.ports.facts.queues(), zones=self.zones, bucket_of_key=self.ports.bucket_of_key
        )

    def _turn(self, number: int, rules: Rules, now_ms: int) -> BucketTurn:
        """The bucket's share, with T as the last end probe licensed it."""
        progress = self.owned[number].progress
        # A T of a clock that stood ahead, this one's or a former owner's, is no licence.
        former = min(progress.applied_before_ms, now_ms)
        applied_before = max(former, self._freshness.applied_before_ms(number))
        progress = progress._replace(applied_before_ms=applied_before)
        gates = self.owned[number].gates
        return BucketTurn(number, self.buckets, self.store, progress, rules, gates, now_ms)

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
                    outcome.bucket, bucket.token, bucket.next_offset, written.changes, meta, written.queues
                )
                if written.stale:
                    self.store.drop_due(outcome.bucket, bucket.token, written.stale)
            except StoreRefused as refused:
                raise LaneLost(str(refused)) from refused
            bucket.next_offset = meta.next_offset
            bucket.progress = outcome.progress
            outcome.gates.commit()
            if added is not None:
                # A late insert may lie before the place from which the due index is read.
                bucket.due_since_ms = min(bucket.due_since_ms, added)
            held = self.clock.monotonic()
            self.leases.follow(outcome.bucket, outcome.after, outcome.leases, outcome.heartbeats, held)

    def _reply(self, outcomes: list[BucketOutcome]) -> None:
        for outcome in outcomes:
            for client, partition, value in encode_replies(outcome.replies):
                self.ports.replies.send(client, partition, value)
            for signal in outcome.signals:
                self.ports.replies.signal(signal.run_id, encode_signal(signal))
            for reason in outcome.alarms:
                self._alarm(outcome.bucket, reason)
            for event in moving_events(outcome):
                self.events(event)
            for notice in outcome.notices:
                self.events(notice)

    def _stop(self, stopped: BucketStopped) -> None:
        """One bucket cannot go on; the lane's others do."""
        self.owned.pop(stopped.bucket, None)
        self._alarm(stopped.bucket, stopped.reason)

    def _alarm(self, bucket: int, reason: str) -> None:
        self.events({"event": "alarm", "bucket": bucket, "reason": reason})
