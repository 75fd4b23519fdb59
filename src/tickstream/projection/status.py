"""The state of everything in one small object: what the page shows at a glance.

No HTTP and no clock may enter here. It reads counters and histograms that the fold keeps, never the
finished rows; of rows it looks only at overdue ones, and at a bounded number of those.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from tickstream.model import Phase
from tickstream.projection import keys, lateness, query
from tickstream.projection.families import FAILURES, LATENESS, RUNNING, UPCOMING
from tickstream.projection.fold import IN_FLIGHT
from tickstream.projection.freshness import Freshness
from tickstream.projection.keys import MINUTE_MS
from tickstream.projection.reader import View
from tickstream.projection.stored import decode_failure, decode_histogram, decode_row

LATENESS_MINUTES: Final = 5
CHART_MINUTES: Final = 60
RECENT_FAILURES: Final = 20
MAX_BEYOND: Final = 5_000
"""Occurrences of recurring tasks without rows that the minutes count."""
MAX_OVERDUE_ROWS: Final = 2_000
"""Overdue rows of the minute under way that are counted one by one; earlier minutes have counters."""


def status(view: View, fresh: Freshness) -> dict[str, Any]:
    """The status object, JSON-ready. Times ms UTC."""
    return {
        **fresh.fields(),
        "buckets": _buckets(fresh),
        "totals": {state.value: view.total(state) for state in Phase},
        "overdue": overdue(view, fresh.as_of),
        "running": _running(view),
        "lateness": _lateness(view, fresh.as_of),
        "minutes": minute_list(
            query.minutes(
                view,
                keys.minute_of(fresh.as_of) - CHART_MINUTES,
                keys.minute_of(fresh.as_of) + CHART_MINUTES + 1,
                MAX_BEYOND,
            )
        ),
        "failures": _failures(view),
    }


def minute_list(found: dict[int, dict[Phase, int]]) -> list[dict[str, int]]:
    """Minutes as a list: its start (ms UTC), and rows by state, 0 where there are none."""
    return [
        {"minute_ms": minute * MINUTE_MS} | {state.value: by_state.get(state, 0) for state in Phase}
        for minute, by_state in found.items()
    ]


def _buckets(fresh: Freshness) -> list[dict[str, Any]]:
    return [
        {
            "bucket": bucket,
            "applied_before_ms": p.applied_before_ms,
            "lag_ms": max(0, fresh.as_of - p.applied_before_ms),
            "restoring": p.restoring,
            "timers": p.timers,
            "history": p.history,
            "commands": p.commands_offset,
        }
        for bucket, p in fresh.positions.items()
    ]


def overdue(view: View, now_ms: int) -> dict[str, Any]:
    """Rows that still wait for their dispatch although their instant is past, and the oldest, by queue.

    `exact` is false when the minute under way holds more of them than are counted one by one.
    """
    this_minute = keys.minute_of(now_ms)
    queues: dict[str, dict[str, int]] = {}
    for _, minute, queue, rows in query.counts(view, 0, this_minute, (Phase.SCHEDULED,)):
        entry = queues.setdefault(queue, {"count": 0, "oldest_ts": minute * MINUTE_MS})
        entry["count"] += rows
    for queue, entry in queues.items():
        entry["oldest_ts"] = _oldest(view, queue, entry["oldest_ts"])
    current = list(
        islice(
            view.scan(UPCOMING, keys.instant(this_minute * MINUTE_MS), keys.instant(now_ms)),
            MAX_OVERDUE_ROWS,
        )
    )
    for _, value in current:
        row = decode_row(value)
        entry = queues.setdefault(row.queue, {"count": 0, "oldest_ts": row.occurrence_ts})
        entry["count"] += 1
    return {
        "count": sum(entry["count"] for entry in queues.values()),
        "oldest_ts": min((entry["oldest_ts"] for entry in queues.values()), default=None),
        "exact": len(current) < MAX_OVERDUE_ROWS,
        "queues": queues,
    }


def _oldest(view: View, queue: str, minute_ms: int) -> int:
    """The first instant at which `queue` waits in that minute; the minute itself if it is crowded."""
    rows = view.scan(UPCOMING, keys.instant(minute_ms), keys.instant(minute_ms + MINUTE_MS))
    for _, value in islice(rows, MAX_OVERDUE_ROWS):
        row = decode_row(value)
        if row.queue == queue:
            return row.occurrence_ts
    return minute_ms


def _running(view: View) -> dict[str, Any]:
    """How many are dispatched without an outcome of their occurrence, and the one due longest ago."""
    for _, value in islice(view.scan(RUNNING, b"", keys.END), 1):
        row = decode_row(value)
        oldest = {
            "task_id": row.task_id,
            "occurrence_ts": row.occurrence_ts,
            "state": row.state.value,
            "worker": row.worker,
            "decided_ms": row.decided_ms,
        }
        return {"count": sum(map(view.total, IN_FLIGHT)), "oldest": oldest}
    return {"count": 0, "oldest": None}


def _lateness(view: View, now_ms: int) -> dict[str, Any]:
    """Of what ended in the last minutes, percentiles in ms of each stage between due and started."""
    minute = keys.minute_of(now_ms)
    by_stage: dict[int, list[dict[int, int]]] = {}
    start, end = (
        keys.lateness_key(max(0, minute - LATENESS_MINUTES + 1), 0),
        keys.lateness_key(minute + 1, 0),
    )
    for key, value in view.scan(LATENESS, start, end):
        _, stage = keys.read_lateness_key(key)
        by_stage.setdefault(stage, []).append(decode_histogram(value))
    merged = {stage: lateness.merge(parts) for stage, parts in by_stage.items()}
    return {"minutes": LATENESS_MINUTES, "stages": lateness.summary(merged)}


def _failures(view: View) -> list[dict[str, Any]]:
    return [
        decode_failure(*keys.read_failure_key(key), value)._asdict()
        for key, value in islice(view.scan_back(FAILURES, b"", keys.END), RECENT_FAILURES)
    ]
