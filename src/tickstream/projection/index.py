"""The projection's RocksDB, written: one WriteBatch takes in rows, counters and positions together.

No Kafka and no query may enter here. The directory:

    lock            held (flock) by the one process that writes
    current         which database is in use, and its turn (turn.py): readers look here
    index-<id>/     the database; <id> names format, topics and number of buckets

A database of another identity is left behind by a new `current` and then deleted, so a reader
never sees two logs mixed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

from rocksdict import Rdict, ReadOptions

from tickstream.errors import DataDirInUse, StoreCorrupted
from tickstream.model import Phase
from tickstream.projection import agenda, keys, turn
from tickstream.projection.batch import Batch
from tickstream.projection.families import (
    AGEING,
    ATTEMPTS,
    CHANGES,
    COLUMN_FAMILIES,
    COUNTS,
    ENDED,
    FAILURES,
    FINISHED_ROWS,
    LATENESS,
    META,
    PULSES,
    RUNNING,
    SERIES,
    TASK,
    UPCOMING,
    Family,
    open_options,
)
from tickstream.projection.fold import Changes
from tickstream.projection.rows import (
    Change,
    ChangeKind,
    Owner,
    Position,
    Pulse,
    QueueSetting,
    Row,
    TaskRecord,
)
from tickstream.projection.stored import (
    FORMAT_VERSION,
    decode_histogram,
    decode_position,
    decode_row,
    decode_setting,
    decode_task,
    encode_attempt,
    encode_coming,
    encode_failure,
    encode_histogram,
    encode_owner,
    encode_position,
    encode_pulse,
    encode_row,
    encode_setting,
    encode_task,
)
from tickstream.projection.turn import Turn

_FLUSH_BYTES: Final = 32 * 1024 * 1024
"""Written since the last flush: bounds the log that a reader replays when it opens anew."""


class Identity(NamedTuple):
    """What a database belongs to: it is of no use for anything else."""

    topic_ids: Mapping[str, bytes]
    """Of `timers` and `history`; a re-created topic has another id."""
    buckets: int
    own: tuple[int, ...] = ()
    """The buckets that it follows; none named: all."""
    tzdata: str = ""
    """Release of the zone data by which rows of recurring tasks are made."""
    payloads: bool = False
    """Whether payloads are kept; who hides them again gets a database that never held any."""

    @property
    def followed(self) -> tuple[int, ...]:
        """The buckets that it follows."""
        return self.own or tuple(range(self.buckets))

    @property
    def directory(self) -> str:
        """Name of its database."""
        parts = [f"format {FORMAT_VERSION}", f"buckets {self.buckets}"]
        parts += [f"{name} {topic_id.hex()}" for name, topic_id in sorted(self.topic_ids.items())]
        parts += [f"own {self.own}"] if self.own else []
        parts += [f"tzdata {self.tzdata}"] if self.tzdata else []
        parts += ["payloads"] if self.payloads else []
        return "index-" + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


class IndexWriter:
    """The one writer of a data directory. A context manager; use it from one thread."""

    def __init__(self, data_dir: Path, identity: Identity) -> None:
        """Open or make the database of `identity`. Raises DataDirInUse, StoreCorrupted."""
        data_dir.mkdir(parents=True, exist_ok=True)
        self._dir = data_dir
        self._lock = _lock(data_dir)
        self._turn = _go_on(turn.read(data_dir), identity.directory)
        self._identity = identity
        self._unflushed = 0
        try:
            with self._moving():
                self._open()
        except BaseException:
            os.close(self._lock)
            raise
        for other in self._dir.glob("index-*"):
            if other.name != self._turn.name:
                shutil.rmtree(other)

    @contextmanager
    def _moving(self) -> Iterator[None]:
        """Around everything that flushes: readers keep what they have, and then open anew."""
        self._turn = self._turn.next
        turn.write(self._dir, self._turn)
        yield
        self._turn = self._turn.next
        turn.write(self._dir, self._turn)

    def _open(self) -> None:
        options, families = open_options()
        path = self._dir / self._turn.name
        try:
            self._db = Rdict(str(path), options, column_families=families)
        except Exception as error:  # rocksdict has no narrower class for what RocksDB reports
            raise StoreCorrupted(f"the projection's index {path} cannot be opened: {error}") from error
        self._columns = {name: self._db.get_column_family(name) for name in COLUMN_FAMILIES}
        self._handles = {name: self._db.get_column_family_handle(name) for name in COLUMN_FAMILIES}
        followed = ",".join(map(str, self._identity.followed))
        self._columns[META.column].put(META.prefix + keys.BUCKETS, b"%d" % self._identity.buckets)
        self._columns[META.column].put(META.prefix + keys.OWN, followed.encode())

    def __enter__(self) -> IndexWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the database and the directory."""
        with self._moving():
            self._close_database()
        os.close(self._lock)

    def _close_database(self) -> None:
        # Every handle keeps RocksDB's own lock until it is gone.
        self._columns.clear()
        self._handles.clear()
        self._db.close()

    def wipe(self) -> None:
        """Begin again with nothing, under another name, so that readers notice."""
        old = self._dir / self._turn.name
        with self._moving():
            self._close_database()
            base, _, life = self._turn.name.partition(".")
            self._turn = self._turn._replace(name=f"{base}.{int(life or 0) + 1}")
            self._open()
        shutil.rmtree(old)

    # ----------------------------------------------------------------------- reading what was there

    def _get(self, family: Family, key: bytes) -> bytes | None:
        value: bytes | None = self._columns[family.column].get(family.prefix + key)
        return value

    def positions(self, buckets: Iterable[int]) -> dict[int, Position]:
        """Where each bucket stands."""
        return {b: self.position(b) for b in buckets}

    def position(self, bucket: int) -> Position:
        """Where a bucket stands."""
        value = self._get(META, keys.bucket_key(bucket))
        return Position() if value is None else decode_position(value)

    def task(self, task_id: str) -> TaskRecord | None:
        """The task's record."""
        value = self._get(TASK, keys.task_key(task_id))
        return None if value is None else decode_task(task_id, value)

    def finished(self, task_id: str, occurrence_ts: int) -> Row | None:
        """The finished row of an occurrence, shown or superseded."""
        value = self._get(FINISHED_ROWS, keys.row_key(task_id, occurrence_ts))
        return None if value is None else decode_row(value)

    # ----------------------------------------------------------------------- writing

    def apply(self, changes: Changes) -> None:
        """Take in a step: all of it, or nothing."""
        batch = Batch(self._handles)
        for (in_flight, task_id, occurrence), row in changes.live.items():
            family, key = RUNNING if in_flight else UPCOMING, keys.row_key(task_id, occurrence)
            if row is None:
                batch.delete(family, key)
                batch.delete(PULSES, key)
            else:
                batch.put(family, key, encode_row(row))
        for (task_id, occurrence), row in changes.finished.items():
            batch.put(FINISHED_ROWS, keys.row_key(task_id, occurrence), encode_row(row))
            batch.put(ENDED, keys.ended_key(task_id, occurrence), b"")
        for task_id, record in changes.tasks.items():
            if record is None:
                batch.delete(TASK, keys.task_key(task_id))
            else:
                batch.put(TASK, keys.task_key(task_id), encode_task(record))
        for (frontier, task_id), coming in changes.frontiers.items():
            key = keys.frontier_key(frontier, task_id)
            if coming is None:
                batch.delete(SERIES, key)
            else:
                batch.put(SERIES, key, encode_coming(coming))
        for attempt in changes.attempts:
            key = keys.attempt_key(attempt.task_id, attempt.occurrence_ts, attempt.number)
            batch.put(ATTEMPTS, key, encode_attempt(attempt))
        for failure in changes.failures:
            key = keys.failure_key(failure.at_ms, failure.task_id, failure.occurrence_ts)
            batch.put(FAILURES, key, encode_failure(failure))
        self._count(batch, changes.counts)
        for (minute, stage), added in changes.lateness.items():
            self._add_lateness(batch, keys.lateness_key(minute, stage), added)
        agenda.take_in(batch, self._get, changes.bookings)
        for bucket, position in changes.positions.items():
            batch.put(META, keys.bucket_key(bucket), encode_position(position))
        for change in changes.events:
            batch.put_change(change)
        self._write(batch)

    def owned(self, owners: Mapping[int, Owner]) -> None:
        """Take in who took which bucket; the same Claim again changes nothing."""
        batch = Batch(self._handles)
        for bucket, owner in owners.items():
            batch.put(META, keys.owner_key(bucket), encode_owner(owner))
            fields = {"instance": owner.instance, "lane": owner.lane, "layout": owner.layout}
            batch.put_change(Change(owner.at_ms, ChangeKind.TAKEOVER, bucket, fields))
        self._write(batch)

    def set_queues(self, bucket: int, settings: Sequence[tuple[str, QueueSetting]]) -> None:
        """Take in what was set for queues in a bucket; only what differs is a change."""
        batch = Batch(self._handles)
        before = {queue: self._get(META, keys.setting_key(bucket, queue)) for queue, _ in settings}
        paused = {
            queue: value is not None and decode_setting(value).paused for queue, value in before.items()
        }
        for queue, setting in settings:
            batch.put(META, keys.setting_key(bucket, queue), encode_setting(setting))
            if paused[queue] != setting.paused:
                paused[queue] = setting.paused
                kind = ChangeKind.PAUSE if setting.paused else ChangeKind.RESUME
                batch.put_change(Change(setting.at_ms, kind, bucket, {"queue": queue}))
        self._write(batch)

    def note(self, change: Change) -> None:
        """Add to the strip of changes."""
        batch = Batch(self._handles)
        batch.put_change(change)
        self._write(batch)

    def put_cluster(self, snapshot: bytes) -> None:
        """Take in what the broker said of groups and ends."""
        batch = Batch(self._handles)
        batch.put(META, keys.CLUSTER, snapshot)
        self._write(batch)

    def hear(self, pulses: Iterable[Pulse]) -> None:
        """Take in heartbeats. One that comes after its run's end stays until its day is dropped, unseen."""
        batch = Batch(self._handles)
        for pulse in pulses:
            batch.put(PULSES, keys.row_key(pulse.task_id, pulse.occurrence_ts), encode_pulse(pulse))
        self._write(batch)

    def _write(self, batch: Batch) -> None:
        self._unflushed += batch.batch.size_in_bytes()
        self._db.write(batch.batch)
        if self._unflushed >= _FLUSH_BYTES:
            with self._moving():
                for column in self._columns.values():
                    column.flush()
            self._unflushed = 0

    def _count(self, batch: Batch, differences: Mapping[tuple[Phase, int, str], int]) -> None:
        totals: dict[tuple[Phase, str], int] = {}
        for (state, minute, queue), difference in differences.items():
            if difference:
                self._add(batch, COUNTS, keys.count_key(state, minute, queue), difference)
                totals[state, queue] = totals.get((state, queue), 0) + difference
        for (state, queue), difference in totals.items():
            self._add(batch, META, keys.total_key(state, queue), difference)

    def _add(self, batch: Batch, family: Family, key: bytes, difference: int) -> None:
        count = int(self._get(family, key) or 0) + difference
        if count:
            batch.put(family, key, b"%d" % count)
        else:
            batch.delete(family, key)

    def _add_lateness(self, batch: Batch, key: bytes, added: Mapping[int, int]) -> None:
        value = self._get(LATENESS, key)
        histogram = {} if value is None else decode_histogram(value)
        for bucket, count in added.items():
            histogram[bucket] = histogram.get(bucket, 0) + count
        batch.put(LATENESS, key, encode_histogram(histogram))

    def drop_before(self, before_ms: int, *, at_most: int = 20_000) -> int:
        """Drop finished rows whose occurrence lies before `before_ms`, oldest first; return how many.

        One DeleteRange takes the rows; what refers to them goes singly, in the same WriteBatch.
        `at_most` bounds one call: call again while it returns that many.
        """
        bound = keys.instant(before_ms)
        batch = Batch(self._handles)
        gone: dict[tuple[Phase, int, str], int] = {}
        dropped = 0
        last = b""
        for key, value in self._oldest(bound, at_most):
            task_id, occurrence = keys.read_row_key(key)
            row = decode_row(value)
            batch.delete(ENDED, keys.ended_key(task_id, occurrence))
            if not row.superseded:
                counter = (row.state, keys.minute_of(occurrence), row.queue)
                gone[counter] = gone.get(counter, 0) - 1
            dropped, last = dropped + 1, key
        if dropped:
            batch.delete_range(FINISHED_ROWS, b"", keys.after(last))
            self._count(batch, gone)
        if dropped < at_most:
            batch.delete_range(ATTEMPTS, b"", bound)
            batch.delete_range(PULSES, b"", bound)
        batch.delete_range(FAILURES, b"", keys.failure_bound(before_ms))
        batch.delete_range(LATENESS, b"", keys.lateness_key(keys.minute_of(before_ms), 0))
        batch.delete_range(CHANGES, b"", keys.change_key(before_ms, 0, 0))
        self._write(batch)
        return dropped

    def _oldest(self, end: bytes, at_most: int) -> list[tuple[bytes, bytes]]:
        """Keys and values of the first finished rows below `end`."""
        bounded = ReadOptions()
        bounded.set_iterate_upper_bound(end)
        rows = self._columns[AGEING].iter(bounded)
        rows.seek_to_first()
        found: list[tuple[bytes, bytes]] = []
        while rows.valid() and len(found) < at_most:
            found.append((rows.key(), rows.value()))
            rows.next()
        rows.status()
        return found


def _lock(data_dir: Path) -> int:
    handle = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise DataDirInUse(data_dir) from error
    return handle


def _go_on(before: Turn | None, base: str) -> Turn:
    """The settled turn to go on from: of the same database if it is of this identity, however often wiped."""
    if before is None:
        return Turn(base, 0)
    name = before.name if before.name.partition(".")[0] == base else base
    # A writer that died while moving left an odd number; the next one is odd again, and different.
    return Turn(name, before.number + before.number % 2)
