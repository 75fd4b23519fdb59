"""G7: what a projection showed, held against the log at the very place that it said it was at.

A plain fold of the evidence; nothing of tickstream.projection may enter here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.sim.evidence import FATES, Evidence
from tests.sim.rules import instants
from tickstream.codec import SPEC
from tickstream.model import NEVER, Command, Outcome, Phase, Rev, TaskState
from tickstream.testing.clock import START_MS
from tickstream.testing.sim import Plan, Result
from tickstream.testing.sim.plan import Kind
from tickstream.testing.sim.simulation import FRESH_US, Shown
from tickstream.testing.sim.world import MS

_RANK: Final = {Phase.SCHEDULED: 0, Phase.DISPATCHED: 1, Phase.RUNNING: 1, Phase.RETRYING: 1}
_ENDS: Final = FATES | {Outcome.SKIPPED}
_Place = tuple[str, int]


def lies(result: Result, evidence: Evidence) -> Iterator[str]:
    """Every answer that was not what it claimed to be."""
    error_ms = clock_error_ms(result.plan)
    for view in result.views:
        yield from _too_fresh(view, evidence, error_ms)
        whole = all(not p.restoring for p in view.positions.values())
        if whole:
            yield from _wrong_rows(view, evidence, _compacted_away(view, result, evidence))
    last = result.views[-1]
    if not result.open:
        yield from _stale(last)
    for bucket, position in last.positions.items():
        sent = evidence.commands[bucket]
        behind = sent and (position.commands_offset, position.commands_item) <= (
            sent[-1].offset,
            sent[-1].item,
        )
        if behind and not result.open:
            yield f"bucket {bucket}: shown up to {position.commands_offset}, {sent[-1].offset} was applied"


def _stale(view: Shown) -> Iterator[str]:
    """Where nothing is the matter, an answer is no older than a few seconds."""
    for bucket, position in view.positions.items():
        age_ms = view.at_us // MS + START_MS - position.applied_before_ms
        if age_ms > FRESH_US // MS:
            yield f"bucket {bucket} is shown as of {age_ms} ms ago although nothing is the matter"


def clock_error_ms(plan: Plan) -> int:
    """How far a dispatcher's clock may have been from true time, at most."""
    steps = sum(abs(f.amount) for f in plan.faults if f.kind is Kind.STEP)
    return steps + max(map(abs, plan.offsets_ms), default=0)


def _too_fresh(view: Shown, evidence: Evidence, error_ms: int) -> Iterator[str]:
    """Every command accepted before T is in the answer: staleness is never understated."""
    for bucket, position in view.positions.items():
        for sent in evidence.commands[bucket]:
            before = sent.record.true_us // MS + START_MS < position.applied_before_ms - error_ms
            inside = (sent.offset, sent.item) < (position.commands_offset, position.commands_item)
            if before and not inside:
                yield (
                    f"bucket {bucket} claims to hold all before {position.applied_before_ms}, "
                    f"and lacks {sent.offset}:{sent.item}"
                )
                return


def _compacted_away(view: Shown, result: Result, evidence: Evidence) -> set[str]:
    """Tasks of which a reader may have missed a change below the view's position.

    A projection that is behind compaction meets only what a later record, beyond its position, replaced it by.
    """
    cleaned = [f.at_us for f in result.plan.faults if f.kind is Kind.COMPACT]
    missed: set[str] = set()
    if not cleaned or view.at_us < min(cleaned):
        return missed
    for bucket, position in view.positions.items():
        left = {r.offset for r in result.broker.partitions[evidence.names.timers, bucket].records}
        last = {
            (change.task_id, change.kind): change.offset
            for change in evidence.changes[bucket]
            if change.offset < position.timers
        }
        missed |= {task_id for (task_id, _), offset in last.items() if offset not in left}
    return missed


def _wrong_rows(view: Shown, evidence: Evidence, missed: set[str]) -> Iterator[str]:
    expected = _rows(view, evidence)
    if expected == view.rows:
        return
    for place in sorted(expected.keys() | view.rows.keys()):
        if place[0] in missed:
            continue
        want, have = expected.get(place, "nothing"), view.rows.get(place, "nothing")
        if want != have:
            yield f"{place} is shown as {have}, the log says {want}"
            return


def _waiting(state: TaskState, asked: Command) -> Iterator[tuple[int, Phase]]:
    """What waits of a task: its next occurrence, those that its rule names after it, those that had no turn yet."""
    if state.next_occurrence_ts != NEVER:
        if asked.options.recurrence is not None:
            phase = Phase.PAUSED if state.extras.paused else Phase.SCHEDULED
            for at in instants(asked.options.recurrence):
                if at > state.next_occurrence_ts:
                    yield at, phase
        yield state.next_occurrence_ts, state.phase
    for at in state.extras.queued:
        yield at, Phase.HELD


def _rows(view: Shown, evidence: Evidence) -> dict[_Place, str]:
    """(task_id, occurrence_ts) → state, by what lies below the view's positions."""
    best: dict[_Place, tuple[Rev, int, str]] = {}

    def stand(task_id: str, occurrence: int, rev: Rev, rank: int, state: str) -> None:
        old = best.get((task_id, occurrence))
        if old is None or (rev, rank) >= old[:2]:
            best[task_id, occurrence] = (rev, rank, state)

    for bucket, position in view.positions.items():
        specs: dict[str, object] = {}
        states: dict[str, TaskState] = {}
        for change in evidence.changes[bucket]:
            if change.offset >= position.timers:
                break
            target: dict[str, object] = specs if change.kind == SPEC else states  # type: ignore[assignment]
            if change.value is None:
                target.pop(change.task_id, None)
            else:
                target[change.task_id] = change.value
        for task_id, state in states.items():
            if specs.get(task_id) == state.rev:
                for at, phase in _waiting(state, evidence.definitions[bucket, state.rev]):
                    stand(task_id, at, state.rev, 0, phase.value)
            for run in state.runs:
                stand(task_id, run.occurrence_ts, run.rev, _RANK[run.phase], run.phase.value)
        for end in evidence.ends:
            history = end.history
            if (
                end.bucket == bucket
                and history.number <= position.history_number
                and history.outcome in _ENDS
            ):
                rank = 1 + history.number
                stand(
                    history.task_id, history.occurrence_ts, history.rev, rank, history.outcome.value.lower()
                )
    return {place: state for place, (_, _, state) in best.items()}
