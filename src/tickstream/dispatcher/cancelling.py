"""What a Cancel makes of a task: its occurrences to come, what is due, and what is in flight.

Pure, like engine.py.
"""

from __future__ import annotations

from tickstream.codec import decode_command
from tickstream.dispatcher.answers import answer_of, refuse, remember
from tickstream.dispatcher.decision import Decision, Ended, Rules, Sent, Task, recent_of, settle
from tickstream.dispatcher.series import fallen_due, without_waiting
from tickstream.model import (
    NEVER,
    Command,
    Outcome,
    Phase,
    RecentCommand,
    Signal,
    SignalKind,
    TaskState,
    VerdictKind,
)


def cancel(task: Task, sent: Sent, now_ms: int, rules: Rules) -> Decision:
    """No occurrence is dispatched any more, and no further attempt made of what is in flight.

    The definition goes, and without it a run is never retried; one that was waiting for its next attempt
    ends here.
    """
    command, state = sent.command, task.state
    if state is None:
        return Decision(task, answer=answer_of(task, VerdictKind.UNKNOWN))
    if state.next_occurrence_ts == NEVER and not state.extras.queued:
        if state.runs:
            return _in_flight(task, state, command, now_ms, rules)
        if task.spec is not None and state.extras.busy_until_ms != NEVER:
            return _of_the_past(task, state, command, now_ms, rules)
        if state.phase is Phase.CANCELLED and _cancelled_in_time(state):
            return refuse(task, command, VerdictKind.CANCELLED, "it was cancelled before")
        return refuse(task, command, VerdictKind.TOO_LATE, occurrence_ts=state.last_occurrence_ts)
    # What falls due from its acceptance on is no occurrence any more: a definition sent next may name it anew.
    why = "cancelled: the task was, before its turn"
    ends, occurrence = fallen_due(command.task_id, task, sent.appended_ms - 1, why, rules.zones)
    if occurrence != NEVER:
        queue = decode_command(task.spec.command).queue if task.spec else ""
        ends += (Ended(occurrence, 0, state.rev, Outcome.CANCELLED, queue, NEVER, None, "", "", b""),)
    left, called_off = _left(task, state)
    after = settle(Task(None, left), left, Outcome.CANCELLED, now_ms, rules)
    kept = remember(after, RecentCommand(command.command_id, VerdictKind.CANCELLED, ""))
    answer = answer_of(kept, VerdictKind.CANCELLED, occurrence)
    signals = _stop_signals(state, command)
    return Decision(kept, also_ended=(*called_off, *ends), answer=answer, signals=signals)


def _in_flight(task: Task, state: TaskState, command: Command, now_ms: int, rules: Rules) -> Decision:
    """Too late for the attempt that is out; but none follows it."""
    detail = "no further attempt will be made"
    left, called_off = _left(task, state)
    after = settle(Task(None, left), left, Outcome.CANCELLED, now_ms, rules)
    kept = remember(after, RecentCommand(command.command_id, VerdictKind.TOO_LATE, detail))
    answer = answer_of(kept, VerdictKind.TOO_LATE, state.last_occurrence_ts, detail)
    signals = _stop_signals(state, command)
    return Decision(kept, also_ended=called_off, answer=answer, signals=signals)


def _of_the_past(task: Task, state: TaskState, command: Command, now_ms: int, rules: Rules) -> Decision:
    """A calendar's event that has no occurrence to come: it is too late for them, but its time is given back."""
    detail = "none of its occurrences is to come; the calendar keeps it no longer"
    left, _ = _left(task, state.with_extras(busy_until_ms=NEVER, done=()))
    after = settle(Task(None, left), left, state.outcome or Outcome.CANCELLED, now_ms, rules)
    kept = remember(after, RecentCommand(command.command_id, VerdictKind.TOO_LATE, detail))
    return Decision(kept, answer=answer_of(kept, VerdictKind.TOO_LATE, state.last_occurrence_ts, detail))


def _left(task: Task, state: TaskState) -> tuple[TaskState, tuple[Ended, ...]]:
    """The state without anything to come, and the ends of what waited for its next attempt."""
    out, called_off = without_waiting(task)
    bare = state.with_extras(held="", fire_at_ms=NEVER, queued=(), nominal_local=0, fold=0, last_local=None)
    return bare._replace(next_occurrence_ts=NEVER, runs=out, recent=recent_of(task)), called_off


def _cancelled_in_time(state: TaskState) -> bool:
    """Whether the stub is of a task that was cancelled before its dispatch.

    One whose next attempt was called off had been dispatched: it was too late then, and still is.
    """
    ends = (VerdictKind.CANCELLED, VerdictKind.TOO_LATE)
    last = next((recent.kind for recent in reversed(state.recent) if recent.kind in ends), None)
    return last is VerdictKind.CANCELLED


def _stop_signals(state: TaskState, command: Command) -> tuple[Signal, ...]:
    """A Cancel may ask running work to stop."""
    if not command.options.running:
        return ()
    return tuple(
        Signal(run.holder, SignalKind.CANCELLED, command.task_id, run.occurrence_ts, run.attempt)
        for run in state.runs
        if run.holder
    )
