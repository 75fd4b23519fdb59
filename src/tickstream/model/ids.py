"""Task ids, and the buckets and lanes that follow from them."""

from __future__ import annotations

import re
import unicodedata
from struct import unpack_from
from typing import Final

from tickstream.errors import InvalidTaskId

MAX_TASK_ID_BYTES: Final = 255
_REMINDER: Final = re.compile(r"~remind[+-]\d+e?$", re.ASCII)


def check_task_id(task_id: str) -> str:
    """Return `task_id` unchanged when it is well formed.

    Raises InvalidTaskId unless it is 1-255 bytes of NFC UTF-8 without control characters.
    """
    try:
        # The usual case, kept cheap: ASCII is NFC, and printable ASCII has no controls.
        if task_id.isascii():
            well_formed = task_id.isprintable() and 0 < len(task_id) <= MAX_TASK_ID_BYTES
        else:
            well_formed = (
                unicodedata.is_normalized("NFC", task_id)
                and not any(unicodedata.category(c) in ("Cc", "Cs") for c in task_id)
                and len(task_id.encode()) <= MAX_TASK_ID_BYTES
            )
    except AttributeError as error:  # no text at all
        raise InvalidTaskId(task_id) from error
    if not well_formed:
        raise InvalidTaskId(task_id)
    return task_id


def bucket_key(task_id: str) -> str:
    """The part of the id that chooses the bucket: the text in the first `{…}`, else all of it.

    The hash-tag convention of Redis Cluster; an empty `{}` does not count.
    """
    start = task_id.find("{")
    if start >= 0:
        end = task_id.find("}", start + 1)
        if end > start + 1:
            return task_id[start + 1 : end]
    return task_id


def murmur2(data: bytes) -> int:
    """32-bit MurmurHash2 with the seed of Kafka's default partitioner, as an unsigned int.

    Source: Austin Appleby's MurmurHash2; seed and shifts as in Kafka's `Utils.murmur2`.
    """
    length = len(data)
    h = 0x9747B28C ^ length
    for k in unpack_from(f"<{length >> 2}I", data):
        k = k * 0x5BD1E995 & 0xFFFFFFFF
        h = (h * 0x5BD1E995 ^ (k ^ k >> 24) * 0x5BD1E995) & 0xFFFFFFFF
    if length & 3:
        h = (h ^ int.from_bytes(data[length & ~3 :], "little")) * 0x5BD1E995 & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0x5BD1E995 & 0xFFFFFFFF
    return h ^ h >> 15


def bucket_of(task_id: str, buckets: int) -> int:
    """The bucket in which `task_id` lives, in [0, buckets): what Kafka's default partitioner says."""
    return bucket_of_key(bucket_key(task_id).encode(), buckets)


def bucket_of_key(key: bytes, buckets: int) -> int:
    """The bucket of every task whose `bucket_key`, in UTF-8, is `key`."""
    return (murmur2(key) & 0x7FFFFFFF) % buckets


def lane_of(bucket: int, lanes: int) -> int:
    """The lane that has `bucket`."""
    return bucket % lanes


def buckets_of_lane(lane: int, buckets: int, lanes: int) -> tuple[int, ...]:
    """The buckets of `lane`, ascending."""
    return tuple(range(lane, buckets, lanes))


def idempotency_key(task_id: str, occurrence_ts: int) -> str:
    """The key that is the same for every attempt of one occurrence: `task_id@occurrence_ts`."""
    return f"{task_id}@{occurrence_ts}"


def reminder_id(event_id: str, offset_ms: int, from_end: bool) -> str:
    """`{room-7}standup~remind-600000`: of the task that fires a reminder of an event. Raises InvalidTaskId."""
    return check_task_id(f"{event_id}~remind{offset_ms:+d}{'e' if from_end else ''}")


def is_reminder_id(task_id: str) -> bool:
    """Whether that is the id of a reminder's task."""
    return _REMINDER.search(task_id) is not None
