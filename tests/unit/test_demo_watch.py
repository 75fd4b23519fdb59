"""What the demo reads off the dashboard, and what it keeps for the audit."""

from pathlib import Path
from typing import Any

import pytest

from tickstream.errors import InvalidInput
from tickstream.model import NEVER, Receipt, VerdictKind
from tickstream.ops.audit.journal import Acked, parse_journal
from tickstream.ops.demo.run import find_examples
from tickstream.ops.demo.watch import seen_in
from tickstream.ops.journal import JournalWriter


def status(scheduled: int, in_flight: int, p50_ms: int | None = None) -> dict[str, Any]:
    return {
        "totals": {
            "scheduled": scheduled,
            "succeeded": 9_480,
            "dead": 0,
            "cancelled": 500,
        },
        "running": {"count": in_flight, "oldest": None},
        "lateness": {"stages": {"due_to_started": {"p50_ms": p50_ms, "p99_ms": p50_ms, "count": 0}}},
        "staleness_ms": 812,
    }


def test_all_is_done_when_nothing_waits_or_runs() -> None:
    assert seen_in(status(0, 0)).drained
    assert not seen_in(status(1, 0)).drained
    assert not seen_in(status(0, 1)).drained


def test_the_line_says_how_far_it_is() -> None:
    assert seen_in(status(12, 8, 31)).line(42.4) == (
        " +42 s  12 waiting, 8 out, 9,480 done, 500 cancelled, 0 dead; late p50/p99 31/31 ms, "
        "shown 812 ms behind"
    )
    assert "late p50/p99 – ms," in seen_in(status(12, 8)).line(-3)


def test_the_audit_reads_what_the_journal_says(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with JournalWriter(path) as journal:
        journal.schedule("a:ä", 1_000, Receipt(1, 2, 3))
        journal.schedule("b", 2_000, Receipt(1, 2, 4), VerdictKind.REPLACED)
        journal.cancel("b", Receipt(0, 7, 0), None)
    with JournalWriter(path) as journal:
        journal.kill("dispatcher", 4711, 3_000)
        assert path.read_text("utf-8").count("\n") == 4, "every entry is there at once"
    with path.open(encoding="utf-8") as lines:
        kept = parse_journal(lines)
    assert kept.acked == (
        Acked("a:ä", 1_000, Receipt(1, 2, 3), None),
        Acked("b", 2_000, Receipt(1, 2, 4), VerdictKind.REPLACED),
        Acked("b", NEVER, Receipt(0, 7, 0), None),
    )
    assert kept.dispatcher_kills_ms == (3_000,)


def test_without_the_examples_the_demo_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="checkout"):
        find_examples(tmp_path)
    (tmp_path / "tasks.jsonl").touch()
    assert find_examples(tmp_path / "nowhere", tmp_path) == tmp_path
