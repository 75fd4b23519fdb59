"""The projection's process: `timers` and `history` are tailed into the index, whole step by whole step,
and beside them, best effort, the heartbeats in `reports`.

No question is answered here (query.py) and no row is made here (fold.py). It writes nothing to
Kafka: its place in both logs stands in its own database, in the same WriteBatch as what was read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tickstream.clock import Clock, SystemClock
from tickstream.errors import CodecError, IndexOutdated, InvalidInput
from tickstream.kafka import (
    Admin,
    EndProbe,
    Message,
    TopicPartition,
    is_out_of_range,
    place,
    state_consumer,
)
from tickstream.projection import keys
from tickstream.projection.fold import fold
from tickstream.projection.heartbeats import Heartbeats
from tickstream.projection.index import Identity, IndexWriter
from tickstream.projection.rows import Change, ChangeKind
from tickstream.projection.snapshot import encode_snapshot
from tickstream.projection.steps import BucketBuffer
from tickstream.projection.watch import Watch
from tickstream.recurrence import tzdata_version
from tickstream.settings import Settings
from tickstream.topics import TopicNames

RETENTION_MS: Final = 7 * 24 * 3_600_000
"""How long finished rows are kept after their occurrence: as long as `history` keeps them."""
LONGEST_OFFLINE_MS: Final = 6 * 24 * 3_600_000
"""An index older than this may have missed tombstones, which `timers` keeps for 7 days."""
_IDLE_S: Final = 0.2
_GATHER_S: Final = 0.02
"""After a first record, how long more are waited for: one WriteBatch for several small steps."""
_GATHER_RECORDS: Final = 5_000
_DROP_EVERY_S: Final = 60.0
_WORD_EVERY_S: Final = 5.0
_PROBE_AFTER_S: Final = 0.5
"""How long a step waits for `history` before it is asked where that ends."""

Events = Callable[[Mapping[str, object]], None]


def run_projection(
    settings: Settings,
    *,
    data_dir: Path,
    clock: Clock | None = None,
    events: Events,
    stop: threading.Event,
    retention_ms: int = RETENTION_MS,
    buckets: Sequence[int] | None = None,
    payloads: bool = False,
) -> None:
    """Keep the index in `data_dir` up to date until `stop` is set.

    `buckets`: follow only these, ascending; None: all. `payloads`: keep them, for
    whoever may see the dashboard. Events: `catching_up` with the share read,
    every few seconds until `ready` with the number of records read, `rebuild` when the index must
    be made anew, `alarm` when a bucket stops. Raises DataDirInUse, InvalidInput, BrokerUnavailable,
    LayoutMismatch, StoreCorrupted.
    """
    clock = clock or SystemClock()
    admin = Admin(settings)
    names = TopicNames(settings.prefix)
    while not stop.is_set():
        size = admin.layout().buckets
        if buckets is not None and buckets[-1] >= size:
            raise InvalidInput(f"bucket {buckets[-1]}: there are {size}, numbered from 0")
        own = tuple(buckets or ())
        identity = Identity(
            admin.topic_ids([names.timers, names.history]), size, own, tzdata_version(), payloads
        )
        with IndexWriter(data_dir, identity) as index:
            try:
                with Watch(admin, names, clock) as watch:
                    Tail(settings, admin, index, identity, clock, events, retention_ms, watch).run(stop)
            except IndexOutdated as outdated:
                at_ms, reason = clock.wall_ms(), str(outdated)
                events({"event": "rebuild", "at_ms": at_ms, "reason": reason})
                index.wipe()
                index.note(Change(at_ms, ChangeKind.REBUILD, keys.WHOLE, {"reason": reason}))


class Tail:
    """One stretch of tailing, from the index's positions on."""

    def __init__(
        self,
        settings: Settings,
        admin: Admin,
        index: IndexWriter,
        identity: Identity,
        clock: Clock,
        events: Events,
        retention_ms: int,
        watch: Watch,
    ) -> None:
        names = TopicNames(settings.prefix)
        self._timers, self._history = names.timers, names.history
        self._admin = admin
        self._index = index
        self._clock = clock
        self._events = events
        self._retention_ms = retention_ms
        self._watch = watch
        positions = index.positions(identity.followed)
        self._buffers = {
            bucket: BucketBuffer(bucket, position, payloads=identity.payloads)
            for bucket, position in positions.items()
        }
        self._consumer = state_consumer(settings, f"{settings.prefix}projection")
        self._heartbeats = Heartbeats(settings, admin, identity.followed)
        self._assigned: dict[tuple[str, int], int] = {}
        self._goal: dict[tuple[str, int], int] = {}
        """Ends of the logs when the tailing began."""
        self._announced = False
        self._next_word = clock.monotonic() + _WORD_EVERY_S
        self._paused: set[tuple[str, int]] = set()
        self._stopped: set[int] = set()
        self._probe: tuple[EndProbe, dict[int, int]] | None = None
        self._waiting_since: float | None = None
        self._next_drop = clock.monotonic()
        self._records = 0

    def run(self, stop: threading.Event) -> None:
        """Tail until `stop`. Raises IndexOutdated when the index cannot be carried on."""
        try:
            self._assign()
            while not stop.is_set():
                for message in self._read():
                    self._take_in(message)
                self._fold()
                self._hear()
                self._hold_back()
                self._ask_where_history_ends()
                self._drop_old()
                self._announce()
        finally:
            self._heartbeats.close()
            self._consumer.close()

    # ----------------------------------------------------------------------- where to begin

    def _assign(self) -> None:
        """Both logs of every bucket from where they are folded to."""
        partitions = [(topic, b) for b in self._buffers for topic in (self._timers, self._history)]
        starts, ends = self._admin.starts(partitions), self._admin.ends(partitions)
        newest = max(buffer.position.applied_before_ms for buffer in self._buffers.values())
        if newest and self._clock.wall_ms() - newest > LONGEST_OFFLINE_MS:
            raise IndexOutdated("the index is older than the changelog keeps its tombstones")
        for bucket, buffer in self._buffers.items():
            timers, history = (self._timers, bucket), (self._history, bucket)
            position = buffer.position
            if 0 < position.timers < starts[timers]:
                raise IndexOutdated(f"{self._timers}[{bucket}] begins above the place reached in it")
            if position.timers > ends[timers] or position.history > ends[history]:
                raise IndexOutdated(f"the logs of bucket {bucket} end below the place reached in them")
            self._assigned[timers] = max(position.timers, starts[timers])
            # Outcomes deleted by age are as good as seen.
            self._assigned[history] = max(position.history, starts[history])
        self._goal = {p: end for p, end in ends.items() if end > self._assigned[p]}
        self._consumer.assign([TopicPartition(t, p, offset) for (t, p), offset in self._assigned.items()])

    # ----------------------------------------------------------------------- one turn

    def _read(self) -> Sequence[Message]:
        first = self._consumer.poll(_IDLE_S)
        if first is None:
            return ()
        return (first, *self._consumer.consume(_GATHER_RECORDS, _GATHER_S))

    def _take_in(self, message: Message) -> None:
        if message.error() is not None:
            self._on_error(message)
            return
        topic, bucket, offset = place(message)
        if bucket in self._stopped:
            return
        self._records += 1
        buffer = self._buffers[bucket]
        try:
            if topic == self._timers:
                buffer.add_timers(offset, message.key(), message.value(), message.timestamp()[1])
            else:
                buffer.add_history(offset, message.value())
        except CodecError as error:
            self._stop_bucket(bucket, f"{topic}[{bucket}] offset {offset}: {error}")

    def _on_error(self, message: Message) -> None:
        error = message.error()
        assert error is not None
        if is_out_of_range(error):
            raise IndexOutdated(f"{message.topic()}[{message.partition()}]: {error.str()}")
        # The client goes on trying by itself; meanwhile staleness rises and says so.
        self._events({"event": "warning", "at_ms": self._clock.wall_ms(), "reason": error.str()})

    def _stop_bucket(self, bucket: int, reason: str) -> None:
        """What cannot be read cannot be skipped either: T stands still, and the answers say so."""
        self._stopped.add(bucket)
        self._events({"event": "alarm", "at_ms": self._clock.wall_ms(), "bucket": bucket, "reason": reason})

    def _fold(self) -> None:
        # Before the positions pass the Claims: after a crash they are read again, not lost.
        owners = {b: owner for b, buffer in self._buffers.items() if (owner := buffer.take_owner())}
        if owners:
            self._index.owned(owners)
        for bucket, buffer in self._buffers.items():
            if settings := buffer.take_settings():
                self._index.set_queues(bucket, settings)
        steps = [step for buffer in self._buffers.values() if (step := buffer.take()) is not None]
        if steps:
            self._index.apply(fold(steps, self._index))

    def _hear(self) -> None:
        if pulses := self._heartbeats.take():
            self._index.hear(pulses)
        if snapshot := self._watch.take():
            self._index.put_cluster(encode_snapshot(snapshot))

    def _hold_back(self) -> None:
        """Pause what is ahead of its other half, resume what no longer is."""
        wanted = {(topic, b) for b in self._stopped for topic in (self._timers, self._history)}
        for bucket, buffer in self._buffers.items():
            if buffer.holds_back_timers():
                wanted.add((self._timers, bucket))
            if buffer.holds_back_history():
                wanted.add((self._history, bucket))
        if pause := wanted - self._paused:
            self._consumer.pause([TopicPartition(*p) for p in pause])
        if resume := self._paused - wanted:
            self._consumer.resume([TopicPartition(*p) for p in resume])
        self._paused = wanted

    def _ask_where_history_ends(self) -> None:
        """A step that waits for outcomes deleted by age would wait for ever: its log's end tells.

        Asked after the Progress was read, the end lies above every outcome that it names.
        """
        if self._probe is not None:
            self._answered(*self._probe)
            return
        awaited = {
            bucket: number
            for bucket, buffer in self._buffers.items()
            if bucket not in self._stopped and (number := buffer.awaited_number()) is not None
        }
        now = self._clock.monotonic()
        if not awaited:
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = now
        elif now - self._waiting_since >= _PROBE_AFTER_S:
            self._waiting_since = now
            self._probe = self._admin.probe_ends([(self._history, b) for b in awaited]), awaited

    def _answered(self, probe: EndProbe, awaited: Mapping[int, int]) -> None:
        if not probe.done():
            return
        self._probe = None
        if probe.failed():
            return
        reached = self._reached()
        for (topic, bucket), end in probe.ends().items():
            if reached[topic, bucket] >= end:
                self._buffers[bucket].history_gone(awaited[bucket])

    def _reached(self) -> dict[tuple[str, int], int]:
        """(topic, partition) → next offset to be read, also where nothing was read yet."""
        asked = [TopicPartition(*partition) for partition in self._assigned]
        return {
            (p.topic, p.partition): max(p.offset, self._assigned[p.topic, p.partition])
            for p in self._consumer.position(asked)
        }

    def _drop_old(self) -> None:
        now = self._clock.monotonic()
        if now >= self._next_drop and not self._index.drop_before(self._clock.wall_ms() - self._retention_ms):
            self._next_drop = now + _DROP_EVERY_S

    def _announce(self) -> None:
        """Say how far it is, and once that the ends seen at the beginning are reached."""
        if self._announced:
            return
        reached = self._reached()
        if (now := self._clock.monotonic()) >= self._next_word:
            self._next_word = now + _WORD_EVERY_S
            left = sum(max(0, end - reached[partition]) for partition, end in self._goal.items())
            whole = sum(end - self._assigned[partition] for partition, end in self._goal.items())
            share = 1 - left / whole if whole else 1.0
            told = {"records": self._records, "records_left": left, "share": round(share, 3)}
            self._events({"event": "catching_up", "at_ms": self._clock.wall_ms(), **told})
        if all(reached[partition] >= end for partition, end in self._goal.items()):
            self._announced = True
            self._events({"event": "ready", "at_ms": self._clock.wall_ms(), "records": self._records})
