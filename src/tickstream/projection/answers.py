"""Answers as JSON-ready objects: the shapes that docs, clients and the page rely on.

No HTTP and no clock may enter here. A payload is in them only if the projection keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson

from tickstream.model import NEVER, Phase, Recurrence, TaskState
from tickstream.projection import query
from tickstream.projection.cursors import encode_cursor
from tickstream.projection.freshness import Freshness
from tickstream.projection.query import Window
from tickstream.projection.reader import View
from tickstream.projection.rows import Attempt, Payload, Pulse, Row
from tickstream.projection.stored import row_object, time_or_none


def attempt_objects(row: Row, ended: Sequence[Attempt], pulse: Pulse | None) -> list[dict[str, Any]]:
    """Every attempt of an occurrence, in the order of the log.

    `ended`: those noted apart from its row. `pulse`: the heartbeat of the one that runs.
    """
    objects = [
        {
            "occurrence_ts": attempt.occurrence_ts,
            "attempt": attempt.attempt,
            "state": attempt.outcome.value.lower(),
            "worker": attempt.worker,
            "decided_ms": time_or_none(attempt.decided_ms),
            "fetched_ms": time_or_none(attempt.fetched_ms),
            "started_ms": time_or_none(attempt.started_ms),
            "ended_ms": time_or_none(attempt.ended_ms if attempt.ended_ms != NEVER else attempt.at_ms),
            "error": attempt.error,
            "result": attempt.result,
            **said(None),
        }
        for attempt in ended
    ]
    told = bool(ended) and ended[-1].outcome.terminal
    if row.attempt and row.state is not Phase.RETRYING and not told:
        fields = row_object(row)
        objects.append({name: fields[name] for name in _OF_ROW} | {"result": ""} | said(pulse))
    return objects


def said(pulse: Pulse | None) -> dict[str, Any]:
    """What a run's last heartbeat says; nulls when none was heard."""
    if pulse is None:
        return {"heartbeat_ms": None, "progress": None, "note": ""}
    progress = None if pulse.progress == NEVER else pulse.progress / 1_000
    return {"heartbeat_ms": pulse.at_ms, "progress": progress, "note": pulse.note}


_OF_ROW: Final = (
    "occurrence_ts",
    "attempt",
    "state",
    "worker",
    "decided_ms",
    "fetched_ms",
    "started_ms",
    "ended_ms",
    "error",
)


def page(view: View, window: Window, fresh: Freshness) -> bytes:
    """A page of /api/tasks, as JSON: the rows as they are stored. `visited`: rows looked at for it."""
    found = query.rows_in(view, window)
    rest = {"cursor": encode_cursor(found.cursor), "visited": found.visited, **fresh.fields()}
    return b'{"rows":[' + b",".join(found.values) + b"]," + orjson.dumps(rest)[1:]


def task(view: View, task_id: str, fresh: Freshness) -> dict[str, Any]:
    """The answer of /api/tasks/{task_id}: `task` is null when nothing is known of it."""
    found = query.task(view, task_id)
    return {
        "task": None if found is None else _task_object(task_id, found),
        "occurrences": [] if found is None else [row_object(row) for row in found.occurrences],
        "attempts": [] if found is None else _attempts(found),
        **fresh.fields(),
    }


def _attempts(found: query.Task) -> list[dict[str, Any]]:
    ended: dict[int, list[Attempt]] = {}
    for attempt in found.attempts:
        ended.setdefault(attempt.occurrence_ts, []).append(attempt)
    pulses = {pulse.occurrence_ts: pulse for pulse in found.pulses}
    return [
        one
        for row in found.occurrences
        for one in attempt_objects(row, ended.get(row.occurrence_ts, ()), pulses.get(row.occurrence_ts))
    ]


def _task_object(task_id: str, found: query.Task) -> dict[str, Any]:
    """A task in one object. Columns of an ended task come from its last row: its spec is gone by then."""
    definition, state = found.record.definition, found.record.state
    last = found.occurrences[-1] if found.occurrences else None
    columns = definition.columns if definition is not None else last.columns if last is not None else None
    phase = _phase(state, last)
    rev = state.rev if state is not None else last.rev if last is not None else None
    return {
        "task_id": task_id,
        "state": None if phase is None else phase.value,
        "queue": "" if columns is None else columns.queue,
        "handler": "" if columns is None else columns.handler,
        "labels": {} if columns is None else columns.labels,
        "rev": None if rev is None else f"{rev.offset}:{rev.item}",
        "next_occurrence_ts": None if state is None else time_or_none(state.next_occurrence_ts),
        "last_occurrence_ts": None if state is None else time_or_none(state.last_occurrence_ts),
        "ended_ms": None if state is None else time_or_none(state.ended_ms),
        "reason": "" if state is None else state.extras.faulted or state.extras.held,
        "payload": None if definition is None else _payload_object(definition.payload),
        "schedule": None if definition is None else _schedule_object(definition.recurrence),
    }


def _payload_object(payload: Payload | None) -> dict[str, Any] | None:
    """What is known of a payload; its text is null while payloads are hidden."""
    return None if payload is None else {"bytes": payload.size, "form": payload.form, "text": payload.text}


def _schedule_object(recurrence: Recurrence | None) -> dict[str, Any] | None:
    """When a task recurs, as its rule says; None: it does not."""
    if recurrence is None:
        return None
    return {
        "kind": recurrence.kind.value.lower(),
        "rule": recurrence.rule,
        "interval_ms": recurrence.interval_ms or None,
        "zone": recurrence.zone or "UTC",
        "misfire": recurrence.misfire.value.lower(),
        "overlap": recurrence.overlap.value.lower(),
    }


def _phase(state: TaskState | None, last: Row | None) -> Phase | None:
    """The word for the task; of one in flight, that of its latest run."""
    if state is None:
        return None if last is None else last.state
    if state.phase is Phase.DISPATCHED and state.runs:
        return state.runs[-1].phase
    return state.phase
