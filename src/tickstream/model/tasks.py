"""Where tasks and buckets stand: what the changelog holds, and the due index that follows from it."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, NamedTuple

from tickstream.model.answers import RecentCommand, VerdictKind
from tickstream.model.commands import Rev
from tickstream.model.terms import Term
from tickstream.model.times import NEVER


class Outcome(Term):
    """How an occurrence, or (ATTEMPT_FAILED, LEASE_EXPIRED) one attempt of it, ended."""

    SUCCEEDED = "SUCCEEDED"
    DEAD = "DEAD"
    CANCELLED = "CANCELLED"
    ATTEMPT_FAILED = "ATTEMPT_FAILED"
    LEASE_EXPIRED = "LEASE_EXPIRED"
    SKIPPED = "SKIPPED"
    """It fell due and was not dispatched, for a recorded reason."""
    CONFLICT = "CONFLICT"
    """Not an end: its calendar's horizon moved on, and it meets another event there."""
    MOVED = "MOVED"
    """Not an end: other zone data place the occurrence that is to come at another instant."""

    @property
    def terminal(self) -> bool:
        """Whether nothing follows for the occurrence."""
        return self not in (
            Outcome.ATTEMPT_FAILED,
            Outcome.LEASE_EXPIRED,
            Outcome.CONFLICT,
            Outcome.MOVED,
        )


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
    places: tuple[str, ...] = ()
    """Held under limits until the occurrence ends, the pauses between its attempts included."""
    stopping: bool = False
    """It was asked to stop, for the sake of a later occurrence: it is not tried again."""

    @property
    def phase(self) -> Phase:
        """Waiting for its next attempt, held by a worker, or out and not claimed."""
        if self.retry_at_ms != NEVER:
            return Phase.RETRYING
        return Phase.RUNNING if self.holder else Phase.DISPATCHED


class TaskSpec(NamedTuple):
    """What was asked: the command's own bytes, and where they stood."""

    rev: Rev
    command: bytes
    """The Command, single-object encoded."""
    answer: VerdictKind = VerdictKind.SCHEDULED
    """What that command was answered, for a re-send of it."""


class Phase(Term):
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
    SKIPPED = "skipped"
    PAUSED = "paused"
    HELD = "held"
    """Due, and waiting at a gate: its queue is paused or at its limit, or its limit_key is taken."""
    FAULTED = "faulted"
    """Nothing is decided for it any more: a decision about it failed."""


class Extras(NamedTuple):
    """What few tasks have: recurring, paused, held and faulted ones."""

    nominal_local: int = 0
    """Pointer of a recurring task: the wall clock time that its rule names, seconds since 1970 on that clock."""
    fold: int = 0
    """1: the second of two instants at which the clock shows it."""
    last_local: int | None = None
    """The last occurrence that COUNT leaves, as the recurrence package found it at admission."""
    fire_at_ms: int = NEVER
    """When next_occurrence_ts is dispatched, NEVER: at that very instant."""
    paused: bool = False
    faulted: str = ""
    """Why nothing is decided for the task any more; empty: it is well."""
    held: str = ""
    """The gate that next_occurrence_ts waits at; empty: none."""
    queued: tuple[int, ...] = ()
    """Occurrences that wait for the one in flight to end."""
    skipped: int = 0
    """Occurrences skipped since the last dispatch."""
    resumed_ms: int = NEVER
    """When the last pause ended: what had fallen due by then was missed because of it."""
    busy_until_ms: int = NEVER
    """Of a calendar's event: up to where its time is kept for the conflict check, the horizon."""
    done: tuple[int, ...] = ()
    """Of a calendar's event: occurrences that had their turn, and have since been put later."""


NO_EXTRAS: Final = Extras()


class TaskState(NamedTuple):
    """Where a task stands. Without a TaskSpec it is a stub, kept for done_retention."""

    rev: Rev
    next_occurrence_ts: int
    """The instant to be dispatched next, NEVER when none is."""
    last_occurrence_ts: int
    """The latest instant that had its turn: dispatched, skipped, or waiting in `queued`; NEVER before the first."""
    runs: tuple[RunState, ...]
    outcome: Outcome | None
    """Of the last occurrence, once nothing is waiting or in flight."""
    ended_ms: int
    """When that outcome was applied, else NEVER."""
    recent: tuple[RecentCommand, ...]
    forget_ms: int = NEVER
    """When the stub of an ended task goes, NEVER while it is no stub."""
    extras: Extras = NO_EXTRAS

    def with_extras(self, **changes: Any) -> TaskState:
        """The state with these extras; NO_EXTRAS itself where none is left. Raises ValueError on an unknown name."""
        extras = self.extras._replace(**changes)
        if extras == self.extras:
            return self  # as for nearly every task that fires
        return self._replace(extras=NO_EXTRAS if extras == NO_EXTRAS else extras)

    @property
    def phase(self) -> Phase:
        """The one word for this state: faulted beats waiting beats in flight beats ended."""
        extras = self.extras
        if extras.faulted:
            return Phase.FAULTED
        if self.next_occurrence_ts != NEVER:
            if extras.paused:
                return Phase.PAUSED
            return Phase.HELD if extras.held else Phase.SCHEDULED
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
    HORIZON = 3
    """Look further ahead for a calendar's event."""


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
    """The newest release of the tz database by which occurrences of the bucket were placed, as `2026f`."""
    layout: int
    """Generation g of the lanes' layout under which this was written."""
    tzdata_before: str = ""
    """The oldest release by which some may be placed still; empty: `tzdata` has placed all of them."""


class Claim(NamedTuple):
    """The record by which an owner takes a bucket."""

    instance: str
    lane: int
    layout: int
    at_ms: int
