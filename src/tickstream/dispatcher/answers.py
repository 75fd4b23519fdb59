"""Answers to commands, and what a task remembers of them: a re-send changes nothing.

Pure, like engine.py.
"""

from __future__ import annotations

from tickstream.codec import command_id_of
from tickstream.dispatcher.decision import Answer, Decision, Task
from tickstream.model import NEVER, RECENT_COMMANDS, Command, RecentCommand, VerdictKind


def refuse(
    task: Task, command: Command, kind: VerdictKind, detail: str = "", occurrence_ts: int = NEVER
) -> Decision:
    """An answer that leaves the task as it is, remembered when there is a task to remember it."""
    after = remember(task, RecentCommand(command.command_id, kind, detail))
    return Decision(after, answer=answer_of(task, kind, occurrence_ts, detail))


def answer_of(task: Task, kind: VerdictKind, occurrence_ts: int = NEVER, detail: str = "") -> Answer:
    state = task.state
    if state is None:
        return Answer(kind, "", occurrence_ts, detail)
    if occurrence_ts == NEVER:
        waiting = state.next_occurrence_ts
        occurrence_ts = waiting if waiting != NEVER else state.last_occurrence_ts
    return Answer(kind, state.phase.value, occurrence_ts, detail, tuple(r.occurrence_ts for r in state.runs))


def remembered(task: Task, command_id: bytes) -> RecentCommand | None:
    """What the command was answered, if the task still knows."""
    spec, state = task
    if state is None:
        return None
    for recent in state.recent:
        if recent.command_id == command_id:
            return recent
    if spec is not None and command_id_of(spec.command) == command_id:
        return RecentCommand(command_id, spec.answer, "")
    return None


def remember(task: Task, recent: RecentCommand) -> Task:
    if task.state is None:
        return task
    kept = (*task.state.recent, recent)[-RECENT_COMMANDS:]
    return Task(task.spec, task.state._replace(recent=kept))
