"""The index on disk: bounded pages, retention, one writer, readers that never mix two states."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.projection_log import LogWriter
from tests.unit.projection_index import IDENTITY, fold_in, new_index
from tickstream.errors import DataDirInUse, IndexNotReady
from tickstream.model import Phase
from tickstream.projection import index as index_module
from tickstream.projection import query, turn
from tickstream.projection.index import Identity, IndexWriter
from tickstream.projection.query import Window
from tickstream.projection.reader import IndexReader

MINUTE = 60_000
NOON = 1_796_040_000_000


def scheduled(count: int, *, every_ms: int = 1_000) -> LogWriter:
    """A log with `count` tasks from noon on, one queue in a hundred another."""
    log = LogWriter(0)
    for n in range(count):
        log.act("schedule", f"t{n:05d}", NOON + n * every_ms)
    log.commit()
    return log


def test_a_page_visits_what_it_returns_and_one_more(tmp_path: Path) -> None:
    with new_index(tmp_path) as index, IndexReader(tmp_path) as reader:
        fold_in(index, scheduled(300))
        with reader.view() as view:
            page = query.rows_in(view, Window(limit=100))
    assert (len(page.rows), page.visited) == (100, 101)


def test_a_page_ends_after_a_bounded_number_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "MAX_VISITED", 600)
    with new_index(tmp_path) as index, IndexReader(tmp_path) as reader:
        fold_in(index, scheduled(2_000))
        found: list[str] = []
        cursor, pages = b"", 0
        with reader.view() as view:
            while True:
                page = query.rows_in(view, Window(limit=10, id_prefix="t01999", cursor=cursor))
                found += [row.task_id for row in page.rows]
                pages += 1
                assert page.visited < 600 + 512
                if page.cursor is None:
                    break
                cursor = page.cursor
    assert found == ["t01999"]
    assert pages > 1


def test_old_finished_rows_go_and_their_counters_with_them(tmp_path: Path) -> None:
    log = scheduled(6, every_ms=MINUTE)
    for n in range(4):
        log.act("fire", f"t{n:05d}", 0)
        log.act("fail", f"t{n:05d}", 1)
        log.act("retry", f"t{n:05d}", 0)
        log.act("report", f"t{n:05d}", n)
    log.commit()
    with new_index(tmp_path) as index, IndexReader(tmp_path) as reader:
        fold_in(index, log)
        assert index.drop_before(NOON + 3 * MINUTE, at_most=2) == 2
        assert index.drop_before(NOON + 3 * MINUTE, at_most=2) == 1
        assert index.drop_before(NOON + 3 * MINUTE, at_most=2) == 0
        with reader.view() as view:
            rows = query.rows_in(view, Window()).rows
            assert [row.task_id for row in rows] == ["t00003", "t00004", "t00005"]
            counted = query.minutes(view, 0, NOON // MINUTE + 10)
            assert {minute - NOON // MINUTE: by for minute, by in counted.items()} == {
                3: {Phase.DEAD: 1},
                4: {Phase.SCHEDULED: 1},
                5: {Phase.SCHEDULED: 1},
            }
            assert view.total(Phase.SUCCEEDED) == 0
            found = query.task(view, "t00000")
            assert found is not None
            assert found.occurrences == []
            assert view.attempts("t00000", NOON, 9) == []
            assert len(view.attempts("t00003", NOON + 3 * MINUTE, 9)) == 1


def test_a_directory_has_one_writer(tmp_path: Path) -> None:
    with new_index(tmp_path), pytest.raises(DataDirInUse, match="--data"):
        new_index(tmp_path)
    new_index(tmp_path).close()


@pytest.mark.parametrize("other", [IDENTITY._replace(payloads=True), Identity({"timers": b"u" * 16}, 2)])
def test_another_identity_begins_with_nothing(tmp_path: Path, other: Identity) -> None:
    with new_index(tmp_path) as index:
        fold_in(index, scheduled(3))
    with IndexReader(tmp_path) as reader:
        with reader.view() as view:
            assert len(query.rows_in(view, Window()).rows) == 3
        with IndexWriter(tmp_path, other), reader.view() as view:
            assert query.rows_in(view, Window()).rows == []
    assert len(list(tmp_path.glob("index-*"))) == 1


def test_a_wiped_index_stays_wiped_over_a_restart(tmp_path: Path) -> None:
    with new_index(tmp_path) as index, IndexReader(tmp_path) as reader:
        fold_in(index, scheduled(3))
        with reader.view():
            index.wipe()
        with reader.view() as view:
            assert query.rows_in(view, Window()).rows == []
        fold_in(index, scheduled(2))
    with new_index(tmp_path) as index:
        assert index.positions([0])[0].timers == 5


def test_readers_follow_through_flushes_and_restarts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "_FLUSH_BYTES", 2_000)
    log = LogWriter(0)
    with IndexReader(tmp_path) as reader:
        for round_ in range(6):
            with new_index(tmp_path) as index:
                for turn_ in range(8):
                    log.act("schedule", f"t{turn_ % 3}", NOON + (round_ * 8 + turn_) * 1_000)
                    log.commit()
                    fold_in(index, log)
                    with reader.view() as view:
                        shown = {row.task_id: row.occurrence_ts for row in query.rows_in(view, Window()).rows}
                        assert shown == {task: s.next_occurrence_ts for task, s in log.states.items()}
                        assert view.total(Phase.SCHEDULED) == len(shown)
                        assert view.positions()[0].timers == len(log.timers)


def test_while_the_writer_moves_a_reader_keeps_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickstream.projection.reader._TRIES", 3)
    with new_index(tmp_path) as index, IndexReader(tmp_path) as reader, IndexReader(tmp_path) as newcomer:
        log = scheduled(3)
        fold_in(index, log)
        with reader.view():
            pass
        settled = turn.read(tmp_path)
        assert settled is not None
        turn.write(tmp_path, settled.next)
        log.act("schedule", "one more", NOON)
        log.commit()
        fold_in(index, log)
        with reader.view() as view:
            assert len(query.rows_in(view, Window()).rows) == 3
        with pytest.raises(IndexNotReady, match="written out"), newcomer.view():
            pass
        turn.write(tmp_path, settled.next.next)
        with reader.view() as view, newcomer.view() as fresh:
            assert len(query.rows_in(view, Window()).rows) == len(query.rows_in(fresh, Window()).rows) == 4


def test_what_was_caught_up_with_across_a_flush_is_thrown_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_index(tmp_path) as index, IndexReader(tmp_path) as reader:
        fold_in(index, scheduled(3))
        with reader.view():
            pass
        settled = turn.read(tmp_path)
        assert settled is not None
        # The writer begins to move after the reader has looked, and before it has caught up.
        looks = [settled, settled.next, settled.next, settled.next]
        monkeypatch.setattr(turn, "read", lambda _: looks.pop(0))
        monkeypatch.setattr("tickstream.projection.reader._TRIES", 3)
        with pytest.raises(IndexNotReady, match="written out"), reader.view():
            pass
