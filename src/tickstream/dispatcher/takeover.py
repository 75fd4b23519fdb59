"""Taking a lane over: docs/protocol.md, "take-over", in that order and never in parallel.

A generator like the lane's loop: each yield is a named point between two steps. Nothing of a
bucket is decided before the last step; whatever fails raises LaneLost, and the next try starts
from the first step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Final

from tickstream.clock import Clock
from tickstream.codec import (
    CLAIM,
    PROGRESS,
    QUEUE,
    SPEC,
    STATE,
    decode_claim,
    decode_command,
    decode_progress,
    decode_queue,
    encode_claim,
    split_timers_key,
    timers_key,
)
from tickstream.dispatcher.decision import Lease, terms_of
from tickstream.dispatcher.lane import Events, LanePorts, OwnedBucket
from tickstream.dispatcher.leases import LeaseBook
from tickstream.dispatcher.ports import Changelog, Input, LogFacts, LogRecord, OutRecord, Side
from tickstream.errors import BucketStopped, CodecError, LaneLost, RetryTransaction, StoreRefused
from tickstream.model import DEFAULT_TERMS, NEVER, Claim, InputPosition, Progress
from tickstream.timer_store import BucketMeta, TimerStore
from tickstream.topics import TOMBSTONES_KEPT_MS, TopicNames

MAX_STORE_AGE_MS: Final = TOMBSTONES_KEPT_MS * 6 // 7
"""A store written longer ago is restored from the start."""
_STRETCH: Final = 5_000
"""Changelog records restored in one WriteBatch."""
_FAMILY: Final = {SPEC: "spec", STATE: "state"}


@dataclass(slots=True)
class _Restoring:
    """A bucket on its way from the store's offset to the Claim."""

    token: int
    next_offset: int
    claim_offset: int
    progress: bytes
    records_seen: int = 0
    """Records of tasks read or already in the store: they must have a Progress beside them."""
    pending: dict[str, dict[str, bytes | None]] = field(default_factory=lambda: defaultdict(dict))
    queues: dict[str, bytes] = field(default_factory=dict)
    read_to: int = 0


@dataclass(slots=True)
class TakeOver:
    """One attempt to take one lane over."""

    number: int
    instance: str
    layout: int
    lane_buckets: tuple[int, ...]
    tzdata: str
    names: TopicNames
    ports: LanePorts
    changelog: Callable[[], Changelog]
    store: TimerStore
    clock: Clock
    events: Events
    restored: int = 0
    leases: LeaseBook = field(default_factory=LeaseBook)

    def steps(self) -> Generator[str, None, dict[int, OwnedBucket]]:
        """Take over; returns the buckets that are active. Raises LaneLost."""
        transactions = self.ports.transactions
        transactions.connect()  # 1
        yield "takeover.connected"
        transactions.init(Side.A)  # 2
        yield "takeover.a_initialised"
        transactions.init(Side.B)
        yield "takeover.b_initialised"
        claims = yield from self._claim()  # 3
        yield "takeover.claimed"
        facts = self.ports.facts.log()
        restoring = self._open(claims, facts)
        yield from self._restore(restoring, facts)  # 4
        yield "takeover.restored"
        owned = self._position(restoring, facts)  # 5
        for bucket in owned:
            self._lease_again(bucket)
        self.ports.inputs.assign(
            {
                (source, bucket): (position.offset, position.leader_epoch)
                for bucket, b in owned.items()
                for source, position in (
                    (Input.COMMANDS, b.progress.commands),
                    (Input.REPORTS, b.progress.reports),
                )
            }
        )
        yield "takeover.positioned"
        return owned  # 6: active

    # ------------------------------------------------------------------ 3 claim

    def _claim(self) -> Generator[str, None, dict[int, int]]:
        """One transaction on A with a Claim in every bucket: its commit proves that both ids are held."""
        claim = encode_claim(Claim(self.instance, self.number, self.layout, self.clock.wall_ms()))
        records = [
            OutRecord(self.names.timers, bucket, timers_key(CLAIM), claim, marks=bucket)
            for bucket in self.lane_buckets
        ]
        transactions = self.ports.transactions
        try:
            transactions.begin(Side.A)
            transactions.produce(Side.A, records)
            transactions.flush(Side.A)
            yield "takeover.claim_produced"
            return dict(transactions.commit(Side.A))
        except RetryTransaction as aborted:
            # A Claim decides nothing, so there is nothing to decide again: start over.
            raise LaneLost(f"the Claim was aborted: {aborted}") from aborted

    # ------------------------------------------------------------------ 4 restore

    def _open(self, claims: dict[int, int], facts: LogFacts) -> dict[int, _Restoring]:
        """Where each bucket's reading starts: the store's offset if it can be trusted, else the log's start."""
        restoring = {}
        for bucket in self.lane_buckets:
            token = self.store.acquire(bucket)
            meta = self.store.meta(bucket)
            trusted = (
                meta is not None
                and meta.topic_id == facts.timers_id
                and facts.timers_starts.get(bucket, 0) <= meta.next_offset <= claims[bucket]
                # Tombstones are kept only so long: an older store would never hear of what is gone.
                and self.clock.wall_ms() - meta.applied_ms < MAX_STORE_AGE_MS
            )
            if meta is None or not trusted:
                self.store.forget_bucket(bucket, token)
                restoring[bucket] = _Restoring(token, 0, claims[bucket], b"", read_to=NEVER)
            else:
                restoring[bucket] = _Restoring(
                    token, meta.next_offset, claims[bucket], meta.progress, read_to=meta.next_offset
                )
        return restoring

    def _restore(self, restoring: dict[int, _Restoring], facts: LogFacts) -> Generator[str, None, None]:
        """Tail `timers` until each bucket's very Claim is read: everything of past owners is before it."""
        log = self.changelog()
        try:
            log.open({bucket: r.read_to for bucket, r in restoring.items()})
            waiting = set(restoring)
            while waiting:
                for record in log.read(0.2, _STRETCH):
                    if record.bucket not in waiting:
                        continue
                    bucket = restoring[record.bucket]
                    try:
                        self._read(bucket, record)
                    except (BucketStopped, CodecError) as error:
                        self._stop(restoring, record.bucket, str(error))
                        reached = True
                    else:
                        reached = record.offset >= bucket.claim_offset
                    if reached:
                        waiting.discard(record.bucket)
                        log.done(record.bucket)
                for number in list(restoring):
                    self._flush(number, restoring, facts)
                for number in waiting - restoring.keys():  # stopped by what it holds
                    log.done(number)
                waiting &= restoring.keys()
                yield "takeover.restoring"
        finally:
            log.close()

    def _read(self, bucket: _Restoring, record: LogRecord) -> None:
        kind, task_id = split_timers_key(record.key)
        if kind in _FAMILY:
            bucket.pending[task_id][_FAMILY[kind]] = record.value
            bucket.records_seen += 1
            self.restored += 1
        elif kind == QUEUE:
            bucket.queues[decode_queue(record.value or b"").queue] = record.value or b""
        elif kind == PROGRESS:
            decode_progress(record.value or b"")
            bucket.progress = record.value or b""
        elif decode_claim(record.value or b"").layout > self.layout:
            raise BucketStopped(
                record.bucket, "a newer layout of lanes has been claimed; restart this dispatcher"
            )
        bucket.read_to = record.offset + 1

    def _flush(self, number: int, restoring: dict[int, _Restoring], facts: LogFacts) -> None:
        """Write what was read to the store."""
        bucket = restoring[number]
        if bucket.read_to in (NEVER, bucket.next_offset):
            return
        meta = BucketMeta(bucket.read_to, facts.timers_id, self.clock.wall_ms(), bucket.progress)
        try:
            self.store.restore(number, bucket.token, bucket.next_offset, bucket.pending, meta, bucket.queues)
        except CodecError as error:
            self._stop(restoring, number, str(error))
            return
        except StoreRefused as refused:
            raise LaneLost(str(refused)) from refused
        bucket.next_offset = bucket.read_to
        bucket.pending.clear()
        bucket.queues.clear()

    # ------------------------------------------------------------------ 5 positions

    def _position(self, restoring: dict[int, _Restoring], facts: LogFacts) -> dict[int, OwnedBucket]:
        """The inputs' positions: what the last Progress says, and nothing else."""
        owned = {}
        for number, bucket in list(restoring.items()):
            try:
                progress = self._progress(number, bucket, facts)
            except BucketStopped as stopped:
                self._stop(restoring, number, stopped.reason)
            else:
                owned[number] = OwnedBucket(bucket.token, facts.timers_id, bucket.next_offset, progress)
        return owned

    def _progress(self, number: int, bucket: _Restoring, facts: LogFacts) -> Progress:
        starts = {source: facts.starts[source, number] for source in Input}
        if not bucket.progress:
            if bucket.records_seen:
                raise BucketStopped(
                    number, "the changelog holds tasks and no Progress: positions are unknown"
                )
            fresh = {s: InputPosition(facts.topic_ids[s], starts[s], 0, NEVER) for s in Input}
            return Progress(fresh[Input.COMMANDS], fresh[Input.REPORTS], 0, 0, 0, self.tzdata, self.layout)
        progress = decode_progress(bucket.progress)
        for source, position in ((Input.COMMANDS, progress.commands), (Input.REPORTS, progress.reports)):
            if position.topic_id != facts.topic_ids[source]:
                raise BucketStopped(
                    number, f"{source.value} was re-created: its offsets mean nothing to this changelog"
                )
            if position.offset < starts[source]:
                raise BucketStopped(
                    number,
                    f"{source.value} starts at {starts[source]}, the bucket stands at {position.offset}: "
                    "records were deleted before they were applied",
                )
        return progress._replace(tzdata=self.tzdata, layout=self.layout)

    def _lease_again(self, bucket: int) -> None:
        """Full leases for every claimed run: heartbeats of the past are nobody's to count."""
        now = self.clock.monotonic()
        for task_id, spec, state in self.store.in_flight(bucket):
            for run in state.runs:
                if not run.holder or run.retry_at_ms != NEVER:
                    continue
                same = spec is not None and spec.rev == run.rev
                terms = terms_of(decode_command(spec.command)) if spec and same else DEFAULT_TERMS
                lease = Lease(task_id, run.occurrence_ts, run.attempt, run.holder, terms.lease_ms)
                self.leases.begin(bucket, lease, now)

    def _stop(self, restoring: dict[int, _Restoring], number: int, reason: str) -> None:
        """One bucket cannot go on; the lane's others do."""
        restoring.pop(number, None)
        self.events({"event": "alarm", "bucket": number, "reason": reason})
