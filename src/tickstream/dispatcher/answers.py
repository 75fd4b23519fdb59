"""Answers to commands, and what a task remembers of them: a re-send changes nothing.

Pure, like engine.py.
"""

from __future__ import annotations

from tickstream.codec import command_id_of, decode_answer, encode_answer
from tickstream.dispatcher.decision import Answer, Decision, Task
from tickstream.model import NEVER, RECENT_COMMANDS, CalendarAnswer, Command, RecentCommand, VerdictKind


def refuse(
    task: Task,
    command: Command,
    kind: VerdictKind,
    detail: str = "",
    occurrence_ts: int = NEVER,
    *,
    found: CalendarAnswer | None = None,
) -> Decision:
    """An answer that leaves the task as it is, remembered when there is a task to remember it."""
    kept = b"" if found is None else encode_answer(found)
    after = remember(task, RecentCommand(command.command_id, kind, detail, kept))
    return Decision(after, answer=answer_of(task, kind, occurrence_ts, detail, found=found))


def answer_of(
    task: Task,
    kind: VerdictKind,
    occurrence_ts: int = NEVER,
    detail: str = "",
    *,
    found: CalendarAnswer | None = None,
) -> Answer:
    """`found`: by a calendar's check; it stands in for a detail."""
    state = task.state
    if found is not None:
        detail = detail or str(found)
    if state is None:
        return Answer(kind, "", occurrence_ts, detail, found=found)
    if occurrence_ts == NEVER:
        waiting = state.next_occurrence_ts
        occurrence_ts = waiting if waiting != NEVER else state.last_occurrence_ts
    in_flight = tuple([run.occurrence_ts for run in state.runs]) if state.runs else ()
    return Answer(kind, state.phase.value, occurrence_ts, detail, in_flight, found)


def again(task: Task, known: RecentCommand) -> Answer:
    """The answer that a command got when it came first."""
    found = decode_answer(known.found) if known.found else None
    return answer_of(task, known.kind, detail=known.detail, found=found)


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
