"""What the API answers besides listings: load over time, runs and their leases, failures, queues, changes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.projection_log import LogWriter
from tests.unit.projection_index import fold_in, new_index
from tests.unit.test_projection_api import MINUTE, NOON, dashboard
from tickstream import codec
from tickstream.clock import iso_utc
from tickstream.model import QueueLimits, QueueState
from tickstream.projection.index import IndexWriter
from tickstream.projection.keys import WHOLE
from tickstream.projection.rows import Change, ChangeKind, Owner, Position, Pulse
from tickstream.projection.snapshot import Member, Snapshot, encode_snapshot
from tickstream.projection.steps import BucketBuffer

NOW = NOON + 30_000
HOUR = 60 * MINUTE


def other_bucket() -> LogWriter:
    log = LogWriter(1)
    log.commit(applied_before_ms=NOW)
    return log


@pytest.fixture
def index(tmp_path: Path) -> Iterator[IndexWriter]:
    with new_index(tmp_path) as index:
        fold_in(index, other_bucket())
        yield index


@pytest.fixture
def client(index: IndexWriter, tmp_path: Path) -> Iterator[TestClient]:
    with dashboard(tmp_path) as client:
        yield client


def fold(index: IndexWriter, *acts: tuple[str, str, int], applied_before_ms: int = NOW) -> LogWriter:
    log = LogWriter(0)
    for act in acts:
        log.act(*act)
    log.commit(applied_before_ms=applied_before_ms)
    fold_in(index, log)
    return log


def ids(client: TestClient, **query: Any) -> list[str]:
    return [row["task_id"] for row in client.get("/api/tasks", params=query).json()["rows"]]


# --------------------------------------------------------------------------- listings


def test_the_latest_come_first_when_asked_so(index: IndexWriter, client: TestClient) -> None:
    fold(
        index,
        *(("schedule", f"t{n}", NOON + n * 1_000) for n in range(9)),
        *(("fire", f"t{n}", 0) for n in range(0, 9, 2)),
        ("report", "t4", 0),
    )
    seen: list[str] = []
    query: dict[str, Any] = {"order": "desc", "limit": 2, "start": NOON + 1_000, "end": NOON + 8_000}
    while True:
        page = client.get("/api/tasks", params=query).json()
        seen += [row["task_id"] for row in page["rows"]]
        if page["cursor"] is None:
            break
        query["cursor"] = page["cursor"]
    assert seen == [f"t{n}" for n in range(7, 0, -1)]


def test_errors_are_found_by_their_text_and_by_their_like(index: IndexWriter, client: TestClient) -> None:
    fold(
        index,
        *(("schedule", f"t{n}", NOON + n) for n in range(3)),
        ("fire", "t0", 0),
        ("report", "t0", 1),
        ("fire", "t1", 0),
        ("report", "t1", 0),
    )
    assert ids(client, error="VALUEerror: N") == ["t0"]
    assert ids(client, error="no such text") == []
    assert ids(client, error_like="ValueError: no") == ["t0"]
    assert ids(client, error_like="ValueError") == []


def test_a_calendar_is_its_events(index: IndexWriter, client: TestClient) -> None:
    fold(index, *(("schedule", name, NOON) for name in ("{team}a", "{team}b", "{teams}c", "team")))
    assert ids(client, calendar="team") == ["{team}a", "{team}b"]
    assert ids(client, calendar="team", id_prefix="{team}b") == ["{team}b"]


# --------------------------------------------------------------------------- over time


def test_rows_are_counted_by_second_minute_and_hour(index: IndexWriter, client: TestClient) -> None:
    fold(
        index,
        *(("schedule", f"t{n}", NOON + n * 400) for n in range(6)),
        ("schedule", "later", NOON + HOUR + 1),
        ("fire", "t0", 0),
        ("report", "t0", 1),
    )

    def counted(by: str, **query: Any) -> list[tuple[int, int, int]]:
        window = {"start": NOON, "end": NOON + 2 * HOUR if by != "second" else NOON + MINUTE}
        answer = client.get("/api/counts", params=window | query | {"by": by}).json()
        assert answer["next_start"] is None
        return [(p["start_ms"] - NOON, p["scheduled"], p["dead"]) for p in answer["periods"]]

    assert counted("second") == [(0, 2, 1), (1_000, 2, 0), (2_000, 1, 0)]
    assert counted("minute") == [(0, 5, 1), (HOUR, 1, 0)]
    assert counted("hour") == [(0, 5, 1), (HOUR, 1, 0)]
    assert counted("second", queue="default") == [(0, 0, 1)]
    assert counted("minute", queue="slow") == [(0, 5, 0), (HOUR, 1, 0)]


def test_seconds_are_counted_in_parts_when_there_are_too_many(
    index: IndexWriter, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickstream.projection.charts.MAX_COUNTED", 10)
    fold(index, *(("schedule", f"t{n}", NOON + n * 100) for n in range(35)))
    found: dict[int, int] = {}
    start: int | None = NOON
    parts = 0
    while start is not None:
        answer = client.get(
            "/api/counts", params={"start": start, "end": NOON + MINUTE, "by": "second"}
        ).json()
        found |= {p["start_ms"] - NOON: p["scheduled"] for p in answer["periods"]}
        start = answer["next_start"]
        parts += 1
    assert found == {0: 10, 1_000: 10, 2_000: 10, 3_000: 5}
    assert parts == 4


def test_the_load_to_come_and_its_worst_seconds(index: IndexWriter, client: TestClient) -> None:
    fold(
        index,
        ("schedule", "past", NOW - 1),
        ("schedule", "now", NOW),
        *(("schedule", f"peak{n}", NOON + 10 * MINUTE + 5_000 + n) for n in range(7)),
        *(("schedule", f"side{n}", NOON + 10 * MINUTE + 9_000 + n) for n in range(3)),
        ("schedule", "edge", NOW + HOUR - 1),
        ("schedule", "beyond", NOW + HOUR),
        ("schedule", "tomorrow", NOW + 24 * HOUR - 1),
    )
    hour = client.get("/api/forecast").json()
    assert (hour["total"], hour["exact"], hour["end_ms"] - hour["start_ms"]) == (12, True, HOUR)
    assert [(p["start_ms"] - NOON, p["count"]) for p in hour["periods"]] == [
        (0, 1),
        (10 * MINUTE, 10),
        (HOUR, 1),
    ]
    assert [(s["start_ms"] - NOON, s["count"]) for s in hour["worst_seconds"]][:2] == [
        (10 * MINUTE + 5_000, 7),
        (10 * MINUTE + 9_000, 3),
    ]
    assert client.get("/api/forecast?horizon=day").json()["total"] == 14
    assert client.get("/api/forecast?horizon=week").json()["queues"] == {"slow": 14}


def test_worst_seconds_say_when_they_were_not_all_looked_at(
    index: IndexWriter, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickstream.projection.charts.MAX_COUNTED", 5)
    fold(index, *(("schedule", f"t{n}", NOON + 2 * MINUTE + n) for n in range(9)))
    answer = client.get("/api/forecast").json()
    assert (answer["total"], answer["exact"]) == (9, False)


def test_lateness_over_time_by_stage(index: IndexWriter, client: TestClient) -> None:
    acts: list[tuple[str, str, int]] = []
    for n, minute in enumerate((0, 0, 3)):
        acts += [("schedule", f"t{n}", NOON - HOUR + minute * MINUTE), ("fire", f"t{n}", 0)]
        acts += [("report", f"t{n}", 0)]
    fold(index, *acts)
    answer = client.get("/api/lateness", params={"start": NOON - HOUR, "end": NOON, "by": "minute"}).json()
    periods = {(p["start_ms"] - NOON + HOUR) // MINUTE: p["stages"] for p in answer["periods"]}
    assert {minute: by["due_to_started"]["count"] for minute, by in periods.items()} == {0: 2, 3: 1}
    stage = periods[0]["due_to_decided"]
    assert (stage["p50_ms"], stage["max_ms"], stage["histogram"]) == (3, 3, [[3, 2]])
    assert answer["stages"]["fetched_to_started"]["p99_ms"] == 1
    by_hour = client.get("/api/lateness", params={"start": NOON - HOUR, "end": NOON, "by": "hour"}).json()
    assert [p["stages"]["due_to_started"]["count"] for p in by_hour["periods"]] == [3]


# --------------------------------------------------------------------------- runs, failures


def test_a_run_shows_how_old_its_lease_is(index: IndexWriter, client: TestClient) -> None:
    fold(
        index,
        *(
            (act, name, NOON + 10_000)
            for name in ("held", "quiet", "out")
            for act in ("schedule", "fire", "claim")
            if (name, act) != ("out", "claim")
        ),
    )
    index.hear([Pulse("held", NOON + 10_000, (b"h" * 16).hex(), NOW - 2_000, 500, "half")])
    index.hear([Pulse("quiet", NOON + 10_000, (b"x" * 16).hex(), NOW - 1, 900, "of another run")])
    rows = {row["task_id"]: row for row in client.get("/api/running").json()["rows"]}
    assert rows.keys() == {"held", "quiet"}
    held, quiet = rows["held"], rows["quiet"]
    assert (held["lease_ms"], held["lease_age_ms"], held["lease_left_ms"]) == (10_000, 2_000, 8_000)
    assert (held["progress"], held["note"], held["run_id"]) == (0.5, "half", (b"h" * 16).hex())
    # Claimed at noon + 10 s + 3 ms + 4 ms, and not heard of since.
    assert (quiet["lease_age_ms"], quiet["lease_left_ms"]) == (19_993, -9_993)
    assert (quiet["heartbeat_ms"], quiet["note"]) == (None, "")
    out = client.get("/api/running?state=dispatched").json()["rows"]
    assert [(row["task_id"], row["lease_age_ms"]) for row in out] == [("out", None)]


def test_failures_are_put_together_by_handler_and_error(index: IndexWriter, client: TestClient) -> None:
    acts: list[tuple[str, str, int]] = []
    for n in range(7):
        acts += [("schedule", f"t{n}", NOON - MINUTE + n * 1_000), ("fire", f"t{n}", 0)]
        acts += [("report", f"t{n}", n % 4)]
    fold(index, *acts)
    answer = client.get("/api/failures").json()
    (group,) = answer["groups"]
    assert (group["count"], answer["count"], answer["group_count"]) == (5, 5, 1)
    assert (group["handler"], group["error"]) == ("DEAD-handler", "ValueError: no")
    assert [example["task_id"] for example in group["examples"]] == ["t6", "t5", "t3", "t2", "t1"]
    assert (group["first_ms"], group["last_ms"]) == (NOON - 59_000 + 9, NOON - 54_000 + 9)
    assert answer["whole_from_ms"] is None
    assert client.get("/api/failures", params={"handler": "another"}).json()["groups"] == []
    # The line lists exactly these.
    words = shlex.split(group["command"])
    assert words[:3] == ["tickstream", "task", "list"]
    given = dict(zip(words[3::2], words[4::2], strict=True))
    listed = ids(
        client,
        state=given["--state"],
        handler=given["--handler"],
        error_like=given["--error-like"],
        start=given["--from"],
        end=given["--to"],
    )
    assert listed == ["t1", "t2", "t3", "t5", "t6"]
    words = shlex.split(group["replay"])
    assert words[:3] == ["tickstream", "dead-letter", "replay"]
    given = dict(zip(words[3::2], words[4::2], strict=True))
    assert given == {
        "--handler": "DEAD-handler",
        "--error-like": "ValueError: no",
        "--from": iso_utc(group["first_ms"]),
    }


def test_too_many_failures_are_looked_at_from_the_latest_on(
    index: IndexWriter, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickstream.projection.failures.MAX_VISITED", 2)
    acts: list[tuple[str, str, int]] = []
    for n in range(3):
        acts += [("schedule", f"t{n}", NOON - MINUTE + n), ("fire", f"t{n}", 0), ("report", f"t{n}", 1)]
    fold(index, *acts)
    answer = client.get("/api/failures").json()
    assert (answer["count"], answer["whole_from_ms"]) == (2, NOON - MINUTE + 1 + 9)


# --------------------------------------------------------------------------- the installation

SNAPSHOT = Snapshot(
    NOW - 1_000,
    "",
    2,
    0,
    ("default", "slow"),
    (Member("alpha", "10.0.0.1", (0,)),),
    {"default": (Member("w1", "10.0.0.2", (0, 1)),), "slow": ()},
    {"default": 3, "slow": 0},
    {"commands": (5, 9), "reports": (0, 0), "timers": (9, 9), "history": (0, 0)},
)


def test_queues_say_what_waits_and_who_works(index: IndexWriter, client: TestClient) -> None:
    fold(
        index,
        ("schedule", "late", NOON + 1_000),
        ("schedule", "later", NOON + MINUTE + 1),
        ("schedule", "out", NOON),
        ("fire", "out", 0),
    )
    unknown = client.get("/api/queues").json()
    assert [(q["queue"], q["workers"]) for q in unknown["queues"]] == [("default", None), ("slow", None)]
    assert unknown["broker"] == {"asked_ms": None, "problem": "it was not asked yet"}
    index.put_cluster(encode_snapshot(SNAPSHOT))
    default, slow = client.get("/api/queues").json()["queues"]
    assert (slow["scheduled"], slow["overdue"], slow["oldest_ts"]) == (2, 1, NOON + 1_000)
    assert (slow["workers"], slow["work_waiting"]) == (0, 0)
    assert (default["dispatched"], default["workers"], default["work_waiting"]) == (1, 1, 3)


def test_the_cluster_names_owners_and_what_waits_for_them(index: IndexWriter, client: TestClient) -> None:
    fold(index, ("schedule", "a", NOON), ("schedule", "b", NOON), applied_before_ms=NOW - 700)
    index.owned({0: Owner("alpha", 0, 0, NOON), 1: Owner("omega", 1, 0, NOON + 5)})
    index.put_cluster(encode_snapshot(SNAPSHOT))
    answer = client.get("/api/cluster").json()
    first, second = answer["buckets"]
    assert (first["owner"], first["lane"], first["lag_ms"]) == ("alpha", 0, 700)
    assert (first["commands"], first["commands_waiting"], first["tzdata"]) == (2, 3, "2025.1")
    assert (second["owner"], second["commands_waiting"]) == ("omega", 9)
    assert [(lane["owner"], lane["member"], lane["buckets"]) for lane in answer["lanes"]] == [
        ("alpha", True, [0]),
        ("omega", False, [1]),
    ]
    assert answer["dispatchers"] == [{"instance": "alpha", "host": "10.0.0.1", "lanes": [0]}]
    assert answer["workers"] == {
        "default": [{"worker": "w1", "host": "10.0.0.2", "partitions": 2}],
        "slow": [],
    }


def test_changes_come_latest_first_and_once(index: IndexWriter, client: TestClient) -> None:
    both = {0: Owner("alpha", 0, 0, NOON), 1: Owner("alpha", 0, 0, NOON)}
    index.owned(both)
    index.owned(both)
    index.owned({1: Owner("omega", 1, 0, NOON + 5)})
    index.note(Change(NOON + 9, ChangeKind.REBUILD, WHOLE, {"reason": "too old"}))
    seen: list[tuple[str, str | None, list[int]]] = []
    query: dict[str, Any] = {"limit": 1}
    while True:
        page = client.get("/api/changes", params=query).json()
        seen += [(c["kind"], c["instance"], c["buckets"]) for c in page["changes"]]
        if page["cursor"] is None:
            break
        query["cursor"] = page["cursor"]
    assert seen == [
        ("rebuild", None, []),
        ("takeover", "omega", [1]),
        ("takeover", "alpha", [0, 1]),
    ]
    assert client.get("/api/changes", params={"end": NOON}).json()["changes"] == []


def test_new_zone_data_is_a_change(index: IndexWriter, client: TestClient) -> None:
    log = fold(index, applied_before_ms=NOON)
    log.tzdata = "2026.1"
    log.commit(applied_before_ms=NOON + 7)
    fold_in(index, log)
    (change,) = client.get("/api/changes").json()["changes"]
    assert (change["at_ms"], change["kind"], change["buckets"]) == (NOON + 7, "tzdata", [0])
    assert (change["before"], change["after"]) == ("2025.1", "2026.1")


def test_a_queue_tells_its_gates(index: IndexWriter, client: TestClient) -> None:
    wide, narrow = QueueLimits(max_running=8), QueueLimits(starts=5, per_ms=60_000)
    for bucket, limits in ((0, wide), (1, narrow)):
        buffer = BucketBuffer(bucket, Position())
        for offset, queue in enumerate(
            (QueueState("slow", limits=limits), QueueState("default", limits=QueueLimits()))
        ):
            key = codec.timers_key(codec.QUEUE, queue.queue)
            buffer.add_timers(offset, key, codec.encode_queue(queue), NOON)
        index.set_queues(bucket, buffer.take_settings())
    queues = {queue["queue"]: queue for queue in client.get("/api/queues").json()["queues"]}
    assert queues["slow"]["limits"] == [
        {"max_running": 8, "starts": None, "per_ms": 1_000, "buckets": 1},
        {"max_running": None, "starts": 5, "per_ms": 60_000, "buckets": 1},
    ]
    assert queues["default"]["limits"] == []


def test_a_paused_queue_says_so_and_when(index: IndexWriter, client: TestClient) -> None:
    buffer = BucketBuffer(0, Position())
    said = (("slow", True, 0), ("slow", True, 1), ("default", False, 2), ("slow", False, 3))
    for offset, (queue, paused, ms) in enumerate(said):
        value = codec.encode_queue(QueueState(queue, paused))
        buffer.add_timers(offset, codec.timers_key(codec.QUEUE, queue), value, NOON + ms)
    settings = buffer.take_settings()
    assert buffer.take_settings() == []
    index.set_queues(0, settings[:3])
    # The same records again, as after a crash.
    index.set_queues(0, settings[:3])
    queues = {queue["queue"]: queue for queue in client.get("/api/queues").json()["queues"]}
    assert (queues["slow"]["paused_buckets"], queues["default"]["paused_buckets"]) == (1, 0)
    index.set_queues(0, settings[3:])
    after = {queue["queue"]: queue for queue in client.get("/api/queues").json()["queues"]}
    assert after["slow"]["paused_buckets"] == 0
    changes = client.get("/api/changes").json()["changes"]
    assert [(c["kind"], c["queue"], c["at_ms"] - NOON) for c in changes] == [
        ("resume", "slow", 3),
        ("pause", "slow", 0),
    ]


# --------------------------------------------------------------------------- every one of them


@pytest.mark.parametrize(
    "path",
    [
        "/api/running",
        "/api/failures",
        "/api/forecast",
        "/api/lateness",
        "/api/queues",
        "/api/cluster",
        "/api/changes",
        f"/api/counts?start={NOON}&end={NOON + 1}",
    ],
)
def test_every_answer_can_wait_and_tells_its_age(client: TestClient, index: IndexWriter, path: str) -> None:
    fold(index, ("schedule", "a", NOON), applied_before_ms=NOW - 700)
    both = "&" if "?" in path else "?"
    answer = client.get(f"{path}{both}after=0:0:0").json()
    assert (answer["as_of"], answer["staleness_ms"], answer["slowest_bucket"]) == (NOW, 700, 0)
    late = client.get(f"{path}{both}after=0:1:0")
    assert (late.status_code, late.json()["missing"]) == (504, ["0:1:0"])
    assert client.get(f"{path}{both}nonsense=1").status_code == 400
