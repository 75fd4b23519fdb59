"""How long a lane keeps a started batch open: reports alone ride along with what falls due next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.lane_kit import TASK, Bench, World, run
from tickstream.dispatcher.lane import Lane
from tickstream.model import ReportKind
from tickstream.settings import LaneSettings
from tickstream.timer_store import TimerStore

SETTINGS = LaneSettings(batch_open_ms=10, reports_open_ms=30, idle_wait_ms=200)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with TimerStore(tmp_path / "store") as store:
        yield Bench(World(), store)


@pytest.fixture
def lane(bench: Bench) -> Lane:
    """Owned, with the first attempt of TASK dispatched."""
    lane = bench.take_over()
    bench.world.incoming.append(bench.schedule(0, bench.clock.wall_ms()))
    run(lane)
    run(lane)
    assert bench.attempts() == [1]
    lane.settings = SETTINGS
    bench.world.one_at_a_time = True
    return lane


def _waits_s(bench: Bench, lane: Lane) -> list[float]:
    """One round; how long each question for more than the first record was prepared to wait."""
    bench.world.waits.clear()
    run(lane)
    return bench.world.waits[1:]


class TestAStartedBatch:
    def test_of_reports_alone_is_kept_open_longer(self, bench: Bench, lane: Lane) -> None:
        bench.say(ReportKind.CLAIMED, 0)
        assert _waits_s(bench, lane) == pytest.approx([0.03])

    def test_is_never_open_past_the_next_due_instant(self, bench: Bench, lane: Lane) -> None:
        bench.world.incoming.append(bench.schedule(1, bench.clock.wall_ms() + 4, f"{{{TASK}}}next"))
        run(lane)
        bench.say(ReportKind.CLAIMED, 0)
        assert _waits_s(bench, lane) == pytest.approx([0.004])

    def test_and_takes_the_reports_along_with_what_falls_due(self, bench: Bench, lane: Lane) -> None:
        at_ms = bench.clock.wall_ms() + 4
        bench.world.incoming.append(bench.schedule(1, at_ms, f"{{{TASK}}}next"))
        run(lane)
        bench.say(ReportKind.SUCCEEDED, 0)
        bench.world.on_wait = lambda wait_s: bench.clock.advance(round(wait_s * 1000))
        committed = sum(lane.tally.commit.counts)
        run(lane)
        assert sum(lane.tally.commit.counts) == committed + 1
        assert bench.attempts() == [1, 1]

    def test_with_a_command_in_it_is_open_as_briefly_as_ever(self, bench: Bench, lane: Lane) -> None:
        later_ms = bench.clock.wall_ms() + 9_000
        bench.world.incoming.append(bench.schedule(1, later_ms, f"{{{TASK}}}next"))
        bench.say(ReportKind.CLAIMED, 0)
        assert _waits_s(bench, lane) == pytest.approx([0.01, 0.01])

    def test_is_closed_sooner_once_a_command_joins(self, bench: Bench, lane: Lane) -> None:
        later_ms = bench.clock.wall_ms() + 9_000
        bench.say(ReportKind.CLAIMED, 0)
        bench.world.incoming.append(bench.schedule(1, later_ms, f"{{{TASK}}}next"))
        assert _waits_s(bench, lane) == pytest.approx([0.03, 0.01])

    def test_of_reports_that_may_open_a_gate_is_open_as_briefly_as_ever(
        self, bench: Bench, lane: Lane
    ) -> None:
        lane.owned[0].gates.waiting.add("k:payments")
        lane.owned[0].gates.running["k:payments"] = 1
        bench.say(ReportKind.CLAIMED, 0)
        assert _waits_s(bench, lane) == pytest.approx([0.01])
