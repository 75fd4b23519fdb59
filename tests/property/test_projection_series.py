"""Recurring tasks in the index: whatever happens to them, and however far a question looks, every occurrence to
come is in the answer once, as a plain expansion of the rule by the log gives it.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import Phase as Phase_
from hypothesis import strategies as st

from tests.projection_log import LogWriter
from tests.projection_oracle import plain_fold
from tests.unit.projection_index import fold_in, new_index
from tickstream.model import Phase
from tickstream.projection import charts, keys, query
from tickstream.projection.charts import Horizon, Span, Step
from tickstream.projection.families import SERIES
from tickstream.projection.freshness import freshness
from tickstream.projection.query import Window
from tickstream.projection.reader import IndexReader
from tickstream.projection.series import MOST_ROWS
from tickstream.projection.stored import row_object

NOON = 1_796_040_000_000
MINUTE = 60_000
DAY = 24 * 60 * MINUTE

actions = st.tuples(
    st.sampled_from(
        (
            "recur",
            "recur",
            "schedule",
            "fire",
            "fire",
            "fire",
            "claim",
            "report",
            "pause",
            "cancel",
            "forget",
            "commit",
        )
    ),
    st.integers(0, 3),
    st.integers(0, 5),
)
windows = st.tuples(
    st.integers(-30 * MINUTE, 2 * DAY),
    st.integers(0, 3 * 60 * MINUTE),
    st.sampled_from((1, 3, 40)),
    st.booleans(),
)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    phases=[Phase_.explicit, Phase_.generate],
)
@given(script=st.lists(actions, min_size=10, max_size=40), asked=st.lists(windows, min_size=2, max_size=4))
def test_every_occurrence_to_come_is_found_once(
    script: list[tuple[str, int, int]], asked: list[tuple[int, int, int, bool]]
) -> None:
    log, other = LogWriter(0), LogWriter(1)
    other.commit()
    with tempfile.TemporaryDirectory() as directory:
        data_dir = Path(directory)
        index = new_index(data_dir)
        try:
            for number, (action, task, when) in enumerate(script):
                log.act(action, f"task-{task}", NOON + when * 20_000)
                if action == "commit":
                    fold_in(index, log, other)
                if number % 13 == 12:
                    index.close()
                    index = new_index(data_dir)
            log.commit()
            fold_in(index, log, other)
            with IndexReader(data_dir) as reader, reader.view() as view:
                for start, length, limit, descending in asked:
                    _check(view, log, NOON + start, NOON + start + length, limit, descending)
                _check_forecast(view, log)
                _check_frontiers(view, log)
        finally:
            index.close()


def _expected(log: LogWriter, start_ms: int, end_ms: int) -> list[dict[str, Any]]:
    rows = plain_fold(log.timers, log.history, end_ms)
    rows = [row for row in rows if start_ms <= row["occurrence_ts"] < end_ms]
    return sorted(rows, key=lambda row: (row["occurrence_ts"], row["task_id"]))


def _check(view: Any, log: LogWriter, start_ms: int, end_ms: int, limit: int, descending: bool) -> None:
    expected = _expected(log, start_ms, end_ms)
    found: list[dict[str, Any]] = []
    window = Window(start_ms, end_ms, limit=limit, descending=descending)
    # The first pages; a rule of seconds has many.
    for _ in range(6):
        page = query.rows_in(view, window)
        found += [row_object(row) for row in page.rows]
        if page.cursor is None:
            break
        window = window._replace(cursor=page.cursor)
    in_order = expected[::-1] if descending else expected
    assert found == in_order[: len(found)]
    assert page.cursor is not None or len(found) == len(expected)
    fresh = freshness(view.positions(), start_ms, view.of_buckets())
    span = Span(start_ms // MINUTE * MINUTE, -(-end_ms // MINUTE) * MINUTE, Step.MINUTE)
    told = charts.counts(view, span, fresh)
    whole = _expected(log, span.start_ms, span.end_ms)
    assert told["exact"]
    assert told["totals"] == {s.value: sum(row["state"] == s.value for row in whole) for s in Phase}


def _check_forecast(view: Any, log: LogWriter) -> None:
    load = charts.forecast(view, Horizon.DAY, freshness(view.positions(), NOON, view.of_buckets()))
    expected = [
        row["occurrence_ts"] for row in _expected(log, NOON, NOON + DAY) if row["state"] == "scheduled"
    ]
    assert (load["total"], load["exact"]) == (len(expected), True)
    seconds = Counter(at // 1_000 * 1_000 for at in expected)
    assert [second["count"] for second in load["worst_seconds"]] == [n for _, n in seconds.most_common(10)]


def _check_frontiers(view: Any, log: LogWriter) -> None:
    """At most one of each task that recurs, behind its last row."""
    frontiers = [keys.read_frontier_key(key) for key, _ in view.scan(SERIES, b"", keys.END)]
    assert len({task_id for _, task_id in frontiers}) == len(frontiers)
    for frontier, task_id in frontiers:
        record = view.task(task_id)
        assert record.frontier == frontier == max(live.row.occurrence_ts for live in record.live)
        assert len(record.live) <= MOST_ROWS + len(log.states[task_id].runs)
