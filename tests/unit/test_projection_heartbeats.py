"""Heartbeats on their way to the dashboard: the last word of each run, and whose word counts."""

from __future__ import annotations

from pathlib import Path

from tests.projection_log import LogWriter
from tests.unit.projection_index import fold_in, new_index
from tickstream.codec import encode_reports
from tickstream.model import NEVER, Report, ReportKind
from tickstream.projection import query
from tickstream.projection.heartbeats import latest
from tickstream.projection.reader import IndexReader
from tickstream.projection.rows import Pulse

NOON = 1_796_040_000_000
HOLDER = b"h" * 16
OTHER = b"o" * 16


def heartbeat(task_id: str, *, progress: int = NEVER, note: str = "", run_id: bytes = HOLDER) -> Report:
    return Report(
        ReportKind.HEARTBEAT, task_id, NOON, 1, run_id, "h", 1, 2, NEVER, "", progress=progress, note=note
    )


def test_the_last_heartbeat_of_each_run_is_taken_and_nothing_else() -> None:
    first = encode_reports("w", [heartbeat("a", progress=100), heartbeat("b")])
    claimed = encode_reports("w", [heartbeat("c")._replace(kind=ReportKind.CLAIMED)])
    second = encode_reports("w", [heartbeat("a", progress=200, note="half of it")])
    assert latest([(5, first), (6, b"rubbish"), (6, None), (7, claimed), (9, second)]) == [
        Pulse("a", NOON, HOLDER.hex(), 9, 200, "half of it"),
        Pulse("b", NOON, HOLDER.hex(), 5, NEVER, ""),
    ]


def test_only_the_holder_s_word_is_shown_and_only_while_it_runs(tmp_path: Path) -> None:
    log = LogWriter(0)
    for action in ("schedule", "fire", "claim"):
        log.act(action, "t", NOON)
    log.commit()
    with new_index(tmp_path) as index, IndexReader(tmp_path) as reader:

        def shown() -> list[int]:
            with reader.view() as view:
                found = query.task(view, "t")
                assert found is not None
                return [pulse.at_ms for pulse in found.pulses]

        fold_in(index, log)
        assert shown() == []
        index.hear([Pulse("t", NOON, OTHER.hex(), 5, NEVER, "")])
        assert shown() == []
        index.hear([Pulse("t", NOON, HOLDER.hex(), 6, NEVER, "")])
        assert shown() == [6]
        log.act("report", "t", NOON)
        log.commit()
        fold_in(index, log)
        assert shown() == []
        with reader.view() as view:
            assert view.pulse("t", NOON) is None
