"""A dashboard beside a projection that is killed at any moment: every view is one whole state, never an older one."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.chaos import projection_writer
from tests.chaos.projection_writer import expected, expected_workers
from tickstream.errors import IndexNotReady
from tickstream.model import Phase
from tickstream.projection import query
from tickstream.projection.query import Window
from tickstream.projection.reader import IndexReader

pytestmark = pytest.mark.chaos
LIVES = 5
VIEWS = 40
DEADLINE_S = 30.0


def test_views_are_whole_through_flushes_and_kills(tmp_path: Path) -> None:
    reached = 0
    with IndexReader(tmp_path) as reader:
        for _ in range(LIVES):
            with writer(tmp_path):
                deadline = time.monotonic() + DEADLINE_S
                views = 0
                while views < VIEWS:
                    assert time.monotonic() < deadline, f"{views} views in {DEADLINE_S:g} s"
                    commits = commits_seen(reader)
                    if commits is not None:
                        assert commits >= reached
                        views += commits > reached
                        reached = commits


def commits_seen(reader: IndexReader) -> int | None:
    """How many commits a view holds, and that it holds exactly them; None while there is none to be had."""
    try:
        with reader.view() as view:
            commits = view.positions()[0].timers // 3
            rows = query.rows_in(view, Window()).rows
            shown = {row.task_id: row.occurrence_ts for row in rows if row.state is Phase.SCHEDULED}
            assert shown == expected(commits)
            ended = {row.occurrence_ts: row.worker for row in rows if row.task_id == "ended"}
            assert ended == expected_workers(commits)
            assert {row.occurrence_ts: row.worker for row in view.finished_of("ended", 9)} == ended
            assert view.total(Phase.SCHEDULED) == len(shown)
            for task_id, instant in shown.items():
                record = view.task(task_id)
                assert record is not None
                assert record.state is not None
                assert record.state.next_occurrence_ts == instant
            return commits
    except IndexNotReady:
        return None


@contextmanager
def writer(data_dir: Path) -> Iterator[None]:
    """The writing process, killed at the end."""
    command = [sys.executable, projection_writer.__file__, str(data_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "writing\n"
            yield
        finally:
            process.kill()
