"""The store of one dispatcher process: what is in the changelog, indexed by bucket and instant.

No decision about a task, no Kafka. One writer per bucket: `acquire` hands out a token, and a
write whose token is no longer the newest, or that was decided on another stored offset, is
refused. So a late write of a past owner cannot land.
"""

from __future__ import annotations

import contextlib
import shutil
import struct
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, Self

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    RdictIter,
    ReadOptions,
    WriteBatch,
)

from tickstream.codec import decode_spec, decode_state
from tickstream.errors import StoreCorrupted, StoreFailed, StoreRefused
from tickstream.model import DueEntry, TaskSpec, TaskState
from tickstream.timer_store.due import due_entries, has_holder
from tickstream.timer_store.keys import bucket_prefix, due_bound, due_entry, due_key, task_key

FORMAT: Final = 2
"""Raised when keys or values change; a store of another format is wiped and restored."""
_FAMILIES: Final = ("spec", "state", "due", "inflight", "meta")
_META_HEAD: Final = struct.Struct(">Bq16sqI")
_FAR: Final = 2**63


class BucketMeta(NamedTuple):
    """What the store knows of one bucket as a whole."""

    next_offset: int
    """Of `timers`: everything below is in the store."""
    topic_id: bytes
    applied_ms: int
    """Wall time of the last write: an old store is not trusted past the tombstones' retention."""
    progress: bytes
    """The last Progress as it lies in the changelog, empty before the first."""

    def encode(self) -> bytes:
        """As stored: format u8, next_offset i64, topic_id, applied_ms i64, length u32, progress."""
        head = _META_HEAD.pack(FORMAT, self.next_offset, self.topic_id, self.applied_ms, len(self.progress))
        return head + self.progress

    @classmethod
    def decode(cls, value: bytes) -> BucketMeta | None:
        """What `encode` wrote; None when it is of another format."""
        if len(value) < _META_HEAD.size or value[0] != FORMAT:
            return None
        _, next_offset, topic_id, applied_ms, length = _META_HEAD.unpack_from(value)
        return cls(next_offset, topic_id, applied_ms, value[_META_HEAD.size : _META_HEAD.size + length])


class TaskChange(NamedTuple):
    """One task before and after: encoded values to keep, decoded ones to derive the due index from."""

    task_id: str
    old_spec: TaskSpec | None
    old_state: TaskState | None
    new_spec: TaskSpec | None
    new_state: TaskState | None
    spec_bytes: bytes | None
    """Encoded new_spec, None deletes it; not looked at when the spec is the same object as before."""
    state_bytes: bytes | None
    """Encoded new_state, None deletes it."""


class TimerStore:
    """RocksDB under one directory. Thread-safe; close it, or use it as a context manager."""

    def __init__(self, path: Path, *, cache_bytes: int = 64 * 1024 * 1024) -> None:
        """Open or create the store. Raises StoreCorrupted when it cannot be read."""
        self._path = path
        path.mkdir(parents=True, exist_ok=True)
        options = _options(cache_bytes)
        try:
            self._db = Rdict(
                str(path),
                options,
                column_families=dict.fromkeys(_FAMILIES, options),
                access_type=AccessType.read_write(),
            )
        except Exception as error:  # rocksdict raises bare Exception for every RocksDB status
            raise StoreCorrupted(f"{path}: {error}") from error
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
        """Flush and close."""
        self._family.clear()
        self._handle.clear()
        self._db.close()

    def flush(self) -> None:
        """Write the memtables to files. Raises StoreFailed."""
        with _statuses():
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

    def due(self, bucket: int, until_ms: int, limit: int, *, since_ms: int = 0) -> list[DueEntry]:
        """The first `limit` entries with since_ms <= at_ms <= until_ms, in order of instant.

        `since_ms` is where the reader knows that nothing lies before: the seek then does not
        wade through the tombstones of what was fired. Raises StoreCorrupted, StoreFailed.
        """
        found: list[DueEntry] = []
        for key in self._due_keys(bucket, since_ms, until_ms + 1):
            if len(found) >= limit:
                break
            found.append(due_entry(key))
        return found

    def next_due_ms(self, bucket: int, *, since_ms: int = 0) -> int | None:
        """The instant of the bucket's first due entry. Raises StoreCorrupted."""
        for key in self._due_keys(bucket, since_ms, _FAR):
            return due_entry(key).at_ms
        return None

    def _due_keys(self, bucket: int, since_ms: int, until_ms: int) -> Iterator[bytes]:
        read = ReadOptions()
        read.set_iterate_upper_bound(due_bound(bucket, until_ms))
        rows = self._family["due"].iter(read)
        rows.seek(due_bound(bucket, since_ms))
        while rows.valid():
            yield rows.key()
            rows.next()
        _check(rows)

    def tasks(self, bucket: int) -> Iterator[tuple[str, TaskState]]:
        """Every task of the bucket that has a state. Raises StoreCorrupted."""
        read = ReadOptions()
        read.set_iterate_upper_bound(bucket_prefix(bucket + 1))
        rows = self._family["state"].iter(read)
        rows.seek(bucket_prefix(bucket))
        while rows.valid():
            yield rows.key()[2:].decode(), decode_state(rows.value())
            rows.next()
        _check(rows)

    def in_flight(self, bucket: int) -> Iterator[tuple[str, TaskSpec | None, TaskState]]:
        """Every task of the bucket with a claimed run, as it stands. Raises StoreCorrupted."""
        read = ReadOptions()
        read.set_iterate_upper_bound(bucket_prefix(bucket + 1))
        rows = self._family["inflight"].iter(read)
        rows.seek(bucket_prefix(bucket))
        while rows.valid():
            task_id = rows.key()[2:].decode()
            state = self.state(bucket, task_id)
            if state is not None:
                yield task_id, self.spec(bucket, task_id), state
            rows.next()
        _check(rows)

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
        self, bucket: int, token: int, decided_on: int, changes: Iterable[TaskChange], meta: BucketMeta
    ) -> int | None:
        """One committed transaction's changes of one bucket, in one WriteBatch.

        `decided_on` is the stored next_offset that the decisions were made on. Only the
        difference of the due index is written. Returns the instant of the first due entry that was
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
            old = due_entries(change.task_id, change.old_spec, change.old_state)
            new = due_entries(change.task_id, change.new_spec, change.new_state)
            for entry in old:
                if entry not in new:
                    batch.delete(due_key(bucket, entry), due)
            for entry in new:
                if entry not in old:
                    batch.put(due_key(bucket, entry), b"", due)
                    added.append(entry.at_ms)
            held, holds = has_holder(change.old_state), has_holder(change.new_state)
            if held != holds:
                self._put(batch, "inflight", key, b"" if holds else None)
        self._write(bucket, token, decided_on, batch, meta)
        return min(added, default=None)

    def restore(
        self,
        bucket: int,
        token: int,
        decided_on: int,
        records: Mapping[str, Mapping[str, bytes | None]],
        meta: BucketMeta,
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
            holds = state is not None and has_holder(decode_state(state))
            self._put(batch, "inflight", key, b"" if holds else None)
            for entry in _due_of(task_id, old):
                batch.delete(due_key(bucket, entry), due)
            for entry in _due_of(task_id, new):
                batch.put(due_key(bucket, entry), b"", due)
        self._write(bucket, token, decided_on, batch, meta)

    def drop_due(self, bucket: int, token: int, entries: Iterable[DueEntry]) -> None:
        """Delete due entries that no task stands behind. Raises StoreRefused."""
        batch = WriteBatch(raw_mode=True)
        for entry in entries:
            batch.delete(due_key(bucket, entry), self._handle["due"])
        with self._mutex:
            self._check_token(bucket, token)
            with _statuses():
                self._db.write(batch)

    def forget_bucket(self, bucket: int, token: int) -> None:
        """Delete all that is known of the bucket: it is restored from the start. Raises StoreRefused."""
        first, last = bucket_prefix(bucket), bucket_prefix(bucket + 1)
        with self._mutex:
            self._check_token(bucket, token)
            for name in _FAMILIES:
                self._family[name].delete_range(first, last)
            self._next_offset[bucket] = 0

    def _get(self, family: str, key: bytes) -> bytes | None:
        with _statuses():
            value: bytes | None = self._family[family].get(key)
        return value

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
            with _statuses():
                self._db.write(batch)
            self._next_offset[bucket] = meta.next_offset

    def _check_token(self, bucket: int, token: int) -> None:
        if self._tokens.get(bucket) != token:
            raise StoreRefused(
                f"bucket {bucket}: token {token} is void, the newest is {self._tokens.get(bucket)}"
            )


def _due_of(task_id: str, values: Mapping[str, bytes | None]) -> tuple[DueEntry, ...]:
    spec, state = values["spec"], values["state"]
    return due_entries(
        task_id, None if spec is None else decode_spec(spec), None if state is None else decode_state(state)
    )


@contextlib.contextmanager
def _statuses() -> Iterator[None]:
    """Tell what is broken from what failed: rocksdict raises a bare Exception for every RocksDB status."""
    try:
        yield
    except Exception as error:
        if str(error).startswith("Corruption"):
            raise StoreCorrupted(str(error)) from error
        raise StoreFailed(str(error)) from error


def _check(rows: RdictIter) -> None:
    """An iterator that met a corrupt block just stops: only its status tells."""
    with _statuses():
        rows.status()


def _options(cache_bytes: int) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_write_buffer_size(16 * 1024 * 1024)
    options.set_max_open_files(256)
    options.set_keep_log_file_num(2)
    options.set_compression_type(DBCompressionType.lz4())
    table = BlockBasedOptions()
    table.set_block_cache(Cache(cache_bytes))
    table.set_bloom_filter(10, False)
    options.set_block_based_table_factory(table)
    return options
