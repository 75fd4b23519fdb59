"""`tickstream query` over a real index: every question prints what is there, and how old that is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.projection_log import LogWriter
from tests.unit.projection_index import fold_in, new_index
from tests.unit.test_projection_api import NOON, dashboard
from tests.unit.test_projection_questions import SNAPSHOT
from tickstream.cli.main import app
from tickstream.ingest.dashboard import Dashboard
from tickstream.projection.rows import Owner
from tickstream.projection.snapshot import encode_snapshot


@pytest.fixture
def answering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A dashboard over one task of each fate; the command line reaches it without a socket."""
    logs = [LogWriter(bucket) for bucket in range(2)]
    for n, acts in enumerate((("fire", "claim"), ("fire", "report"), ())):
        logs[0].act("schedule", f"t{n}", NOON + 20_000 + n)
        for act in acts:
            logs[0].act(act, f"t{n}", 1)
    logs[0].act("schedule", "later", NOON + 60_000)
    for log in logs:
        log.commit(applied_before_ms=NOON + 29_900)
    with new_index(tmp_path) as index:
        fold_in(index, *logs)
        index.owned({0: Owner("alpha", 0, 0, NOON), 1: Owner("omega", 1, 0, NOON)})
        index.put_cluster(encode_snapshot(SNAPSHOT))
    with dashboard(tmp_path) as client:

        def ask(_self: Dashboard, what: str, filters: dict[str, str]) -> dict[str, Any]:
            return dict(client.get(f"/api/{what}", params=filters).raise_for_status().json())

        monkeypatch.setattr(Dashboard, "ask", ask)
        yield


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["running"], ["t0  attempt 1  on worker-1", "heard of 9993 ms ago", "lease 7 ms"]),
        (["failures", "--from", "2026-11-30T00:00:00Z"], ["1  DEAD-handler  ValueError: no", "latest t1"]),
        (["forecast"], ["1 in that second", "1 in all"]),
        (["lateness", "--from", "2026-11-30T11:30:00Z", "--to", "2026-11-30T12:30:00Z"], ["due_to_started"]),
        (["queues"], ["slow", "1 late", "1 out", "0 workers", "late since 2026-11-30T12:00:20.002Z"]),
        (
            ["cluster"],
            ["lane 0    alpha", "omega (no longer in the group)", "queue default      w1 on 10.0.0.2"],
        ),
        (["changes", "--from", "2026-11-30T11:00:00Z"], ["takeover", "buckets 0  by alpha"]),
    ],
    ids=lambda of: of[0],
)
@pytest.mark.usefixtures("answering")
def test_it_prints_what_is_there_and_its_age(arguments: list[str], says: list[str]) -> None:
    printed = CliRunner().invoke(app, ["query", *arguments])
    assert printed.exit_code == 0, printed.output
    for text in [*says, "as of 2026-11-30T12:00:30.000Z, 100 ms behind"]:
        assert text in printed.output
    machine = CliRunner().invoke(app, ["query", *arguments, "--json"])
    assert json.loads(machine.output)["staleness_ms"] == 100
