"""The commands on a real broker, with the processes that a person would start."""

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli import Cli, Ran
from tickstream.codec import decode_batch
from tickstream.kafka import Admin, TopicPartition, plain_producer, state_consumer
from tickstream.ops.processes import ManagedProcess, tickstream_command
from tickstream.settings import Settings

ROOT = Path(__file__).parents[2]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], broker: str, prefix: str) -> Cli:
    return Cli(capsys, f"--bootstrap={broker}", f"--prefix={prefix}")


@pytest.fixture
def system(broker: str, prefix: str, tmp_path: Path) -> Iterator[str]:
    """Topics, a dispatcher, a worker, a projection and a dashboard; the dashboard's address."""
    connection = (f"--bootstrap={broker}", f"--prefix={prefix}", "--json")

    def start(*arguments: str) -> ManagedProcess:
        return processes.enter_context(ManagedProcess.start(tickstream_command(*arguments), cwd=ROOT))

    with ExitStack() as processes:
        with ManagedProcess.start(tickstream_command("topics", "create", *connection)) as creating:
            assert creating.wait(30) == 0
        index = f"--data={tmp_path / 'projection'}"
        session = "--session-ms=2000"
        dispatcher = start("dispatcher", "run", f"--data={tmp_path / 'dispatcher'}", session, *connection)
        worker = start("worker", "run", "examples.demo_app:app", session, *connection)
        projection = start("projection", "run", index, *connection)
        dashboard = start("dashboard", "run", index, "--port=0", "--json")
        for lane in range(4):
            dispatcher.wait_event(lambda e, lane=lane: e["event"] == "lane_active" and e["lane"] == lane)
        worker.wait_event("ready")
        projection.wait_event("ready")
        yield dashboard.wait_event("ready")["url"]


def test_topics_are_created_once_and_checked(cli: Cli, broker: str, prefix: str) -> None:
    assert cli("topics", "check").code == 1
    created = cli("topics", "create", "--queue=mail", "--buckets=4", "--lanes=2", "--json").value["created"]
    assert {f"{prefix}commands", f"{prefix}work.default", f"{prefix}work.mail", f"{prefix}lanes.0"} <= set(
        created
    )
    assert cli("topics", "create", "--queue=mail", "--json").value == {"created": []}
    assert cli("topics", "check", "--json").value == {"topics": len(created), "drift": []}

    other_number = cli("topics", "create", "--buckets=8")
    assert other_number.code == 1
    assert "has 4 buckets, not 8" in other_number.err

    Admin(Settings(broker, prefix)).delete_topics([f"{prefix}history"])
    missing = cli("topics", "check", "--json")
    assert (missing.code, missing.value["drift"]) == (1, [f"{prefix}history is missing"])


@pytest.mark.usefixtures("kafka_runtime")
def test_a_dev_broker_comes_with_topics_and_goes_on_ctrl_c(capsys: pytest.CaptureFixture[str]) -> None:
    with ManagedProcess.start(tickstream_command("dev", "up", "--queue=mail", "--json")) as dev:
        ready = dev.wait_event("ready", 60)
        here = Cli(capsys, f"--bootstrap={ready['bootstrap']}", f"--prefix={ready['prefix']}")
        assert here("topics", "check", "--queue=mail").code == 0
        dev.send(signal.SIGINT)
        assert dev.wait(20) == 0, dev.output_tail()
    assert here("topics", "check").code == 3


def test_a_load_says_which_lines_are_bad_and_loads_nothing(cli: Cli, tmp_path: Path) -> None:
    assert cli("topics", "create").code == 0
    file, journal = tmp_path / "tasks.jsonl", tmp_path / "journal.jsonl"
    good = {"task_id": "a", "offset_s": 3600, "handler": "demo"}
    lines = [good, {**good, "queue": "nowhere"}, {"task_id": "b"}, {**good, "task_id": "c"}]
    file.write_text("\n".join(map(json.dumps, lines)), "utf-8")

    refused = cli("task", "load", str(file), f"--journal={journal}")
    assert (refused.code, refused.out) == (2, "")
    assert "2 bad lines, nothing was loaded" in refused.err
    assert "line 2: queue 'nowhere' does not exist" in refused.err
    assert "line 3: " in refused.err
    assert not journal.exists()

    partly = cli("task", "load", str(file), f"--journal={journal}", "--keep-going", "--json")
    assert partly.code == 1
    assert (partly.value["accepted"], partly.value["bad_lines"], partly.value["failed"]) == (2, 2, 0)
    kept = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
    assert [entry["task_id"] for entry in kept] == ["a", "c"]
    assert all(entry["receipt"].count(":") == 2 for entry in kept)


def test_a_queue_that_nobody_serves_is_named_when_a_task_goes_there(
    cli: Cli, broker: str, prefix: str
) -> None:
    connection = (f"--bootstrap={broker}", f"--prefix={prefix}")
    assert cli("topics", "create", "--queue=mail", "--buckets=4", "--lanes=2").code == 0

    def schedule() -> Ran:
        terms = ("--lease=20", "--timeout=30", "--attempts=3", "--backoff=0.5")
        return cli(
            "task", "schedule", "mail:1", "--at=now+1h", "--handler=x", "--queue=mail", "--no-wait", *terms
        )

    first = schedule()
    assert first.code == 0
    # The task that was just scheduled waits itself, though its instant is far.
    assert first.err.startswith("queue mail: 1 waiting, 0 workers; start one: tickstream worker run")
    work = plain_producer(Settings(broker, prefix), "test")
    for partition in (0, 1, 1):
        work.produce(f"{prefix}work.mail", b"", partition=partition)
    assert work.flush(10) == 0
    assert schedule().err.startswith("queue mail: 3 waiting, 0 workers;")
    command = tickstream_command("worker", "run", "examples.demo_app:app", "--queues=mail", *connection)
    with ManagedProcess.start([*command, "--json"], cwd=ROOT) as worker:
        worker.wait_event("ready")
        served = schedule()
    assert (served.code, served.err) == (0, "")

    stored = Settings(broker, prefix)
    consumer = state_consumer(stored, "test")
    consumer.assign([TopicPartition(f"{prefix}commands", b, 0) for b in range(4)])
    (message, *_) = consumer.consume(3, 10)
    consumer.close()
    terms = decode_batch(message.value()).commands[0].options.terms
    assert terms is not None
    assert (terms.lease_ms, terms.timeout_ms, terms.attempts, terms.backoff_ms) == (20_000, 30_000, 3, 500)


def test_a_task_from_schedule_to_audit(cli: Cli, system: str) -> None:
    scheduled = cli("task", "schedule", "soon:1", "--at=now", "--handler=demo", "--label=k=v", "--json")
    assert (scheduled.code, scheduled.value["verdict"]) == (0, "SCHEDULED")
    later = cli("task", "schedule", "later:1", "--at=now+1h", "--handler=demo", "--json").value
    again = cli(
        "task", "schedule", "later:1", "--at=now+2h", "--handler=demo", "--if-exists=reject", "--json"
    )
    assert (again.code, again.value["verdict"]) == (1, "REJECTED")
    no_wait = cli("task", "schedule", "later:2", "--at=now+1h", "--handler=demo", "--no-wait", "--json")
    assert no_wait.value["receipt"].count(":") == 2
    cancelled = cli("task", "cancel", "later:1", "--json")
    assert (cancelled.code, cancelled.value["verdict"]) == (0, "CANCELLED")
    assert cli("task", "cancel", "never:1", "--json").value["verdict"] == "UNKNOWN"
    assert cli("task", "cancel", "never:1").code == 1

    # The dashboard's commands know no broker, so they are called without its options.
    reading = Cli(cli.capsys, f"--dashboard={system}", f"--after={cancelled.value['receipt']}")
    shown = reading("task", "show", "later:1", "--json")
    assert (shown.code, shown.value["task"]["state"]) == (0, "cancelled")
    assert later["receipt"] != cancelled.value["receipt"]
    assert reading("task", "show", "nobody").code == 1
    listed = reading("task", "list", "--from=now+30m", "--state=scheduled", "--json").value
    assert [row["task_id"] for row in listed["rows"]] == ["later:2"]

    report = cli("audit", "--json")
    assert report.code == 0
    assert report.value["ok"] is True
    assert report.value["scheduled"] == 3
