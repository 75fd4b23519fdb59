"""The decisions about one task: what a command, a report or an instant makes of it.

Pure: no Kafka, RocksDB, thread, clock or randomness may enter here. Every function takes the task
as it stands and one event, and returns a Decision. The table of moves stands in docs/protocol.md.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tickstream.clock import iso_utc
from tickstream.codec import decode_command
from tickstream.model import (
    NEVER,
    RECENT_COMMANDS,
    Command,
    DueEntry,
    DueKind,
    IfExists,
    Outcome,
    Phase,
    RecentCommand,
    Report,
    ReportKind,
    Rev,
    RunState,
    TaskSpec,
    TaskState,
    Verb,
    VerdictKind,
)
from tickstream.settings import EngineSettings


class Task(NamedTuple):
    """A task as it stands."""

    spec: TaskSpec | None
    state: TaskState | None


NO_TASK: Final = Task(None, None)
STUB_SLACK_MS: Final = 5_000
"""How much longer than promised a stub stays: T is always a second or two old."""
STUB_LONGER_MS: Final = 60_000
"""How much longer again while commands wait that were accepted in its time."""


class Rules(NamedTuple):
    """What decisions depend on besides the task and the event."""

    settings: EngineSettings
    queues: frozenset[str]
    """Queues that exist."""


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
    body: bytes


class Ended(NamedTuple):
    """An occurrence that came to its end."""

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


class Answer(NamedTuple):
    """The verdict on a command, before it is addressed."""

    kind: VerdictKind
    phase: str
    occurrence_ts: int = NEVER
    detail: str = ""
    in_flight: tuple[int, ...] = ()


class Decision(NamedTuple):
    """What an event makes of a task. `task` is the same object when nothing changes."""

    task: Task
    dispatch: Dispatch | None = None
    ended: Ended | None = None
    answer: Answer | None = None
    stale: bool = False
    """The due entry has no task behind it: it is to be dropped."""


# --------------------------------------------------------------------------- commands


def apply_command(task: Task, sent: Sent, now_ms: int, rules: Rules) -> Decision:
    """Apply one command, in log order. A re-send of a remembered command changes nothing."""
    known = _remembered(task, sent.command.command_id)
    if known is not None:
        return Decision(task, answer=_answer(task, known.kind, detail=known.detail))
    first_send, state = sent.command.options.not_after, task.state
    if first_send != NEVER and state is not None and state.rev.offset > first_send:
        # The first send met no task, or one that is gone; what is defined since is not its business.
        kind = VerdictKind.UNKNOWN if sent.command.verb is Verb.CANCEL else VerdictKind.REJECTED
        return Decision(
            task, answer=_answer(task, kind, detail="a re-send; the task was defined after its first send")
        )
    if sent.command.verb is Verb.SCHEDULE:
        return _schedule(task, sent, rules)
    return _cancel(task, sent.command, now_ms, rules)


def _schedule(task: Task, sent: Sent, rules: Rules) -> Decision:
    command, state = sent.command, task.state
    objection = _objection(command, sent.appended_ms, rules)
    if objection:
        return _refuse(task, command, VerdictKind.REJECTED, objection)
    if state is None:
        return _define(NO_TASK, sent, VerdictKind.SCHEDULED)
    if any(run.occurrence_ts == command.when for run in state.runs):
        return _refuse(task, command, VerdictKind.TOO_LATE, occurrence_ts=command.when)
    if command.when <= state.last_occurrence_ts:
        if command.when == state.last_occurrence_ts:
            return _refuse(task, command, VerdictKind.ALREADY_RAN, occurrence_ts=command.when)
        return _refuse(
            task,
            command,
            VerdictKind.REJECTED,
            f"run_at {iso_utc(command.when)} lies before the occurrence dispatched last, {iso_utc(state.last_occurrence_ts)}: "
            "occurrences of a task only move forward; use another task_id",
        )
    exists = state.next_occurrence_ts != NEVER or bool(state.runs)
    if exists and command.options.if_exists is IfExists.REJECT:
        return _refuse(task, command, VerdictKind.REJECTED, f"the task exists ({state.phase.value})")
    return _define(task, sent, VerdictKind.REPLACED if exists else VerdictKind.SCHEDULED)


def _objection(command: Command, appended_ms: int, rules: Rules) -> str:
    """Why a Schedule cannot be taken whatever the task is; empty: it can."""
    if command.queue not in rules.queues:
        return f"queue {command.queue!r} does not exist; create it with: tickstream topics create --queue {command.queue}"
    if command.when < 0:
        return f"run_at {command.when} lies before 1970"
    limit = rules.settings.past_limit_ms
    if command.when < appended_ms - limit and not command.options.allow_past:
        return f"run_at {iso_utc(command.when)} is more than {limit // 60_000} minutes in the past; pass allow_past to run it now"
    return ""


def _define(task: Task, sent: Sent, kind: VerdictKind) -> Decision:
    """The command becomes the task's definition; what ran, and what was answered, is kept."""
    old = task.state
    state = TaskState(
        rev=sent.rev,
        next_occurrence_ts=sent.command.when,
        last_occurrence_ts=old.last_occurrence_ts if old else NEVER,
        runs=old.runs if old else (),
        outcome=None,
        ended_ms=NEVER,
        recent=_recent(task),
    )
    after = Task(TaskSpec(sent.rev, sent.encoded, kind), state)
    return Decision(after, answer=_answer(after, kind, sent.command.when))


def _cancel(task: Task, command: Command, now_ms: int, rules: Rules) -> Decision:
    state = task.state
    if state is None:
        return Decision(task, answer=_answer(task, VerdictKind.UNKNOWN))
    if state.next_occurrence_ts == NEVER:
        if state.phase is Phase.CANCELLED:
            return _refuse(task, command, VerdictKind.CANCELLED, "it was cancelled before")
        return _refuse(task, command, VerdictKind.TOO_LATE, occurrence_ts=state.last_occurrence_ts)
    occurrence = state.next_occurrence_ts
    queue = decode_command(task.spec.command).queue if task.spec else ""
    ended = Ended(occurrence, 0, state.rev, Outcome.CANCELLED, queue, NEVER, None, "", "", b"")
    after = _settle(task, state._replace(next_occurrence_ts=NEVER), Outcome.CANCELLED, now_ms, rules)
    kept = _remember(after, RecentCommand(command.command_id, VerdictKind.CANCELLED, ""))
    return Decision(kept, ended=ended, answer=_answer(kept, VerdictKind.CANCELLED, occurrence))


# --------------------------------------------------------------------------- reports


def apply_report(task: Task, report: Report, worker: str, now_ms: int, rules: Rules) -> Decision:
    """Apply a worker's word on a run. One that names no run in flight changes nothing."""
    state = task.state
    run = state and next(
        (r for r in state.runs if (r.occurrence_ts, r.attempt) == (report.occurrence_ts, report.attempt)),
        None,
    )
    if state is None or run is None:
        return Decision(task)
    current = task.spec is not None and run.rev == task.spec.rev
    command = decode_command(task.spec.command) if current and task.spec else None
    outcome = Outcome.SUCCEEDED if report.kind is ReportKind.SUCCEEDED else Outcome.DEAD
    ended = Ended(
        run.occurrence_ts,
        run.attempt,
        run.rev,
        outcome,
        command.queue if command else "",
        run.decided_ms,
        report,
        worker,
        report.error,
        command.body if command and outcome is Outcome.DEAD else b"",
    )
    left = tuple(r for r in state.runs if r is not run)
    return Decision(_settle(task, state._replace(runs=left), outcome, now_ms, rules), ended=ended)


# --------------------------------------------------------------------------- instants


def apply_due(task: Task, entry: DueEntry, now_ms: int, applied_before_ms: int, rules: Rules) -> Decision:
    """Do what a due entry asks for, if the task still asks for it. Nothing is early (G3).

    `applied_before_ms` is T: everything accepted before it is applied.
    """
    if entry.at_ms > now_ms:
        return Decision(task)
    spec, state = task
    if entry.kind is DueKind.FORGET:
        return _forget(task, entry, now_ms, applied_before_ms)
    if (
        spec is None
        or state is None
        or spec.rev != state.rev
        or state.next_occurrence_ts != entry.occurrence_ts
    ):
        return Decision(task, stale=True)
    return _fire(task, spec, state, now_ms, rules)


def _forget(task: Task, entry: DueEntry, now_ms: int, applied_before_ms: int) -> Decision:
    """Drop a stub, unless a command may be waiting that was accepted while the stub was to answer.

    After an outage such a command could repeat a Schedule whose stub alone knows that it ran.
    """
    spec, state = task
    if state is None or spec is not None or state.forget_ms != entry.at_ms:
        return Decision(task, stale=True)
    if applied_before_ms + STUB_SLACK_MS < entry.at_ms:
        return Decision(Task(None, state._replace(forget_ms=now_ms + STUB_LONGER_MS)))
    return Decision(NO_TASK)


def _fire(task: Task, spec: TaskSpec, state: TaskState, now_ms: int, rules: Rules) -> Decision:
    command = decode_command(spec.command)
    occurrence = state.next_occurrence_ts
    fired = state._replace(next_occurrence_ts=NEVER, last_occurrence_ts=occurrence)
    if command.queue not in rules.queues:
        error = f"UnknownQueue: {command.queue!r} was there when the task was scheduled, and is gone"
        ended = Ended(
            occurrence, 0, state.rev, Outcome.DEAD, command.queue, now_ms, None, "", error, command.body
        )
        return Decision(_settle(task, fired, Outcome.DEAD, now_ms, rules), ended=ended)
    run = RunState(occurrence, 1, state.rev, now_ms)
    after = Task(spec, fired._replace(runs=(*state.runs, run)))
    return Decision(after, dispatch=Dispatch(run, command.queue, command.body))


# --------------------------------------------------------------------------- shared moves


def _settle(task: Task, state: TaskState, outcome: Outcome, now_ms: int, rules: Rules) -> Task:
    """`state` after an end: as it is while something waits or runs, else a stub, or nothing."""
    if state.next_occurrence_ts != NEVER or state.runs:
        return Task(task.spec, state)
    retention = rules.settings.done_retention_ms
    if retention == 0:
        return NO_TASK
    return Task(
        None,
        state._replace(
            outcome=outcome,
            ended_ms=now_ms,
            forget_ms=now_ms + retention + STUB_SLACK_MS,
            recent=_recent(task),
        ),
    )


def _refuse(
    task: Task, command: Command, kind: VerdictKind, detail: str = "", occurrence_ts: int = NEVER
) -> Decision:
    """An answer that leaves the task as it is, remembered when there is a task to remember it."""
    after = _remember(task, RecentCommand(command.command_id, kind, detail))
    return Decision(after, answer=_answer(task, kind, occurrence_ts, detail))


def _answer(task: Task, kind: VerdictKind, occurrence_ts: int = NEVER, detail: str = "") -> Answer:
    state = task.state
    if state is None:
        return Answer(kind, "", occurrence_ts, detail)
    if occurrence_ts == NEVER:
        waiting = state.next_occurrence_ts
        occurrence_ts = waiting if waiting != NEVER else state.last_occurrence_ts
    return Answer(kind, state.phase.value, occurrence_ts, detail, tuple(r.occurrence_ts for r in state.runs))


def _remembered(task: Task, command_id: bytes) -> RecentCommand | None:
    """What the command was answered, if the task still knows."""
    spec, state = task
    if state is None:
        return None
    for recent in state.recent:
        if recent.command_id == command_id:
            return recent
    # The definer's id lies inside the spec's bytes: decoded only when it can be the one.
    if (
        spec is not None
        and command_id in spec.command
        and decode_command(spec.command).command_id == command_id
    ):
        return RecentCommand(command_id, spec.answer, "")
    return None


def _remember(task: Task, recent: RecentCommand) -> Task:
    if task.state is None:
        return task
    kept = (*task.state.recent, recent)[-RECENT_COMMANDS:]
    return Task(task.spec, task.state._replace(recent=kept))


def _recent(task: Task) -> tuple[RecentCommand, ...]:
    """What a task remembers once its present definition is no longer there to speak for itself."""
    if task.state is None:
        return ()
    if task.spec is None:
        return task.state.recent
    definer = RecentCommand(decode_command(task.spec.command).command_id, task.spec.answer, "")
    return (*task.state.recent, definer)[-RECENT_COMMANDS:]
