"""What the store is given and gives back, beside tasks. No RocksDB here."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from tickstream.model import TaskSpec, TaskState

FORMAT: Final = 4
"""Raised when keys or values change; a store of another format is wiped and restored."""
_META_HEAD: Final = struct.Struct(">Bq16sqI")


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


class StoreSizes(NamedTuple):
    """How much there is, as RocksDB reckons."""

    specs: int
    """An estimate: overwritten and deleted keys count until they are compacted."""
    states: int
    """Of the same kind."""
    files_bytes: int
    memory_bytes: int
    """Of what is not in files yet."""
