"""Commands about a task that stands: pause, resume, trigger, reschedule.

Pure, like engine.py; the table of moves stands in docs/protocol.md.
"""

from __future__ import annotations

from typing import Final

from tickstream.clock import iso_utc
from tickstream.codec import decode_command, encode_command
from tickstream.dispatcher.answers import answer_of, refuse, remember
from tickstream.dispatcher.decision import (
    Decision,
    Dispatch,
    Rules,
    Sent,
    Task,
    ahead,
    fire_at,
    recent_of,
    terms_of,
)
from tickstream.dispatcher.moving import look_again
from tickstream.model import (
    MOST_LEAD_MS,
    NEVER,
    Command,
    RecentCommand,
    RecurrenceKind,
    RunState,
    TaskSpec,
    TaskState,
    VerdictKind,
)

MOST_IN_FLIGHT: Final = 100
"""Occurrences of one task in flight at once."""


def instant_objection(command: Command, appended_ms: int, rules: Rules) -> str:
    """Why a task cannot be dispatched at the instant asked for; empty: it can."""
    if command.when < 0:
        return f"run_at {command.when} lies before 1970"
    limit = rules.settings.past_limit_ms
    if command.when < appended_ms - limit and not command.options.allow_past:
        return f"run_at {iso_utc(command.when)} is more than {limit // 60_000} minutes in the past; pass allow_past to run it now"
    return ""


def pause(task: Task, command: Command) -> Decision:
    """No further occurrence is dispatched; what is in flight, and its retries, go on."""
    state = task.state
    if state is None or not _waits(state):
        return _too_late(task, command)
    paused = Task(task.spec, state.with_extras(paused=True))
    return _changed(paused, command, VerdictKind.PAUSED)


def resume(task: Task, command: Command, now_ms: int, rules: Rules) -> Decision:
    """Occurrences are dispatched again, one that fell due meanwhile at once; also after a fault.

    Of a recurring task, what fell due meanwhile is missed, and its misfire policy says what becomes of it.
    """
    state = task.state
    if state is None or not (state.extras.faulted or _waits(state)):
        return _too_late(task, command)
    # A gate is asked anew: it may have opened meanwhile.
    resumed = Task(
        task.spec,
        state.with_extras(
            paused=False,
            faulted="",
            held="",
            resumed_ms=now_ms if state.extras.paused and _recurs(task) else state.extras.resumed_ms,
        ),
    )
    if not state.extras.faulted or not rules.newest:
        return _changed(resumed, command, VerdictKind.RESUMED)
    # Whoever looked for what other zone data move has passed it over.
    again = look_again(command.task_id, resumed, now_ms, rules)
    changed = _changed(again.task, command, VerdictKind.RESUMED)
    return changed._replace(ended=again.ended, alarm=again.alarm)


def trigger(task: Task, command: Command, now_ms: int, rules: Rules) -> Decision:
    """One run now, whatever is scheduled: an occurrence of its own, at the next free millisecond.

    Somebody asks for it now, so neither a pause nor a limit holds it; it counts under limits. While the
    work of an occurrence is out ahead of its instant, that millisecond is the one after it, and the run waits.
    One that the task's own rule names is not free: its occurrence may still wait at a gate, or for a resume.
    """
    spec, state = task
    if spec is None or state is None:
        return _too_late(task, command)
    if len(state.runs) >= MOST_IN_FLIGHT:
        detail = f"{MOST_IN_FLIGHT} occurrences of the task are in flight already"
        return refuse(task, command, VerdictKind.REJECTED, detail)
    asked = decode_command(spec.command)
    if asked.queue not in rules.queues:
        return refuse(task, command, VerdictKind.REJECTED, f"queue {asked.queue!r} is gone")
    taken = {run.occurrence_ts for run in state.runs} | {state.next_occurrence_ts, *state.extras.queued}
    occurrence = max(now_ms, state.last_occurrence_ts + 1)
    while occurrence in taken or _is_named(asked, occurrence):
        occurrence += 1
    places = rules.gates.places(asked.queue, asked.options.limit_key)
    run = RunState(occurrence, 1, state.rev, now_ms, places=places)
    begun = Task(spec, state._replace(runs=(*state.runs, run), last_occurrence_ts=occurrence))
    # A few ms after those that are taken, it says so: nothing is started early.
    lead_ms = MOST_IN_FLIGHT + (MOST_LEAD_MS if asked.options.lead_ms else 0)
    not_before_ms = ahead(occurrence, now_ms, lead_ms)
    dispatch = Dispatch(run, asked.queue, terms_of(asked), asked.body, not_before_ms=not_before_ms)
    return _changed(begun, command, VerdictKind.TRIGGERED, occurrence)._replace(dispatch=dispatch)


def _is_named(asked: Command, instant_ms: int) -> bool:
    """Whether an occurrence of the task's own may lie at an instant, by arithmetic: no walk, and no zone's data.

    Intervals are a second and longer; everything else names whole seconds, an event also where it was moved to.
    """
    recurrence = asked.options.recurrence
    if recurrence is None:
        return False
    if recurrence.kind is RecurrenceKind.EVERY:
        return (instant_ms - recurrence.start_ms) % recurrence.interval_ms == 0
    return instant_ms % 1_000 == 0


def reschedule(task: Task, sent: Sent, rules: Rules) -> Decision:
    """Another instant for a task that waits; what it runs, and how, stays as it was asked for."""
    spec, state = task
    if spec is None or state is None or state.next_occurrence_ts == NEVER:
        return _too_late(task, sent.command)
    asked = decode_command(spec.command)
    if asked.options.recurrence is not None:
        detail = "the task recurs: schedule it anew with another rule, or trigger it"
        return refuse(task, sent.command, VerdictKind.REJECTED, detail)
    when = sent.command.when
    objection = instant_objection(sent.command, sent.appended_ms, rules)
    if not objection and when <= state.last_occurrence_ts:
        objection = (
            f"run_at {iso_utc(when)} is not after the occurrence dispatched last, "
            f"{iso_utc(state.last_occurrence_ts)}: occurrences of a task only move forward"
        )
    if objection:
        return refuse(task, sent.command, VerdictKind.REJECTED, objection)
    encoded = encode_command(asked._replace(command_id=sent.command.command_id, when=when))
    moved = state.with_extras(held="", fire_at_ms=fire_at(when, asked.options.lead_ms))._replace(
        rev=sent.rev, next_occurrence_ts=when, recent=recent_of(task)
    )
    after = Task(TaskSpec(sent.rev, encoded, VerdictKind.REPLACED), moved)
    return Decision(after, answer=answer_of(after, VerdictKind.REPLACED, when))


def _waits(state: TaskState) -> bool:
    """Whether anything is there to be dispatched."""
    return state.next_occurrence_ts != NEVER or bool(state.extras.queued)


def _recurs(task: Task) -> bool:
    return task.spec is not None and decode_command(task.spec.command).options.recurrence is not None


def _changed(after: Task, command: Command, kind: VerdictKind, occurrence_ts: int = NEVER) -> Decision:
    kept = remember(after, RecentCommand(command.command_id, kind, ""))
    return Decision(kept, answer=answer_of(kept, kind, occurrence_ts))


def _too_late(task: Task, command: Command) -> Decision:
    """There is nothing that waits."""
    if task.state is None:
        return Decision(task, answer=answer_of(task, VerdictKind.UNKNOWN))
    return refuse(task, command, VerdictKind.TOO_LATE, occurrence_ts=task.state.last_occurrence_ts)
