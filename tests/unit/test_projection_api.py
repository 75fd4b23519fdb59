"""The HTTP API: its answers, its errors, and what it lets nobody do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.projection_log import LogWriter
from tests.unit.projection_index import fold_in, new_index
from tickstream.projection.api import create_app
from tickstream.projection.reader import IndexReader

MINUTE = 60_000
NOON = 1_796_040_000_000
HOSTILE = '<img src=x onerror="alert(1)">'


class FixedClock:
    """Noon, and thirty seconds into it."""

    def wall_ms(self) -> int:
        return NOON + 30_000

    def monotonic(self) -> float:
        return self.wall_ms() / 1_000


@contextmanager
def dashboard(data_dir: Path, **options: Any) -> Iterator[TestClient]:
    with (
        IndexReader(data_dir) as reader,
        TestClient(create_app(reader, clock=FixedClock(), **options), base_url="http://localhost") as client,
    ):
        yield client


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Ten tasks at noon, one a second: t0 succeeded, t1 dead, t2 runs, t3 cancelled, the rest wait; and one to come."""
    log = LogWriter(0)
    for n in range(10):
        log.act("schedule", f"t{n}", NOON + n * 1_000)
    log.act("schedule", HOSTILE, NOON + MINUTE)
    for action, task_id, at in (
        ("fire", "t0", 0),
        ("report", "t0", 0),
        ("fire", "t1", 0),
        ("report", "t1", 1),
        ("fire", "t2", 0),
        ("cancel", "t3", 0),
    ):
        log.act(action, task_id, at)
    log.commit(applied_before_ms=NOON + 29_500)
    other = LogWriter(1)
    other.commit(applied_before_ms=NOON + 29_900)
    with new_index(tmp_path) as index:
        fold_in(index, log, other)
    return tmp_path


@pytest.fixture
def client(data_dir: Path) -> Iterator[TestClient]:
    with dashboard(data_dir) as client:
        yield client


# --------------------------------------------------------------------------- answers


def test_a_window_is_paged_in_order(client: TestClient) -> None:
    query: dict[str, Any] = {"start": NOON, "end": NOON + 5_000, "limit": 2}
    seen: list[tuple[str, str]] = []
    while True:
        page = client.get("/api/tasks", params=query).json()
        seen += [(row["task_id"], row["state"]) for row in page["rows"]]
        assert len(page["rows"]) <= 2
        if page["cursor"] is None:
            break
        query["cursor"] = page["cursor"]
    assert seen == [
        ("t0", "succeeded"),
        ("t1", "dead"),
        ("t2", "dispatched"),
        ("t3", "cancelled"),
        ("t4", "scheduled"),
    ]


def test_every_answer_tells_its_age(client: TestClient) -> None:
    for path in ("/api/tasks", "/api/tasks/t0", "/api/status", f"/api/counts?start={NOON}&end={NOON + 1}"):
        answer = client.get(path).json()
        assert (answer["as_of"], answer["staleness_ms"], answer["slowest_bucket"]) == (NOON + 30_000, 500, 0)
        assert answer["restoring"] == []
        assert set(answer["position"]) == {"0", "1"}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("state=dispatched", ["t2"]),
        ("state=dead&state=cancelled", ["t1", "t3"]),
        ("state=succeeded,dead", ["t0", "t1"]),
        ("handler=DEAD-handler", ["t1"]),
        ("label=team:a&end=2026-11-30T12:00:04Z", ["t1", "t3"]),
        ("id_prefix=t4", ["t4"]),
        ("queue=default", ["t0", HOSTILE]),
        ("start=2026-11-30T13:01:00%2B01:00", [HOSTILE]),
        ("start=2026-11-30T13:01:00.001%2B01:00", []),
    ],
)
def test_filters(client: TestClient, query: str, expected: list[str]) -> None:
    answer = client.get(f"/api/tasks?{query}")
    assert [row["task_id"] for row in answer.json()["rows"]] == expected


def test_a_row_has_all_that_a_listing_shows(client: TestClient) -> None:
    (row,) = client.get("/api/tasks?state=dead").json()["rows"]
    due = NOON + 1_000
    assert row == {
        "task_id": "t1",
        "occurrence_ts": due,
        "state": "dead",
        "queue": "slow",
        "handler": "DEAD-handler",
        "labels": {"team": "a"},
        "attempt": 1,
        "worker": "worker-1",
        "decided_ms": due + 3,
        "fetched_ms": due + 5,
        "started_ms": due + 6,
        "ended_ms": due + 8,
        "retry_at_ms": None,
        "error": "ValueError: no",
        "rev": "1:0",
    }


def test_one_task(client: TestClient) -> None:
    answer = client.get("/api/tasks/t4").json()
    assert answer["task"]["state"] == "scheduled"
    assert answer["task"]["next_occurrence_ts"] == NOON + 4_000
    assert answer["task"]["payload"] == {"bytes": 6, "form": "text", "text": None}
    assert [row["occurrence_ts"] for row in answer["occurrences"]] == [NOON + 4_000]
    ended = client.get("/api/tasks/t1").json()
    assert (ended["task"]["state"], ended["task"]["labels"]) == ("dead", {"team": "a"})
    nobody = client.get("/api/tasks/nobody").json()
    assert (nobody["task"], nobody["occurrences"]) == (None, [])


def test_counts_per_minute_and_state(client: TestClient) -> None:
    answer = client.get(
        "/api/counts", params={"start": NOON, "end": NOON + 2 * MINUTE, "by": "minute"}
    ).json()
    waiting, in_flight = ("scheduled", "paused", "held", "faulted"), ("dispatched", "running", "retrying")
    nothing = dict.fromkeys((*waiting, *in_flight, "succeeded", "dead", "cancelled", "skipped"), 0)
    first = nothing | {"scheduled": 6, "dispatched": 1, "succeeded": 1, "dead": 1, "cancelled": 1}
    assert answer["periods"] == [
        {"start_ms": NOON, **first},
        {"start_ms": NOON + MINUTE, **nothing, "scheduled": 1},
    ]
    assert answer["totals"] == first | {"scheduled": 7}


def test_status_says_what_is_late_and_where(client: TestClient) -> None:
    status = client.get("/api/status").json()
    assert status["overdue"] == {
        "count": 6,
        "oldest_ts": NOON + 4_000,
        "exact": True,
        "queues": {"slow": {"count": 6, "oldest_ts": NOON + 4_000}},
    }
    assert status["running"]["oldest"]["task_id"] == "t2"
    assert status["lateness"]["stages"]["due_to_started"] == {
        "count": 2,
        **dict.fromkeys(("p50_ms", "p90_ms", "p99_ms", "max_ms"), 6),
        "histogram": [[6, 2]],
    }
    assert [failure["task_id"] for failure in status["failures"]] == ["t1"]
    assert status["totals"]["scheduled"] == 7
    assert [bucket["lag_ms"] for bucket in status["buckets"]] == [500, 100]


@pytest.fixture
def attempted(tmp_path: Path) -> Iterator[TestClient]:
    """At noon: `held` runs on its second attempt, `waits` for its third, `done` needed two and says so."""
    log = LogWriter(0)
    for n, (task_id, actions) in enumerate(
        {
            "held": ("fail", "retry", "claim"),
            "waits": ("claim", "fail", "retry", "claim", "fail"),
            "done": ("claim", "fail", "retry", "report"),
        }.items()
    ):
        log.act("schedule", task_id, NOON + n)
        log.act("fire", task_id, 0)
        for turn, action in enumerate(actions):
            # An odd instant is a failure, one divisible by 4 an expired lease (or, of a report, a success).
            log.act(action, task_id, 1 if (action, turn) == ("fail", 1) else 0)
    log.commit(applied_before_ms=NOON + 29_500)
    other = LogWriter(1)
    other.commit(applied_before_ms=NOON + 29_500)
    with new_index(tmp_path) as index:
        fold_in(index, log, other)
    with dashboard(tmp_path) as client:
        yield client


def test_an_occurrence_goes_on_when_an_attempt_ends(attempted: TestClient) -> None:
    rows = {row["task_id"]: row for row in attempted.get("/api/tasks").json()["rows"]}
    held, waits, done = rows["held"], rows["waits"], rows["done"]
    assert (held["state"], held["attempt"], held["worker"]) == ("running", 2, "worker-0")
    assert held["started_ms"] == held["decided_ms"] + 4
    assert (waits["state"], waits["attempt"], waits["worker"]) == ("retrying", 3, "")
    assert (waits["retry_at_ms"], held["retry_at_ms"]) == (NOON + 1 + 1_000, None)
    assert (done["state"], done["attempt"]) == ("succeeded", 2)
    for state, found in (
        ("running", ["held"]),
        ("retrying", ["waits"]),
        ("running,retrying", ["held", "waits"]),
    ):
        page = attempted.get("/api/tasks", params={"state": state}).json()
        assert [row["task_id"] for row in page["rows"]] == found


def test_a_task_tells_every_attempt(attempted: TestClient) -> None:
    def told(task_id: str) -> list[tuple[int, str, str, str]]:
        answer = attempted.get(f"/api/tasks/{task_id}").json()
        return [(a["attempt"], a["state"], a["error"], a["result"]) for a in answer["attempts"]]

    assert told("held") == [(1, "lease_expired", "ValueError: no", ""), (2, "running", "", "")]
    assert told("waits") == [
        (1, "attempt_failed", "ValueError: no", ""),
        (2, "lease_expired", "ValueError: no", ""),
    ]
    assert told("done") == [
        (1, "attempt_failed", "ValueError: no", ""),
        (2, "succeeded", "", '{"n":1}'),
    ]
    assert attempted.get("/api/tasks/held").json()["task"]["state"] == "running"


def test_the_status_knows_runs_from_retries(attempted: TestClient) -> None:
    status = attempted.get("/api/status").json()
    assert [status["totals"][state] for state in ("dispatched", "running", "retrying")] == [0, 1, 1]
    assert (status["running"]["count"], status["running"]["oldest"]["worker"]) == (2, "worker-0")
    assert status["failures"] == []
    # Three first attempts; what their retries took is no lateness.
    assert status["lateness"]["stages"]["due_to_started"]["count"] == 3


def test_payloads_are_nowhere(client: TestClient) -> None:
    for path in ("/api/tasks", "/api/tasks/t4", "/api/status", f"/api/counts?start={NOON}&end={NOON + 1}"):
        assert "secret" not in client.get(path).text


def test_the_description_names_what_is_answered(client: TestClient) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    answers = {
        "Page": client.get("/api/tasks").json(),
        "TaskAnswer": client.get("/api/tasks/t0").json(),
        "Status": client.get("/api/status").json(),
        "Counts": client.get(f"/api/counts?start={NOON}&end={NOON + 1}").json(),
    }
    answers["Row"], answers["Task"] = answers["Page"]["rows"][0], answers["TaskAnswer"]["task"]
    (answers["Attempt"],) = answers["TaskAnswer"]["attempts"]
    for name, answer in answers.items():
        assert set(schemas[name]["properties"]) == set(answer), name


# --------------------------------------------------------------------------- waiting


def test_after_is_satisfied_by_what_is_folded(client: TestClient) -> None:
    assert client.get("/api/tasks?after=0:10:0").status_code == 200
    late = client.get("/api/tasks?after=0:11:0&after=0:3:0")
    assert late.status_code == 504
    assert late.headers["content-type"] == "application/problem+json"
    assert late.json()["missing"] == ["0:11:0"]
    assert late.json()["staleness_ms"] == 500


# --------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/api/tasks?start=yesterday", "ISO 8601"),
        ("/api/tasks?start=2026-11-30T12:00:00", "no time zone"),
        ("/api/tasks?start=2&end=1", "must not lie before start"),
        ("/api/tasks?state=asleep", "one of scheduled"),
        ("/api/tasks?label=team", "name:value"),
        ("/api/tasks?limit=1001", "from 1 to 1000"),
        ("/api/tasks?limit=0", "from 1 to 1000"),
        ("/api/tasks?limit=%D9%A3", "whole number"),
        ("/api/tasks?cursor=AAAA", "cursor of the page before"),
        ("/api/tasks?cursor=%C3%A9", "cursor of the page before"),
        ("/api/tasks?after=1-2", "bucket:offset:item"),
        ("/api/tasks?after=7:1:0", "only 2 buckets"),
        ("/api/tasks?wait_ms=10001", "from 0 to 10000"),
        ("/api/tasks?sort=up", "no such parameter"),
        ("/api/tasks/%00", "control characters"),
        ("/api/counts?end=5", "start is missing"),
        ("/api/counts?start=1&end=2&by=year", "one of second, minute, hour"),
        ("/api/counts?start=0&end=9999999999", "in several parts"),
    ],
)
def test_what_cannot_be_understood_is_named(client: TestClient, path: str, says: str) -> None:
    response = client.get(path)
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/problem+json"
    assert says in response.json()["detail"]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_nothing_can_be_changed(client: TestClient, method: str) -> None:
    response = client.request(method, "/api/tasks")
    assert (response.status_code, response.headers["allow"]) == (405, "GET, HEAD")


def test_it_answers_to_its_own_names_only(client: TestClient, data_dir: Path) -> None:
    assert client.get("/api/status", headers={"host": "evil.example"}).status_code == 421
    assert client.get("/api/status", headers={"host": "127.0.0.1:8080"}).status_code == 200
    assert client.get("/api/status", headers={"host": "[::1]:8080"}).status_code == 200
    with dashboard(data_dir, hosts=["Jobs.example"]) as named:
        assert named.get("/api/status", headers={"host": "jobs.example:80"}).status_code == 200


def test_pages_of_other_sites_get_nothing(client: TestClient) -> None:
    assert client.get("/api/status", headers={"origin": "https://evil.example"}).status_code == 403
    assert client.get("/api/status", headers={"origin": "http://localhost"}).status_code == 200


def test_a_token_is_asked_for_when_there_is_one(data_dir: Path) -> None:
    with dashboard(data_dir, token="tick") as client:
        refused = client.get("/api/tasks")
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert client.get("/api/tasks", headers={"authorization": "Bearer tock"}).status_code == 401
        assert client.get("/api/tasks", headers={"authorization": "Bearer tick"}).status_code == 200


@pytest.mark.parametrize("path", ["/api/tasks", "/", "/nothing", "/api/tasks?limit=x"])
def test_every_answer_bears_the_policy(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    ["/..%2fapi.py", "/%2e%2e/api.py", "/../__init__.py", "/api.py", "//etc/passwd", "/page/index.html"],
)
def test_only_the_pages_own_files_are_served(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_without_an_index_it_says_so(tmp_path: Path) -> None:
    with dashboard(tmp_path) as client:
        response = client.get("/api/status")
        assert (response.status_code, response.headers["retry-after"]) == (503, "1")
        assert "tickstream projection run" in response.json()["detail"]
