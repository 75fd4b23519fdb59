"""What the engine decides on and what it decides, as values; and the moves that its parts share.

Pure, like everything in engine.py and runs.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from tickstream.calendar import Conflict
from tickstream.calendar.stored import Booking
from tickstream.codec import command_id_of, decode_command, encode_answer
from tickstream.model import (
    DEFAULT_TERMS,
    NEVER,
    NO_EXTRAS,
    RECENT_COMMANDS,
    CalendarAnswer,
    Command,
    Extras,
    Outcome,
    RecentCommand,
    Report,
    Rev,
    RunState,
    RunTerms,
    Signal,
    TaskSpec,
    TaskState,
    VerdictKind,
    bucket_of_key,
)
from tickstream.recurrence.zone_data import ZoneData
from tickstream.settings import EngineSettings


class Task(NamedTuple):
    """A task as it stands."""

    spec: TaskSpec | None
    state: TaskState | None


NO_TASK: Final = Task(None, None)
_MAX_FAULT: Final = 500
"""Characters of a fault's reason that a task keeps."""
STUB_SLACK_MS: Final = 5_000
"""How much longer than promised a stub stays: T is always a second or two old."""
STUB_LONGER_MS: Final = 60_000
"""How much longer again while commands wait that were accepted in its time."""


class Admission(Protocol):
    """Who may be dispatched now: gates.py."""

    def closed(self, queue: str, limit_key: str, held: str = "") -> str:
        """The gate that an occurrence has to wait at; empty: none. `held`: the one that it waited at."""
        ...

    def places(self, queue: str, limit_key: str) -> tuple[str, ...]:
        """The places under limits that an occurrence holds from its first dispatch to its end."""
        ...


class _NoGates:
    """Everybody may."""

    def closed(self, queue: str, limit_key: str, held: str = "") -> str:
        del queue, limit_key, held
        return ""

    def places(self, queue: str, limit_key: str) -> tuple[str, ...]:
        del queue, limit_key
        return ()


NO_GATES: Final = _NoGates()


class Judged(NamedTuple):
    """Whether a calendar's event may have its time."""

    refusal: VerdictKind | None
    """CONFLICT or REJECTED; None: it may."""
    detail: str
    busy_until_ms: int
    found: CalendarAnswer | None = None
    """What the check found; None: nothing was looked for."""
    may_end: bool = False
    """Whether the event may be left without an occurrence to come."""

    @property
    def encoded(self) -> bytes:
        """`found` as a task remembers it; empty where there is nothing to say."""
        found = self.found
        return b"" if found is None or not str(found) else encode_answer(found)


class Bookings(Protocol):
    """Whose time is taken: calendar.py."""

    def judge(self, command: Command, known: TaskSpec | None, now_ms: int) -> Judged:
        """Look whether the time of the event that the command carries is free. Raises InvalidInput for a bad one.

        `known`: what the calendar has of that id.
        """
        ...

    def look(self, booking: Booking, now_ms: int, counts: Callable[[Conflict], bool] | None = None) -> Judged:
        """Look whether an event's time is free. `counts`: which conflicts are looked at. Raises InvalidInput."""
        ...

    def task(self, task_id: str) -> Task:
        """Another task of the bucket, as it stands."""
        ...


class _NoCalendars:
    """Nobody keeps any."""

    def judge(self, command: Command, known: TaskSpec | None, now_ms: int) -> Judged:
        del command, known, now_ms
        return _NOT_HERE

    def look(self, booking: Booking, now_ms: int, counts: Callable[[Conflict], bool] | None = None) -> Judged:
        del booking, now_ms, counts
        return _NOT_HERE

    def task(self, task_id: str) -> Task:
        del task_id
        return NO_TASK


_NOT_HERE: Final = Judged(VerdictKind.REJECTED, "no calendars are kept here", NEVER)


NO_CALENDARS: Final = _NoCalendars()


class Rules(NamedTuple):
    """What decisions depend on besides the task and the event."""

    settings: EngineSettings
    queues: frozenset[str]
    """Queues that exist."""
    gates: Admission = NO_GATES
    calendars: Bookings = NO_CALENDARS
    zones: ZoneData | None = None
    """By which occurrences are placed; None: by those that the process uses."""
    moving: str = ""
    """`2026a -> 2026f`: the older ones may have placed what is to come, so it is looked at anew before it is
    dispatched. Empty: nothing is."""
    newest: bool = True
    """Whether no newer zone data have placed anything of the bucket: what they placed stays where it is."""
    bucket_of_key: Callable[[bytes, int], int] = bucket_of_key
    """What model.bucket_of_key says; librdkafka's own code says it faster."""


class Sent(NamedTuple):
    """A command where it lies in the log."""

    command: Command
    encoded: bytes
    """The command's own bytes, as a TaskSpec keeps them."""
    rev: Rev
    appended_ms: int
    """When the broker took it: what was in time then is in time, however late it is applied."""


class Dispatch(NamedTuple):
    """A run to be handed to a worker."""

    run: RunState
    queue: str
    terms: RunTerms
    body: bytes
    skipped: int = 0
    """Occurrences of the task skipped since its last dispatch."""
    not_before_ms: int = NEVER
    """Sent ahead of its instant, and held by the worker until then; NEVER: it is due."""


class Lease(NamedTuple):
    """A claimed run that is to be heard of again in time."""

    task_id: str
    occurrence_ts: int
    attempt: int
    holder: bytes
    """run_id."""
    lease_ms: int


class Ended(NamedTuple):
    """An occurrence, or one attempt of it, that came to its end."""

    occurrence_ts: int
    attempt: int
    rev: Rev
    outcome: Outcome
    queue: str
    """Empty when the definition of the run is replaced since."""
    decided_ms: int
    report: Report | None
    worker: str
    error: str
    body: bytes
    """Of work given up on, for `dead-letter`; else empty."""
    through_ts: int = NEVER
    """The last of the occurrences it speaks of, NEVER: occurrence_ts alone."""
    occurrences: int = 1
    """How many it speaks of."""


class Answer(NamedTuple):
    """The verdict on a command, before it is addressed."""

    kind: VerdictKind
    phase: str
    occurrence_ts: int = NEVER
    detail: str = ""
    in_flight: tuple[int, ...] = ()
    found: CalendarAnswer | None = None
    """By a calendar's check."""


class Decision(NamedTuple):
    """What an event makes of a task. `task` is the same object when nothing changes."""

    task: Task
    dispatch: Dispatch | None = None
    ended: Ended | None = None
    also_ended: tuple[Ended, ...] = ()
    """Recorded before `ended`: occurrences skipped or called off."""
    answer: Answer | None = None
    stale: bool = False
    """The due entry has no task behind it: it is to be dropped."""
    lease: Lease | None = None
    """Begins now."""
    alarm: str = ""
    """What a person must hear of."""
    signals: tuple[Signal, ...] = ()
    follow: tuple[tuple[str, Decision], ...] = ()
    """Decisions about other tasks of the bucket, by their ids: an event's reminders, a series split off."""


def terms_of(command: Command) -> RunTerms:
    """How runs of the task are leased and retried."""
    return command.options.terms or DEFAULT_TERMS


def ahead(occurrence_ts: int, now_ms: int, lead_ms: int) -> int:
    """not_before_ms of work that is dispatched now: its instant while that is ahead within the lead, else NEVER.

    Beyond the lead it is a clock that stepped back; what was due before is due.
    """
    return occurrence_ts if now_ms < occurrence_ts <= now_ms + lead_ms else NEVER


def fire_at(when: int, lead_ms: int) -> int:
    """fire_at_ms of a task that runs once: NEVER without a lead, it is dispatched at its instant."""
    return max(0, when - lead_ms) if lead_ms else NEVER


def extras_of_one(when: int, lead_ms: int) -> Extras:
    """Of a task that runs once and is defined now: hardly any has a lead."""
    return NO_EXTRAS._replace(fire_at_ms=fire_at(when, lead_ms)) if lead_ms else NO_EXTRAS


def replaced_run(state: TaskState, old: RunState, new: RunState | None) -> TaskState:
    """The state with one run changed, or without it."""
    runs = (new if run is old else run for run in state.runs)
    return state._replace(runs=tuple(run for run in runs if run is not None))


def settle(task: Task, state: TaskState, outcome: Outcome, now_ms: int, rules: Rules) -> Task:
    """`state` after an end: as it is while something waits or runs, else a stub, or nothing."""
    if state.next_occurrence_ts != NEVER or state.runs or state.extras.queued:
        return Task(task.spec, state)
    if state.extras.busy_until_ms != NEVER and outcome is not Outcome.CANCELLED:
        # What a calendar's event took up stays taken, and known, until somebody removes it.
        return Task(task.spec, state._replace(outcome=outcome, ended_ms=now_ms))
    retention = rules.settings.done_retention_ms
    if retention == 0:
        return NO_TASK
    return Task(
        None,
        state._replace(
            outcome=outcome,
            ended_ms=now_ms,
            forget_ms=now_ms + retention + STUB_SLACK_MS,
            recent=recent_of(task),
            extras=NO_EXTRAS,
        ),
    )


def recent_of(task: Task) -> tuple[RecentCommand, ...]:
    """What a task remembers once its present definition is no longer there to speak for itself."""
    if task.state is None:
        return ()
    if task.spec is None:
        return task.state.recent
    command_id, recent = command_id_of(task.spec.command), task.state.recent
    if any(known.command_id == command_id for known in recent):
        return recent
    return (*recent, RecentCommand(command_id, task.spec.answer, ""))[-RECENT_COMMANDS:]


def leases_of(task_id: str, task: Task) -> list[Lease]:
    """A full lease for every run that a worker holds. None for a faulted task: nothing is decided for it."""
    spec, state = task
    if state is None or state.extras.faulted:
        return []
    leases = []
    for run in state.runs:
        if run.holder and run.retry_at_ms == NEVER:
            same = spec is not None and spec.rev == run.rev
            terms = terms_of(decode_command(spec.command)) if spec and same else DEFAULT_TERMS
            leases.append(Lease(task_id, run.occurrence_ts, run.attempt, run.holder, terms.lease_ms))
    return leases


def faulted(state: TaskState, why: str) -> TaskState:
    """The task as it is, but nothing is decided for it any more, until a person resumes it."""
    return state._replace(extras=state.extras._replace(faulted=why[:_MAX_FAULT]))
