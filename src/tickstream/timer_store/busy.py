"""Busy time of calendars in RocksDB: the bytes of its keys, and the cursors that the conflict check reads it by.

    busy          bucket u16 BE | calendar UTF-8 | 0 | class u8 | start u64 BE | end u64 BE | uid UTF-8 | occurrence u64 BE
                  value: 1 byte, 1 when tentative

Instants are ms, UTC, moved up by 2^63, so that the order of bytes is that of time, before 1970 too. No id holds a 0.
The class comes from the length (calendar/occupancy.py): what lasts over 24 h lies behind everything shorter.

Nobody else slices these bytes. What conflicts with what may not enter here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from rocksdict import Rdict, RdictIter, ReadOptions

from tickstream.calendar import Busy, Cursor
from tickstream.calendar.occupancy import EARLIEST_MS, length_class

_BUCKET: Final = struct.Struct(">H")
_STRETCH: Final = struct.Struct(">BQQ")
_BOUND: Final = struct.Struct(">BQ")
_TIMES: Final = struct.Struct(">QQ")
_INSTANT: Final = struct.Struct(">Q")
_SHIFT: Final = 2**63
_SETTLED, _TENTATIVE = b"\0", b"\1"


def calendar_prefix(bucket: int, calendar: str) -> bytes:
    """The first bytes of every key of one calendar."""
    return _BUCKET.pack(bucket) + calendar.encode() + b"\0"


def busy_key(prefix: bytes, busy: Busy) -> bytes:
    """Key of a stretch in the calendar of that prefix."""
    head = _STRETCH.pack(
        length_class(busy.start_ms, busy.end_ms), busy.start_ms + _SHIFT, busy.end_ms + _SHIFT
    )
    return prefix + head + busy.uid.encode() + _INSTANT.pack(busy.recurrence_ms + _SHIFT)


def busy_value(busy: Busy) -> bytes:
    """What stands behind `busy_key`."""
    return _TENTATIVE if busy.tentative else _SETTLED


def busy_of(prefix: bytes, key: bytes, value: bytes) -> Busy:
    """The stretch whose key and value these are."""
    _, start, end = _STRETCH.unpack_from(key, len(prefix))
    (occurrence,) = _INSTANT.unpack_from(key, len(key) - 8)
    uid = key[len(prefix) + _STRETCH.size : -8].decode()
    return Busy(start - _SHIFT, end - _SHIFT, uid, occurrence - _SHIFT, value == _TENTATIVE)


class StoredOccupancy:
    """One calendar's busy time in the family `busy`, as it is when a cursor is first moved."""

    def __init__(self, family: Rdict, prefix: bytes, check: Callable[[RdictIter], None]) -> None:
        """`check` raises when the iterator stopped for another reason than the end of its rows."""
        self._family: Final = family
        self._prefix: Final = prefix
        self._check: Final = check

    def cursor(self, length_class: int) -> Cursor:
        """A new cursor on one class. Moving it raises StoreCorrupted, StoreFailed."""
        return _StoredCursor(self._family, self._prefix, length_class, self._check)


class _StoredCursor:
    def __init__(
        self, family: Rdict, prefix: bytes, length_class: int, check: Callable[[RdictIter], None]
    ) -> None:
        self._prefix: Final = prefix
        self._class: Final = length_class
        self._check: Final = check
        self._times_at: Final = len(prefix) + 1
        # Kept: the iterator reads the bound out of it, and rocksdict does not hold it.
        self._read: Final = ReadOptions()
        self._read.set_iterate_upper_bound(prefix + bytes((length_class + 1,)))
        self._rows: Final = family.iter(self._read)

    def seek(self, start_ms: int) -> tuple[int, int] | None:
        self._rows.seek(self._prefix + _BOUND.pack(self._class, max(start_ms, EARLIEST_MS) + _SHIFT))
        return self._here()

    def next(self) -> tuple[int, int] | None:
        self._rows.next()
        return self._here()

    def busy(self) -> Busy:
        return busy_of(self._prefix, self._rows.key(), self._rows.value())

    def _here(self) -> tuple[int, int] | None:
        key = self._rows.key()
        if key is None:  # as `valid()` says, and a call less
            self._check(self._rows)
            return None
        start, end = _TIMES.unpack_from(key, self._times_at)
        return start - _SHIFT, end - _SHIFT
