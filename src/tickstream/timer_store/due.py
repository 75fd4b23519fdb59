"""The due index as a pure function of what a task is. No store, no clock here."""

from __future__ import annotations

from tickstream.model import NEVER, DueEntry, DueKind, TaskSpec, TaskState


def due_entries(task_id: str, spec: TaskSpec | None, state: TaskState | None) -> tuple[DueEntry, ...]:
    """Every due entry of a task.

    A spec without its state, a state without its spec, or two of different revs are halves of a
    change that is not read whole yet: nothing is due. A stub has no spec and waits to be forgotten.
    """
    if state is None:
        return ()
    if spec is None:
        return (
            (DueEntry(state.forget_ms, DueKind.FORGET, task_id, NEVER),) if state.forget_ms != NEVER else ()
        )
    if spec.rev != state.rev:
        return ()
    entries = [
        DueEntry(run.retry_at_ms, DueKind.RETRY, task_id, run.occurrence_ts)
        for run in state.runs
        # What was dispatched under an older definition is not retried.
        if run.retry_at_ms != NEVER and run.rev == spec.rev
    ]
    if state.next_occurrence_ts != NEVER:
        entries.append(DueEntry(state.next_occurrence_ts, DueKind.FIRE, task_id, state.next_occurrence_ts))
    return tuple(entries)


def has_holder(state: TaskState | None) -> bool:
    """Whether a run of the task is claimed: what `inflight` lists, so that leases can be rebuilt."""
    return state is not None and any(run.holder and run.retry_at_ms == NEVER for run in state.runs)
