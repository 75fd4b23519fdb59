"""Lanes change hands: zombies, rebalances, lost and late stores."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from tests.kafka.rig import Rig
from tickstream.model import DueKind
from tickstream.ops.processes import Event
from tickstream.timer_store import TimerStore

TASKS = 60
HOUR_MS = 3_600_000


def _fenced(event: Event) -> bool:
    """A lane was lost because a newer owner fenced its producers.

    confluent-kafka says so by an error, or, where delivery reports are served in the same call, by a
    SystemError around it.
    """
    reason = str(event.get("reason"))
    return event.get("event") == "lane_lost" and ("fenced" in reason.lower() or "delivery reports" in reason)


@pytest.mark.parametrize("point", ["lane.begun", "lane.produced", "lane.delivered"])
def test_a_zombie_is_fenced_and_what_it_had_open_is_aborted(
    point: str, broker: str, prefix: str, tmp_path: Path
) -> None:
    with Rig(broker, prefix, tmp_path) as rig:
        zombie = rig.dispatcher("zombie", kill_at=f"{point}:20:STOP")
        rig.wait_active(zombie)
        due = rig.schedule(TASKS, first_in_ms=200, over_ms=4_000)
        # Stopped between produce and commit, past its session: its lanes go to the heir.
        heir = rig.dispatcher("heir")
        rig.wait_active(heir)
        zombie.send(signal.SIGCONT)
        lost = zombie.wait_event(_fenced)
        assert lost["lane"] in range(rig.lanes)
        rig.assert_each_once(due)
        assert zombie.returncode is None, "it lost its lanes, and lives on"
        if point != "lane.delivered":
            return
        # Every transaction writes a Progress, whatever else is in it.
        written = list(rig.read(rig.names.timers, isolation="read_uncommitted"))
        committed = list(rig.read(rig.names.timers))
        assert len(written) > len(committed), "the zombie's transaction left records, and they are aborted"


def test_a_rebalance_with_twenty_thousand_live_tasks_loses_and_repeats_none(
    broker: str, prefix: str, tmp_path: Path
) -> None:
    with Rig(broker, prefix, tmp_path, buckets=8, lanes=4) as rig:
        first = rig.dispatcher("first")
        rig.wait_active(first)
        due = rig.schedule(20_000, first_in_ms=3_000, over_ms=12_000)
        second = rig.dispatcher("second")
        rig.wait_active(second, lanes=2)
        first.stop()
        rig.wait_active(second)
        rig.assert_each_once(due, timeout_s=60)


def test_a_deleted_store_is_restored_from_the_changelog(broker: str, prefix: str, tmp_path: Path) -> None:
    with Rig(broker, prefix, tmp_path) as rig:
        first = rig.dispatcher("first")
        rig.wait_active(first)
        due = rig.schedule(TASKS, first_in_ms=1_500, over_ms=1_500)
        rig.wait_applied()
        first.stop()
        shutil.rmtree(tmp_path / "first")
        again = rig.dispatcher("first")
        rig.wait_active(again)
        assert sum(e["restored"] for e in again.events if e["event"] == "lane_active") > 0
        rig.assert_each_once(due)


def test_a_restarted_process_goes_on_from_its_store(broker: str, prefix: str, tmp_path: Path) -> None:
    with Rig(broker, prefix, tmp_path) as rig:
        first = rig.dispatcher("first")
        rig.wait_active(first)
        due = rig.schedule(TASKS, first_in_ms=2_500, over_ms=1_000)
        rig.wait_applied()
        first.stop()
        again = rig.dispatcher("first")
        rig.wait_active(again)
        assert sum(e["restored"] for e in again.events if e["event"] == "lane_active") == 0
        rig.assert_each_once(due)


def test_an_older_store_than_the_log_is_brought_up_to_it(broker: str, prefix: str, tmp_path: Path) -> None:
    with Rig(broker, prefix, tmp_path) as rig:
        early = rig.dispatcher("early")
        rig.wait_active(early)
        kept = rig.schedule(TASKS, first_in_ms=HOUR_MS, over_ms=1_000, name="kept")
        gone = rig.schedule(TASKS, first_in_ms=HOUR_MS, over_ms=1_000, name="gone")
        rig.wait_applied()
        early.stop()
        # Another owner changes half of it meanwhile; then the first comes back with its old store.
        other = rig.dispatcher("other")
        rig.wait_active(other)
        for task_id in gone:
            rig.cancel(task_id)
        rig.flush()
        rig.wait_applied()
        other.stop()
        again = rig.dispatcher("early")
        rig.wait_active(again)
        again.stop()
        with TimerStore(tmp_path / "early" / "0" / "store") as store:
            entries = [e for b in range(rig.buckets) for e in store.due(b, 2**60, 10_000)]
        assert {e.task_id: e.at_ms for e in entries if e.kind is DueKind.FIRE} == kept
        assert {e.task_id for e in entries if e.kind is DueKind.FORGET} == set(gone)
