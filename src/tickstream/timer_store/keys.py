"""The bytes of the store's keys. Nobody else slices them; no RocksDB here.

    spec, state, inflight
                  bucket u16 BE | task_id UTF-8
    due           bucket u16 BE | at_ms u64 BE | kind u8 | task_id UTF-8 | occurrence_ts u64 BE
    meta          bucket u16 BE

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
