"""How a command becomes a task's definition: what ran is kept, what was answered is remembered.

Pure, like engine.py.
"""

from __future__ import annotations

from tickstream.dispatcher.answers import answer_of
from tickstream.dispatcher.decision import Decision, Ended, Judged, Sent, Task, extras_of_one, recent_of
from tickstream.dispatcher.series import Begin, begin, fallen_due, recurs_alike, without_waiting
from tickstream.dispatcher.taking_up import Before, take_up
from tickstream.model import (
    NEVER,
    NO_EXTRAS,
    RECENT_COMMANDS,
    Outcome,
    RecentCommand,
    TaskSpec,
    TaskState,
    VerdictKind,
)
from tickstream.recurrence.zone_data import ZoneData


def define(
    task: Task,
    sent: Sent,
    kind: VerdictKind,
    judged: Judged | None = None,
    zones: ZoneData | None = None,
) -> Decision:
    """The command becomes the task's definition; what ran, and what was answered, is kept.

    An attempt that was only waited for is not made under another definition: the occurrence ends. Raises
    InvalidInput.
    """
    old, command = task.state, sent.command
    recurrence = command.options.recurrence
    skips: tuple[Ended, ...] = ()
    if command.options.event:
        may_end = judged is not None and judged.may_end
        start, skips = take_up(Before(task), command, sent.appended_ms, may_end=may_end)
    elif recurrence is not None and recurs_alike(task, recurrence):
        assert old is not None
        start = Begin(old.next_occurrence_ts, old.extras._replace(held=""))
    else:
        if recurrence is not None:
            start = begin(command.task_id, recurrence, sent.appended_ms, old, zones)
        else:
            start = Begin(command.when, extras_of_one(command.when, command.options.lead_ms))
        # What falls due at its acceptance is the new definition's to name.
        why = "replaced: the task was, before its turn"
        skips, _ = fallen_due(command.task_id, task, sent.appended_ms - 1, why, zones)
    extras, busy_until_ms = start.extras, NEVER if judged is None else judged.busy_until_ms
    if extras.busy_until_ms != busy_until_ms:
        extras = extras._replace(busy_until_ms=busy_until_ms)
    out, called_off = without_waiting(task)
    ended = start.next_occurrence_ts == NEVER and not out
    state = TaskState(
        rev=sent.rev,
        next_occurrence_ts=start.next_occurrence_ts,
        last_occurrence_ts=old.last_occurrence_ts if old else NEVER,
        runs=out,
        outcome=Outcome.CANCELLED if ended else None,
        ended_ms=sent.appended_ms if ended else NEVER,
        recent=recent_of(task),
        extras=NO_EXTRAS if extras is NO_EXTRAS or extras == NO_EXTRAS else extras,
    )
    found = None if judged is None else judged.found
    if judged is not None and judged.encoded:
        # The definition speaks for itself, but not of what the check found.
        recent = RecentCommand(command.command_id, kind, "", judged.encoded)
        state = state._replace(recent=(*state.recent, recent)[-RECENT_COMMANDS:])
    after = Task(TaskSpec(sent.rev, sent.encoded, kind), state)
    answer = answer_of(after, kind, start.next_occurrence_ts, found=found)
    return Decision(after, also_ended=(*called_off, *skips), answer=answer)
