"""Gates and standing tasks on a real broker, also across the death of the owner that keeps the gates."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli import Cli
from tests.kafka.rig import Rig
from tickstream import Client, VerdictKind
from tickstream.model import Work

WAIT = timedelta(seconds=20)


@pytest.fixture
def rig(broker: str, prefix: str, tmp_path: Path) -> Iterator[Rig]:
    with Rig(broker, prefix, tmp_path) as rig:
        yield rig


@pytest.fixture
def client(rig: Rig) -> Iterator[Client]:
    with Client(rig.settings) as client:
        yield client


def _schedule(client: Client, *task_ids: str, seconds: float = 0) -> None:
    for task_id in task_ids:
        when = datetime.now(UTC) + timedelta(seconds=seconds)
        verdict = client.schedule(task_id, run_at=when, payload=b"{}", handler="noop", wait=WAIT)
        assert verdict.kind is VerdictKind.SCHEDULED


def _ids(works: list[Work]) -> list[str]:
    return [work.task_id for work in works]


def test_what_waits_at_a_closed_gate_outlives_the_dispatcher(rig: Rig, client: Client) -> None:
    first = rig.dispatcher("first")
    rig.wait_active(first)
    client.queues.pause("default", timeout=WAIT)
    _schedule(client, "{b}1", "{b}2", "{b}3")
    rig.wait_applied()
    first.send(signal.SIGKILL)
    rig.wait_active(rig.dispatcher("heir"))
    assert rig.work(at_least=0, timeout_s=1) == []
    client.queues.resume("default", timeout=WAIT)
    assert _ids(rig.work(at_least=3)) == ["{b}1", "{b}2", "{b}3"]


def test_places_are_counted_again_after_a_take_over(rig: Rig, client: Client) -> None:
    first = rig.dispatcher("first")
    rig.wait_active(first)
    client.queues.limit("default", running=1, timeout=WAIT)
    _schedule(client, "{b}1", "{b}2")
    (work,) = rig.work(at_least=1)
    first.send(signal.SIGKILL)
    rig.wait_active(rig.dispatcher("heir"))
    rig.wait_applied()
    assert _ids(rig.work(at_least=1, timeout_s=1)) == ["{b}1"]
    rig.report(work)
    assert _ids(rig.work(at_least=2)) == ["{b}1", "{b}2"]


def test_a_task_is_paused_resumed_rescheduled_and_triggered(rig: Rig, client: Client) -> None:
    rig.wait_active(rig.dispatcher("only"))
    _schedule(client, "{b}t", seconds=3600)
    assert client.pause("{b}t", timeout=WAIT).phase == "paused"
    soon = datetime.now(UTC)
    assert client.reschedule("{b}t", run_at=soon, timeout=WAIT).kind is VerdictKind.REPLACED
    triggered = client.trigger("{b}t", timeout=WAIT)
    assert [work.occurrence_ts for work in rig.work(at_least=1)] == [triggered.occurrence_ts]
    assert client.resume("{b}t", timeout=WAIT).kind is VerdictKind.RESUMED
    assert len(rig.work(at_least=2)) == 2


def test_the_command_line_sets_queues_and_tasks(
    rig: Rig, client: Client, broker: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(capsys, f"--bootstrap={broker}", f"--prefix={rig.settings.prefix}")
    rig.wait_active(rig.dispatcher("only"))
    assert cli("queue", "limit", "default", "--running=5", "--starts=10", "--per=60").out == (
        "default: limited in each bucket to 5 running and 10 starts in 60 s\n"
    )
    assert cli("queue", "limit", "default", "--json").value == {"queue": "default", "state": "without limits"}
    assert cli("queue", "pause", "--all").out == "everything: paused\n"
    _schedule(client, "{b}t")
    assert cli("task", "trigger", "{b}t", "--json").value["verdict"] == "TRIGGERED"
    assert cli("task", "pause", "{b}t", "--json").value["phase"] == "paused"
    assert cli("task", "resume", "{b}t", "--json").value["verdict"] == "RESUMED"
    assert cli("queue", "resume", "--all").code == 0
    assert len(rig.work(at_least=2)) == 2
    gone = cli("task", "pause", "{b}nobody", "--json")
    assert (gone.code, gone.value["verdict"]) == (1, "UNKNOWN")
    assert "name one queue, or give --all" in cli("queue", "pause").err
    nowhere = cli("queue", "pause", "nowhere")
    assert (nowhere.code, "there are: default" in nowhere.err) == (2, True)
