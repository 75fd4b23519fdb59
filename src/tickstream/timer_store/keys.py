"""The bytes of the store's keys. Nobody else slices them; no RocksDB here.

    spec, state, inflight
                  bucket u16 BE | task_id UTF-8
    due           bucket u16 BE | at_ms u64 BE | kind u8 | task_id UTF-8 | occurrence_ts u64 BE
    held          bucket u16 BE | length of the gate u16 BE | gate UTF-8 | a due key without its bucket
    queues        bucket u16 BE | queue UTF-8
    meta          bucket u16 BE; with a z behind it, the zone data that busy time was derived by

Big endian, so that the order of bytes is the order of buckets and instants.
"""

from __future__ import annotations

import struct
from typing import Final

from tickstream.model import NEVER, DueEntry, DueKind

_DUE_HEAD: Final = struct.Struct(">HQB")
_BUCKET: Final = struct.Struct(">H")
_INSTANT: Final = struct.Struct(">Q")
_DUE_BOUND: Final = struct.Struct(">HQ")
_NO_OCCURRENCE: Final = 2**64 - 1
_KINDS: Final = tuple(DueKind)


def bucket_prefix(bucket: int) -> bytes:
    """First key of a bucket in `spec`, `state` and `due`; its key in `meta`."""
    return _BUCKET.pack(bucket)


def task_key(bucket: int, task_id: str) -> bytes:
    """Key of a task in `spec` and `state`."""
    return _BUCKET.pack(bucket) + task_id.encode()


def due_key(bucket: int, entry: DueEntry) -> bytes:
    """Key of an entry of the due index."""
    occurrence = _NO_OCCURRENCE if entry.occurrence_ts == NEVER else entry.occurrence_ts
    return (
        _DUE_HEAD.pack(bucket, entry.at_ms, entry.kind) + entry.task_id.encode() + _INSTANT.pack(occurrence)
    )


def gate_prefix(bucket: int, gate: str) -> bytes:
    """First key of a gate in `held`."""
    name = gate.encode()
    return _BUCKET.pack(bucket) + _BUCKET.pack(len(name)) + name


def held_key(bucket: int, gate: str, entry: DueEntry) -> bytes:
    """Key of an occurrence that waits at a gate."""
    return gate_prefix(bucket, gate) + due_key(bucket, entry)[_BUCKET.size :]


def held_gate(key: bytes) -> str:
    """The gate of a key in `held`."""
    (length,) = _BUCKET.unpack_from(key, _BUCKET.size)
    return key[2 * _BUCKET.size : 2 * _BUCKET.size + length].decode()


def held_due(key: bytes) -> DueEntry:
    """The due entry whose key this is."""
    (length,) = _BUCKET.unpack_from(key, _BUCKET.size)
    return due_entry(key[: _BUCKET.size] + key[2 * _BUCKET.size + length :])


def queue_key(bucket: int, queue: str) -> bytes:
    """Key of what is set for a queue."""
    return _BUCKET.pack(bucket) + queue.encode()


def reckoned_key(bucket: int) -> bytes:
    """Key in `meta` of the release of the zone data by which the bucket's busy time was derived."""
    return _BUCKET.pack(bucket) + b"z"


def due_entry(key: bytes) -> DueEntry:
    """The entry whose key this is."""
    _, at_ms, kind = _DUE_HEAD.unpack_from(key)
    (occurrence,) = _INSTANT.unpack_from(key, len(key) - 8)
    return DueEntry(
        at_ms,
        _KINDS[kind],
        key[_DUE_HEAD.size : -8].decode(),
        NEVER if occurrence == _NO_OCCURRENCE else occurrence,
    )


def due_bound(bucket: int, at_ms: int) -> bytes:
    """The least due key of `bucket` at `at_ms`: a lower bound, or an exclusive upper one."""
    return _DUE_BOUND.pack(bucket, at_ms)
