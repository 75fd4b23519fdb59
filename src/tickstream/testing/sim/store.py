"""A TimerStore in memory, with a disk that outlives the process: tokens, offsets and refusals as RocksDB's.

tests/unit/test_sim_store.py holds it against the real one. No RocksDB, no time may enter here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from tickstream.codec import decode_queue, decode_spec, decode_state
from tickstream.errors import StoreRefused
from tickstream.model import DueEntry, DueKind, QueueState, TaskSpec, TaskState
from tickstream.timer_store import BucketMeta, TaskChange, TimerStore, due_entries
from tickstream.timer_store.due import HeldEntry, held_entry, is_watched

_Key = tuple[int, str]
_NO_QUEUES: Final[Mapping[str, bytes]] = MappingProxyType({})
_Due = tuple[int, int, int, str, int]
"""(bucket, at_ms, kind, task_id, occurrence_ts), in the order of the real keys."""


class Disk:
    """What is left of a store when its process dies."""

    def __init__(self) -> None:
        self.spec: dict[_Key, tuple[bytes, TaskSpec | None]] = {}
        self.state: dict[_Key, tuple[bytes, TaskState | None]] = {}
        """Encoded, and decoded where somebody has done that already."""
        self.meta: dict[int, bytes] = {}
        self.holding: set[_Key] = set()
        self.due: list[_Due] = []
        self.held: list[tuple[int, str, _Due]] = []
        """(bucket, gate, due entry) of what waits at a gate."""
        self.queues: dict[_Key, bytes] = {}
        """(bucket, queue) → encoded QueueState."""
        self.batches = 0

    def copy(self) -> Disk:
        """As it stands: what a machine has after it lost its latest writes."""
        other = Disk()
        other.spec, other.state = dict(self.spec), dict(self.state)
        other.meta, other.holding, other.due = dict(self.meta), set(self.holding), list(self.due)
        other.held, other.queues = list(self.held), dict(self.queues)
        other.batches = self.batches
        return other


class MemoryStore(TimerStore):
    """The store of one incarnation of a process, on its disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._tokens: dict[int, int] = {}
        self._next_offset: dict[int, int] = {}

    # ------------------------------------------------------------------ reading

    def spec(self, bucket: int, task_id: str) -> TaskSpec | None:
        entry = self._disk.spec.get((bucket, task_id))
        if entry is None:
            return None
        value, spec = entry
        if spec is None:
            spec = decode_spec(value)
            self._disk.spec[bucket, task_id] = (value, spec)
        return spec

    def state(self, bucket: int, task_id: str) -> TaskState | None:
        entry = self._disk.state.get((bucket, task_id))
        if entry is None:
            return None
        value, state = entry
        if state is None:
            state = decode_state(value)
            self._disk.state[bucket, task_id] = (value, state)
        return state

    def due(
        self,
        bucket: int,
        until_ms: int,
        limit: int,
        *,
        since_ms: int = 0,
        after: DueEntry | None = None,
    ) -> list[DueEntry]:
        rows = self._disk.due
        found: list[DueEntry] = []
        first = (bucket, since_ms, -1, "", 0)
        at = bisect_left(rows, first) if after is None else bisect_right(rows, _row(bucket, after))
        while at < len(rows) and len(found) < limit and rows[at][0] == bucket and rows[at][1] <= until_ms:
            found.append(_entry(rows[at]))
            at += 1
        return found

    def next_due_ms(self, bucket: int, *, since_ms: int = 0) -> int | None:
        rows = self._disk.due
        at = bisect_left(rows, (bucket, since_ms, -1, "", 0))
        return rows[at][1] if at < len(rows) and rows[at][0] == bucket else None

    def held(self, bucket: int, gate: str, limit: int) -> list[DueEntry]:
        rows = [row for number, name, row in self._disk.held if (number, name) == (bucket, gate)]
        return [_entry(row) for row in rows[:limit]]

    def gates(self, bucket: int) -> list[str]:
        return list(dict.fromkeys(gate for number, gate, _ in self._disk.held if number == bucket))

    def queues(self, bucket: int) -> dict[str, QueueState]:
        states = (decode_queue(v) for (number, _), v in sorted(self._disk.queues.items()) if number == bucket)
        return {state.queue: state for state in states}

    def tasks(self, bucket: int, after: str = "") -> Iterator[tuple[str, TaskState]]:
        for number, task_id in sorted(self._disk.state):
            if number == bucket and task_id > after and (state := self.state(bucket, task_id)) is not None:
                yield task_id, state

    def in_flight(self, bucket: int) -> Iterator[tuple[str, TaskSpec | None, TaskState]]:
        for number, task_id in sorted(self._disk.holding):
            if number == bucket and (state := self.state(bucket, task_id)) is not None:
                yield task_id, self.spec(bucket, task_id), state

    def meta(self, bucket: int) -> BucketMeta | None:
        value = self._disk.meta.get(bucket)
        return None if value is None else BucketMeta.decode(value)

    # ------------------------------------------------------------------ writing

    def acquire(self, bucket: int) -> int:
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
        self._check(bucket, token, decided_on)
        disk = self._disk
        added: list[int] = []
        for change in changes:
            key = (bucket, change.task_id)
            if change.new_spec is not change.old_spec:
                _put(disk.spec, key, change.spec_bytes, change.new_spec)
            _put(disk.state, key, change.state_bytes, change.new_state)
            old = due_entries(change.task_id, change.old_spec, change.old_state)
            new = due_entries(change.task_id, change.new_spec, change.new_state)
            for entry in old:
                if entry not in new:
                    self._drop(bucket, entry)
            for entry in new:
                if entry not in old:
                    self._add(bucket, entry)
                    added.append(entry.at_ms)
            self._move(
                bucket,
                held_entry(change.task_id, change.old_spec, change.old_state),
                held_entry(change.task_id, change.new_spec, change.new_state),
            )
            held, holds = is_watched(change.old_state), is_watched(change.new_state)
            if held != holds:
                (disk.holding.add if holds else disk.holding.discard)(key)
        self._written(bucket, meta, queues)
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
        self._check(bucket, token, decided_on)
        disk = self._disk
        for task_id, values in records.items():
            key = (bucket, task_id)
            was = held_entry(task_id, self.spec(*key), self.state(*key))
            for entry in due_entries(task_id, self.spec(*key), self.state(*key)):
                self._drop(bucket, entry)
            if "spec" in values:
                _put(disk.spec, key, values["spec"], None)
            if "state" in values:
                _put(disk.state, key, values["state"], None)
            state = self.state(*key)
            (disk.holding.add if is_watched(state) else disk.holding.discard)(key)
            for entry in due_entries(task_id, self.spec(*key), state):
                self._add(bucket, entry)
            self._move(bucket, was, held_entry(task_id, self.spec(*key), state))
        self._written(bucket, meta, queues)

    def drop_due(self, bucket: int, token: int, entries: Iterable[DueEntry]) -> None:
        self._check_token(bucket, token)
        for entry in entries:
            self._drop(bucket, entry)

    def reckon_busy(self, bucket: int, token: int) -> bool:
        """Nothing: it keeps no busy time, since no history has calendars."""
        self._check_token(bucket, token)
        return False

    def forget_bucket(self, bucket: int, token: int) -> None:
        self._check_token(bucket, token)
        disk = self._disk
        disk.spec = {k: v for k, v in disk.spec.items() if k[0] != bucket}
        disk.state = {k: v for k, v in disk.state.items() if k[0] != bucket}
        disk.holding = {k for k in disk.holding if k[0] != bucket}
        disk.due = [row for row in disk.due if row[0] != bucket]
        disk.held = [row for row in disk.held if row[0] != bucket]
        disk.queues = {k: v for k, v in disk.queues.items() if k[0] != bucket}
        disk.meta.pop(bucket, None)
        self._next_offset[bucket] = 0

    def _add(self, bucket: int, entry: DueEntry) -> None:
        row, rows = _row(bucket, entry), self._disk.due
        at = bisect_left(rows, row)
        if at == len(rows) or rows[at] != row:
            insort(rows, row)

    def _drop(self, bucket: int, entry: DueEntry) -> None:
        row, rows = _row(bucket, entry), self._disk.due
        at = bisect_left(rows, row)
        if at < len(rows) and rows[at] == row:
            del rows[at]

    def _move(self, bucket: int, old: HeldEntry | None, new: HeldEntry | None) -> None:
        rows = self._disk.held
        if old == new:
            return
        if old is not None and (row := (bucket, old.gate, _row(bucket, old.due))) in rows:
            rows.remove(row)
        if new is not None and (row := (bucket, new.gate, _row(bucket, new.due))) not in rows:
            insort(rows, row)

    def _check(self, bucket: int, token: int, decided_on: int) -> None:
        self._check_token(bucket, token)
        if self._next_offset[bucket] != decided_on:
            raise StoreRefused(
                f"bucket {bucket}: decided on offset {decided_on}, the store is at {self._next_offset[bucket]}"
            )

    def _written(self, bucket: int, meta: BucketMeta, queues: Mapping[str, bytes]) -> None:
        self._disk.queues.update({(bucket, queue): value for queue, value in queues.items()})
        self._disk.meta[bucket] = meta.encode()
        self._disk.batches += 1
        self._next_offset[bucket] = meta.next_offset


def _row(bucket: int, entry: DueEntry) -> _Due:
    return (bucket, entry.at_ms, entry.kind, entry.task_id, entry.occurrence_ts)


def _entry(row: _Due) -> DueEntry:
    _, at_ms, kind, task_id, occurrence = row
    return DueEntry(at_ms, DueKind(kind), task_id, occurrence)


def _put(family: dict[_Key, Any], key: _Key, value: bytes | None, decoded: object) -> None:
    if value is None:
        family.pop(key, None)
    else:
        family[key] = (value, decoded)
