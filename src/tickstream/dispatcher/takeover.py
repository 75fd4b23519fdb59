"""Taking a lane over: docs/protocol.md, "take-over", in that order and never in parallel.

A generator like the lane's loop: each yield is a named point between two steps. Nothing of a
bucket is decided before the last step; whatever fails raises LaneLost, and the next try starts
from the first step.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Final

from tickstream.clock import Clock
from tickstream.codec import (
    CLAIM,
    decode_progress,
    encode_claim,
    timers_key,
)
from tickstream.dispatcher.decision import Task, leases_of
from tickstream.dispatcher.gates import Gates
from tickstream.dispatcher.lane import Events, LanePorts
from tickstream.dispatcher.leases import LeaseBook
from tickstream.dispatcher.moving import is_moving, taken_over
from tickstream.dispatcher.owned import OwnedBucket
from tickstream.dispatcher.ports import Changelog, Input, LogFacts, OutRecord, Side
from tickstream.dispatcher.restore import Reading, Restorer
from tickstream.dispatcher.sweep import Sweep
from tickstream.errors import BucketStopped, LaneLost, RetryTransaction, StoreRefused
from tickstream.model import NEVER, Claim, InputPosition, Progress
from tickstream.recurrence.zone_data import ZoneData
from tickstream.timer_store import TimerStore
from tickstream.topics import TopicNames

_STRETCH: Final = 5_000
"""Changelog records restored in one WriteBatch."""
_STRETCH_BEHIND: Final = 1_000
"""The same while other buckets of the lane are active, who wait for it: some 20 ms."""
NEAR: Final = 20_000
"""A bucket that is further behind than so many offsets is not waited for by the lane's others."""


@dataclass(slots=True)
class TakeOver:
    """One attempt to take one lane over."""

    number: int
    instance: str
    layout: int
    lane_buckets: tuple[int, ...]
    zones: ZoneData
    names: TopicNames
    ports: LanePorts
    changelog: Callable[[], Changelog]
    store: TimerStore
    clock: Clock
    events: Events
    leases: LeaseBook = field(default_factory=LeaseBook)
    _restorer: Restorer = field(init=False)
    _facts: LogFacts = field(init=False)

    @property
    def restored(self) -> int:
        """Changelog records of tasks read so far."""
        return self._restorer.restored

    @property
    def behind(self) -> tuple[int, ...]:
        """Buckets that are still being restored, by `more`."""
        readings = self._restorer.readings
        return tuple(sorted(readings)) if readings else ()

    def steps(self) -> Generator[str, None, dict[int, OwnedBucket]]:
        """Take over; returns the buckets that are active. Raises LaneLost.

        Buckets far behind are left to `more`, so that the others need not wait for them.
        """
        transactions = self.ports.transactions
        transactions.connect()  # 1
        # Before the Claim: no Progress that stands before it lies below where the inputs start by now. Asked later,
        # what a newer owner applied, and purged, would seem to be missing.
        self._facts = self.ports.facts.log()
        yield "takeover.connected"
        transactions.init(Side.A)  # 2
        yield "takeover.a_initialised"
        transactions.init(Side.B)
        yield "takeover.b_initialised"
        claims = yield from self._claim()  # 3
        yield "takeover.claimed"
        self._restorer = Restorer(
            self.changelog(), self.store, self.clock, self.layout, self.events, self._stop, self._refused
        )
        try:
            self._restorer.open(claims, self._facts)
            restored: list[Reading] = []
            while not self._enough(restored):  # 4
                restored += self._restorer.step(0.2, _STRETCH)
                yield "takeover.restoring"
            yield "takeover.restored"
            owned = self._admit(restored)  # 5
            yield "takeover.positioned"
        except BaseException:
            self.close()
            raise
        if not self._restorer.readings:
            self.close()
        return owned  # 6: active

    def _enough(self, restored: list[Reading]) -> bool:
        """Whether what is still behind is left to `more`."""
        left = self._restorer.readings.values()
        return not left or (bool(restored) and all(reading.left > NEAR for reading in left))

    def more(self) -> dict[int, OwnedBucket]:
        """Restore a stretch of what is behind; returns the buckets that are active by it. Raises LaneLost."""
        restored = self._restorer.step(0.0, _STRETCH_BEHIND)
        if not self._restorer.readings:
            self.close()
        return self._admit(restored)

    def close(self) -> None:
        """Leave the changelog."""
        self._restorer.close()

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

    # ------------------------------------------------------------------ 5 positions

    def _admit(self, restored: list[Reading]) -> dict[int, OwnedBucket]:
        """Give restored buckets their inputs' positions, and their runs full leases."""
        owned = {}
        for reading in restored:
            try:
                progress = self._progress(reading, self._facts)
            except BucketStopped as stopped:
                self._stop(stopped.bucket, stopped.reason)
                continue
            queues, waiting = self.store.queues(reading.bucket), self.store.gates(reading.bucket)
            gates = Gates(queues, waiting, self.clock.wall_ms())
            owned[reading.bucket] = OwnedBucket(
                reading.token,
                self._facts.timers_id,
                reading.next_offset,
                progress,
                gates,
                sweep=self._sweep(reading.bucket, progress),
            )
            self._watch_again(reading.bucket, gates)
        if owned:
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
        return owned

    def _progress(self, reading: Reading, facts: LogFacts) -> Progress:
        """What the last Progress says, and nothing else. Raises BucketStopped."""
        number = reading.bucket
        starts = {source: facts.starts[source, number] for source in Input}
        if not reading.progress:
            if reading.records_seen:
                raise BucketStopped(
                    number, "the changelog holds tasks and no Progress: positions are unknown"
                )
            fresh = {s: InputPosition(facts.topic_ids[s], starts[s], 0, NEVER) for s in Input}
            return Progress(
                fresh[Input.COMMANDS], fresh[Input.REPORTS], 0, 0, 0, self.zones.release, self.layout
            )
        progress = decode_progress(reading.progress)
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
        return taken_over(progress, self.zones.release)._replace(layout=self.layout)

    def _sweep(self, bucket: int, progress: Progress) -> Sweep | None:
        """What is to be looked at anew because older zone data placed it; and a word to whoever watches."""
        release, before = self.zones.release, progress.tzdata_before
        if progress.tzdata != release:
            self.events(
                {
                    "event": "alarm",
                    "bucket": bucket,
                    "reason": f"tzdata {release} of this process is older than {progress.tzdata}, which placed what is to "
                    f"come: that stays where it is, and what follows goes by {release} until a process with "
                    f"{progress.tzdata} has the bucket. Upgrade this one",
                }
            )
        if not is_moving(progress, release):
            return None
        self.events({"event": "tzdata_changed", "bucket": bucket, "before": before, "after": release})
        return Sweep(bucket, self.clock.wall_ms())

    def _watch_again(self, bucket: int, gates: Gates) -> None:
        """Full leases for every claimed run: heartbeats of the past are nobody's to count. And its places."""
        now = self.clock.monotonic()
        for task_id, spec, state in self.store.in_flight(bucket):
            gates.enter(state)
            for lease in leases_of(task_id, Task(spec, state)):
                self.leases.begin(bucket, lease, now)

    def _stop(self, bucket: int, reason: str) -> None:
        """One bucket cannot go on; the lane's others do."""
        self.events({"event": "alarm", "bucket": bucket, "reason": reason})

    def _refused(self, bucket: int, refused: StoreRefused) -> None:
        raise LaneLost(f"bucket {bucket} has been taken over in this process: {refused}") from refused
