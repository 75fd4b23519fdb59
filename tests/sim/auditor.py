"""The promises G1–G8 as constraints over what was committed, what clients heard and what was shown.

It knows nothing of how a dispatcher, a worker or a projection goes about it. The checks of
`tickstream audit` are among these (ops_audit.py); what is here besides needs what only a simulation
knows: true time, every verdict, every state of the projection.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.sim import gates_audit, ops_audit, recurring_audit, shown
from tests.sim.evidence import FATES, End, Evidence, Out, Said, decided_us
from tests.sim.rules import instants
from tests.sim.turns import definition, triggered, turns
from tickstream.model import NEVER, RECENT_COMMANDS, Outcome, ReportKind, Verb, VerdictKind
from tickstream.testing.sim import Result
from tickstream.testing.sim.plan import Kind
from tickstream.testing.sim.world import MS

_DEFINING = (Verb.SCHEDULE, Verb.RESCHEDULE)
_Run = tuple[str, int, int]
"""(task_id, occurrence_ts, attempt)"""


class Violation(NamedTuple):
    """A promise broken, and where it shows."""

    promise: str
    """G1 … G8; "fault": the program itself failed."""
    what: str
    task_id: str = ""
    """Of the task it concerns, where it concerns one."""


def audit(result: Result, evidence: Evidence) -> list[Violation]:
    """Every promise found broken."""
    evidence.grow(result.broker)
    excused = _excused(result, evidence)
    return [v for v in _all(result, evidence) if not (v.task_id and v.task_id in excused)]


def _excused(result: Result, evidence: Evidence) -> set[str]:
    """Tasks of which anything may be repeated: asked for again after their stub was to be gone (G6)."""
    if result.plan.retention_ms >= 60_000:
        return set()
    asked: dict[str, list[object]] = defaultdict(list)
    for sent in evidence.commands.values():
        for s in sent:
            rule = s.command.options.recurrence
            named = [s.command.when if s.command.when >= 0 else s] if rule is None else instants(rule)
            asked[s.command.task_id] += [s.command.command_id, *named]
    return {task_id for task_id, marks in asked.items() if len(set(marks)) < len(marks)}


def _all(result: Result, evidence: Evidence) -> Iterator[Violation]:
    for what in result.broken:
        yield Violation("fault", what)
    yield from _done(result)
    yield from _one_owner(evidence)
    yield from _numbers(evidence)
    yield from _work(evidence)
    yield from _early(evidence)
    yield from _ends(evidence)
    yield from _who_may_fail(evidence)
    yield from _expiries(evidence)
    yield from _verdicts(result, evidence)
    yield from (Violation("G7", what) for what in shown.lies(result, evidence))
    by_bucket = list(turns(evidence))
    yield from (Violation(*found) for found in recurring_audit.broken(result, evidence, by_bucket))
    gates = gates_audit.broken(evidence, by_bucket, trusted_clocks=trusted_clocks(result))
    yield from (Violation(*found) for found in gates)
    yield from (Violation(*found) for found in ops_audit.findings(result, evidence))


def _done(result: Result) -> Iterator[Violation]:
    """What was accepted, due or dispatched comes to its end within the bound once all is well."""
    for what in result.open:
        if "verdict" in what:
            yield Violation("G6", f"never answered: {what}")
        elif "in flight" in what or "no end" in what:
            yield Violation("G5", f"never ended: {what}")
        else:
            yield Violation("G1", f"never done: {what}")


def _one_owner(evidence: Evidence) -> Iterator[Violation]:
    """Inputs are applied in order, each once: no Progress goes back behind one before it (G2)."""
    for bucket, marks in evidence.marks.items():
        for before, after in itertools.pairwise(marks):
            for name in ("commands", "reports"):
                old, new = getattr(before.progress, name), getattr(after.progress, name)
                if (new.offset, new.item) < (old.offset, old.item):
                    yield Violation(
                        "G2", f"{name}[{bucket}] was applied to {old.offset}, then again from {new.offset}"
                    )
            if after.progress.work_number < before.progress.work_number:
                yield Violation("G2", f"bucket {bucket}: two owners dispatched side by side")


def _numbers(evidence: Evidence) -> Iterator[Violation]:
    """Work and History are numbered in their bucket, without gap and without repetition."""
    work: dict[int, list[int]] = defaultdict(list)
    for out in evidence.works:
        work[out.work.bucket].append(out.work.work_number)
    history: dict[int, list[int]] = defaultdict(list)
    for end in evidence.ends:
        history[end.bucket].append(end.history.number)
    for promise, what, by_bucket in (("G4", "work", work), ("G7", "history", history)):
        for bucket, numbers in by_bucket.items():
            if sorted(numbers) != list(range(1, len(numbers) + 1)):
                yield Violation(promise, f"bucket {bucket}: {what} is numbered {sorted(numbers)}")


def _work(evidence: Evidence) -> Iterator[Violation]:
    """(task, occurrence, attempt) has one Work record, of a Schedule that asked for that instant (G4)."""
    asked = {(s.bucket, s.offset, s.item): s.command for sent in evidence.commands.values() for s in sent}
    triggers: dict[str, set[bytes]] = defaultdict(set)
    for command in asked.values():
        if command.verb is Verb.TRIGGER:
            triggers[command.task_id].add(command.command_id)
    by_hand: Counter[str] = Counter()
    seen: dict[_Run, Out] = {}
    for out in evidence.works:
        work = out.work
        run = (work.task_id, work.occurrence_ts, work.attempt)
        if run in seen:
            yield Violation("G4", f"{run} has two work records", run[0])
        seen[run] = out
        command = asked.get((work.bucket, *work.rev))
        if command is None or command.verb not in _DEFINING or command.task_id != work.task_id:
            yield Violation("G4", f"{run} was dispatched for no command, rev {tuple(work.rev)}")
        elif work.attempt == 1 and triggered(out, definition(evidence, work.bucket, work.rev)):
            by_hand[work.task_id] += 1
            if by_hand[work.task_id] > len(triggers[work.task_id]):
                yield Violation("G4", f"{run}: no instant of its definition, and nobody triggered it", run[0])
    for task, occurrence, attempt in seen:
        if attempt > 1 and (task, occurrence, attempt - 1) not in seen:
            yield Violation("G4", f"{(task, occurrence, attempt)} without the attempt before it")


def _early(evidence: Evidence) -> Iterator[Violation]:
    """Nothing is dispatched before its instant on the dispatcher's clock, unless it says until when to hold it (G3).

    A triggered occurrence has no instant but its dispatch, at the next free ms.
    """
    instants = {(s.command.task_id, s.command.when) for sent in evidence.commands.values() for s in sent}
    for out in evidence.works:
        work = out.work
        if (work.task_id, work.occurrence_ts) not in instants:
            continue
        # A later attempt follows a first one, which some dispatcher's clock allowed.
        if work.attempt == 1 and max(work.decided_ms, work.not_before_ms) < work.occurrence_ts:
            yield Violation(
                "G3", f"{work.task_id} at {work.occurrence_ts} was dispatched at {work.decided_ms}"
            )


def _ends(evidence: Evidence) -> Iterator[Violation]:
    """One terminal outcome per occurrence that was dispatched; nothing follows it (G5)."""
    ends: dict[tuple[str, int], list[End]] = defaultdict(list)
    for end in evidence.ends:
        if end.history.outcome in FATES and end.history.attempt > 0:
            ends[end.history.task_id, end.history.occurrence_ts].append(end)
    works: dict[tuple[str, int], list[Out]] = defaultdict(list)
    for out in evidence.works:
        works[out.work.task_id, out.work.occurrence_ts].append(out)
    for occurrence, found in ends.items():
        if len(found) > 1:
            yield Violation("G5", f"{occurrence} ended {len(found)} times", occurrence[0])
        first = min(found, key=lambda e: decided_us(e.record))
        for out in works[occurrence]:
            later = decided_us(out.record) > decided_us(first.record)
            if later:
                yield Violation(
                    "G5",
                    f"{occurrence}: attempt {out.work.attempt} was dispatched after its end",
                    occurrence[0],
                )
            overtaken = out.work.attempt > first.history.attempt and not later
            if overtaken and first.history.outcome is Outcome.SUCCEEDED:
                yield Violation(
                    "G5",
                    f"{occurrence}: success of attempt {first.history.attempt} counted, {out.work.attempt} is out",
                    occurrence[0],
                )


def _who_may_fail(evidence: Evidence) -> Iterator[Violation]:
    """A failure counts from the run that claimed last: a displaced one ends nobody's work (G5)."""
    for end in evidence.ends:
        history = end.history
        if history.outcome not in (Outcome.ATTEMPT_FAILED, Outcome.DEAD) or not history.run_id:
            continue
        run = (history.task_id, history.occurrence_ts, history.attempt)
        claimed = b""
        counted = False
        for said in _words(evidence, end.bucket, run):
            kind, run_id = said.report.kind, said.report.run_id
            if kind is ReportKind.CLAIMED:
                claimed = run_id
            elif kind is ReportKind.FAILED and run_id == history.run_id:
                # Sent twice, it may have counted either time.
                counted = counted or claimed in (b"", run_id)
        if not counted:
            yield Violation(
                "G5", f"{run}: the failure of a run that another had displaced was counted", run[0]
            )


def _words(evidence: Evidence, bucket: int, run: _Run) -> Iterable[Said]:
    return (
        said
        for said in evidence.reports[bucket]
        if (said.report.task_id, said.report.occurrence_ts, said.report.attempt) == run
    )


def _expiries(evidence: Evidence) -> Iterator[Violation]:
    """A run loses its lease only if nothing of it was accepted for as long as the lease is (G5).

    Whoever claims it anew has the lease from then on; but a claim that was not read yet, accepted once the silence
    had been long enough, comes too late to begin another.
    """
    read = {id(m.record.txn): m.progress.reports.offset for marks in evidence.marks.values() for m in marks}
    leases = {(o.work.task_id, o.work.occurrence_ts, o.work.attempt): o.work.lease_ms for o in evidence.works}
    for end in evidence.ends:
        history = end.history
        expired = history.outcome is Outcome.LEASE_EXPIRED or (
            history.outcome is Outcome.DEAD and history.error.startswith("LeaseExpired")
        )
        if not expired:
            continue
        run = (history.task_id, history.occurrence_ts, history.attempt)
        heard: list[int] = []
        holder = b""
        for said in _words(evidence, end.bucket, run):
            if said.record.true_us >= end.record.true_us:
                break
            if said.report.kind is ReportKind.CLAIMED and said.report.run_id != holder:
                # The same claim sent again says nothing new: it may be as old as the first.
                if holder and said.offset >= read[id(end.record.txn)]:
                    heard.append(said.record.true_us)
                    break
                holder, heard = said.report.run_id, [said.record.true_us]
            elif said.report.kind is ReportKind.HEARTBEAT and said.report.run_id == holder:
                heard.append(said.record.true_us)
        heard.append(end.record.true_us)
        longest = max((b - a for a, b in itertools.pairwise(heard)), default=0)
        # Clocks run up to 0.2 % fast.
        if longest < leases[run] * MS * 0.99:
            yield Violation("G5", f"{run} expired, never silent for longer than {longest // MS} ms", run[0])


def _verdicts(result: Result, evidence: Evidence) -> Iterator[Violation]:
    """A command sent again changes nothing and is answered alike, while its task is remembered (G6)."""
    if result.plan.retention_ms < 60_000:
        return
    first: dict[tuple[int, bytes], tuple[int, int, int]] = {}
    known: dict[str, set[bytes]] = defaultdict(set)
    for sent in evidence.commands.values():
        for s in sent:
            first.setdefault((s.bucket, s.command.command_id), (s.bucket, s.offset, s.item))
            known[s.command.task_id].add(s.command.command_id)
    again = {
        (s.bucket, s.offset, s.item)
        for sent in evidence.commands.values()
        for s in sent
        if first[s.bucket, s.command.command_id] != (s.bucket, s.offset, s.item)
    } - _as_good_as_new(evidence)
    for out in evidence.works:
        few = len(known[out.work.task_id]) <= RECENT_COMMANDS
        if few and (out.work.bucket, *out.work.rev) in again:
            yield Violation(
                "G6", f"{out.work.task_id} was dispatched by a command sent again", out.work.task_id
            )
    answers: dict[bytes, set[VerdictKind]] = defaultdict(set)
    for verdict in evidence.verdicts:
        answers[verdict.command_id].add(verdict.kind)
        few = len(known[verdict.task_id]) <= RECENT_COMMANDS
        kinds = answers[verdict.command_id]
        # What met no task left no trace: sent again without its place, it is as good as new.
        if few and len(kinds) > 1 and VerdictKind.UNKNOWN not in kinds:
            names = sorted(kind.value for kind in kinds)
            yield Violation("G6", f"{verdict.task_id}: one command was answered {' and '.join(names)}")


def _as_good_as_new(evidence: Evidence) -> set[tuple[int, int, int]]:
    """Commands about a task that were first sent before anybody scheduled it: those left no trace."""
    found: set[tuple[int, int, int]] = set()
    for sent in evidence.commands.values():
        scheduled: set[str] = set()
        early: set[bytes] = set()
        for s in sent:
            if s.command.verb is Verb.SCHEDULE:
                scheduled.add(s.command.task_id)
            elif s.command.task_id not in scheduled:
                early.add(s.command.command_id)
            if s.command.command_id in early:
                found.add((s.bucket, s.offset, s.item))
    return found


def trusted_clocks(result: Result) -> bool:
    """Whether all clocks agreed with true time throughout."""
    plan = result.plan
    return not any(plan.offsets_ms) and all(fault.kind is not Kind.STEP for fault in plan.faults)


__all__ = ["NEVER", "Violation", "audit", "trusted_clocks"]
