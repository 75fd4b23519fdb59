"""What comes of it: work, reports, history, verdicts, dead letters."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from tickstream.clock import iso_utc
from tickstream.model.answers import CalendarAnswer, VerdictConflict, VerdictKind
from tickstream.model.commands import Receipt, Rev
from tickstream.model.tasks import Outcome
from tickstream.model.terms import Term
from tickstream.model.times import NEVER


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
    lease_ms: int
    timeout_ms: int
    body: bytes
    not_before_ms: int = NEVER
    """Not to be started earlier, NEVER: at once."""
    skipped: int = 0
    """Occurrences of the task skipped since its last dispatch."""
    last: bool = False
    """Whether no other attempt follows if this one fails."""


NO_RETRY: Final = -2
"""As a report's retry_ms: give the work up."""


class ReportKind(Term):
    """What a worker says of a run."""

    CLAIMED = "CLAIMED"
    HEARTBEAT = "HEARTBEAT"
    RELEASED = "RELEASED"
    """Handed back: not started, another worker may."""
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
    retry_ms: int = NEVER
    """The pause before the next attempt. Of FAILED: NEVER: the policy decides; NO_RETRY: give up.
    Of RELEASED: NEVER: it doubles; 0: it was waited for already."""
    result: bytes = b""
    """Of SUCCEEDED: what the handler returned, as JSON, at most 4 KiB."""
    progress: int = NEVER
    """Of HEARTBEAT: thousandths done, NEVER: not said."""
    note: str = ""
    """Of HEARTBEAT: what the handler says it is doing."""


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
    result: bytes = b""
    """What the handler returned, as JSON."""
    through_ts: int = NEVER
    """SKIPPED: the last of the occurrences it speaks of, NEVER: occurrence_ts alone. MOVED: where occurrence_ts went."""
    occurrences: int = 1
    """How many occurrences it speaks of."""


class SignalKind(Enum):
    """Why a run is asked to stop."""

    CANCELLED = "CANCELLED"
    SUPERSEDED = "SUPERSEDED"


class Signal(NamedTuple):
    """A request to a running run to stop; best effort."""

    run_id: bytes
    kind: SignalKind
    task_id: str
    occurrence_ts: int
    attempt: int


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
    calendar: CalendarAnswer | None = None
    """What a calendar's check found, None where none was made; `detail` has it in words."""

    @property
    def conflicts(self) -> tuple[VerdictConflict, ...]:
        """What the event meets in its calendar."""
        return () if self.calendar is None else self.calendar.conflicts

    def __str__(self) -> str:
        """The answer in words: `too late (succeeded) mail:42 at 2026-…Z (receipt 3:1207:0)`."""
        parts = [self.kind.value.lower().replace("_", " ")]
        if self.kind in (VerdictKind.TOO_LATE, VerdictKind.ALREADY_RAN):
            parts.append(f"({self.phase})")
        parts.append(self.task_id)
        if self.occurrence_ts != NEVER:
            parts += ["at", iso_utc(self.occurrence_ts)]
        parts.append(f"(receipt {self.receipt})")
        unknown = self.kind is VerdictKind.UNKNOWN
        detail = self.detail or ("there is no such task, or its end is long past" if unknown else "")
        return " ".join(parts) + (f": {detail}" if detail else "")


class DeadReason(Enum):
    """Why a record lies in `dead-letter`."""

    GAVE_UP = "gave_up"
    UNDECODABLE = "undecodable"
    FAULT = "fault"
    """A command or report on which the dispatcher itself failed."""
