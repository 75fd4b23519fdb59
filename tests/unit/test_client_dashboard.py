"""get and query against a dashboard that is not there: what is asked, and what is made of the answer."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from tests.unit.client_doubles import FakeCluster
from tickstream.errors import DashboardUnavailable, InvalidInput
from tickstream.ingest import Page, Row
from tickstream.ingest.dashboard import Dashboard
from tickstream.model import Phase, Receipt
from tickstream.settings import dashboard_token

ROW = {
    "task_id": "mail:1",
    "occurrence_ts": 1_924_992_000_000,
    "state": "succeeded",
    "queue": "default",
    "handler": "mail",
    "labels": {"customer": "acme"},
    "attempt": 1,
    "worker": "w-1",
    "decided_ms": 1,
    "fetched_ms": 2,
    "started_ms": 3,
    "ended_ms": 4,
    "retry_at_ms": None,
    "error": None,
    "rev": "7:0",
}
STAMPS = {
    "as_of": 10,
    "staleness_ms": 20,
    "slowest_bucket": 3,
    "position": {"0": {"timers": 5, "history": 6}},
}


class Answering(httpx.MockTransport):
    """Gives one answer and keeps the request."""

    def __init__(self, status: int, answer: object) -> None:
        self.requests: list[httpx.Request] = []
        content = {"content": answer} if isinstance(answer, bytes) else {"json": answer}

        def handle(request: httpx.Request) -> httpx.Response:
            self.requests.append(request)
            return httpx.Response(status, **content)  # type: ignore[arg-type]

        super().__init__(handle)


def test_a_page_is_values_with_its_age() -> None:
    transport = Answering(200, {"rows": [ROW], "cursor": "abc", **STAMPS})
    page = Dashboard("http://board:8080/", transport).tasks(
        {"start": "5", "state": "succeeded"}, after=[Receipt(1, 2, 0), Receipt(3, 4, 5)], wait_ms=700
    )
    assert page == Page(
        (Row(**ROW | {"state": Phase.SUCCEEDED}),),  # type: ignore[arg-type]
        "abc",
        10,
        20,
        3,
        {"0": {"timers": 5, "history": 6}},
    )
    (request,) = transport.requests
    assert request.url.path == "/api/tasks"
    assert request.url.params.multi_items() == [
        ("start", "5"),
        ("state", "succeeded"),
        ("after", "1:2:0"),
        ("after", "3:4:5"),
        ("wait_ms", "700"),
    ]


def test_a_task_id_is_one_part_of_the_path_whatever_it_holds() -> None:
    transport = Answering(200, {"task": None, "occurrences": [ROW], "attempts": [], **STAMPS})
    view = Dashboard("http://board", transport).task("a/b c?ü%")
    assert view.task is None
    assert [row.task_id for row in view.occurrences] == ["mail:1"]
    assert transport.requests[0].url.raw_path == b"/api/tasks/a%2Fb%20c%3F%C3%BC%25"


def test_an_answer_that_cannot_wait_long_enough_says_where_it_stands() -> None:
    problem = {"title": "not there yet", "detail": "bucket 3", "staleness_ms": 900, "position": {"3": {}}}
    with pytest.raises(DashboardUnavailable, match=r"bucket 3 \(staleness_ms=900, position=\{'3'"):
        Dashboard("http://board", Answering(504, problem)).task("mail:1", after=[Receipt(3, 9, 0)], wait_ms=1)


def test_a_bad_question_is_the_callers_and_a_broken_dashboard_is_not() -> None:
    with pytest.raises(InvalidInput, match="400 no such state"):
        Dashboard("http://board", Answering(400, {"detail": "no such state"})).tasks({"state": "x"})
    with pytest.raises(DashboardUnavailable, match="500"):
        Dashboard("http://board", Answering(500, {})).tasks({})
    with pytest.raises(DashboardUnavailable, match="no JSON"):
        Dashboard("http://board", Answering(200, b"<html>")).tasks({})


def test_a_token_is_sent_and_a_refusal_says_where_one_may_stand() -> None:
    transport = Answering(200, STAMPS)
    Dashboard("http://board", transport, token="s3cret").queues()
    Dashboard("http://board", transport).queues()
    assert [request.headers.get("authorization") for request in transport.requests] == ["Bearer s3cret", None]
    refusing = Answering(401, {"title": "Token needed"})
    with pytest.raises(InvalidInput, match=r"asks for a token.*--token-file.*TICKSTREAM_DASHBOARD_TOKEN"):
        Dashboard("http://board", refusing).queues()
    with pytest.raises(InvalidInput, match="does not take this token"):
        Dashboard("http://board", refusing, token="stale").queues()
    with pytest.raises(InvalidInput, match="printable ASCII"):
        Dashboard("http://board", refusing, token="schlüssel")


def test_the_token_is_the_environments_unless_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("from a file\n")
    monkeypatch.delenv("TICKSTREAM_DASHBOARD_TOKEN", raising=False)
    monkeypatch.delenv("TICKSTREAM_DASHBOARD_TOKEN_FILE", raising=False)
    assert dashboard_token() is None
    monkeypatch.setenv("TICKSTREAM_DASHBOARD_TOKEN_FILE", str(file))
    assert dashboard_token() == "from a file"
    monkeypatch.setenv("TICKSTREAM_DASHBOARD_TOKEN", "itself")
    assert dashboard_token() == "itself"
    assert dashboard_token({"TICKSTREAM_DASHBOARD_TOKEN": "another environment's"}) == "another environment's"
    monkeypatch.delenv("TICKSTREAM_DASHBOARD_TOKEN")
    monkeypatch.setenv("TICKSTREAM_DASHBOARD_TOKEN_FILE", str(tmp_path / "nothing"))
    with pytest.raises(InvalidInput, match=r"TICKSTREAM_DASHBOARD_TOKEN_FILE .*nothing: it cannot be read"):
        dashboard_token()


def test_no_dashboard_names_the_address() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("Connection refused", request=request)

    with pytest.raises(DashboardUnavailable, match=r"at http://board:1 .*tickstream dashboard run"):
        Dashboard("http://board:1", httpx.MockTransport(refuse)).tasks({})


def test_bounds_and_waits_are_checked_before_anything_is_asked() -> None:
    with FakeCluster().client() as client:
        with pytest.raises(InvalidInput, match=r"start=.*no time zone"):
            client.query(datetime(2031, 1, 1), datetime(2031, 1, 2, tzinfo=UTC))
        with pytest.raises(InvalidInput, match="10000"):
            client.get("mail:1", after=Receipt(0, 0, 0), wait_ms=60_000)


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (lambda board: board.failures({"handler": "h"}), "/api/failures?handler=h"),
        (lambda board: board.running(), "/api/running"),
        (lambda board: board.forecast("day"), "/api/forecast?horizon=day"),
        (lambda board: board.counts(1, 2, by="second"), "/api/counts?start=1&end=2&by=second"),
        (lambda board: board.lateness(), "/api/lateness"),
        (lambda board: board.queues(), "/api/queues"),
        (lambda board: board.cluster(), "/api/cluster"),
        (lambda board: board.changes(), "/api/changes"),
    ],
)
def test_each_question_goes_where_the_api_answers_it(
    ask: Callable[[Dashboard], dict[str, object]], expected: str
) -> None:
    transport = Answering(200, STAMPS)
    assert ask(Dashboard("http://board:8080/", transport)) == STAMPS
    assert transport.requests[0].url.raw_path.decode() == expected
