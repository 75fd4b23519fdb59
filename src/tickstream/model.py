"""The words of tickstream as values: ids, buckets, commands, tasks, runs, outcomes, verdicts.

No I/O, no clock, no wire bytes (codec.py) and no topic names (topics.py) may enter here.
All times are milliseconds since the Unix epoch, UTC; `NEVER` (-1) stands for "no such time".

Values that exist once per record are NamedTuples: immutable like a frozen dataclass, at a
third of its price to make.
"""

from __future__ import annotations

import unicodedata
from enum import Enum, IntEnum
from struct import unpack_from
from typing import Final, NamedTuple

from tickstream.errors import InvalidTaskId

NEVER: Final = -1
MAX_TASK_ID_BYTES: Final = 255
DEFAULT_QUEUE: Final = "default"
RECENT_COMMANDS: Final = 8
"""How many answered commands a task remembers beside the one that made its definition."""


# --------------------------------------------------------------------------- ids and buckets


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


# --------------------------------------------------------------------------- positions


class Rev(NamedTuple):
    """Place of a command in its bucket's log: offset, and place in the message's array."""

    offset: int
    item: int


class Receipt(NamedTuple):
    """Where an accepted command lies. As text: `bucket:offset:item`."""

    bucket: int
    offset: int
    item: int

    def __str__(self) -> str:
        return f"{self.bucket}:{self.offset}:{self.item}"

    @classmethod
    def parse(cls, text: str) -> Receipt:
        """The receipt that `str()` wrote. Raises ValueError on anything else."""
        parts = text.split(":")
        if len(parts) != 3 or not all(p.isdigit() for p in parts):
            raise ValueError(f"{text!r} is no receipt; one reads bucket:offset:item, such as 3:1207:0")
        return cls(*map(int, parts))


class InputPosition(NamedTuple):
    """The next element to read of one input partition (`commands` or `reports`)."""

    topic_id: bytes
    """16 bytes: a re-created topic has another id, and its offsets mean nothing here."""
    offset: int
    item: int
    """Elements of the message at `offset` that are already applied."""
    leader_epoch: int
    """Epoch of the last record read, -1 before the first."""


class Progress(NamedTuple):
    """How far a bucket has come: the only authority on the positions of its inputs."""

    commands: InputPosition
    reports: InputPosition
    applied_before_ms: int
    """T: every command and report accepted before this instant is applied."""
    history_number: int
    """Number of the bucket's last History record."""
    work_number: int
    """Number of the bucket's last Work record."""
    tzdata: str
    layout: int
    """Generation g of the lanes' layout under which this was written."""


class Claim(NamedTuple):
    """The record by which an owner takes a bucket."""

    instance: str
    lane: int
    layout: int
    at_ms: int


# --------------------------------------------------------------------------- commands


class Verb(Enum):
    """What a command asks for."""

    SCHEDULE = "SCHEDULE"
    CANCEL = "CANCEL"


class IfExists(Enum):
    """What a Schedule does to a task of the same id that has not been dispatched yet."""

    REPLACE = "REPLACE"
    REJECT = "REJECT"


class Options(NamedTuple):
    """The rare parts of a command."""

    if_exists: IfExists = IfExists.REPLACE
    allow_past: bool = False
    """Accept a run_at further back than the past limit."""
    not_after: int = NEVER
    """On a re-send: offset of the first send; a definition made after it is left alone."""


DEFAULT_OPTIONS: Final = Options()


class Command(NamedTuple):
    """One request of a producer."""

    command_id: bytes
    """16 bytes, UUIDv7: the same for every send of one command."""
    verb: Verb
    task_id: str
    when: int
    """run_at for SCHEDULE, else NEVER."""
    queue: str
    options: Options
    body: bytes
    """An encoded Body, opaque to the dispatcher."""


class Body(NamedTuple):
    """What the handler gets. The dispatcher passes it on unread."""

    handler: str
    payload: bytes
    headers: dict[str, str]
    """Trace context and the like."""
    labels: dict[str, str]
    """For filters of the dashboard."""


class BoundCall(NamedTuple):
    """A handler with its arguments, ready to be scheduled: what `handler.bind(…)` returns."""

    handler: str
    queue: str
    payload: bytes


# --------------------------------------------------------------------------- tasks


class Outcome(Enum):
    """How an occurrence ended."""

    SUCCEEDED = "SUCCEEDED"
    DEAD = "DEAD"
    CANCELLED = "CANCELLED"


class RunState(NamedTuple):
    """A run in flight: dispatched, its outcome not yet known."""

    occurrence_ts: int
    attempt: int
    rev: Rev
    """The definition it was dispatched under."""
    decided_ms: int


class VerdictKind(Enum):
    """The answers to a command."""

    SCHEDULED = "SCHEDULED"
    REPLACED = "REPLACED"
    CANCELLED = "CANCELLED"
    TOO_LATE = "TOO_LATE"
    ALREADY_RAN = "ALREADY_RAN"
    UNKNOWN = "UNKNOWN"
    REJECTED = "REJECTED"


class RecentCommand(NamedTuple):
    """An answered command, remembered so that a re-send changes nothing."""

    command_id: bytes
    kind: VerdictKind
    detail: str


class TaskSpec(NamedTuple):
    """What was asked: the command's own bytes, and where they stood."""

    rev: Rev
    command: bytes
    """The Command, single-object encoded."""
    answer: VerdictKind = VerdictKind.SCHEDULED
    """What that command was answered, for a re-send of it."""


class Phase(Enum):
    """Where a task stands, derived from its TaskState."""

    SCHEDULED = "scheduled"
    DISPATCHED = "dispatched"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"


class TaskState(NamedTuple):
    """Where a task stands. Without a TaskSpec it is a stub, kept for done_retention."""

    rev: Rev
    next_occurrence_ts: int
    """The instant to be dispatched next, NEVER when none is."""
    last_occurrence_ts: int
    """The latest instant dispatched, NEVER before the first."""
    runs: tuple[RunState, ...]
    outcome: Outcome | None
    """Of the last occurrence, once nothing is waiting or in flight."""
    ended_ms: int
    """When that outcome was applied, else NEVER."""
    recent: tuple[RecentCommand, ...]
    forget_ms: int = NEVER
    """When the stub of an ended task goes, NEVER while it is no stub."""

    @property
    def phase(self) -> Phase:
        """The one word for this state: waiting beats in flight beats ended."""
        if self.next_occurrence_ts != NEVER:
            return Phase.SCHEDULED
        if self.runs or self.outcome is None:
            return Phase.DISPATCHED
        return Phase(self.outcome.value.lower())


class DueKind(IntEnum):
    """What a due entry asks to be done at its instant. The value is the key's byte."""

    FIRE = 0
    """Dispatch the occurrence."""
    FORGET = 1
    """Drop the stub of an ended task."""


class DueEntry(NamedTuple):
    """One entry of the due index."""

    at_ms: int
    kind: DueKind
    task_id: str
    occurrence_ts: int


# --------------------------------------------------------------------------- work and outcomes


class Work(NamedTuple):
    """A run to be done, as it lies in `work.<queue>`."""

    bucket: int
    """Of the task; the record itself may lie in another partition."""
    work_number: int
    """Running number of Work records of this bucket."""
    task_id: str
    occurrence_ts: int
    attempt: int
    rev: Rev
    decided_ms: int
    body: bytes


class ReportKind(Enum):
    """What a worker says of a run."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


class Report(NamedTuple):
    """A worker's word on one run."""

    kind: ReportKind
    task_id: str
    occurrence_ts: int
    attempt: int
    run_id: bytes
    """16 bytes, made by the worker for this execution."""
    handler: str
    fetched_ms: int
    started_ms: int
    ended_ms: int
    error: str
    """`ExceptionType: message` of a failure, else empty."""


class History(NamedTuple):
    """The outcome of one occurrence."""

    number: int
    """Running number of History records of this bucket."""
    task_id: str
    occurrence_ts: int
    attempt: int
    """0 when the occurrence was never dispatched."""
    rev: Rev
    outcome: Outcome
    at_ms: int
    """When the dispatcher applied it."""
    queue: str
    handler: str
    worker: str
    run_id: bytes
    """16 bytes, or empty when nothing ran."""
    decided_ms: int
    fetched_ms: int
    started_ms: int
    ended_ms: int
    error: str


class Verdict(NamedTuple):
    """The dispatcher's answer to one command."""

    command_id: bytes
    kind: VerdictKind
    task_id: str
    receipt: Receipt
    phase: str
    """Of the task after the command (`Phase.value`), empty when there is none."""
    occurrence_ts: int
    """The occurrence that the answer speaks of, else NEVER."""
    detail: str
    """The reason of a rejection, in words for the caller."""
    in_flight: tuple[int, ...]
    """occurrence_ts of every run still in flight."""


class DeadReason(Enum):
    """Why a record lies in `dead-letter`."""

    GAVE_UP = "gave_up"
    UNDECODABLE = "undecodable"
    WRONG_BUCKET = "wrong_bucket"
    ENGINE_ERROR = "engine_error"
