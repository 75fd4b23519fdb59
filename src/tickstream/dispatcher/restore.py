"""Bringing buckets of the store up to the changelog: in a take-over, behind an active lane, to keep them warm.

No decision about a task is made here, and nothing is written to the log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tickstream.clock import Clock
from tickstream.codec import (
    PROGRESS,
    QUEUE,
    SPEC,
    STATE,
    decode_claim,
    decode_progress,
    decode_queue,
    split_timers_key,
)
from tickstream.dispatcher.lane import Events
from tickstream.dispatcher.ports import Changelog, LogFacts, LogRecord
from tickstream.errors import BucketStopped, CodecError, StoreRefused
from tickstream.model import NEVER
from tickstream.timer_store import BucketMeta, TimerStore
from tickstream.topics import TOMBSTONES_KEPT_MS

MAX_STORE_AGE_MS: Final = TOMBSTONES_KEPT_MS * 6 // 7
"""A store written longer ago is restored from the start."""
_FAMILY: Final = {SPEC: "spec", STATE: "state"}
_TELL_S: Final = 1.0
"""How often a restore says how far it is."""


@dataclass(slots=True)
class Reading:
    """A bucket on its way from the store's offset to an offset of the log."""

    bucket: int
    token: int
    next_offset: int
    """Of the store."""
    target: int
    """The record with which the bucket is restored."""
    first: int
    """Where reading began."""
    read_to: int
    """NEVER before the first record of a bucket that is read from the log's start."""
    progress: bytes
    begun: float
    told: float
    """When it last said how far it is, monotonic; at first when it began."""
    records_seen: int = 0
    """Records of tasks that were read: they must have a Progress beside them."""
    pending: dict[str, dict[str, bytes | None]] = field(default_factory=lambda: defaultdict(dict))
    queues: dict[str, bytes] = field(default_factory=dict)

    @property
    def left(self) -> int:
        """Offsets still to be read; compaction may have left fewer records."""
        return self.target + 1 - max(self.first, self.read_to)

    def at_least(self, position: int) -> int:
        """The next offset to be read, given the reader's position, which passes what is no record."""
        return max(self.first, self.read_to, position)


@dataclass(slots=True)
class Restorer:
    """Reads some buckets of `timers` and writes them to the store, stretch by stretch."""

    log: Changelog
    store: TimerStore
    clock: Clock
    layout: int
    events: Events
    stopped: Callable[[int, str], None]
    """Told of a bucket that cannot go on, and why."""
    refused: Callable[[int, StoreRefused], None]
    """Told of a bucket that somebody else has acquired."""
    follows: bool = False
    """Go on behind the target, for ever."""
    readings: dict[int, Reading] = field(default_factory=dict)
    """What is not restored yet."""
    restored: int = 0
    """Records of tasks read so far."""
    _timers_id: bytes = b""

    def open(self, targets: Mapping[int, int], facts: LogFacts) -> None:
        """Begin with these buckets too: where the store can be trusted, else from the log's start.

        `targets`: bucket → the offset that ends its restore.
        """
        self._timers_id = facts.timers_id
        now = self.clock.monotonic()
        offsets = {}
        for bucket, target in targets.items():
            token = self.store.acquire(bucket)
            meta = self.store.meta(bucket)
            start = facts.timers_starts.get(bucket, 0)
            if meta is None or not self._trusted(meta, start, target):
                self.store.forget_bucket(bucket, token)
                reading = Reading(bucket, token, 0, target, start, NEVER, b"", now, now)
            else:
                at = meta.next_offset
                if not self._reckoned(bucket, token):
                    continue
                reading = Reading(bucket, token, at, target, at, at, meta.progress, now, now)
            self.readings[bucket] = reading
            offsets[bucket] = reading.read_to
        self.log.open(offsets)

    def _trusted(self, meta: BucketMeta, start: int, target: int) -> bool:
        return (
            meta.topic_id == self._timers_id
            and start <= meta.next_offset <= target + self.follows
            # Tombstones are kept only so long: an older store would never hear of what is gone.
            and self.clock.wall_ms() - meta.applied_ms < MAX_STORE_AGE_MS
        )

    def _reckoned(self, bucket: int, token: int) -> bool:
        """Have the busy time that lies in the store by the zone data in use. Returns whether the bucket can go on."""
        begun = self.clock.monotonic()
        try:
            anew = self.store.reckon_busy(bucket, token)
        except CodecError as error:
            self.stopped(bucket, str(error))
            return False
        except StoreRefused as refused:
            self.refused(bucket, refused)
            return False
        if anew:
            took_s = round(self.clock.monotonic() - begun, 3)
            self.events({"event": "busy_time_reckoned", "bucket": bucket, "took_s": took_s})
        return True

    def step(self, timeout_s: float, limit: int) -> list[Reading]:
        """Read and write one stretch of at most `limit` records; returns what is restored by now.

        Waits up to `timeout_s` for the first record. Raises LaneLost when the log cannot be read.
        """
        reached = set()
        for record in self.log.read(timeout_s, limit):
            reading = self.readings.get(record.bucket)
            if reading is None or record.bucket in reached:
                continue
            try:
                self._read(reading, record)
            except (BucketStopped, CodecError) as error:
                self._stop(record.bucket, str(error))
                continue
            if record.offset >= reading.target and not self.follows:
                reached.add(record.bucket)
        for reading in list(self.readings.values()):
            self._flush(reading)
        return [self._finish(bucket) for bucket in reached if bucket in self.readings]

    def drop(self, bucket: int) -> None:
        """Read no more of it."""
        if self.readings.pop(bucket, None) is not None:
            self.log.done(bucket)

    def close(self) -> None:
        """Leave the log; what is not restored stays where it is."""
        self.readings.clear()
        self.log.close()

    def _finish(self, bucket: int) -> Reading:
        reading = self.readings.pop(bucket)
        self.log.done(bucket)
        if reading.told > reading.begun:
            took_s = self.clock.monotonic() - reading.begun
            self.events({"event": "bucket_restored", "bucket": bucket, "took_s": round(took_s, 3)})
        return reading

    def _stop(self, bucket: int, reason: str) -> None:
        self.drop(bucket)
        self.stopped(bucket, reason)

    def _read(self, reading: Reading, record: LogRecord) -> None:
        kind, task_id = split_timers_key(record.key)
        if kind in _FAMILY:
            reading.pending[task_id][_FAMILY[kind]] = record.value
            reading.records_seen += 1
            self.restored += 1
        elif kind == QUEUE:
            reading.queues[decode_queue(record.value or b"").queue] = record.value or b""
        elif kind == PROGRESS:
            decode_progress(record.value or b"")
            reading.progress = record.value or b""
        elif decode_claim(record.value or b"").layout > self.layout:
            raise BucketStopped(
                record.bucket, "a newer layout of lanes has been claimed; restart this dispatcher"
            )
        reading.read_to = record.offset + 1

    def _flush(self, reading: Reading) -> None:
        """Write what was read to the store."""
        if reading.read_to in (NEVER, reading.next_offset):
            return
        meta = BucketMeta(reading.read_to, self._timers_id, self.clock.wall_ms(), reading.progress)
        try:
            self.store.restore(
                reading.bucket, reading.token, reading.next_offset, reading.pending, meta, reading.queues
            )
        except CodecError as error:
            self._stop(reading.bucket, str(error))
            return
        except StoreRefused as refused:
            self.drop(reading.bucket)
            self.refused(reading.bucket, refused)
            return
        reading.next_offset = reading.read_to
        reading.pending.clear()
        reading.queues.clear()
        self._tell(reading)

    def _tell(self, reading: Reading) -> None:
        now = self.clock.monotonic()
        done, total = reading.read_to - reading.first, reading.target + 1 - reading.first
        if reading.left <= 0 or now - reading.told < _TELL_S:
            return
        reading.told = now
        self.events(
            {
                "event": "bucket_restoring",
                "bucket": reading.bucket,
                "done": done,
                "total": total,
                "eta_s": round((now - reading.begun) * reading.left / done, 1),
            }
        )
