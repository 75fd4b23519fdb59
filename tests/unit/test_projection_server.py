"""The dashboard's process: on a free port, live, and gone when told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from tests.projection_log import LogWriter
from tests.unit.client_doubles import FakeCluster
from tests.unit.projection_index import fold_in, new_index
from tickstream.cli.main import app
from tickstream.clock import SystemClock
from tickstream.errors import InvalidInput
from tickstream.projection.server import serve
from tickstream.settings import first_line

DEADLINE_S = 10.0


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """The address of a dashboard on an empty directory."""
    with dashboard_at(tmp_path) as url:
        yield url


@contextmanager
def dashboard_at(data_dir: Path, token: str | None = None) -> Iterator[str]:
    """The address of a dashboard on this directory."""
    stop = threading.Event()
    said: Queue[Mapping[str, object]] = Queue()
    options = {"data_dir": data_dir, "port": 0, "token": token, "events": said.put, "stop": stop}
    thread = threading.Thread(target=serve, kwargs=options)
    thread.start()
    try:
        ready = said.get(timeout=DEADLINE_S)
        assert ready["event"] == "ready"
        yield str(ready["url"])
    finally:
        stop.set()
        thread.join(DEADLINE_S)
    assert not thread.is_alive()


def test_the_stream_tells_the_status_and_which_minutes_changed(url: str, tmp_path: Path) -> None:
    log, other = LogWriter(0), LogWriter(1)
    log.commit()
    other.commit()
    minute = (SystemClock().wall_ms() // 60_000 + 5) * 60_000
    with new_index(tmp_path) as index:
        fold_in(index, log, other)
        with httpx.stream("GET", f"{url}/api/stream", timeout=DEADLINE_S) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            assert "default-src 'self'" in response.headers["content-security-policy"]
            events = _events(response)
            name, status = next(events)
            assert (name, status["totals"]["scheduled"]) == ("status", 0)
            log.act("schedule", "a", minute)
            log.commit()
            fold_in(index, log)
            status, changed = _until_minutes(events)
            assert status["totals"]["scheduled"] == 1
            assert changed == {"minutes": [minute]}


def test_the_stream_goes_on_when_there_is_no_index(url: str) -> None:
    with httpx.stream("GET", f"{url}/api/stream", timeout=DEADLINE_S) as response:
        events = _events(response)
        for _ in range(2):
            name, problem = next(events)
            assert (name, problem["status"]) == ("problem", 503)


def test_an_address_that_is_taken_is_named(url: str, tmp_path: Path) -> None:
    port = int(url.rpartition(":")[2])
    with pytest.raises(InvalidInput, match=f"127.0.0.1:{port}"):
        serve(data_dir=tmp_path, port=port, events=lambda _: None, stop=threading.Event())


def test_a_dashboard_with_a_token_answers_the_command_line_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TICKSTREAM_DASHBOARD_TOKEN", raising=False)
    monkeypatch.delenv("TICKSTREAM_DASHBOARD_TOKEN_FILE", raising=False)
    data, file = tmp_path / "data", tmp_path / "token"
    file.write_text("open sesame\n")
    log, other = LogWriter(0), LogWriter(1)
    for one in (log, other):
        one.commit()
    with new_index(data) as index, dashboard_at(data, token=first_line("--token-file", file)) as url:
        fold_in(index, log, other)
        listed = ["task", "list", "--dashboard", url, "--json"]
        refused = CliRunner().invoke(app, listed)
        assert isinstance(refused.exception, InvalidInput)
        assert "asks for a token" in str(refused.exception)
        for arguments, environment in (
            ([*listed, "--token-file", str(file)], {}),
            (listed, {"TICKSTREAM_DASHBOARD_TOKEN": "open sesame"}),
            (listed, {"TICKSTREAM_DASHBOARD_TOKEN_FILE": str(file)}),
        ):
            answered = CliRunner().invoke(app, arguments, env=environment)
            assert answered.exit_code == 0, answered.output
            assert json.loads(answered.output)["rows"] == []
        with FakeCluster().client(dashboard=url, dashboard_token="open sesame") as client:
            assert client.query().rows == ()
        with (
            FakeCluster().client(dashboard=url, dashboard_token="stale") as client,
            pytest.raises(InvalidInput, match="does not take this token"),
        ):
            client.query()


def _events(response: httpx.Response) -> Iterator[tuple[str, dict[str, Any]]]:
    name = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def _until_minutes(events: Iterator[tuple[str, dict[str, Any]]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The first `minutes` event, and the status before it."""
    status: dict[str, Any] = {}
    for _ in range(10):
        name, data = next(events)
        if name == "minutes":
            return status, data
        status = data
    raise AssertionError("no minute changed in ten events")
