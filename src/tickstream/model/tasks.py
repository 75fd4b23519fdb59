"""Where tasks and buckets stand: what the changelog holds, and the due index that follows from it."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final, NamedTuple

from tickstream.model.commands import NEVER, Rev

RECENT_COMMANDS: Final = 8
"""How many answered commands a task remembers beside the one that made its definition."""


class Outcome(Enum):
    """How an occurrence, or (the last two) one attempt of it, ended."""

    SUCCEEDED = "SUCCEEDED"
    DEAD = "DEAD"
    CANCELLED = "CANCELLED"
    ATTEMPT_FAILED = "ATTEMPT_FAILED"
    LEASE_EXPIRED = "LEASE_EXPIRED"

    @property
    def terminal(self) -> bool:
        """Whether nothing follows for the occurrence."""
        return self not in (Outcome.ATTEMPT_FAILED, Outcome.LEASE_EXPIRED)


class RunState(NamedTuple):
    """An occurrence in flight: out with a worker, or waiting for its next attempt."""

    occurrence_ts: int
    attempt: int
    """The one that is out; while waiting, the one to be dispatched at retry_at_ms."""
    rev: Rev
    """The definition it was dispatched under."""
    decided_ms: int
    holder: bytes = b""
    """run_id of the run that claimed the attempt, empty before."""
    worker: str = ""
    """Of the holder."""
    failures: int = 0
    """Attempts that failed or expired so far."""
    releases: int = 0
    """Times in a row that a worker handed it back without starting it."""
    retry_at_ms: int = NEVER
    """When the attempt is to be dispatched, NEVER while it is out."""
    started_ms: int = NEVER
    """When the holder started it, by its worker's clock; NEVER before a claim."""

    @property
    def phase(self) -> Phase:
        """Waiting for its next attempt, held by a worker, or out and not claimed."""
        if self.retry_at_ms != NEVER:
            return Phase.RETRYING
        return Phase.RUNNING if self.holder else Phase.DISPATCHED


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
    """Where a task or one of its occurrences stands, derived from its TaskState.

    Of a task with anything in flight the answer is DISPATCHED; RUNNING and RETRYING tell runs apart.
    """

    SCHEDULED = "scheduled"
    DISPATCHED = "dispatched"
    RUNNING = "running"
    RETRYING = "retrying"
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
    RETRY = 2
    """Dispatch the next attempt of the occurrence."""


class DueEntry(NamedTuple):
    """One entry of the due index."""

    at_ms: int
    kind: DueKind
    task_id: str
    occurrence_ts: int


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
