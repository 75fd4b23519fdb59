"""Several shards answer as one: the same history in one index and split over two gives the same answers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from tests.projection_log import LogWriter
from tests.unit.projection_index import fold_in
from tests.unit.test_projection_api import NOON, FixedClock
from tests.unit.test_projection_questions import SNAPSHOT
from tickstream.projection.api import create_app
from tickstream.projection.front import Shards, create_front
from tickstream.projection.index import Identity, IndexWriter
from tickstream.projection.reader import IndexReader
from tickstream.projection.rows import Owner
from tickstream.projection.snapshot import encode_snapshot

NOW = NOON + 30_000
ACTS = ("schedule", "schedule", "fire", "fire", "claim", "fail", "retry", "report", "report", "cancel")


class Inside(httpx.AsyncBaseTransport):
    """Each host name is an application in this process; `down` ones cannot be reached."""

    def __init__(self, apps: dict[str, Starlette]) -> None:
        self.apps = {name: httpx.ASGITransport(app) for name, app in apps.items()}
        self.down: set[str] = set()
        self.asked: list[httpx.URL] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url)
        if request.url.host in self.down:
            raise httpx.ConnectError("connection refused")
        return await self.apps[request.url.host].handle_async_request(request)


@pytest.fixture
def owned() -> Iterator[ExitStack]:
    with ExitStack() as owned:
        yield owned


def history() -> list[LogWriter]:
    """Some days' worth of decisions about a hundred tasks in two buckets."""
    chance = random.Random(9)
    logs = [LogWriter(0), LogWriter(1)]
    for _ in range(900):
        number = chance.randrange(100)
        at_ms = NOON + chance.randrange(-90, 90) * 20_000 + number
        logs[number % 2].act(chance.choice(ACTS), f"task-{number}", at_ms)
    logs[0].commit(applied_before_ms=NOW - 300)
    logs[1].commit(applied_before_ms=NOW - 800)
    return logs


def index_of(data_dir: Path, logs: list[LogWriter], owned: ExitStack, own: tuple[int, ...] = ()) -> Starlette:
    index = owned.enter_context(IndexWriter(data_dir, Identity({"timers": b"t" * 16}, 2, own)))
    fold_in(index, *logs)
    index.owned({log.bucket: Owner("alpha", 0, 0, NOON) for log in logs})
    index.owned({log.bucket: Owner("omega", log.bucket, 0, NOON + 7) for log in logs})
    index.put_cluster(encode_snapshot(SNAPSHOT))
    reader = owned.enter_context(IndexReader(data_dir))
    return create_app(reader, clock=FixedClock(), hosts=["first", "second"])


def client(app: Starlette, owned: ExitStack) -> TestClient:
    return owned.enter_context(TestClient(app, base_url="http://localhost"))


@pytest.fixture(scope="module")
def apps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Starlette]]:
    """The whole, and its two halves."""
    data_dir = tmp_path_factory.mktemp("shards")
    first, second = history()
    with ExitStack() as owned:
        yield {
            "whole": index_of(data_dir / "whole", [first, second], owned),
            "first": index_of(data_dir / "first", [first], owned, (0,)),
            "second": index_of(data_dir / "second", [second], owned, (1,)),
        }


@pytest.fixture
def whole(apps: dict[str, Starlette], owned: ExitStack) -> TestClient:
    return client(apps["whole"], owned)


@pytest.fixture
def inside(apps: dict[str, Starlette]) -> Inside:
    return Inside(apps)


def front_over(inside: Inside, owned: ExitStack, *names: str, **options: Any) -> TestClient:
    shards = Shards([f"http://{name}" for name in names], None, inside)
    return client(create_front(shards, clock=FixedClock(), **options), owned)


@pytest.fixture
def front(inside: Inside, owned: ExitStack) -> TestClient:
    return front_over(inside, owned, "first", "second")


@pytest.mark.parametrize(
    "question",
    [
        "/api/counts?start=2026-11-30T11:00:00Z&end=2026-11-30T13:00:00Z",
        "/api/counts?start=2026-11-30T11:50:00Z&end=2026-11-30T12:10:00Z&by=second&queue=slow",
        "/api/lateness?start=2026-11-30T11:00:00Z&end=2026-11-30T13:00:00Z",
        "/api/failures?start=2026-11-30T11:00:00Z&end=2026-11-30T13:00:00Z",
        "/api/queues",
        "/api/cluster",
        "/api/changes",
        "/api/running?state=running,dispatched,retrying",
        "/api/tasks/task-7",
        "/api/tasks/task-8",
        "/api/tasks/nobody%2Fhere",
        "/api/status",
        "/api/forecast",
        "/api/forecast?horizon=day",
    ],
)
def test_two_shards_answer_as_the_whole(whole: TestClient, front: TestClient, question: str) -> None:
    one, many = whole.get(question), front.get(question)
    assert (one.status_code, many.status_code) == (200, 200)
    expected, answer = one.json(), many.json()
    if "forecast" in question:
        # A second that is among the worst of no shard may be among the worst of all.
        assert (expected.pop("exact"), answer.pop("exact")) == (True, False)
        del expected["worst_seconds"], answer["worst_seconds"]
    assert answer == expected


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("filters", ["", "&state=dead", "&queue=slow&label=team:a", "&id_prefix=task-3"])
@pytest.mark.parametrize("limit", [1, 7, 1_000])
def test_pages_go_on_over_all_shards(
    whole: TestClient, front: TestClient, order: str, filters: str, limit: int
) -> None:
    def listed(asked: TestClient) -> list[tuple[str, int]]:
        rows: list[tuple[str, int]] = []
        cursor = ""
        while True:
            page = asked.get(f"/api/tasks?order={order}&limit={limit}{filters}&cursor={cursor}").json()
            rows += [(row["task_id"], row["occurrence_ts"]) for row in page["rows"]]
            if page["cursor"] is None:
                return rows
            cursor = page["cursor"]

    assert listed(front) == listed(whole)


def test_changes_are_paged_over_all_shards(whole: TestClient, front: TestClient) -> None:
    def listed(asked: TestClient) -> list[tuple[str, tuple[int, ...]]]:
        found: list[tuple[str, tuple[int, ...]]] = []
        cursor = ""
        while True:
            page = asked.get(f"/api/changes?limit=1&cursor={cursor}").json()
            found += [(change["instance"], tuple(change["buckets"])) for change in page["changes"]]
            if page["cursor"] is None:
                return found
            cursor = page["cursor"]

    assert listed(whole) == [("omega", (1,)), ("omega", (0,)), ("alpha", (0, 1))]
    assert listed(front) == listed(whole)


def test_a_page_that_a_shard_could_not_fill_is_cut_there(
    inside: Inside, owned: ExitStack, whole: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = whole.get("/api/tasks?state=dead&limit=1000").json()["rows"]
    monkeypatch.setattr("tickstream.projection.query.MAX_VISITED", 3)
    monkeypatch.setattr("tickstream.projection.query._CHUNK", 2)
    front = front_over(inside, owned, "first", "second")
    rows: list[dict[str, Any]] = []
    cursor = ""
    while cursor is not None:
        page = front.get(f"/api/tasks?state=dead&limit=2&cursor={cursor}").json()
        rows += page["rows"]
        cursor = page["cursor"]
    assert rows == expected


def test_a_receipt_is_waited_for_where_its_bucket_is(front: TestClient, inside: Inside) -> None:
    assert front.get("/api/tasks?after=0:0:0&after=1:0:0").status_code == 200
    asked = [url.params.get_list("after") for url in inside.asked if url.path == "/api/tasks"]
    assert asked == [["0:0:0"], ["1:0:0"]]
    late = front.get("/api/tasks?after=1:99999:0")
    assert (late.status_code, late.json()["missing"]) == (504, ["1:99999:0"])
    unknown = front.get("/api/tasks?after=7:1:0")
    assert (unknown.status_code, unknown.json()["parameter"]) == (400, "after")


def test_an_answer_is_the_whole_or_none(inside: Inside, owned: ExitStack, front: TestClient) -> None:
    lone = front_over(inside, owned, "first").get("/api/tasks")
    assert (lone.status_code, lone.json()["detail"]) == (503, "bucket 1 is in no shard")
    twice = front_over(inside, owned, "first", "second", "second").get("/api/queues")
    assert "bucket 1 is in http://second and http://second" in twice.json()["detail"]
    inside.down.add("second")
    down = front.get("/api/status")
    assert down.status_code == 503
    assert "http://second did not answer (connection refused)" in down.json()["detail"]


def test_what_a_shard_refuses_is_refused(front: TestClient) -> None:
    refused = front.get("/api/tasks?limit=0")
    assert (refused.status_code, refused.headers["content-type"]) == (400, "application/problem+json")
    assert refused.json()["parameter"] == "limit"
    assert front.post("/api/tasks").status_code == 405


def test_the_front_has_its_own_guard_and_the_same_page(inside: Inside, owned: ExitStack) -> None:
    guarded = front_over(inside, owned, "first", "second", token="tick")
    assert guarded.get("/api/queues").status_code == 401
    assert guarded.get("/api/queues", headers={"authorization": "Bearer tick"}).status_code == 200
    assert guarded.get("/").status_code == 200
    assert guarded.get("/openapi.json").json()["openapi"] == "3.1.0"
