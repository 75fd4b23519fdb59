"""Work sent ahead of its instant: a real dispatcher, a real worker, and how late it starts."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.kafka.lease_kit import now_ms, show
from tests.kafka.rig import Rig
from tests.kafka.worker_kit import Stage, local_worker
from tickstream import Client, VerdictKind
from tickstream.ingest import Item
from tickstream.model import NEVER, Outcome
from tickstream.worker import App, Context

WAIT = timedelta(seconds=20)
LEAD = timedelta(seconds=1)
COUNT = 40

app = App()


@app.handler("noop")
def noop(ctx: Context) -> None:
    """Done at once."""


@pytest.fixture
def rig(broker: str, prefix: str, tmp_path: Path) -> Iterator[Rig]:
    with Rig(broker, prefix, tmp_path) as rig:
        yield rig


@pytest.fixture
def stage(broker: str, prefix: str) -> Iterator[Stage]:
    stage = Stage(broker, prefix)
    yield stage
    stage.close()


def test_work_waits_with_its_worker_and_starts_at_its_instant(rig: Rig) -> None:
    rig.wait_active(rig.dispatcher("d"))
    with local_worker(rig, app), Client(rig.settings) as client:
        first = now_ms() + 5_000
        items = [
            Item(
                f"{name}:{n}",
                run_at_ts=first + n * 50,
                call=noop.bind(),
                lead=LEAD if name == "ahead" else timedelta(0),
            )
            for n in range(COUNT)
            for name in ("ahead", "due")
        ]
        assert [result.error for result in client.schedule_many(items) if result.error] == []
        ended = rig.history(at_least=2 * COUNT)
    work = {w.task_id: w for w in rig.work(at_least=2 * COUNT)}
    assert len(ended) == len(work) == 2 * COUNT
    assert {h.outcome for h in ended} == {Outcome.SUCCEEDED}
    # One machine, one clock: what is early here is early.
    assert [h for h in ended if h.started_ms < h.occurrence_ts] == []
    for w in work.values():
        if w.task_id.startswith("ahead"):
            assert w.not_before_ms == w.occurrence_ts
        else:
            assert (w.not_before_ms, w.decided_ms >= w.occurrence_ts) == (NEVER, True)
    for name in ("ahead", "due"):
        late = sorted(h.started_ms - h.occurrence_ts for h in ended if h.task_id.startswith(name))
        show(f"due to started, {name}", p50_ms=statistics.median(late), max_ms=late[-1])


def test_a_cancel_is_too_late_once_the_work_is_out(rig: Rig) -> None:
    rig.wait_active(rig.dispatcher("d"))
    with Client(rig.settings) as client:
        at = datetime.now(UTC) + timedelta(seconds=50)
        verdict = client.schedule("t", run_at=at, call=noop.bind(), lead=timedelta(seconds=60), wait=WAIT)
        assert verdict.kind is VerdictKind.SCHEDULED
        (work,) = rig.work(at_least=1)
        assert work.decided_ms < work.not_before_ms == work.occurrence_ts
        verdict = client.cancel("t", timeout=WAIT)
    assert (verdict.kind, verdict.in_flight) == (VerdictKind.TOO_LATE, (work.occurrence_ts,))


def test_what_a_worker_held_is_held_by_the_next(stage: Stage) -> None:
    at = now_ms() + 6_000
    stage.put(noop.bind(), "held", not_before_ms=at)
    stage.put(noop.bind(), "behind it")
    with local_worker(stage, app, worker_id="first") as first:
        (told,) = stage.reports(1)
        assert told.report.task_id == "behind it"
    (left,) = [event for event in first.events if event["event"] == "draining"]
    assert left["dropped"] == 1
    with local_worker(stage, app, worker_id="second"):
        again = {t.report.task_id: t for t in stage.outcomes(2)}
    # No offset is committed past what is held, so what was done behind it is done again.
    assert again.keys() == {"held", "behind it"}
    held = again["held"]
    assert held.worker == "second"
    assert at <= held.report.started_ms
    show("held, then started by the next worker", late_ms=held.report.started_ms - at)
