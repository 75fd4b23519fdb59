"""The projection on a real broker: catching up, waiting for a command, dying, rebuilding, telling its age."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.kafka.projection_rig import BUCKETS, ProjectionRig, eventually, now_ms
from tests.unit.test_projection_shards import Inside
from tickstream import codec
from tickstream.errors import DataDirInUse, InvalidInput
from tickstream.kafka import plain_producer, worker_consumer
from tickstream.model import NEVER, Claim, Report, ReportKind
from tickstream.ops.processes import ManagedProcess, tickstream_command
from tickstream.projection.api import create_app
from tickstream.projection.front import Shards, create_front
from tickstream.projection.index import Identity, IndexWriter
from tickstream.projection.reader import IndexReader
from tickstream.projection.service import run_projection

ACTIONS = ("schedule", "schedule", "fire", "claim", "fail", "retry", "report", "cancel", "forget")
BASE_MS = 1_800_000_000_000


@pytest.fixture
def rig(broker: str, prefix: str, tmp_path: Path) -> Iterator[ProjectionRig]:
    with ProjectionRig(broker, prefix, tmp_path / "projection") as rig:
        yield rig


def some_history(rig: ProjectionRig, seed: int, decisions: int, tasks: int = 12) -> None:
    """Random decisions in random transactions."""
    chance = random.Random(seed)
    for _ in range(decisions):
        rig.act(chance.choice(ACTIONS), chance.randrange(tasks), BASE_MS + chance.randrange(6) * 20_000)
        if chance.random() < 0.2:
            rig.commit()
    rig.commit()


def test_it_catches_up_and_follows(rig: ProjectionRig) -> None:
    some_history(rig, seed=1, decisions=200)
    with rig.projection(), rig.dashboard() as client:
        assert rig.all_rows(client) == rig.expected()
        some_history(rig, seed=2, decisions=100)
        assert rig.all_rows(client) == rig.expected()
        status = client.get("/api/status").json()
        assert sum(status["totals"].values()) == len(rig.expected())
        assert status["restoring"] == []


def test_a_heartbeat_is_shown_with_the_run_that_it_speaks_of(rig: ProjectionRig) -> None:
    for action in ("schedule", "fire", "claim"):
        rig.act(action, 2, BASE_MS)
    rig.commit()
    beat = Report(
        *(ReportKind.HEARTBEAT, "task-2", BASE_MS, 1, b"h" * 16, "handler", 1, 2, NEVER, ""),
        progress=250,
        note="a quarter",
    )
    with rig.projection(), rig.dashboard() as client:

        def runs() -> dict[str, Any]:
            (attempt,) = client.get("/api/tasks/task-2").json()["attempts"]
            return dict(attempt)

        assert (runs()["state"], runs()["heartbeat_ms"]) == ("running", None)
        producer = plain_producer(rig.settings, "test")
        producer.produce(rig.names.reports, codec.encode_reports("worker-0", [beat]), partition=0)
        assert producer.flush(10) == 0
        eventually(lambda: runs()["heartbeat_ms"] is not None)
        assert (runs()["progress"], runs()["note"]) == (0.25, "a quarter")


def test_after_waits_until_the_command_is_in_the_answer(rig: ProjectionRig) -> None:
    rig.commit()
    with rig.projection(), rig.dashboard() as client:
        rig.act("schedule", 2, BASE_MS)
        waiting = client.get("/api/tasks/task-2", params={"after": rig.applied(0), "wait_ms": 50})
        assert waiting.status_code == 504
        assert waiting.json()["missing"] == [rig.applied(0)]
        assert waiting.json()["position"]["0"]["timers"] > 0
        assert waiting.json()["staleness_ms"] >= 0
        rig.commit()
        answer = client.get("/api/tasks/task-2", params={"after": rig.applied(0), "wait_ms": 10_000})
        assert answer.json()["task"]["next_occurrence_ts"] == BASE_MS


def test_killed_and_started_again_it_goes_on(rig: ProjectionRig) -> None:
    command = tickstream_command(
        "projection",
        "run",
        "--json",
        f"--bootstrap={rig.settings.bootstrap}",
        f"--prefix={rig.settings.prefix}",
        f"--data={rig.data_dir}",
    )
    some_history(rig, seed=3, decisions=150)
    with rig.dashboard() as client:
        for life in range(3):
            with ManagedProcess.start(command, name="projection") as process:
                ready = process.wait_event("ready")
                # What earlier lives have folded is not read again.
                everything = sum(len(log.timers) + len(log.history) for log in rig.logs)
                assert ready["records"] < everything / 2 if life else ready["records"] == everything
                assert rig.all_rows(client) == rig.expected()
                some_history(rig, seed=4 + life, decisions=60)
                process.kill()
                some_history(rig, seed=40 + life, decisions=60)
        with rig.projection():
            assert rig.all_rows(client) == rig.expected()
            totals = client.get("/api/status").json()["totals"]
            assert sum(totals.values()) == len(rig.expected())


def test_pages_are_stable_while_rows_move(rig: ProjectionRig) -> None:
    for task in range(40):
        rig.act("schedule", task, BASE_MS + task * 1_000)
    rig.commit()
    with rig.projection(), rig.dashboard() as client:
        seen: list[str] = []
        query: dict[str, object] = {"limit": 6, "after": [rig.applied(0), rig.applied(1)], "wait_ms": 10_000}
        still = set(range(0, 40, 2))
        for mover in range(1, 40, 2):
            answer = client.get("/api/tasks", params=query).json()
            seen += [row["task_id"] for row in answer["rows"]]
            if answer["cursor"] is None:
                break
            query["cursor"] = answer["cursor"]
            # A task that has been passed moves behind the cursor's back, and one ahead goes away.
            rig.act("schedule", mover, BASE_MS + 60_000 + mover)
            rig.commit()
        assert [seen.count(f"task-{task}") for task in sorted(still)] == [1] * len(still)


def test_staleness_rises_and_names_the_bucket_that_stands_still(rig: ProjectionRig) -> None:
    rig.commit(applied_before_ms=now_ms())
    with rig.projection(), rig.dashboard() as client:
        eventually(lambda: client.get("/api/status").json()["staleness_ms"] < 20_000)
        rig.commit(0)
        first = client.get("/api/status").json()
        eventually(lambda: client.get("/api/status").json()["staleness_ms"] > first["staleness_ms"] + 500)
        rig.commit(0)
        eventually(lambda: client.get("/api/status").json()["slowest_bucket"] == 1)
        later = client.get("/api/status").json()
        assert later["staleness_ms"] >= later["as_of"] - first["as_of"]


def test_outcomes_deleted_by_age_count_as_seen(rig: ProjectionRig) -> None:
    for action in ("schedule", "fire", "report"):
        rig.act(action, 0, BASE_MS)
        rig.act(action, 1, BASE_MS)
    rig.commit()
    ends = rig.admin.ends([(rig.names.history, bucket) for bucket in range(BUCKETS)])
    rig.admin.delete_records(ends)
    with rig.projection(), rig.dashboard() as client:
        answer = client.get("/api/tasks/task-0", params={"after": rig.applied(0), "wait_ms": 10_000}).json()
        assert answer["task"]["state"] == "succeeded"
        assert answer["occurrences"] == []


def test_topics_made_anew_are_read_from_their_beginning(rig: ProjectionRig) -> None:
    some_history(rig, seed=7, decisions=50)
    with rig.projection(), rig.dashboard() as client:
        assert rig.all_rows(client) == rig.expected()
    old = [name for name in rig.admin.partitions() if name.startswith(rig.names.prefix)]
    rig.admin.delete_topics(old)
    eventually(lambda: not set(old) & rig.admin.partitions().keys())
    rig.begin()
    some_history(rig, seed=8, decisions=20)
    with rig.projection(), rig.dashboard() as client:
        assert rig.all_rows(client) == rig.expected()


def test_a_record_of_a_newer_release_stops_its_bucket_only(rig: ProjectionRig) -> None:
    rig.commit()
    with rig.projection() as events, rig.dashboard() as client:
        producer = plain_producer(rig.settings, "newer")
        unknown = b"\xc3\x01" + b"\x07" * 8 + b"?"
        producer.produce(rig.names.timers, unknown, codec.timers_key(codec.SPEC, "task-1"), 1)
        producer.flush(10)
        eventually(lambda: any(event["event"] == "alarm" for event in events))
        alarm = next(event for event in events if event["event"] == "alarm")
        assert alarm["bucket"] == 1
        assert "upgrade" in str(alarm["reason"])
        rig.act("schedule", 0, BASE_MS)
        rig.commit()
        answer = client.get("/api/tasks/task-0", params={"after": rig.applied(0), "wait_ms": 10_000}).json()
        assert answer["task"]["state"] == "scheduled"
        assert answer["slowest_bucket"] == 1


def test_a_directory_has_one_projection(rig: ProjectionRig) -> None:
    with rig.projection(), pytest.raises(DataDirInUse, match="in use by another process"):
        IndexWriter(rig.data_dir, Identity({}, BUCKETS))


def test_owners_come_from_the_log_and_groups_from_the_broker(rig: ProjectionRig) -> None:
    rig.act("schedule", 0, BASE_MS)
    rig.commit()
    claim = codec.encode_claim(Claim("alpha", 0, 0, now_ms()))
    work = rig.names.work("default")
    worker = worker_consumer(
        rig.settings, rig.names.worker_group("default"), "w1", on_commit=lambda _error, _partitions: None
    )
    worker.subscribe([work])
    try:
        eventually(lambda: (worker.poll(0.1), worker.assignment())[1])
        producer = plain_producer(rig.settings, "test")
        producer.produce(rig.names.timers, claim, codec.timers_key(codec.CLAIM), 1)
        producer.produce(work, b"one", b"", 0)
        assert producer.flush(10) == 0
        with rig.projection(), rig.dashboard() as client:
            # Told without a Progress behind it: a bucket that stands still names its owner.
            eventually(lambda: client.get("/api/cluster").json()["buckets"][1]["owner"] == "alpha")
            eventually(lambda: client.get("/api/cluster").json()["workers"].get("default"))
            cluster = client.get("/api/cluster").json()
            assert cluster["broker"]["problem"] == ""
            (member,) = cluster["workers"]["default"]
            assert (member["worker"], member["partitions"]) == ("w1", BUCKETS)
            assert cluster["buckets"][0]["timers"] == cluster["buckets"][0]["timers_end"] - 1
            (queue,) = client.get("/api/queues").json()["queues"]
            assert (queue["workers"], queue["work_waiting"], queue["exists"]) == (1, 1, True)
            (change,) = client.get("/api/changes").json()["changes"]
            assert (change["kind"], change["buckets"], change["instance"]) == ("takeover", [1], "alpha")
    finally:
        worker.close()


def test_two_projections_of_a_bucket_each_answer_as_one(rig: ProjectionRig) -> None:
    some_history(rig, seed=11, decisions=120)
    whole = rig.data_dir
    with ExitStack() as owned:
        apps = {}
        for bucket in range(BUCKETS):
            rig.data_dir = whole.with_name(f"shard-{bucket}")
            owned.enter_context(rig.projection(buckets=(bucket,)))
            reader = owned.enter_context(IndexReader(rig.data_dir))
            apps[f"shard{bucket}"] = create_app(reader, hosts=[f"shard{bucket}"])
        shards = Shards([f"http://{name}" for name in apps], None, Inside(apps))
        client = owned.enter_context(TestClient(create_front(shards), base_url="http://localhost"))
        assert rig.all_rows(client) == rig.expected()
        position = client.get("/api/status").json()["position"]
        assert {int(bucket) for bucket in position} == set(range(BUCKETS))


def test_a_bucket_that_there_is_not_cannot_be_followed(rig: ProjectionRig) -> None:
    with pytest.raises(InvalidInput, match="bucket 2: there are 2"):
        run_projection(
            rig.settings, data_dir=rig.data_dir, events=print, stop=threading.Event(), buckets=(0, 2)
        )
