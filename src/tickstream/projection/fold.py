"""The fold: what was shown of some tasks, and one step of their bucket's log, give what changes.

Pure: no database, no Kafka, no clock may enter here. The rules:

- a task waits at `next_occurrence_ts` when its spec and its state are of equal rev;
- a recurring task stands at the occurrences of a day from there on (series.py), and at those that
  wait for a run in flight to end;
- each run in its state stands as `dispatched`, once claimed as `running`, and as `retrying` while
  its next attempt waits, at its own occurrence, under the columns of the definition it was
  dispatched under (empty where that definition was never seen);
- an outcome stands as a finished row at its occurrence; one that only ended an attempt is listed
  with the attempts, and the occurrence goes on;
- of several rows of one occurrence the highest rev is shown, at equal rev the finished one. A
  finished row that loses is kept aside, since a replace may take the newer row away again.

A finished row outlives its spec, so it keeps the listing columns: queue and handler come from the
History record, the handler of what never ran and the labels from the definition of the same rev.
After a rebuild from a compacted changelog those definitions are gone: labels of rows that
finished before it are then unknown (empty).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from tickstream.model import NEVER, History, Outcome, Phase, Rev, RunState, TaskState
from tickstream.projection import lateness
from tickstream.projection.keys import minute_of
from tickstream.projection.lateness import Stage
from tickstream.projection.rows import (
    NO_TASK,
    UNKNOWN,
    Attempt,
    BookingChange,
    Change,
    ChangeKind,
    Columns,
    Coming,
    Definition,
    Failure,
    LiveRow,
    Position,
    Row,
    TaskRecord,
    waiting,
)
from tickstream.projection.series import coming_of, stands_at, to_come

FINISHED: Final = frozenset({Phase.SUCCEEDED, Phase.DEAD, Phase.CANCELLED, Phase.SKIPPED})
WAITING: Final = frozenset({Phase.SCHEDULED, Phase.PAUSED, Phase.HELD, Phase.FAULTED})
IN_FLIGHT: Final = frozenset({Phase.DISPATCHED, Phase.RUNNING, Phase.RETRYING})
_RANK: Final = dict.fromkeys(WAITING, 0) | dict.fromkeys(IN_FLIGHT, 1) | dict.fromkeys(FINISHED, 2)

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
    bookings: Mapping[str, BookingChange] = {}
    """By task, what became last of the event that it is."""


class View(Protocol):
    """What was there before."""

    def task(self, task_id: str) -> TaskRecord | None:
        """The task's record."""
        ...

    def finished(self, task_id: str, occurrence_ts: int) -> Row | None:
        """The finished row of an occurrence, shown or superseded."""
        ...

    def position(self, bucket: int) -> Position:
        """Where the bucket stands."""
        ...


@dataclass(slots=True)
class Changes:
    """What becomes different. Rows, tasks: None is a deletion. Counters: differences."""

    live: dict[tuple[bool, str, int], Row | None] = field(default_factory=dict)
    """Rows from `timers` as shown, by (in flight, task_id, occurrence_ts)."""
    finished: dict[Occurrence, Row] = field(default_factory=dict)
    tasks: dict[str, TaskRecord | None] = field(default_factory=dict)
    counts: Counter[tuple[Phase, int, str]] = field(default_factory=Counter)
    """Rows shown, by (state, minute, queue)."""
    lateness: dict[tuple[int, Stage], Counter[int]] = field(default_factory=dict)
    """By the minute in which the outcome was applied."""
    attempts: list[Attempt] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    frontiers: dict[tuple[int, str], Coming | None] = field(default_factory=dict)
    """By (frontier, task_id), what comes behind it."""
    positions: dict[int, Position] = field(default_factory=dict)
    events: list[Change] = field(default_factory=list)
    bookings: dict[str, BookingChange] = field(default_factory=dict)


def fold(steps: Iterable[Step], view: View) -> Changes:
    """What `steps`, of different buckets, make of `view`."""
    changes = Changes()
    for step in steps:
        outcomes: dict[str, list[History]] = {}
        for outcome in step.outcomes:
            outcomes.setdefault(outcome.task_id, []).append(outcome)
        for task_id in step.definitions.keys() | step.states.keys() | outcomes.keys():
            _fold_task(task_id, step, outcomes.get(task_id, ()), view, changes)
        changes.positions[step.bucket] = step.position
        changes.bookings.update(step.bookings)
        changes.events += _moves(step.bucket, view.position(step.bucket), step.position)
    return changes


def _moves(bucket: int, before: Position, after: Position) -> Iterator[Change]:
    """What another Progress says about the installation than the one before it."""
    if not before.applied_before_ms or not after.applied_before_ms:
        return
    at = after.applied_before_ms
    if before.tzdata != after.tzdata:
        yield Change(at, ChangeKind.TZDATA, bucket, {"before": before.tzdata, "after": after.tzdata})
    if before.layout != after.layout:
        yield Change(at, ChangeKind.LAYOUT, bucket, {"before": before.layout, "after": after.layout})


def _note(outcomes: Sequence[History], before: TaskState | None, changes: Changes) -> None:
    """What outcomes of a task leave besides their rows. A retry is no start of the occurrence."""
    failed = {run.occurrence_ts for run in before.runs if run.failures} if before is not None else set()
    for outcome in outcomes:
        if outcome.outcome is Outcome.MOVED:
            changes.attempts.append(attempt_of(outcome))
            continue
        if outcome.occurrence_ts not in failed:
            minute = minute_of(outcome.at_ms)
            for stage, ms in lateness.stages(outcome):
                changes.lateness.setdefault((minute, stage), Counter())[lateness.bucket_of(ms)] += 1
        if not outcome.outcome.terminal:
            failed.add(outcome.occurrence_ts)
        if not outcome.outcome.terminal or outcome.result:
            changes.attempts.append(attempt_of(outcome))
        if outcome.outcome is Outcome.DEAD:
            changes.failures.append(_failure(outcome))


def attempt_of(outcome: History) -> Attempt:
    """The attempt that an outcome ended."""
    return Attempt(
        outcome.task_id,
        outcome.occurrence_ts,
        outcome.number,
        outcome.attempt,
        outcome.outcome,
        outcome.at_ms,
        outcome.worker,
        outcome.decided_ms,
        outcome.fetched_ms,
        outcome.started_ms,
        outcome.ended_ms,
        outcome.error,
        outcome.result.decode("utf-8", "replace"),
    )


def _failure(outcome: History) -> Failure:
    return Failure(
        outcome.at_ms,
        outcome.task_id,
        outcome.occurrence_ts,
        outcome.queue,
        outcome.handler,
        outcome.attempt,
        outcome.worker,
        outcome.error,
    )


def _fold_task(task_id: str, step: Step, outcomes: Sequence[History], view: View, changes: Changes) -> None:
    before = view.task(task_id) or NO_TASK
    definitions = step.definitions.get(task_id, ())
    columns = _columns_by_rev(before, definitions)
    definition = definitions[-1] if definitions else before.definition
    state = step.states.get(task_id, before.state)
    known = _known_occurrences(before, definition)
    live, frontier = live_rows(task_id, definition, state, columns, known)
    _note(outcomes, before.state, changes)

    ended: dict[int, Row] = {}
    for outcome in outcomes:
        if not outcome.outcome.terminal:
            continue
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
    changes.tasks[task_id] = None if gone else TaskRecord(definition, state, entries, frontier)
    if before.frontier not in (NEVER, frontier):
        changes.frontiers[before.frontier, task_id] = None
    if frontier != NEVER and definition is not None and state is not None:
        changes.frontiers[frontier, task_id] = coming_of(definition, state)


def _known_occurrences(before: TaskRecord, definition: Definition | None) -> list[int]:
    """The occurrences that had rows under this very definition."""
    if definition is None or definition.recurrence is None or before.definition != definition:
        return []
    return [entry.row.occurrence_ts for entry in before.live if entry.row.state in WAITING]


def _columns_by_rev(before: TaskRecord, definitions: Sequence[Definition | None]) -> dict[Rev, Columns]:
    """The columns of every definition of the task that is known at this step."""
    known = {entry.row.rev: entry.row.columns for entry in before.live}
    for definition in (before.definition, *definitions):
        if definition is not None:
            known[definition.rev] = definition.columns
    return known


def live_rows(
    task_id: str,
    definition: Definition | None,
    state: TaskState | None,
    columns: dict[Rev, Columns],
    known: Sequence[int] = (),
) -> tuple[dict[int, Row], int]:
    """The rows that a task has by `timers` alone, by occurrence; and its frontier (series.py).

    `known`: occurrences that had rows under the same definition.
    """
    rows: dict[int, Row] = {}
    frontier = NEVER
    if state is None:
        return rows, frontier
    for run in state.runs:
        row = _in_flight(task_id, run, columns.get(run.rev, UNKNOWN))
        other = rows.get(run.occurrence_ts)
        if other is None or (row.rev, row.attempt) > (other.rev, other.attempt):
            rows[run.occurrence_ts] = row
    waits = state.next_occurrence_ts
    if waits != NEVER and definition is not None and definition.rev == state.rev:
        listed = stands_at(state)
        row = waiting(task_id, listed, state.phase, definition)
        if listed not in rows or row.rev > rows[listed].rev:
            rows[listed] = row
        if definition.recurrence is not None and state.phase is not Phase.FAULTED:
            coming, frontier = to_come(definition.recurrence, state, known)
            phase = Phase.PAUSED if state.extras.paused else Phase.SCHEDULED
            for at in coming[1:]:
                rows.setdefault(at, waiting(task_id, at, phase, definition))
    if definition is not None and definition.rev == state.rev:
        for at in state.extras.queued:
            rows.setdefault(at, waiting(task_id, at, Phase.HELD, definition))
    return rows, frontier


def _in_flight(task_id: str, run: RunState, columns: Columns) -> Row:
    """The row of an attempt that is out, or of the one that its occurrence waits for."""
    return Row(
        task_id,
        run.occurrence_ts,
        run.phase,
        *columns,
        attempt=run.attempt,
        worker=run.worker,
        decided_ms=run.decided_ms,
        fetched_ms=NEVER,
        started_ms=run.started_ms,
        ended_ms=NEVER,
        retry_at_ms=run.retry_at_ms,
        error="",
        rev_offset=run.rev.offset,
        rev_item=run.rev.item,
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
        NEVER,
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
            changes.live[_place(before)] = None
        if after is not None:
            changes.live[_place(after)] = after

    for row in _counted(before, stood):
        changes.counts[_counter(row)] -= 1
    for row in _counted(after, finished):
        changes.counts[_counter(row)] += 1
    return live_shown


def _place(row: Row) -> tuple[bool, str, int]:
    return row.state in IN_FLIGHT, row.task_id, row.occurrence_ts


def _counted(live: Row | None, finished: Row | None) -> Iterator[Row]:
    if live is not None:
        yield live
    if finished is not None and not finished.superseded:
        yield finished


def _counter(row: Row) -> tuple[Phase, int, str]:
    return row.state, minute_of(row.occurrence_ts), row.queue
