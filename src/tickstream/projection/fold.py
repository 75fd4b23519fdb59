"""The fold: what was shown of some tasks, and one step of their bucket's log, give what changes.

Pure: no database, no Kafka, no clock may enter here. The rules:

- a task waits at `next_occurrence_ts` when its spec and its state are of equal rev;
- each run in its state stands as `dispatched` at its own occurrence, under the columns of the
  definition it was dispatched under (empty where that definition was never seen);
- an outcome stands as a finished row at its occurrence;
- of several rows of one occurrence the highest rev is shown, at equal rev the finished one. A
  finished row that loses is kept aside, since a replace may take the newer row away again.

A finished row outlives its spec, so it keeps the listing columns: queue and handler come from the
History record, the handler of what never ran and the labels from the definition of the same rev.
After a rebuild from a compacted changelog those definitions are gone: labels of rows that
finished before it are then unknown (empty).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from tickstream.model import NEVER, History, Outcome, Phase, Rev, TaskState
from tickstream.projection import lateness
from tickstream.projection.keys import minute_of
from tickstream.projection.lateness import Stage
from tickstream.projection.rows import (
    NO_TASK,
    UNKNOWN,
    Columns,
    Definition,
    Failure,
    LiveRow,
    Position,
    Row,
    TaskRecord,
)

FINISHED: Final = frozenset({Phase.SUCCEEDED, Phase.DEAD, Phase.CANCELLED})
_RANK: Final = {Phase.SCHEDULED: 0, Phase.DISPATCHED: 1} | dict.fromkeys(FINISHED, 2)

Occurrence = tuple[str, int]
"""(task_id, occurrence_ts)"""


class Step(NamedTuple):
    """A stretch of one bucket's log, decoded: from one whole step's end to a later one's."""

    bucket: int
    definitions: dict[str, list[Definition | None]]
    """By task, every TaskSpec of the stretch in log order; None is its tombstone."""
    states: dict[str, TaskState | None]
    """By task, the last TaskState of the stretch."""
    outcomes: Sequence[History]
    position: Position
    """Where the bucket stands after it."""


class View(Protocol):
    """What was there before."""

    def task(self, task_id: str) -> TaskRecord | None:
        """The task's record."""
        ...

    def finished(self, task_id: str, occurrence_ts: int) -> Row | None:
        """The finished row of an occurrence, shown or superseded."""
        ...


@dataclass(slots=True)
class Changes:
    """What becomes different. Rows, tasks: None is a deletion. Counters: differences."""

    live: dict[tuple[Phase, str, int], Row | None] = field(default_factory=dict)
    """Rows from `timers` as shown, by (SCHEDULED or DISPATCHED, task_id, occurrence_ts)."""
    finished: dict[Occurrence, Row] = field(default_factory=dict)
    tasks: dict[str, TaskRecord | None] = field(default_factory=dict)
    counts: Counter[tuple[Phase, int, str]] = field(default_factory=Counter)
    """Rows shown, by (state, minute, queue)."""
    lateness: dict[tuple[int, Stage], Counter[int]] = field(default_factory=dict)
    """By the minute in which the outcome was applied."""
    failures: list[Failure] = field(default_factory=list)
    positions: dict[int, Position] = field(default_factory=dict)


def fold(steps: Iterable[Step], view: View) -> Changes:
    """What `steps`, of different buckets, make of `view`."""
    changes = Changes()
    for step in steps:
        outcomes: dict[str, list[History]] = {}
        for outcome in step.outcomes:
            outcomes.setdefault(outcome.task_id, []).append(outcome)
            _note(outcome, changes)
        for task_id in step.definitions.keys() | step.states.keys() | outcomes.keys():
            _fold_task(task_id, step, outcomes.get(task_id, ()), view, changes)
        changes.positions[step.bucket] = step.position
    return changes


def _note(outcome: History, changes: Changes) -> None:
    minute = minute_of(outcome.at_ms)
    for stage, ms in lateness.stages(outcome):
        changes.lateness.setdefault((minute, stage), Counter())[lateness.bucket_of(ms)] += 1
    if outcome.outcome is Outcome.DEAD:
        changes.failures.append(
            Failure(
                outcome.at_ms,
                outcome.task_id,
                outcome.occurrence_ts,
                outcome.queue,
                outcome.handler,
                outcome.attempt,
                outcome.worker,
                outcome.error,
            )
        )


def _fold_task(task_id: str, step: Step, outcomes: Sequence[History], view: View, changes: Changes) -> None:
    before = view.task(task_id) or NO_TASK
    definitions = step.definitions.get(task_id, ())
    columns = _columns_by_rev(before, definitions)
    definition = definitions[-1] if definitions else before.definition
    state = step.states.get(task_id, before.state)
    live = live_rows(task_id, definition, state, columns)

    ended: dict[int, Row] = {}
    for outcome in outcomes:
        row = finished_row(outcome, columns.get(outcome.rev, UNKNOWN))
        if row.occurrence_ts not in ended or row.rev >= ended[row.occurrence_ts].rev:
            ended[row.occurrence_ts] = row

    old = {entry.row.occurrence_ts: entry for entry in before.live}
    shown: dict[int, bool] = {}
    for occurrence in old.keys() | live.keys() | ended.keys():
        shown[occurrence] = _fold_occurrence(
            old.get(occurrence),
            live.get(occurrence),
            view.finished(task_id, occurrence),
            ended.get(occurrence),
            changes,
        )
    entries = tuple(LiveRow(row, shown[occurrence]) for occurrence, row in sorted(live.items()))
    gone = definition is None and state is None
    changes.tasks[task_id] = None if gone else TaskRecord(definition, state, entries)


def _columns_by_rev(before: TaskRecord, definitions: Sequence[Definition | None]) -> dict[Rev, Columns]:
    """The columns of every definition of the task that is known at this step."""
    known = {entry.row.rev: entry.row.columns for entry in before.live}
    for definition in (before.definition, *definitions):
        if definition is not None:
            known[definition.rev] = definition.columns
    return known


def live_rows(
    task_id: str, definition: Definition | None, state: TaskState | None, columns: dict[Rev, Columns]
) -> dict[int, Row]:
    """The rows that a task has by `timers` alone, by occurrence."""
    rows: dict[int, Row] = {}
    if state is None:
        return rows
    for run in state.runs:
        row = _unfinished(
            task_id,
            run.occurrence_ts,
            Phase.DISPATCHED,
            run.rev,
            columns.get(run.rev, UNKNOWN),
            run.attempt,
            run.decided_ms,
        )
        other = rows.get(run.occurrence_ts)
        if other is None or (row.rev, row.attempt) > (other.rev, other.attempt):
            rows[run.occurrence_ts] = row
    waits = state.next_occurrence_ts
    if waits != NEVER and definition is not None and definition.rev == state.rev:
        row = _unfinished(task_id, waits, Phase.SCHEDULED, state.rev, definition.columns)
        if waits not in rows or row.rev > rows[waits].rev:
            rows[waits] = row
    return rows


def _unfinished(
    task_id: str,
    occurrence_ts: int,
    state: Phase,
    rev: Rev,
    columns: Columns,
    attempt: int = 0,
    decided_ms: int = NEVER,
) -> Row:
    return Row(
        task_id, occurrence_ts, state, *columns, attempt, "", decided_ms, NEVER, NEVER, NEVER, "", *rev
    )


def finished_row(outcome: History, columns: Columns) -> Row:
    """The row of an outcome; `columns` are those of the definition it belongs to."""
    return Row(
        outcome.task_id,
        outcome.occurrence_ts,
        Phase(outcome.outcome.value.lower()),
        outcome.queue,
        outcome.handler or columns.handler,
        columns.labels,
        outcome.attempt,
        outcome.worker,
        outcome.decided_ms,
        outcome.fetched_ms,
        outcome.started_ms,
        outcome.ended_ms,
        outcome.error,
        *outcome.rev,
    )


def wins(row: Row, other: Row) -> bool:
    """Whether `row` is shown where `other` stands at the same occurrence."""
    return (row.rev, _RANK[row.state]) >= (other.rev, _RANK[other.state])


def _fold_occurrence(
    old: LiveRow | None,
    new: Row | None,
    stood: Row | None,
    ended: Row | None,
    changes: Changes,
) -> bool:
    """One occurrence: its row from `timers` before and after, its finished row before and in this step.

    Returns whether the row from `timers` is the one shown.
    """
    finished = ended if stood is None or (ended is not None and ended.rev >= stood.rev) else stood
    live_shown = new is not None and (finished is None or not wins(finished, new))
    if finished is not None:
        finished = finished._replace(superseded=live_shown)
        if finished != stood:
            changes.finished[finished.task_id, finished.occurrence_ts] = finished

    before = old.row if old is not None and old.shown else None
    after = new if live_shown else None
    if before != after:
        if before is not None:
            changes.live[before.state, before.task_id, before.occurrence_ts] = None
        if after is not None:
            changes.live[after.state, after.task_id, after.occurrence_ts] = after

    for row in _counted(before, stood):
        changes.counts[_counter(row)] -= 1
    for row in _counted(after, finished):
        changes.counts[_counter(row)] += 1
    return live_shown


def _counted(live: Row | None, finished: Row | None) -> Iterator[Row]:
    if live is not None:
        yield live
    if finished is not None and not finished.superseded:
        yield finished


def _counter(row: Row) -> tuple[Phase, int, str]:
    return row.state, minute_of(row.occurrence_ts), row.queue
