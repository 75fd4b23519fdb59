"""How a task and its occurrences are printed.

Only values in and text out; nothing is asked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tickstream.clock import iso_utc

if TYPE_CHECKING:
    from tickstream.ingest.dashboard import Row


def row_value(row: Row) -> dict[str, Any]:
    """For machines."""
    return {**row._asdict(), "state": row.state.value}


def row_text(row: Row) -> str:
    """A line for people."""
    run = f"attempt {row.attempt} on {row.worker}" if row.worker and row.retry_at_ms is None else ""
    late = "" if row.started_ms is None else f"started {row.started_ms - row.occurrence_ts} ms after"
    next_try = "" if row.retry_at_ms is None else f"attempt {row.attempt} at {iso_utc(row.retry_at_ms)}"
    parts = (
        iso_utc(row.occurrence_ts),
        f"{row.state.value:<10}",
        f"{row.queue:<10}",
        f"{row.handler:<12}",
        row.task_id,
        run,
        late,
        next_try,
        row.error or "",
    )
    return "  ".join(part for part in parts if part)


def attempt_text(attempt: Mapping[str, Any]) -> str:
    """A line for people."""
    due, started, ended = (attempt[name] for name in ("occurrence_ts", "started_ms", "ended_ms"))
    parts = (
        iso_utc(due),
        f"attempt {attempt['attempt']}",
        attempt["state"].replace("_", " "),
        f"on {attempt['worker']}" if attempt["worker"] else "",
        "" if started is None else f"started {started - due} ms after",
        "" if ended is None else f"ended {ended - due} ms after",
        attempt["error"] or attempt["result"],
    )
    return "  ".join(part for part in parts if part)


def task_text(task: Mapping[str, Any]) -> str:
    """A line for people."""
    labels = " ".join(f"{key}={value}" for key, value in task["labels"].items())
    return f"{task['task_id']}: {task['state']}, queue {task['queue']}, handler {task['handler']}  {labels}".rstrip()


def age(as_of_ms: int, staleness_ms: int) -> str:
    """How far an answer may be trusted."""
    return f"as of {iso_utc(as_of_ms)}, {staleness_ms} ms behind"
