"""The decisions about one task: what a command or an instant makes of it.

Pure: no Kafka, RocksDB, thread, clock or randomness may enter here. Every function takes the task
as it stands and one event, and returns a Decision. What becomes of runs is in runs.py. The table
of moves stands in docs/protocol.md.
"""

from __future__ import annotations

from tickstream.clock import iso_utc
from tickstream.codec import decode_command
from tickstream.dispatcher import recurring
from tickstream.dispatcher.answers import again, answer_of, refuse, remembered
from tickstream.dispatcher.calendar import move_horizon
from tickstream.dispatcher.cancelling import cancel
from tickstream.dispatcher.changing import change_event, reminders_of
from tickstream.dispatcher.decision import (
    NO_TASK,
    STUB_LONGER_MS,
    STUB_SLACK_MS,
    Answer,
    Decision,
    Dispatch,
    Ended,
    Rules,
    Sent,
    Task,
    ahead,
    replaced_run,
    settle,
    terms_of,
)
from tickstream.dispatcher.defining import define
from tickstream.dispatcher.standing import instant_objection, pause, reschedule, resume, trigger
from tickstream.dispatcher.taking_up import is_event
from tickstream.errors import InvalidInput
from tickstream.model import (
    MOST_LEAD_MS,
    NEVER,
    Command,
    DueEntry,
    DueKind,
    IfExists,
    Outcome,
    RunState,
    TaskSpec,
    TaskState,
    Verb,
    VerdictKind,
)

# --------------------------------------------------------------------------- commands


def apply_command(task: Task, sent: Sent, now_ms: int, rules: Rules) -> Decision:
    """Apply one command, in log order. A re-send of a remembered command changes nothing."""
    known = remembered(task, sent.command.command_id)
    if known is not None:
        return Decision(task, answer=again(task, known))
    first_send, state = sent.command.options.not_after, task.state
    if first_send != NEVER and state is not None and state.rev.offset > first_send:
        # The first send met no task, or one that is gone; what is defined since is not its business.
        kind = VerdictKind.UNKNOWN if sent.command.verb is Verb.CANCEL else VerdictKind.REJECTED
        return Decision(
            task, answer=answer_of(task, kind, detail="a re-send; the task was defined after its first send")
        )
    guard = sent.command.options.if_rev
    if guard is not None and (state is None or state.rev != guard):
        stands = (
            "there is no such task"
            if state is None
            else f"its definition is {state.rev.offset}:{state.rev.item}"
        )
        return refuse(
            task, sent.command, VerdictKind.REJECTED, f"asked for {guard.offset}:{guard.item}, but {stands}"
        )
    decision = _applied(task, sent, now_ms, rules)
    if sent.command.options.event or is_event(state):
        others = reminders_of(task, decision, sent, now_ms, rules)
        decision = decision._replace(follow=(*decision.follow, *others))
    return decision


def _applied(task: Task, sent: Sent, now_ms: int, rules: Rules) -> Decision:
    state = task.state
    match sent.command.verb:
        case Verb.SCHEDULE:
            return _schedule(task, sent, now_ms, rules)
        case Verb.CHANGE_EVENT:
            return change_event(task, sent, now_ms, rules)
        case Verb.CHECK_EVENT:
            return _check(task, sent, now_ms, rules)
        case Verb.CANCEL:
            return cancel(task, sent, now_ms, rules)
        case Verb.RESCHEDULE if is_event(state):
            return refuse(
                task,
                sent.command,
                VerdictKind.REJECTED,
                "it is a calendar's event: change it in its calendar",
            )
        case Verb.RESCHEDULE:
            return reschedule(task, sent, rules)
        case Verb.TRIGGER:
            return trigger(task, sent.command, now_ms, rules)
        case Verb.PAUSE:
            return pause(task, sent.command)
        case Verb.RESUME:
            return resume(task, sent.command, now_ms, rules)
        case other:
            raise AssertionError(f"{other} is no command of a task")


def _schedule(task: Task, sent: Sent, now_ms: int, rules: Rules) -> Decision:
    command, state = sent.command, task.state
    objection = _objection(command, sent.appended_ms, rules)
    if objection:
        return refuse(task, command, VerdictKind.REJECTED, objection)
    exists = state is not None and state.outcome is None
    kind = VerdictKind.REPLACED if exists else VerdictKind.SCHEDULED
    if command.options.recurrence is None and state is not None:
        refused = _behind(task, state, command)
        if refused is not None:
            return refused
    if exists and state is not None and command.options.if_exists is IfExists.REJECT:
        return refuse(task, command, VerdictKind.REJECTED, f"the task exists ({state.phase.value})")
    try:
        if not command.options.event:
            return define(task, sent, kind, zones=rules.zones)
        judged = rules.calendars.judge(command, task.spec, now_ms)
        if judged.refusal is not None:
            return refuse(task, command, judged.refusal, judged.detail, found=judged.found)
        return define(task, sent, kind, judged, rules.zones)
    except InvalidInput as error:
        return refuse(task, command, VerdictKind.REJECTED, str(error))


def _check(task: Task, sent: Sent, now_ms: int, rules: Rules) -> Decision:
    """What a Schedule of the event would meet. Nothing changes, not even what the task remembers."""
    try:
        judged = rules.calendars.judge(sent.command, task.spec, now_ms)
    except InvalidInput as error:
        return Decision(task, answer=Answer(VerdictKind.REJECTED, "", detail=str(error)))
    detail = judged.detail or ("" if judged.found is None else str(judged.found))
    kind = judged.refusal or (
        VerdictKind.CONFLICT if judged.found and judged.found.conflicts else VerdictKind.CLEAR
    )
    return Decision(task, answer=Answer(kind, "", detail=detail, found=judged.found))


def _behind(task: Task, state: TaskState, command: Command) -> Decision | None:
    """The answer when the instant is that of an occurrence that was dispatched, or lies before one."""
    if any(run.occurrence_ts == command.when for run in state.runs):
        return refuse(task, command, VerdictKind.TOO_LATE, occurrence_ts=command.when)
    if command.when > state.last_occurrence_ts:
        return None
    if command.when == state.last_occurrence_ts:
        return refuse(task, command, VerdictKind.ALREADY_RAN, occurrence_ts=command.when)
    return refuse(
        task,
        command,
        VerdictKind.REJECTED,
        f"run_at {iso_utc(command.when)} lies before the occurrence dispatched last, {iso_utc(state.last_occurrence_ts)}: "
        "occurrences of a task only move forward; use another task_id",
    )


def _objection(command: Command, appended_ms: int, rules: Rules) -> str:
    """Why a Schedule cannot be taken whatever the task is; empty: it can."""
    if command.queue not in rules.queues and (command.queue or not command.options.event):
        return f"queue {command.queue!r} does not exist; create it with: tickstream topics create --queue {command.queue}"
    lead_ms = command.options.lead_ms
    if not 0 <= lead_ms <= MOST_LEAD_MS:
        return f"lead_ms={lead_ms}: work is sent at most {MOST_LEAD_MS} ms ahead of its instant; 0: at its instant"
    if lead_ms and command.options.recurrence:
        return f"lead_ms={lead_ms}: only a task that runs once is sent ahead; leave it out, or schedule each instant"
    return "" if command.options.recurrence else instant_objection(command, appended_ms, rules)


# --------------------------------------------------------------------------- instants


def apply_due(task: Task, entry: DueEntry, now_ms: int, applied_before_ms: int, rules: Rules) -> Decision:
    """Do what a due entry asks for, if the task still asks for it. Nothing is early (G3).

    An entry of a task with a lead lies ahead of its instant; its work says until when it is to be held.

    `applied_before_ms` is T: everything accepted before it is applied.
    """
    if entry.at_ms > now_ms:
        return Decision(task)
    spec, state = task
    if entry.kind is DueKind.FORGET:
        return _forget(task, entry, now_ms, applied_before_ms)
    if entry.kind is DueKind.HORIZON:
        return move_horizon(task, now_ms, rules)
    if entry.kind is DueKind.RETRY:
        return _retry(task, entry, now_ms)
    if (
        spec is None
        or state is None
        or spec.rev != state.rev
        or entry.occurrence_ts not in (state.next_occurrence_ts, *state.extras.queued[:1])
    ):
        return Decision(task, stale=True)
    if state.extras.paused or state.extras.faulted:
        return Decision(task)  # a command of this very batch said so; the entry goes with it
    command = decode_command(spec.command)
    if command.options.recurrence is not None:
        return recurring.fire(task, state, command, entry.occurrence_ts, now_ms, rules)
    return _fire(task, spec, state, command, now_ms, rules)


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


def _fire(
    task: Task, spec: TaskSpec, state: TaskState, command: Command, now_ms: int, rules: Rules
) -> Decision:
    occurrence = state.next_occurrence_ts
    if max(occurrence - command.options.lead_ms, 0) > now_ms:
        return Decision(task)  # a command of this very batch gave it a shorter lead
    fired = state.with_extras(held="", fire_at_ms=NEVER)._replace(
        next_occurrence_ts=NEVER, last_occurrence_ts=max(occurrence, state.last_occurrence_ts)
    )
    if command.queue not in rules.queues:
        error = f"UnknownQueue: {command.queue!r} was there when the task was scheduled, and is gone"
        ended = Ended(
            occurrence, 0, state.rev, Outcome.DEAD, command.queue, now_ms, None, "", error, command.body
        )
        return Decision(settle(task, fired, Outcome.DEAD, now_ms, rules), ended=ended)
    limit_key = command.options.limit_key
    gate = rules.gates.closed(command.queue, limit_key, state.extras.held)
    if gate:
        waits = task if gate == state.extras.held else Task(spec, state.with_extras(held=gate))
        return Decision(waits)
    run = RunState(occurrence, 1, state.rev, now_ms, places=rules.gates.places(command.queue, limit_key))
    after = Task(spec, fired._replace(runs=(*state.runs, run)))
    not_before_ms = ahead(occurrence, now_ms, command.options.lead_ms)
    dispatch = Dispatch(run, command.queue, terms_of(command), command.body, not_before_ms=not_before_ms)
    return Decision(after, dispatch=dispatch)


def _retry(task: Task, entry: DueEntry, now_ms: int) -> Decision:
    """Dispatch the next attempt of an occurrence whose definition still stands."""
    spec, state = task
    if spec is None or state is None:
        return Decision(task, stale=True)
    run = next((r for r in state.runs if r.occurrence_ts == entry.occurrence_ts), None)
    if run is None or run.retry_at_ms != entry.at_ms or run.rev != spec.rev:
        return Decision(task, stale=True)
    command = decode_command(spec.command)
    out = run._replace(retry_at_ms=NEVER, decided_ms=now_ms)
    after = Task(spec, replaced_run(state, run, out))
    # Handed back before its instant, it is still early.
    not_before_ms = ahead(entry.occurrence_ts, now_ms, command.options.lead_ms)
    dispatch = Dispatch(out, command.queue, terms_of(command), command.body, not_before_ms=not_before_ms)
    return Decision(after, dispatch=dispatch)
