"""Key bytes of the projection's RocksDB: made and read here, nowhere else.

No value, no query and no database may enter here. All numbers are big-endian, so that RocksDB's
byte order is the order of time.

    row       minute u32 | ms in minute u16 | task_id (UTF-8) | occurrence i64     upcoming, running, finished
    task      task_id                                                              task
    ended     task_id | 00 | occurrence i64                                        ended
    attempt   key of the occurrence's row | number u64                             attempts
    pulse     key of the occurrence's row                                          pulses
    count     state u8 | minute u32 | queue (UTF-8)                                counts
    lateness  minute u32 | stage u8                                                lateness
    failure   at_ms u64 | task_id | 00 | occurrence i64                            failures
    change    at_ms u64 | kind u8 | bucket u16 | queue (UTF-8)                     changes
    frontier  instant (6 bytes, as a row's) | task_id                              series
    event     task_id                                                              events
    place     calendar (UTF-8) | 00 | class u8 | start i64 + 2^63 | uid (UTF-8)    places
    calendar  calendar (UTF-8)                                                     calendars
    meta      ASCII: `buckets`, `own`, `cluster`, `b` + bucket u16, `o` + bucket u16,     meta
              `n` + state u8 + queue (UTF-8), `q` + bucket u16 + queue (UTF-8)

The first six bytes of a row are its instant: a window is one range, and the minute is the prefix
under which counters are kept and old rows dropped. Task ids hold no control characters, so 00
ends one. Times are milliseconds since the epoch, UTC.
"""

from __future__ import annotations

import struct
from typing import Final

from tickstream.model import Phase

MINUTE_MS: Final = 60_000
LAST_MINUTE: Final = 0xFFFF_FFFF
LAST_INSTANT_MS: Final = (LAST_MINUTE + 1) * MINUTE_MS - 1
"""The latest instant that has a place of its own (year 10136); later ones stand at it."""

_INSTANT: Final = struct.Struct(">IH")
_OCCURRENCE: Final = struct.Struct(">q")
_COUNT: Final = struct.Struct(">BI")
_LATENESS: Final = struct.Struct(">IB")
_AT: Final = struct.Struct(">Q")
_NUMBER: Final = struct.Struct(">Q")
_BUCKET: Final = struct.Struct(">H")
_CHANGE: Final = struct.Struct(">QBH")
_PLACE: Final = struct.Struct(">BQ")
_TIMES: Final = struct.Struct(">qq")
_SHIFT: Final = 2**63

_STATE_CODES: Final = {
    Phase.SCHEDULED: 0,
    Phase.DISPATCHED: 1,
    Phase.SUCCEEDED: 2,
    Phase.DEAD: 3,
    Phase.CANCELLED: 4,
    Phase.RUNNING: 5,
    Phase.RETRYING: 6,
    Phase.SKIPPED: 7,
    Phase.PAUSED: 8,
    Phase.HELD: 9,
    Phase.FAULTED: 10,
}
_STATES: Final = {code: state for state, code in _STATE_CODES.items()}

BUCKETS: Final = b"buckets"
"""Key of the number of buckets, in ASCII digits."""
WHOLE: Final = 0xFFFF
"""Stands for the bucket of a change that is not of one bucket."""
OWN: Final = b"own"
"""Key of the buckets that this index follows, in ASCII digits between commas."""
CLUSTER: Final = b"cluster"
"""Key of what the broker said last of groups and ends."""


def minute_of(ms: int) -> int:
    """The minute in which `ms` lies, as counters and rows number them: within u32, whatever `ms` is."""
    return min(max(ms, 0) // MINUTE_MS, LAST_MINUTE)


# --------------------------------------------------------------------------- rows


def instant(ms: int) -> bytes:
    """The first key byte string that a row at `ms` or later can have: a bound of a window."""
    clamped = min(max(ms, 0), LAST_INSTANT_MS)
    return _INSTANT.pack(clamped // MINUTE_MS, clamped % MINUTE_MS)


def row_key(task_id: str, occurrence_ts: int) -> bytes:
    """Key of the row of one occurrence, the same in every family of rows."""
    return instant(occurrence_ts) + task_id.encode() + _OCCURRENCE.pack(occurrence_ts)


def read_row_key(key: bytes) -> tuple[str, int]:
    """`(task_id, occurrence_ts)` of a row's key. Raises ValueError on what is no row's key."""
    if len(key) <= _INSTANT.size + _OCCURRENCE.size:
        raise ValueError(f"{len(key)} bytes are too short for a row's key")
    return key[6:-8].decode(), _OCCURRENCE.unpack_from(key, len(key) - 8)[0]


def row_is_of(key: bytes, prefix: bytes) -> bool:
    """Whether the id in a row's key begins with `prefix`."""
    return (
        key.startswith(prefix, _INSTANT.size) and len(key) >= _INSTANT.size + len(prefix) + _OCCURRENCE.size
    )


def read_instant(key: bytes) -> int:
    """The instant at which a row's key stands, ms UTC."""
    minute, ms = _INSTANT.unpack_from(key)
    return int(minute * MINUTE_MS + ms)


def after(key: bytes) -> bytes:
    """The smallest key above `key`."""
    return key + b"\x00"


END: Final = b"\xff" * 7
"""Above every key of a row."""


# --------------------------------------------------------------------------- tasks


def task_key(task_id: str) -> bytes:
    """Key of a task's record."""
    return task_id.encode()


def ended_key(task_id: str, occurrence_ts: int) -> bytes:
    """Key of the entry that says: this occurrence of the task has a finished row."""
    return ended_prefix(task_id) + _OCCURRENCE.pack(occurrence_ts)


def ended_prefix(task_id: str) -> bytes:
    """What the keys of all finished occurrences of a task begin with."""
    return task_id.encode() + b"\x00"


def read_ended_key(key: bytes) -> tuple[str, int]:
    """`(task_id, occurrence_ts)` of an `ended` key."""
    return key[:-9].decode(), _OCCURRENCE.unpack_from(key, len(key) - 8)[0]


def attempt_key(task_id: str, occurrence_ts: int, number: int) -> bytes:
    """Key of an attempt that ended, by the number of its History record."""
    return row_key(task_id, occurrence_ts) + _NUMBER.pack(number)


def attempts_of(task_id: str, occurrence_ts: int) -> tuple[bytes, bytes]:
    """Bounds of the keys of one occurrence's attempts: of no other, since no id holds a 00."""
    prefix = row_key(task_id, occurrence_ts)
    return prefix + _NUMBER.pack(0), prefix + b"\xff" * (_NUMBER.size + 1)


def read_attempt_key(key: bytes) -> tuple[str, int, int]:
    """`(task_id, occurrence_ts, number)` of an attempt's key."""
    return *read_row_key(key[:-8]), _NUMBER.unpack_from(key, len(key) - 8)[0]


def frontier_key(frontier_ms: int, task_id: str) -> bytes:
    """Key of what comes behind the last row of a recurring task."""
    return instant(frontier_ms) + task_id.encode()


def read_frontier_key(key: bytes) -> tuple[int, str]:
    """`(frontier_ms, task_id)` of such a key; ms as far as rows have places of their own."""
    return read_instant(key), key[6:].decode()


# --------------------------------------------------------------------------- counters


def count_key(state: Phase, minute: int, queue: str) -> bytes:
    """Key of the number of rows in one state, minute and queue."""
    return count_bound(state, minute) + queue.encode()


def count_bound(state: Phase, minute: int) -> bytes:
    """The first key of a state's counters in `minute` or later."""
    return _COUNT.pack(_STATE_CODES[state], min(minute, LAST_MINUTE))


def count_end(state: Phase) -> bytes:
    """Above every key of a state's counters."""
    return bytes((_STATE_CODES[state] + 1,))


def read_count_key(key: bytes) -> tuple[Phase, int, str]:
    """`(state, minute, queue)` of a counter's key."""
    code, minute = _COUNT.unpack_from(key)
    return _STATES[code], minute, key[5:].decode()


def lateness_key(minute: int, stage: int) -> bytes:
    """Key of the histogram of one stage in one minute."""
    return _LATENESS.pack(minute, stage)


def read_lateness_key(key: bytes) -> tuple[int, int]:
    """`(minute, stage)` of a histogram's key."""
    minute, stage = _LATENESS.unpack(key)
    return minute, stage


def failure_key(at_ms: int, task_id: str, occurrence_ts: int) -> bytes:
    """Key of a failure in the order in which they were recorded."""
    return failure_bound(at_ms) + task_id.encode() + b"\x00" + _OCCURRENCE.pack(occurrence_ts)


def failure_bound(at_ms: int) -> bytes:
    """The first key of a failure recorded at `at_ms` or later."""
    return _AT.pack(max(at_ms, 0))


def read_failure_key(key: bytes) -> tuple[int, str, int]:
    """`(at_ms, task_id, occurrence_ts)` of a failure's key."""
    return _AT.unpack_from(key)[0], key[8:-9].decode(), _OCCURRENCE.unpack_from(key, len(key) - 8)[0]


# --------------------------------------------------------------------------- meta


def bucket_key(bucket: int) -> bytes:
    """Key of a bucket's position."""
    return b"b" + _BUCKET.pack(bucket)


def owner_key(bucket: int) -> bytes:
    """Key of the last Claim of a bucket."""
    return b"o" + _BUCKET.pack(bucket)


def total_key(state: Phase, queue: str) -> bytes:
    """Key of the number of all rows in one state and queue."""
    return b"n" + bytes((_STATE_CODES[state],)) + queue.encode()


def setting_key(bucket: int, queue: str) -> bytes:
    """Key of what is set for a queue in a bucket."""
    return b"q" + _BUCKET.pack(bucket) + queue.encode()


SETTINGS: Final = (b"q", b"r")
"""Bounds of the keys of all that is set for queues."""


def read_setting_key(key: bytes) -> tuple[int, str]:
    """`(bucket, queue)` of such a key."""
    return _BUCKET.unpack_from(key, 1)[0], key[3:].decode()


def total_bounds(state: Phase) -> tuple[bytes, bytes]:
    """Bounds of the keys of one state's totals."""
    code = _STATE_CODES[state]
    return b"n" + bytes((code,)), b"n" + bytes((code + 1,))


TOTALS: Final = (b"n", b"o")
"""Bounds of the keys of all totals."""


def read_total_key(key: bytes) -> tuple[Phase, str]:
    """`(state, queue)` of a total's key."""
    return _STATES[key[1]], key[2:].decode()


# --------------------------------------------------------------------------- calendars

SERIES_CLASS: Final = 0xFF
"""In the place of a class of length: an event that may have more than one occurrence, whose start says nothing."""


def place_key(calendar: str, length_class: int, start_ms: int, uid: str) -> bytes:
    """Key under which an event is found by its time."""
    return place_bound(calendar, length_class, start_ms) + uid.encode()


def place_bound(calendar: str, length_class: int, start_ms: int) -> bytes:
    """The first key of a calendar's events in a class of length that start then or later."""
    shifted = min(max(start_ms + _SHIFT, 0), 2 * _SHIFT - 1)
    return calendar.encode() + b"\x00" + _PLACE.pack(length_class, shifted)


def places_end(calendar: str) -> bytes:
    """Above every key of a calendar's events."""
    return calendar.encode() + b"\x01"


def read_place_key(key: bytes, calendar: str) -> str:
    """The uid in a place's key."""
    return key[len(calendar.encode()) + 1 + _PLACE.size :].decode()


def occurrence_key(start_ms: int, uid: str, recurrence_ms: int) -> bytes:
    """Where an occurrence stands in a listing of its calendar: nothing lies under it, cursors are made of it."""
    return _TIMES.pack(start_ms, recurrence_ms) + uid.encode()


def read_occurrence_key(key: bytes) -> tuple[int, str, int]:
    """`(start_ms, uid, recurrence_ms)` of such a key. Raises ValueError on what is none."""
    if len(key) <= _TIMES.size:
        raise ValueError(f"{len(key)} bytes are too short for an occurrence's key")
    start_ms, recurrence_ms = _TIMES.unpack_from(key)
    return start_ms, key[_TIMES.size :].decode(), recurrence_ms


def calendar_key(calendar: str) -> bytes:
    """Key of what is known of a calendar."""
    return calendar.encode()


CALENDARS_END: Final = b"\xff"
"""Above every such key: no UTF-8 begins so."""


# --------------------------------------------------------------------------- changes


def change_key(at_ms: int, kind: int, bucket: int, queue: str = "") -> bytes:
    """Key of a change in the order of its instant: written again, it is the same."""
    return _CHANGE.pack(max(at_ms, 0), kind, bucket) + queue.encode()


def read_change_key(key: bytes) -> tuple[int, int, int]:
    """`(at_ms, kind, bucket)` of a change's key. Raises ValueError on what is no such key."""
    if len(key) < _CHANGE.size:
        raise ValueError(f"{len(key)} bytes are no key of a change")
    at_ms, kind, bucket = _CHANGE.unpack_from(key)
    return at_ms, kind, bucket
