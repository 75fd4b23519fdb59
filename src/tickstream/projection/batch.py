"""A WriteBatch of the projection's database that knows its parts. Nothing is decided or read here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rocksdict import WriteBatch

from tickstream.projection import keys
from tickstream.projection.families import CHANGES, Family
from tickstream.projection.rows import Change
from tickstream.projection.stored import encode_change


class Batch:
    """What one write takes in together."""

    def __init__(self, handles: Mapping[str, Any]) -> None:
        self._handles = handles
        self.batch = WriteBatch(raw_mode=True)

    def put(self, family: Family, key: bytes, value: bytes) -> None:
        """Set a key."""
        self.batch.put(family.prefix + key, value, self._handles[family.column])

    def delete(self, family: Family, key: bytes) -> None:
        """Remove a key."""
        self.batch.delete(family.prefix + key, self._handles[family.column])

    def delete_range(self, family: Family, begin: bytes, end: bytes) -> None:
        """Remove begin <= key < end."""
        prefix = family.prefix
        self.batch.delete_range(prefix + begin, prefix + end, self._handles[family.column])

    def put_change(self, change: Change) -> None:
        """Add to the strip of changes."""
        key = keys.change_key(change.at_ms, change.kind, change.bucket, change.fields.get("queue", ""))
        self.put(CHANGES, key, encode_change(change))
