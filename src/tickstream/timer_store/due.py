"""The due index as a pure function of what a task is. No store, no clock here."""

from __future__ import annotations

from typing import Final, NamedTuple

from tickstream.model import NEVER, NO_EXTRAS, DueEntry, DueKind, TaskSpec, TaskState

_DAY_MS: Final = 86_400_000
HORIZON_MS: Final = 400 * _DAY_MS
"""How far ahead the time of a calendar's events is kept, and looked at when one is taken."""
HORIZON_STEP_MS: Final = 30 * _DAY_MS
"""How often the horizon is moved on: of what is asked for, at least the next 370 days are looked at."""


class HeldEntry(NamedTuple):
    """An occurrence that is due and waits at a gate."""

    gate: str
    due: DueEntry
    """As it stood in the due index: it leaves the gate in that order."""


def due_entries(task_id: str, spec: TaskSpec | None, state: TaskState | None) -> tuple[DueEntry, ...]:
    """Every due entry of a task.

    A spec without its state, a state without its spec, or two of different revs are halves of a
    change that is not read whole yet: nothing is due. Nothing of a faulted task is, and no new
    occurrence of one that is paused or held. A stub has no spec and waits to be forgotten.
    """
    if state is None or state.extras.faulted:
        return ()
    if spec is None:
        return (
            (DueEntry(state.forget_ms, DueKind.FORGET, task_id, NEVER),) if state.forget_ms != NEVER else ()
        )
    if spec.rev != state.rev:
        return ()
    extras = state.extras
    if extras is NO_EXTRAS and not state.runs:
        return () if state.next_occurrence_ts == NEVER else (_fire(task_id, state),)
    entries = [
        DueEntry(run.retry_at_ms, DueKind.RETRY, task_id, run.occurrence_ts)
        for run in state.runs
        # What was dispatched under an older definition is not retried.
        if run.retry_at_ms != NEVER and run.rev == spec.rev
    ]
    if extras.busy_until_ms != NEVER:
        entries.append(DueEntry(horizon_due_ms(extras.busy_until_ms), DueKind.HORIZON, task_id, NEVER))
    if not extras.paused and not extras.held:
        if extras.queued and not state.runs:
            entries.append(_turn(task_id, state))
        if state.next_occurrence_ts != NEVER:
            entries.append(_fire(task_id, state))
    return tuple(entries)


def horizon_due_ms(busy_until_ms: int) -> int:
    """When an event's horizon is moved on: a month after it was set."""
    return busy_until_ms - HORIZON_MS + HORIZON_STEP_MS


def held_entry(task_id: str, spec: TaskSpec | None, state: TaskState | None) -> HeldEntry | None:
    """Where the task's next occurrence waits, if it waits at a gate."""
    if spec is None or state is None or not state.extras.held or spec.rev != state.rev:
        return None
    extras = state.extras
    if extras.paused or extras.faulted:
        return None
    if extras.queued and not state.runs:
        return HeldEntry(extras.held, _turn(task_id, state))
    return None if state.next_occurrence_ts == NEVER else HeldEntry(extras.held, _fire(task_id, state))


def _turn(task_id: str, state: TaskState) -> DueEntry:
    """Of the first occurrence that waited for the one in flight, which has ended."""
    first = state.extras.queued[0]
    return DueEntry(first, DueKind.FIRE, task_id, first)


def _fire(task_id: str, state: TaskState) -> DueEntry:
    at_ms = state.extras.fire_at_ms
    occurrence = state.next_occurrence_ts
    return DueEntry(occurrence if at_ms == NEVER else at_ms, DueKind.FIRE, task_id, occurrence)


def is_watched(state: TaskState | None) -> bool:
    """Whether `inflight` lists the task: a run of it is claimed, or holds a place under a limit.

    So leases and gates can be rebuilt at a take-over.
    """
    if state is None or not state.runs:
        return False
    return any(run.places or (run.holder and run.retry_at_ms == NEVER) for run in state.runs)
