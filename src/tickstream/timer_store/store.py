"""The store of one dispatcher process: what is in the changelog, indexed by bucket and instant.

No decision about a task, no Kafka. One writer per bucket: `acquire` hands out a token, and a
write whose token is no longer the newest, or that was decided on another stored offset, is
refused. So a late write of a past owner cannot land.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

from rocksdict import AccessType, Rdict, ReadOptions, WriteBatch

from tickstream.codec import decode_queue, decode_spec, decode_state
from tickstream.errors import StoreRefused
from tickstream.model import DueEntry, QueueState, TaskSpec, TaskState
from tickstream.recurrence.zone_data import tzdata_version
from tickstream.timer_store.busy import StoredOccupancy, calendar_prefix
from tickstream.timer_store.busy_time import busy_time_of, takes_other_time
from tickstream.timer_store.due import due_entries, held_entry, is_watched
from tickstream.timer_store.indexes import EVENTS, busy_anew, move_busy, move_held
from tickstream.timer_store.keys import (
    bucket_prefix,
    due_bound,
    due_entry,
    due_key,
    gate_prefix,
    held_due,
    held_gate,
    queue_key,
    reckoned_key,
    task_key,
)
from tickstream.timer_store.rocks import check, failed_by, opening_error, statuses, store_options
from tickstream.timer_store.values import BucketMeta, StoreSizes, TaskChange

_FAMILIES: Final = ("spec", "state", "due", "held", "inflight", "busy", "queues", "meta")
_FAR: Final = 2**63
_NO_QUEUES: Final[Mapping[str, bytes]] = MappingProxyType({})


class TimerStore:
    """RocksDB under one directory. Thread-safe; close it, or use it as a context manager."""

    def __init__(self, path: Path, *, cache_bytes: int = 64 * 1024 * 1024) -> None:
        """Open or create the store. Raises StoreCorrupted when what lies there cannot be read, StoreFailed
        when something else is in the way: no room, no right, another process.
        """
        self._path = path
        path.mkdir(parents=True, exist_ok=True)
        options = store_options(cache_bytes)
        try:
            self._db = Rdict(
                str(path),
                options,
                column_families=dict.fromkeys(_FAMILIES, options),
                access_type=AccessType.read_write(),
            )
        except Exception as error:  # rocksdict raises bare Exception for every RocksDB status
            raise opening_error(path, error) from error
        self._family = {name: self._db.get_column_family(name) for name in _FAMILIES}
        self._handle = {name: self._db.get_column_family_handle(name) for name in _FAMILIES}
        self._tokens: dict[int, int] = {}
        self._next_offset: dict[int, int] = {}
        self._mutex = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Flush and close. Raises StoreFailed when there is no room: what is not flushed lies in its own log."""
        self._family.clear()
        self._handle.clear()
        try:
            with statuses():
                self._db.close()
        finally:
            del self._db  # or a failed flush would leave it open, and its lock held

    def flush(self) -> None:
        """Write the memtables to files. Raises StoreFailed."""
        with statuses():
            for family in self._family.values():
                family.flush()

    @staticmethod
    def wipe(path: Path) -> None:
        """Delete a store that is not to be trusted; it is restored from the changelog."""
        shutil.rmtree(path, ignore_errors=False)

    # ------------------------------------------------------------------ reading

    def spec(self, bucket: int, task_id: str) -> TaskSpec | None:
        """What was asked of the task."""
        value = self._get("spec", task_key(bucket, task_id))
        return None if value is None else decode_spec(value)

    def state(self, bucket: int, task_id: str) -> TaskState | None:
        """Where the task stands."""
        value = self._get("state", task_key(bucket, task_id))
        return None if value is None else decode_state(value)

    def due(
        self,
        bucket: int,
        until_ms: int,
        limit: int,
        *,
        since_ms: int = 0,
        after: DueEntry | None = None,
    ) -> list[DueEntry]:
        """The first `limit` entries with since_ms <= at_ms <= until_ms, in order of instant; or those behind `after`.

        `since_ms` is where the reader knows that nothing lies before: the seek then does not
        wade through the tombstones of what was fired. Raises StoreCorrupted, StoreFailed.
        """
        found: list[DueEntry] = []
        first = due_bound(bucket, since_ms) if after is None else due_key(bucket, after) + b"\0"
        for key in self._keys("due", first, due_bound(bucket, until_ms + 1)):
            if len(found) >= limit:
                break
            found.append(due_entry(key))
        return found

    def next_due_ms(self, bucket: int, *, since_ms: int = 0) -> int | None:
        """The instant of the bucket's first due entry. Raises StoreCorrupted."""
        for key in self._due_keys(bucket, since_ms, _FAR):
            return due_entry(key).at_ms
        return None

    def count_due(self, bucket: int, until_ms: int, limit: int, *, since_ms: int = 0) -> int:
        """How many entries are due from `since_ms` to `until_ms`, up to `limit`. Raises StoreCorrupted."""
        return sum(1 for _ in islice(self._due_keys(bucket, since_ms, until_ms + 1), limit))

    def sizes(self) -> StoreSizes:
        """How much there is. Raises StoreFailed."""
        with statuses():
            families = self._family.values()
            keys, files, memory = (
                "rocksdb.estimate-num-keys",
                "rocksdb.total-sst-files-size",
                "rocksdb.cur-size-all-mem-tables",
            )
            return StoreSizes(
                self._family["spec"].property_int_value(keys) or 0,
                self._family["state"].property_int_value(keys) or 0,
                sum(family.property_int_value(files) or 0 for family in families),
                sum(family.property_int_value(memory) or 0 for family in families),
            )

    def _due_keys(self, bucket: int, since_ms: int, until_ms: int) -> Iterator[bytes]:
        return self._keys("due", due_bound(bucket, since_ms), due_bound(bucket, until_ms))

    def _keys(self, family: str, first: bytes, end: bytes) -> Iterator[bytes]:
        """The keys in [first, end). Raises StoreCorrupted, StoreFailed."""
        read = ReadOptions()
        read.set_iterate_upper_bound(end)
        rows = self._family[family].iter(read)
        rows.seek(first)
        while rows.valid():
            yield rows.key()
            rows.next()
        check(rows)

    def held(self, bucket: int, gate: str, limit: int) -> list[DueEntry]:
        """The first `limit` occurrences that wait at a gate, in order of instant. Raises StoreCorrupted."""
        prefix = gate_prefix(bucket, gate)
        found: list[DueEntry] = []
        for key in self._keys("held", prefix, prefix + b"\xff"):
            if len(found) >= limit:
                break
            found.append(held_due(key))
        return found

    def gates(self, bucket: int) -> list[str]:
        """Every gate of the bucket at which something waits. Raises StoreCorrupted."""
        found: list[str] = []
        first, end = bucket_prefix(bucket), bucket_prefix(bucket + 1)
        while (key := next(self._keys("held", first, end), None)) is not None:
            found.append(held_gate(key))
            first = gate_prefix(bucket, found[-1]) + b"\xff"
        return found

    def queues(self, bucket: int) -> dict[str, QueueState]:
        """What is set for queues, by their names. Raises StoreCorrupted."""
        first, end = bucket_prefix(bucket), bucket_prefix(bucket + 1)
        states = (decode_queue(self._get("queues", key) or b"") for key in self._keys("queues", first, end))
        return {state.queue: state for state in states}

    def occupancy(self, bucket: int, calendar: str) -> StoredOccupancy:
        """The busy time of one calendar. Moving its cursors raises StoreCorrupted, StoreFailed."""
        return StoredOccupancy(self._family["busy"], calendar_prefix(bucket, calendar), check)

    def tasks(self, bucket: int, after: str = "") -> Iterator[tuple[str, TaskState]]:
        """Every task of the bucket that has a state, in order of id, from behind `after` on. Raises StoreCorrupted."""
        read = ReadOptions()
        read.set_iterate_upper_bound(bucket_prefix(bucket + 1))
        rows = self._family["state"].iter(read)
        rows.seek(task_key(bucket, after) + b"\0" if after else bucket_prefix(bucket))
        while rows.valid():
            yield rows.key()[2:].decode(), decode_state(rows.value())
            rows.next()
        check(rows)

    def in_flight(self, bucket: int) -> Iterator[tuple[str, TaskSpec | None, TaskState]]:
        """Every task of the bucket with a run that is claimed or holds a place, as it stands. Raises StoreCorrupted."""
        for key in self._keys("inflight", bucket_prefix(bucket), bucket_prefix(bucket + 1)):
            task_id = key[2:].decode()
            state = self.state(bucket, task_id)
            if state is not None:
                yield task_id, self.spec(bucket, task_id), state

    def meta(self, bucket: int) -> BucketMeta | None:
        """What is known of the bucket, None when nothing is."""
        value = self._get("meta", bucket_prefix(bucket))
        return None if value is None else BucketMeta.decode(value)

    # ------------------------------------------------------------------ writing

    def acquire(self, bucket: int) -> int:
        """Become the bucket's only writer; every older token is void from now on."""
        with self._mutex:
            self._tokens[bucket] = self._tokens.get(bucket, 0) + 1
            meta = self.meta(bucket)
            self._next_offset[bucket] = meta.next_offset if meta else 0
            return self._tokens[bucket]

    def apply(
        self,
        bucket: int,
        token: int,
        decided_on: int,
        changes: Iterable[TaskChange],
        meta: BucketMeta,
        queues: Mapping[str, bytes] = _NO_QUEUES,
    ) -> int | None:
        """One committed transaction's changes of one bucket, in one WriteBatch.

        `decided_on` is the stored next_offset that the decisions were made on; `queues` the encoded
        QueueState of every queue that something was set for. Only the difference of the due index is written. Returns the instant of the first due entry that was
        added, None without one. Raises StoreRefused.
        """
        batch = WriteBatch(raw_mode=True)
        due = self._handle["due"]
        added: list[int] = []
        for change in changes:
            key = task_key(bucket, change.task_id)
            if change.new_spec is not change.old_spec:
                self._put(batch, "spec", key, change.spec_bytes)
            self._put(batch, "state", key, change.state_bytes)
            was, now = (change.old_spec, change.old_state), (change.new_spec, change.new_state)
            old, new = due_entries(change.task_id, *was), due_entries(change.task_id, *now)
            for entry in old:
                if entry not in new:
                    batch.delete(due_key(bucket, entry), due)
            for entry in new:
                if entry not in old:
                    batch.put(due_key(bucket, entry), b"", due)
                    added.append(entry.at_ms)
            waited, waits = held_entry(change.task_id, *was), held_entry(change.task_id, *now)
            move_held(batch, self._handle["held"], bucket, waited, waits)
            if takes_other_time(*was, *now):
                move_busy(batch, self._handle["busy"], bucket, busy_time_of(*was), busy_time_of(*now))
            held, holds = is_watched(change.old_state), is_watched(change.new_state)
            if held != holds:
                self._put(batch, "inflight", key, b"" if holds else None)
        self._put_queues(batch, bucket, queues)
        self._write(bucket, token, decided_on, batch, meta)
        return min(added, default=None)

    def restore(
        self,
        bucket: int,
        token: int,
        decided_on: int,
        records: Mapping[str, Mapping[str, bytes | None]],
        meta: BucketMeta,
        queues: Mapping[str, bytes] = _NO_QUEUES,
    ) -> None:
        """A stretch of the changelog: task_id → {"spec"|"state": last value, None: tombstone}.

        The due entries of a touched task are rebuilt from (spec, state), never from the
        records' difference. Raises StoreRefused.
        """
        batch = WriteBatch(raw_mode=True)
        due = self._handle["due"]
        for task_id, values in records.items():
            key = task_key(bucket, task_id)
            old = {name: self._get(name, key) for name in ("spec", "state")}
            new = {**old, **values}
            for name, value in values.items():
                self._put(batch, name, key, value)
            state = new["state"]
            holds = state is not None and is_watched(decode_state(state))
            self._put(batch, "inflight", key, b"" if holds else None)
            was, now = _decoded(old), _decoded(new)
            for entry in due_entries(task_id, *was):
                batch.delete(due_key(bucket, entry), due)
            for entry in due_entries(task_id, *now):
                batch.put(due_key(bucket, entry), b"", due)
            move_held(
                batch, self._handle["held"], bucket, held_entry(task_id, *was), held_entry(task_id, *now)
            )
            if takes_other_time(*was, *now):
                move_busy(batch, self._handle["busy"], bucket, busy_time_of(*was), busy_time_of(*now))
        self._put_queues(batch, bucket, queues)
        self._write(bucket, token, decided_on, batch, meta)

    def drop_due(self, bucket: int, token: int, entries: Iterable[DueEntry]) -> None:
        """Delete due entries that no task stands behind. Raises StoreRefused."""
        batch = WriteBatch(raw_mode=True)
        for entry in entries:
            batch.delete(due_key(bucket, entry), self._handle["due"])
        with self._mutex:
            self._check_token(bucket, token)
            with statuses():
                self._db.write(batch)

    def forget_bucket(self, bucket: int, token: int) -> None:
        """Delete all that is known of the bucket: it is restored from the start. Raises StoreRefused."""
        first, last = bucket_prefix(bucket), bucket_prefix(bucket + 1)
        with self._mutex:
            self._check_token(bucket, token)
            for name in _FAMILIES:
                self._family[name].delete_range(first, last)
            self._family["meta"][reckoned_key(bucket)] = tzdata_version().encode()
            self._next_offset[bucket] = 0

    def reckon_busy(self, bucket: int, token: int) -> bool:
        """Derive the bucket's busy time anew if other zone data than those in use did; returns whether it was.

        Raises StoreRefused, CodecError.
        """
        key, release = reckoned_key(bucket), tzdata_version().encode()
        if self._get("meta", key) == release:
            return False
        batch = WriteBatch(raw_mode=True)
        tasks = self.tasks(bucket, EVENTS)
        busy_anew(batch, self._handle["busy"], bucket, tasks, partial(self.spec, bucket))
        batch.put(key, release, self._handle["meta"])
        with self._mutex:
            self._check_token(bucket, token)
            with statuses():
                self._db.write(batch)
        return True

    def _get(self, family: str, key: bytes) -> bytes | None:
        # Not within statuses(): it costs as much as the read itself, and this is done several times a task.
        try:
            value: bytes | None = self._family[family].get(key)
        except Exception as error:
            raise failed_by(error) from error
        return value

    def _put_queues(self, batch: WriteBatch, bucket: int, queues: Mapping[str, bytes]) -> None:
        for queue, value in queues.items():
            batch.put(queue_key(bucket, queue), value, self._handle["queues"])

    def _put(self, batch: WriteBatch, family: str, key: bytes, value: bytes | None) -> None:
        if value is None:
            batch.delete(key, self._handle[family])
        else:
            batch.put(key, value, self._handle[family])

    def _write(self, bucket: int, token: int, decided_on: int, batch: WriteBatch, meta: BucketMeta) -> None:
        batch.put(bucket_prefix(bucket), meta.encode(), self._handle["meta"])
        with self._mutex:
            self._check_token(bucket, token)
            if self._next_offset[bucket] != decided_on:
                raise StoreRefused(
                    f"bucket {bucket}: decided on offset {decided_on}, the store is at {self._next_offset[bucket]}"
                )
            with statuses():
                self._db.write(batch)
            self._next_offset[bucket] = meta.next_offset

    def _check_token(self, bucket: int, token: int) -> None:
        if self._tokens.get(bucket) != token:
            raise StoreRefused(
                f"bucket {bucket}: token {token} is void, the newest is {self._tokens.get(bucket)}"
            )


def _decoded(values: Mapping[str, bytes | None]) -> tuple[TaskSpec | None, TaskState | None]:
    spec, state = values["spec"], values["state"]
    return None if spec is None else decode_spec(spec), None if state is None else decode_state(state)
