"""SIGKILL of a dispatcher at every named point: nothing is lost, doubled or early (G1, G3, G4)."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.kafka.rig import Rig
from tickstream.ops.processes import ManagedProcess

TAKE_OVER = (
    "takeover.connected",
    "takeover.a_initialised",
    "takeover.b_initialised",
    "takeover.claim_produced",
    "takeover.claimed",
    "takeover.restoring",
    "takeover.restored",
    "takeover.positioned",
)
LOOP = (
    "lane.taken",
    "lane.decided",
    "lane.begun",
    "lane.produced",
    "lane.delivered",
    "lane.committed",
    "lane.stored",
)
APPLYING, DISPATCHING = 3, 20
"""The how-manieth transaction is hit: one of the first applies commands, the twentieth dispatches."""
TASKS = 60


@pytest.mark.parametrize(
    ("point", "nth"),
    [*((point, DISPATCHING) for point in LOOP), ("lane.produced", APPLYING), ("lane.committed", APPLYING)],
)
def test_killed_in_the_loop(point: str, nth: int, broker: str, prefix: str, tmp_path: Path) -> None:
    with Rig(broker, prefix, tmp_path) as rig:
        first = rig.dispatcher("first", kill_at=f"{point}:{nth}")
        rig.wait_active(first)
        due = rig.schedule(TASKS, first_in_ms=200, over_ms=1_500)
        assert _ended(first) == -signal.SIGKILL
        # The same store: behind by one transaction where it died between commit and write.
        rig.dispatcher("first")
        rig.assert_each_once(due)


@pytest.mark.parametrize("point", TAKE_OVER)
def test_killed_in_the_take_over(point: str, broker: str, prefix: str, tmp_path: Path) -> None:
    with Rig(broker, prefix, tmp_path) as rig:
        due = rig.schedule(TASKS, first_in_ms=-100, over_ms=1_500)
        first = rig.dispatcher("first", kill_at=point)
        assert _ended(first) == -signal.SIGKILL
        rig.dispatcher("second")
        rig.assert_each_once(due)


def _ended(process: ManagedProcess) -> int:
    return process.wait(30)
