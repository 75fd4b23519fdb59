"""What is out now, and who holds it: runs with the age of their leases.

No HTTP and no clock may enter here. A heartbeat is what the projection heard of, best effort; the
dispatcher alone decides when a lease is over.
"""

from __future__ import annotations

from typing import Any

from tickstream.model import NEVER, RunState
from tickstream.projection import query
from tickstream.projection.answers import said
from tickstream.projection.cursors import encode_cursor
from tickstream.projection.freshness import Freshness
from tickstream.projection.query import Window
from tickstream.projection.reader import View
from tickstream.projection.rows import NO_TASK, Pulse, Row, TaskRecord
from tickstream.projection.stored import row_object


def running(view: View, window: Window, fresh: Freshness) -> dict[str, Any]:
    """The answer of /api/running: a page of rows, each with its lease."""
    found = query.rows_in(view, window)
    return {
        "rows": [_run_object(view, row, fresh.as_of) for row in found.rows],
        "cursor": encode_cursor(found.cursor),
        "visited": found.visited,
        **fresh.fields(),
    }


def _run_object(view: View, row: Row, now_ms: int) -> dict[str, Any]:
    record = view.task(row.task_id) or NO_TASK
    run = _run_of(record, row)
    pulse = view.pulse(row.task_id, row.occurrence_ts) if run is not None and run.holder else None
    if pulse is not None and run is not None and pulse.run_id != run.holder.hex():
        pulse = None
    return row_object(row) | _lease(record, row, run, pulse, now_ms) | said(pulse)


def _run_of(record: TaskRecord, row: Row) -> RunState | None:
    runs = record.state.runs if record.state is not None else ()
    return next((run for run in runs if run.occurrence_ts == row.occurrence_ts), None)


def _lease(
    record: TaskRecord, row: Row, run: RunState | None, pulse: Pulse | None, now_ms: int
) -> dict[str, Any]:
    """Null where nobody holds it, or where its definition is gone."""
    held = run is not None and bool(run.holder)
    seen = max(row.started_ms, pulse.at_ms if pulse is not None else NEVER) if held else NEVER
    age = None if seen == NEVER else max(0, now_ms - seen)
    definition = record.definition
    known = definition is not None and definition.rev == row.rev
    lease = definition.lease_ms if definition is not None and known and held else None
    return {
        "run_id": run.holder.hex() if run is not None and held else None,
        "lease_ms": lease,
        "lease_age_ms": age,
        "lease_left_ms": None if age is None or lease is None else lease - age,
    }
