"""Backfill on a real broker: what was missed runs, in order, and nothing twice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli import Cli
from tests.kafka.rig import Rig
from tests.waiting import eventually
from tickstream import Client
from tickstream.clock import ceil_ms
from tickstream.codec import decode_body, decode_work
from tickstream.model import BACKFILL_LABEL, Verdict, VerdictKind

HOUR = timedelta(hours=1)
WAIT = timedelta(seconds=20)


def instants(rig: Rig, count: int, task_id: str) -> list[int]:
    """The occurrences of runs whose id begins so, each reported as soon as it is dispatched."""
    found: list[int] = []
    for *_, value in rig.read(rig.names.work("default"), until=lambda _: len(found) >= count):
        work = decode_work(value)
        if work.task_id.startswith(task_id):
            found.append(work.occurrence_ts)
            rig.report(work)
            rig.flush()
    return found


def test_a_past_window_is_run_in_order_and_once(
    broker: str, prefix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(capsys, f"--bootstrap={broker}", f"--prefix={prefix}", "--json")
    top = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - HOUR
    window = (f"--from={(top - 5 * HOUR).isoformat()}", f"--to={top.isoformat()}")
    at = [ceil_ms(top - hours * HOUR) for hours in range(5, 0, -1)]

    with Rig(broker, prefix, tmp_path) as rig, Client(rig.settings) as client:
        rig.wait_active(rig.dispatcher("only"))
        client.schedule("hourly", every=HOUR, payload=b"{}", handler="noop", labels={"k": "v"}, wait=WAIT)

        dry = cli("task", "backfill", "hourly", *window, "--dry-run")
        assert (dry.code, [o["fate"] for o in dry.value["occurrences"]]) == (0, ["to be run"] * 5)
        assert [o["occurrence_ts"] for o in dry.value["occurrences"]] == at
        too_many = cli("task", "backfill", "hourly", *window, "--max=4")
        assert (too_many.code, "more than 4 occurrences lie in the window" in too_many.err) == (2, True)
        assert cli("task", "backfill", "nobody", *window).code == 1
        ends = rig.admin.ends([(rig.names.commands, bucket) for bucket in range(rig.buckets)])
        assert sum(ends.values()) == 1  # the task itself

        ran = cli("task", "backfill", "hourly", *window)
        assert ran.code == 0, ran.err
        assert {o["verdict"] for o in ran.value["occurrences"]} == {"SCHEDULED"}
        # One at a time: the next goes out when the one before has ended.
        (first,) = [work for work in rig.work(at_least=1) if work.task_id.startswith("{hourly}@")]
        rig.wait_applied()
        assert [work.occurrence_ts for work in rig.work(at_least=1) if work.task_id != "hourly"] == at[:1]
        assert decode_body(first.body).labels == {"k": "v", BACKFILL_LABEL: "hourly"}
        waiting = client.backfill("hourly", top - 5 * HOUR, top)
        assert [one.fate.value for one in waiting] == ["in flight"] * 5
        assert instants(rig, 5, "{hourly}@") == at
        rig.wait_applied()

        assert eventually(lambda: len(rig.history()) == 5)
        repeated = cli("task", "backfill", "hourly", *window)
        assert (repeated.code, repeated.value["counts"]) == (0, {"ran": 5})
        (again, *_) = client.backfill("hourly", top - 5 * HOUR, top, again=True, timeout=WAIT)
        assert isinstance(again.answer, Verdict)
        assert again.answer.kind is VerdictKind.SCHEDULED
        assert again.answer.task_id.endswith("Z/2")


def test_the_task_s_own_runs_count(broker: str, prefix: str, tmp_path: Path) -> None:
    with Rig(broker, prefix, tmp_path) as rig, Client(rig.settings) as client:
        rig.wait_active(rig.dispatcher("only"))
        second = timedelta(seconds=1)
        client.schedule("fast", every=second, overlap="allow", payload=b"{}", wait=WAIT)
        first, second_run, *_ = sorted(rig.work(at_least=3), key=lambda work: work.occurrence_ts)
        rig.report(first)
        rig.flush()
        rig.wait_applied()
        start = datetime.fromtimestamp((first.occurrence_ts - 3_000) / 1_000, UTC)
        found = client.backfill("fast", start, start + 5 * second, timeout=WAIT)
        fates = {one.occurrence_ts: one.fate.value for one in found}
        assert fates.pop(first.occurrence_ts) == "ran"
        assert fates.pop(second_run.occurrence_ts) == "in flight"
        # From before it was there. They may overlap, so all of them are out at once.
        assert list(fates.values()) == ["to be run"] * 3
        sent = {one.item.task_id for one in found if one.item is not None}
        assert eventually(lambda: sent <= {work.task_id for work in rig.work(at_least=1)}, 20)
