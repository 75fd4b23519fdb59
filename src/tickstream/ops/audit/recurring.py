"""Occurrences of recurring tasks against their rule: the constraint beside those of checks.py.

Only model may enter here.
"""

from __future__ import annotations

from collections.abc import Iterator

from tickstream.model import Outcome, Verb
from tickstream.ops.audit.facts import Rule
from tickstream.ops.audit.history import Case
from tickstream.ops.audit.report import Example
from tickstream.ops.audit.rules import may_name


def off_rule(case: Case) -> Iterator[Example]:
    """Work, or a skip, at an instant that the rule of its definition surely does not name.

    As many as were triggered by hand are none of the rule's. Events and reminders may be moved one by one.
    """
    history, bounds = case.history, case.bounds
    rules: dict[object, Rule] = {c.rev: c.rule for c in history.asked if c.rule is not None}
    if not rules or history.moves or bounds.cut(bounds.names.commands, history.bucket):
        return
    by_hand = len({c.command_id for c in history.asked if c.verb is Verb.TRIGGER})
    for work in history.dispatched:
        rule = rules.get(work.rev)
        if work.attempt > 1 or rule is None or may_name(rule, work.occurrence_ts):
            continue
        if by_hand > 0:
            by_hand -= 1
            continue
        records = (case.work_at(work), case.command_at(work.rev))
        yield Example(history.task_id, work.occurrence_ts, "dispatched, and no instant of its rule", records)
    for end in history.ended:
        rule = rules.get(end.rev)
        if end.outcome is not Outcome.SKIPPED or rule is None:
            continue
        for at in sorted({end.occurrence_ts, max(end.occurrence_ts, end.through_ts)}):
            if not may_name(rule, at):
                records = (case.history_at(end), case.command_at(end.rev))
                yield Example(history.task_id, at, "skipped, and no instant of its rule", records)
