"""The dashboard's process: on a free port, live, and gone when told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from queue import Queue
from typing import Any

import httpx
import pytest

from tests.projection_log import LogWriter
from tests.unit.projection_index import fold_in, new_index
from tickstream.clock import SystemClock
from tickstream.errors import InvalidInput
from tickstream.projection.server import serve

DEADLINE_S = 10.0


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """The address of a dashboard on an empty directory."""
    stop = threading.Event()
    said: Queue[Mapping[str, object]] = Queue()
    thread = threading.Thread(
        target=serve, kwargs={"data_dir": tmp_path, "port": 0, "events": said.put, "stop": stop}
    )
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
