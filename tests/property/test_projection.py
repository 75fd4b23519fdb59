"""Whatever the log, however it is cut into steps and wherever the projection dies: every answer equals a
plain dict fold of the log up to the answer's position, and counters equal recounts.
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
from tests.projection_oracle import plain_attempts, plain_fold
from tickstream import codec
from tickstream.model import Phase
from tickstream.projection import charts, query
from tickstream.projection.charts import Horizon, Span, Step
from tickstream.projection.fold import fold
from tickstream.projection.freshness import freshness
from tickstream.projection.index import Identity, IndexWriter
from tickstream.projection.query import Window
from tickstream.projection.reader import IndexReader
from tickstream.projection.rows import Position
from tickstream.projection.steps import BucketBuffer
from tickstream.projection.stored import row_object

MINUTE = 60_000
BUCKETS = 2
IDENTITY = Identity({"timers": b"t" * 16, "history": b"h" * 16}, BUCKETS)

actions = st.tuples(
    st.sampled_from(
        (
            *("schedule", "schedule", "fire", "fire", "claim", "claim", "fail", "fail", "retry", "retry"),
            *("report", "report", "cancel", "forget", "commit", "commit"),
        )
    ),
    st.integers(0, 3),
    st.integers(0, 2),
)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    phases=[Phase_.explicit, Phase_.generate],
)
@given(
    script=st.lists(actions, min_size=40, max_size=90),
    moves=st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, BUCKETS - 1), st.integers(1, 12)),
        min_size=20,
        max_size=50,
    ),
    limit=st.sampled_from((1_000, 1_000, 4)),
)
def test_answers_equal_a_plain_fold(
    script: list[tuple[str, int, int]], moves: list[tuple[int, int, int]], limit: int
) -> None:
    writers = [LogWriter(bucket) for bucket in range(BUCKETS)]
    for action, task, when in script:
        writers[task % BUCKETS].act(action, f"task-{task}", 10 * MINUTE + when * (MINUTE // 2))
    for writer in writers:
        writer.commit()
    with tempfile.TemporaryDirectory() as directory:
        _follow(writers, moves, limit, Path(directory))


def _follow(writers: list[LogWriter], moves: list[tuple[int, int, int]], limit: int, data_dir: Path) -> None:
    tail = _Tail(writers, data_dir, limit)
    try:
        for move, bucket, count in moves:
            if move == 0:
                tail.crash()
            elif move <= 4:
                tail.read_timers(bucket, count)
            elif move <= 7:
                tail.read_history(bucket, count)
            else:
                tail.fold()
                tail.check()
        # What is ahead of its other half is held back: both are read by turns, as the service does.
        while (before := tail.unread()) > 0:
            for bucket in range(BUCKETS):
                tail.read_timers(bucket, 10_000)
                tail.read_history(bucket, 10_000)
            tail.fold()
            assert tail.unread() < before
        tail.fold()
        tail.check()
        assert not any(p.restoring for p in tail.index.positions(range(BUCKETS)).values())
    finally:
        tail.close()


class _Tail:
    """The projection without Kafka, one move at a time."""

    def __init__(self, writers: list[LogWriter], data_dir: Path, limit: int) -> None:
        self._writers, self._dir, self._limit = writers, data_dir, limit
        self._open()
        # One reader for all the lives of the writer, as a dashboard has it.
        self.reader = IndexReader(data_dir)

    def _open(self) -> None:
        self.index = IndexWriter(self._dir, IDENTITY)
        positions = self.index.positions(range(BUCKETS))
        self._buffers = {b: BucketBuffer(b, p, limit=self._limit) for b, p in positions.items()}
        self._timers = {b: p.timers for b, p in positions.items()}
        self._history = {b: p.history for b, p in positions.items()}

    def close(self) -> None:
        self.reader.close()
        self.index.close()

    def crash(self) -> None:
        self.index.close()
        self._open()

    def unread(self) -> int:
        """Records of both logs that were not read yet."""
        timers = sum(len(writer.timers) - self._timers[b] for b, writer in enumerate(self._writers))
        return timers + sum(len(w.history) - self._history[b] for b, w in enumerate(self._writers))

    def read_timers(self, bucket: int, count: int) -> None:
        for _ in range(count):
            offset = self._timers[bucket]
            if offset >= len(self._writers[bucket].timers) or self._buffers[bucket].holds_back_timers():
                break
            self._buffers[bucket].add_timers(offset, *self._writers[bucket].timers[offset])
            self._timers[bucket] += 1
            self._fold_when_full()

    def read_history(self, bucket: int, count: int) -> None:
        for _ in range(count):
            offset = self._history[bucket]
            if offset >= len(self._writers[bucket].history) or self._buffers[bucket].holds_back_history():
                break
            self._buffers[bucket].add_history(offset, self._writers[bucket].history[offset])
            self._history[bucket] += 1
            self._fold_when_full()

    def _fold_when_full(self) -> None:
        if self._limit < 100:
            self.fold()

    def fold(self) -> None:
        steps = [step for buffer in self._buffers.values() if (step := buffer.take()) is not None]
        self.index.apply(fold(steps, self.index))

    def check(self) -> None:
        positions = self.index.positions(range(BUCKETS))
        with self.reader.view() as view:
            shown = _all_rows(view, 3)
            # Recounts hold in every state of the database, also amid a rebuild.
            recount = Counter((row["state"], row["occurrence_ts"] // MINUTE) for row in shown)
            counted = {
                (state.value, minute): rows
                for minute, by_state in query.minutes(view, 0, 100).items()
                for state, rows in by_state.items()
            }
            assert counted == dict(recount)
            totals = Counter(row["state"] for row in shown)
            assert {s.value: view.total(s) for s in Phase} == {s.value: totals[s.value] for s in Phase}
            if self._limit > 100:
                for bucket, position in positions.items():
                    self._check_whole(self._writers[bucket], position)
            elif any(p.restoring and p.timers for p in positions.values()):
                return
            expected: list[dict[str, Any]] = []
            for bucket, position in positions.items():
                writer = self._writers[bucket]
                expected += plain_fold(writer.timers[: position.timers], writer.history[: position.history])
            expected.sort(key=lambda row: (row["occurrence_ts"], row["task_id"]))
            complete = self._limit > 100
            assert [_plain(row, complete) for row in shown] == [_plain(row, complete) for row in expected]
            if complete:
                _check_filters(view, expected)
            for bucket, position in positions.items():
                _check_attempts(view, self._writers[bucket].history[: position.history])

    def _check_whole(self, writer: LogWriter, position: Position) -> None:
        """It stands behind a Progress, and has exactly the outcomes that this names."""
        if position.timers:
            key, value = writer.timers[position.timers - 1]
            assert key == codec.PROGRESS
            assert value is not None
            assert codec.decode_progress(value).history_number == position.history == position.history_number
            assert not position.restoring


def _check_attempts(view: Any, history: list[bytes]) -> None:
    """Whatever failed on the way, or returned something, is listed with its occurrence."""
    for (task_id, occurrence), expected in plain_attempts(history).items():
        noted = view.attempts(task_id, occurrence, 100)
        assert [(a.attempt, a.outcome.value.lower(), a.error, a.result) for a in noted] == [
            told for told in expected if told[1] in ("attempt_failed", "lease_expired") or told[3]
        ]


def _plain(row: dict[str, Any], complete: bool) -> dict[str, Any]:
    """Where a stretch was taken in parts, columns that only the spec holds may be unknown."""
    return row if complete else row | {"labels": None, "handler": None}


def _all_rows(view: Any, limit: int, **filters: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    cursor = b""
    while True:
        page = query.rows_in(view, Window(limit=limit, cursor=cursor, **filters))
        rows += [row_object(row) for row in page.rows]
        if page.cursor is None:
            return rows
        cursor = page.cursor


def _check_charts(view: Any, expected: list[dict[str, Any]]) -> None:
    """Charts equal recounts of the rows, whether they come from counters or from the rows themselves."""
    fresh = freshness(view.positions(), 10 * MINUTE + MINUTE // 2, view.of_buckets())
    for step in Step:
        span = Span(10 * MINUTE // step.ms * step.ms, 60 * MINUTE, step)
        recount: dict[int, Counter[str]] = {}
        for row in expected:
            at = row["occurrence_ts"] // step.ms * step.ms
            recount.setdefault(at, Counter())[row["state"]] += 1
        periods = charts.counts(view, span, fresh)["periods"]
        assert {p["start_ms"]: {s.value: p[s.value] for s in Phase if p[s.value]} for p in periods} == recount
    to_come = [r["occurrence_ts"] for r in expected if r["state"] == "scheduled"]
    to_come = [at for at in to_come if fresh.as_of <= at < fresh.as_of + Horizon.HOUR.ms]
    load = charts.forecast(view, Horizon.HOUR, fresh)
    assert (load["total"], load["exact"]) == (len(to_come), True)
    seconds = Counter(at // 1_000 * 1_000 for at in to_come)
    worst = {second["start_ms"]: second["count"] for second in load["worst_seconds"]}
    assert sorted(worst.values()) == sorted(count for _, count in seconds.most_common(10))
    assert all(seconds[at] == count for at, count in worst.items())


def _check_filters(view: Any, expected: list[dict[str, Any]]) -> None:
    for state in Phase:
        assert _all_rows(view, 2, states=frozenset({state})) == [
            r for r in expected if r["state"] == state.value
        ]
    start, end = 11 * MINUTE, 12 * MINUTE
    window = [r for r in expected if start <= r["occurrence_ts"] < end]
    assert _all_rows(view, 100, start_ms=start, end_ms=end) == window
    assert _all_rows(view, 1, start_ms=start, end_ms=end, queue="slow") == [
        r for r in window if r["queue"] == "slow"
    ]
    assert _all_rows(view, 7, labels=(("team", "a"),)) == [
        r for r in expected if r["labels"].get("team") == "a"
    ]
    assert _all_rows(view, 7, id_prefix="task-1") == [
        r for r in expected if r["task_id"].startswith("task-1")
    ]
    assert _all_rows(view, 3, descending=True) == expected[::-1]
    assert _all_rows(view, 2, descending=True, start_ms=start, end_ms=end) == window[::-1]
    failed = [r for r in expected if "valueerror" in r["error"].casefold()]
    assert _all_rows(view, 2, error="VALUEerror") == failed
    assert _all_rows(view, 2, error_like="ValueError: no") == failed
    assert _all_rows(view, 2, error_like="ValueError: another") == []
    handler = expected[0]["handler"] if expected else "none"
    assert _all_rows(view, 2, handler=handler) == [r for r in expected if r["handler"] == handler]
    _check_charts(view, expected)
    for task_id in {r["task_id"] for r in expected}:
        found = query.task(view, task_id)
        assert found is not None
        assert [row_object(row) for row in found.occurrences] == [
            r for r in expected if r["task_id"] == task_id
        ]
