"""What the projection keeps: a row per occurrence, a record per task, a position per bucket.

No I/O, no bytes (stored.py) and no rule of which row wins (fold.py) may enter here.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, NamedTuple

from tickstream.calendar.stored import Booking, decode_booking
from tickstream.model import DEFAULT_TERMS, NEVER, Outcome, Phase, QueueLimits, Recurrence, Rev, TaskState


class Columns(NamedTuple):
    """What a listing shows of a definition besides its instants."""

    queue: str
    handler: str
    labels: dict[str, str]


UNKNOWN: Final = Columns("", "", {})
"""Columns of a definition that the projection has not seen (it was compacted away before a rebuild)."""


class Payload(NamedTuple):
    """What a task hands to its handler, as far as it is kept."""

    size: int
    """Bytes."""
    form: str
    """"json", "text" or "bytes", by what it can be read as."""
    text: str | None
    """Its beginning; of bytes, in hexadecimal digits. None: payloads are not kept."""


class Definition(NamedTuple):
    """What the listing needs of a TaskSpec."""

    rev: Rev
    columns: Columns
    lease_ms: int = DEFAULT_TERMS.lease_ms
    """Without a heartbeat for that long a claimed run is lost."""
    recurrence: Recurrence | None = None
    payload: Payload | None = None
    """None: its body cannot be read."""


class Row(NamedTuple):
    """All that a listing shows of one occurrence. Times are ms UTC, NEVER when unknown or not yet.

    Flat, and stored in this order: a page of a thousand is made without an object in between.
    """

    task_id: str
    occurrence_ts: int
    state: Phase
    queue: str
    handler: str
    labels: dict[str, str]
    attempt: int
    worker: str
    decided_ms: int
    fetched_ms: int
    started_ms: int
    ended_ms: int
    retry_at_ms: int
    """When its next attempt is to be dispatched, NEVER unless it waits for one."""
    error: str
    rev_offset: int
    rev_item: int
    superseded: bool = False
    """A finished row that a newer definition's row stands in front of: kept, neither shown nor counted."""

    @property
    def rev(self) -> Rev:
        """The definition that it belongs to."""
        return Rev(self.rev_offset, self.rev_item)

    @property
    def columns(self) -> Columns:
        """Those of its definition."""
        return Columns(self.queue, self.handler, self.labels)


class Attempt(NamedTuple):
    """One attempt of an occurrence that ended, as the list of a task's attempts shows it."""

    task_id: str
    occurrence_ts: int
    number: int
    """Of its History record: the order of the log."""
    attempt: int
    outcome: Outcome
    at_ms: int
    """When the dispatcher applied it."""
    worker: str
    decided_ms: int
    fetched_ms: int
    started_ms: int
    ended_ms: int
    error: str
    result: str
    """What the handler returned, as JSON; empty when it returned nothing."""


class Pulse(NamedTuple):
    """The last heartbeat of a run that was heard of."""

    task_id: str
    occurrence_ts: int
    run_id: str
    """In hexadecimal digits."""
    at_ms: int
    """When the broker took it."""
    progress: int
    """Thousandths done, NEVER: not said."""
    note: str


def waiting(task_id: str, occurrence_ts: int, phase: Phase, definition: Definition) -> Row:
    """The row of an occurrence that was not dispatched yet."""
    return Row(
        task_id,
        occurrence_ts,
        phase,
        *definition.columns,
        attempt=0,
        worker="",
        decided_ms=NEVER,
        fetched_ms=NEVER,
        started_ms=NEVER,
        ended_ms=NEVER,
        retry_at_ms=NEVER,
        error="",
        rev_offset=definition.rev.offset,
        rev_item=definition.rev.item,
    )


class LiveRow(NamedTuple):
    """A row that follows from `timers`, and whether it is the one shown for its occurrence."""

    row: Row
    shown: bool


class TaskRecord(NamedTuple):
    """What is known of a task: its definition, its state (`recent` left out), its rows from `timers`."""

    definition: Definition | None
    state: TaskState | None
    live: tuple[LiveRow, ...]
    frontier: int = NEVER
    """Of a recurring task: the last occurrence that has a row while more may follow; NEVER: none may."""


class Coming(NamedTuple):
    """What the occurrences of a recurring task that have no row yet follow from."""

    definition: Definition
    last_local: int | None
    """The last occurrence that COUNT leaves (Extras.last_local)."""
    paused: bool


NO_TASK: Final = TaskRecord(None, None, ())


class Position(NamedTuple):
    """How far a bucket is folded: written together with what it vouches for."""

    timers: int = 0
    """Next offset of `timers` to fold."""
    history: int = 0
    """Next offset of `history` to fold."""
    history_number: int = 0
    """Number of the last History folded, or known to be gone from the log."""
    applied_before_ms: int = 0
    """T of the last Progress folded: every command accepted before it is in the answers. 0: none yet."""
    commands_offset: int = 0
    commands_item: int = 0
    """The dispatcher's position in `commands` by that Progress: below it, a command is visible."""
    restoring: bool = True
    """Some records beyond that Progress are folded already, not yet a whole step: rows may be ahead."""
    tzdata: str = ""
    """The zone data that the dispatcher reckoned with by that Progress."""
    layout: int = 0
    """Generation of the lanes by that Progress."""


class ChangeKind(IntEnum):
    """What became different in the installation. The value is the key's byte."""

    TAKEOVER = 0
    """A dispatcher took a bucket over."""
    TZDATA = 1
    LAYOUT = 2
    REBUILD = 3
    """The index was made anew: what it said before is gone."""
    PAUSE = 4
    """A queue, or everything, was paused in a bucket."""
    RESUME = 5


class Change(NamedTuple):
    """One entry of the strip of changes."""

    at_ms: int
    kind: ChangeKind
    bucket: int
    fields: dict[str, Any]
    """What it was, by its kind: instance and lane; before and after; a reason."""


class QueueSetting(NamedTuple):
    """What is set for a queue in one bucket: its QueueState, as it was read."""

    paused: bool
    at_ms: int
    """When that was written, by the record's own stamp."""
    limits: QueueLimits | None = None
    """Its gate; None: there is none."""


class Owner(NamedTuple):
    """Who took a bucket last: its Claim, as it was read."""

    instance: str
    lane: int
    layout: int
    at_ms: int


class BookingChange(NamedTuple):
    """What a record of `timers` makes of an event of a calendar."""

    value: bytes
    """The event, as the task carries it; empty: there is none any more."""
    at_ms: int
    """The record's own stamp."""
    offset: int


class Kept(NamedTuple):
    """An event of a calendar."""

    changed_ms: int
    """The stamp of its record in `timers`."""
    value: bytes

    @property
    def booking(self) -> Booking:
        """The event in its calendar."""
        return decode_booking(self.value)


class CalendarRecord(NamedTuple):
    """What is known of a calendar besides its events."""

    zone: str
    """Of its days and floating times, as the event that was changed last has it."""
    events: int
    changed_ms: int
    """When an event was last added, changed or removed."""
    offset: int
    """Of that record in `timers`: the calendar's revision."""


class Failure(NamedTuple):
    """An occurrence that was given up on, as the list of recent failures shows it."""

    at_ms: int
    task_id: str
    occurrence_ts: int
    queue: str
    handler: str
    attempt: int
    worker: str
    error: str
