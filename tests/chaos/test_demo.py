"""The demo: it keeps every promise, and leaves nothing, however it ends."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import eventually
from tickstream.kafka import Admin
from tickstream.ops.audit import FAULTS
from tickstream.ops.processes import ManagedProcess, children_of, tickstream_command
from tickstream.settings import Settings

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.kafka, pytest.mark.chaos]


@pytest.fixture
def demo(broker: str, tmp_path: Path) -> Iterator[ManagedProcess]:
    """A demo on the broker of this run, with the sessions of a dev broker; 25 seconds of it."""
    command = tickstream_command("demo", "--for=25", "--session-ms=2000", "--json")
    environ = {**os.environ, "TICKSTREAM_BOOTSTRAP": broker, "TMPDIR": str(tmp_path)}
    with ManagedProcess.start(command, env=environ, cwd=ROOT, name="demo") as process:
        yield process


def topics_of_demos(broker: str) -> list[str]:
    return [name for name in Admin(Settings(broker)).partitions() if name.startswith("demo-")]


def descendants(pid: int) -> list[int]:
    children = children_of(pid)
    return [*children, *(below for child in children for below in descendants(child))]


def running(pids: list[int]) -> list[int]:
    return [
        pid
        for pid in pids
        if Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def test_a_short_demo_keeps_every_promise_and_leaves_nothing(
    demo: ManagedProcess, broker: str, tmp_path: Path
) -> None:
    assert demo.wait(120) == 0, demo.output_tail()
    result = json.loads(demo.output_tail().splitlines()[-1])
    assert {fault: result[fault] for fault in FAULTS} == dict.fromkeys(FAULTS, 0)
    assert result["tasks"] > 1_000
    assert result["cancelled"] > 20
    assert result["takeover_max_ms"] is not None, "a dispatcher was killed, and its lanes moved"
    assert topics_of_demos(broker) == []
    assert list(tmp_path.iterdir()) == []


def test_nothing_outlives_a_demo_that_is_killed(demo: ManagedProcess, broker: str) -> None:
    # Two dispatchers under their supervisor, two workers, projection, dashboard.
    assert eventually(lambda: len(descendants(demo.pid)) >= 7, 60)
    started = descendants(demo.pid)
    demo.kill()
    assert eventually(lambda: running(started) == [], 10)
    Admin(Settings(broker)).delete_topics(topics_of_demos(broker))
