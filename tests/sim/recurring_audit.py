"""Recurring tasks: every instant that the rule names is dispatched once, or skipped for a reason that is true.

Instants are rules.py's, an oracle of its own. Nothing of tickstream.dispatcher or .recurrence may enter here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from tests.sim.evidence import End, Evidence, Out
from tests.sim.rules import between, instants
from tests.sim.shown import clock_error_ms
from tests.sim.turns import Occurrence, Turn, definition, triggered
from tickstream.codec import SPEC
from tickstream.model import NEVER, Misfire, Outcome, Overlap, Recurrence, Rev, Verb
from tickstream.testing.sim import Result

Finding = tuple[str, str, str]
"""(promise, what, task_id)"""


class _Span(NamedTuple):
    """A definition that recurs, while it stood."""

    task_id: str
    rev: Rev
    rule: Recurrence
    since_ms: int
    """When it was accepted."""
    until_ms: int
    """When the next word on its definition was accepted, NEVER: none was."""


def broken(result: Result, evidence: Evidence, by_bucket: list[list[Turn]]) -> Iterator[Finding]:
    """Everything that is not as its rule and its policies say."""
    works: dict[str, list[Out]] = defaultdict(list)
    for out in evidence.works:
        if out.work.attempt == 1:
            works[out.work.task_id].append(out)
    skips: dict[str, list[End]] = defaultdict(list)
    for end in evidence.ends:
        if end.history.outcome is Outcome.SKIPPED:
            skips[end.history.task_id].append(end)
    yield from _dispatched(evidence, works)
    yield from _skipped(evidence, skips)
    yield from _overlapping(evidence, by_bucket)
    if not result.open:
        error_ms = clock_error_ms(result.plan)
        paused = {task_id for task_id, state in evidence.states.items() if state.extras.paused}
        for span in _spans(evidence):
            if span.task_id in paused:
                continue  # what stays paused has no end to come to
            yield from _accounted(span, works[span.task_id], skips[span.task_id], error_ms)


def _rule(evidence: Evidence, bucket: int, rev: Rev) -> Recurrence | None:
    asked = definition(evidence, bucket, rev)
    return None if asked is None else asked.options.recurrence


def _dispatched(evidence: Evidence, works: dict[str, list[Out]]) -> Iterator[Finding]:
    """At an instant of the rule, not before it, and in time where what is late is to be skipped."""
    for task_id, found in works.items():
        for out in found:
            work = out.work
            asked = definition(evidence, work.bucket, work.rev)
            rule = None if asked is None else asked.options.recurrence
            if rule is None or triggered(out, asked):
                continue  # what nobody triggered is the auditor's to find
            if work.decided_ms < work.occurrence_ts:
                yield "G3", f"{task_id} at {work.occurrence_ts} was dispatched at {work.decided_ms}", task_id
            late_ms = work.decided_ms - work.occurrence_ts - rule.jitter_ms
            waits = rule.overlap is Overlap.QUEUE
            if rule.misfire is Misfire.SKIP and not waits and late_ms > rule.grace_ms:
                yield (
                    "G4",
                    f"{task_id} at {work.occurrence_ts} was missed by {late_ms} ms, and dispatched",
                    task_id,
                )


def _skipped(evidence: Evidence, skips: dict[str, list[End]]) -> Iterator[Finding]:
    """Of instants of the rule, as many as it says, for a reason that the policies allow."""
    for task_id, found in skips.items():
        for end in found:
            history = end.history
            rule = _rule(evidence, end.bucket, history.rev)
            if rule is None:
                yield "G4", f"{task_id} at {history.occurrence_ts} was skipped, and does not recur", task_id
                continue
            last = history.occurrence_ts if history.through_ts == NEVER else history.through_ts
            named = between(rule, history.occurrence_ts, last)
            if not named or (named[0], named[-1]) != (history.occurrence_ts, last):
                yield (
                    "G4",
                    f"{task_id}: {history.occurrence_ts} to {last} were skipped, its rule names {named}",
                    task_id,
                )
            elif len(named) != history.occurrences:
                what = f"{history.occurrences} skips of {len(named)} occurrences"
                yield "G4", f"{task_id} at {history.occurrence_ts}: {what}", task_id
            why = history.error.partition(":")[0]
            late_ms = history.at_ms - last
            if why == "misfire" and late_ms <= rule.grace_ms:
                yield "G4", f"{task_id} at {last}: called missed after {late_ms} ms", task_id
            if why == "overlap" and rule.overlap is not Overlap.SKIP:
                yield "G4", f"{task_id} at {last}: skipped for an overlap that its policy allows", task_id
            if why in ("misfire", "pause", "gate") and rule.misfire is Misfire.ALL:
                yield "G4", f"{task_id} at {last}: skipped ({why}) although all are to be caught up", task_id


def _overlapping(evidence: Evidence, by_bucket: list[list[Turn]]) -> Iterator[Finding]:
    """Where they are to follow one another, none is dispatched while another of its task is in flight."""
    for bucket in by_bucket:
        flying: dict[str, set[int]] = defaultdict(set)
        for turn in bucket:
            ended: set[Occurrence] = {(e.history.task_id, e.history.occurrence_ts) for e in turn.ends}
            for out in turn.first:
                work = out.work
                asked = definition(evidence, turn.bucket, work.rev)
                rule = None if asked is None else asked.options.recurrence
                if rule is None or triggered(out, asked) or rule.overlap not in (Overlap.SKIP, Overlap.QUEUE):
                    continue
                others = [at for at in flying[work.task_id] if (work.task_id, at) not in ended]
                if others:
                    what = f"{work.task_id} at {work.occurrence_ts} was dispatched beside that of {others[0]}"
                    yield "G4", what, work.task_id
            for out in turn.first:
                flying[out.work.task_id].add(out.work.occurrence_ts)
            for task_id, occurrence in ended:
                flying[task_id].discard(occurrence)


def _spans(evidence: Evidence) -> Iterator[_Span]:
    """Every definition that stood in the changelog and recurs."""
    for bucket, sent in evidence.commands.items():
        stood = {
            (change.task_id, change.value)
            for change in evidence.changes[bucket]
            if change.kind == SPEC and change.value is not None
        }
        for at, one in enumerate(sent):
            rule = one.command.options.recurrence
            if rule is None or (one.command.task_id, Rev(one.offset, one.item)) not in stood:
                continue
            until = (
                other.record.at_ms
                for other in sent[at + 1 :]
                if other.command.task_id == one.command.task_id
                and other.command.verb in (Verb.SCHEDULE, Verb.CANCEL)
            )
            yield _Span(
                one.command.task_id, Rev(one.offset, one.item), rule, one.record.at_ms, next(until, NEVER)
            )


def _accounted(span: _Span, works: list[Out], skips: list[End], error_ms: int) -> Iterator[Finding]:
    """Every instant that fell due while the definition stood has work or a recorded skip, and not both."""
    dispatched = [out.work.occurrence_ts for out in works]
    recorded = [(e.history.occurrence_ts, max(e.history.occurrence_ts, e.history.through_ts)) for e in skips]
    earlier = [out.work.occurrence_ts for out in works if out.work.rev < span.rev]
    earlier += [max(e.history.occurrence_ts, e.history.through_ts) for e in skips if e.history.rev < span.rev]
    begun = max([span.since_ms, *(at + 1 for at in earlier)])
    named = instants(span.rule)
    for at in named[bisect_left(named, begun) :]:
        skipped = any(first <= at <= last for first, last in recorded)
        if at in dispatched and skipped:
            yield "G4", f"{span.task_id} at {at} was both dispatched and skipped", span.task_id
        due = span.until_ms == NEVER or at + span.rule.jitter_ms < span.until_ms - error_ms
        if due and at not in dispatched and not skipped:
            yield "G4", f"{span.task_id} at {at}: neither dispatched nor skipped", span.task_id
