"""Commands about a queue: pause, resume, limits. Each bucket gets its own copy and answers for itself.

Pure, like engine.py.
"""

from __future__ import annotations

from tickstream.dispatcher.decision import Answer, Rules
from tickstream.model import (
    EVERY_QUEUE,
    NO_LIMIT,
    RECENT_COMMANDS,
    Command,
    QueueLimits,
    QueueState,
    RecentCommand,
    Verb,
    VerdictKind,
)


def apply_queue_command(state: QueueState, command: Command, rules: Rules) -> tuple[QueueState, Answer]:
    """What a command makes of the queue in this bucket. A re-send of a remembered one changes nothing."""
    for recent in state.recent:
        if recent.command_id == command.command_id:
            return state, Answer(recent.kind, "", detail=recent.detail)
    objection = _objection(command, rules)
    if objection:
        return state, Answer(VerdictKind.REJECTED, "", detail=objection)
    match command.verb:
        case Verb.PAUSE_QUEUE:
            kind, changed = VerdictKind.PAUSED, state._replace(paused=True)
        case Verb.RESUME_QUEUE:
            kind, changed = VerdictKind.RESUMED, state._replace(paused=False)
        case _:
            kind, changed = VerdictKind.LIMITED, state._replace(limits=_limits(command))
    kept = (*state.recent, RecentCommand(command.command_id, kind, ""))[-RECENT_COMMANDS:]
    return changed._replace(recent=kept), Answer(kind, "")


def _limits(command: Command) -> QueueLimits | None:
    limits = command.options.limits
    return None if limits is None or (limits.max_running, limits.starts) == (NO_LIMIT, NO_LIMIT) else limits


def _objection(command: Command, rules: Rules) -> str:
    """Why it cannot be done; empty: it can."""
    if command.queue == EVERY_QUEUE:
        return "limits are set for one queue, by its name" if command.verb is Verb.LIMIT_QUEUE else ""
    if command.queue not in rules.queues:
        return f"queue {command.queue!r} does not exist; there are: {', '.join(sorted(rules.queues))}"
    limits = command.options.limits
    if command.verb is Verb.LIMIT_QUEUE and limits is not None:
        bad = (
            limits.max_running < NO_LIMIT
            or limits.starts < NO_LIMIT
            or 0 in (limits.max_running, limits.starts)
        )
        if bad or limits.per_ms < 1:
            return f"{limits}: at least 1 each, or -1 for no limit; to stop a queue, pause it"
    return ""
