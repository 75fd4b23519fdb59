"""An outside prober of a dashboard: schedules tasks, keeps the receipts, and watches when each is seen.

It knows the client and the HTTP API, nothing of the projection. Every answer is held against what it
claims: a command acknowledged before `as_of - staleness_ms` must be in it.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlsplit

from bench.raw.records import HANDLER
from tickstream.ingest import Client
from tickstream.model import Receipt
from tickstream.settings import Settings

_LOOK_EVERY_S: Final = 0.02
_PROBE_EVERY_S: Final = 0.1
_FAR_MS: Final = 6 * 3_600_000
_GIVE_UP_S: Final = 60.0


@dataclass(slots=True)
class Seen:
    """What the prober has seen. Times in ms."""

    http_ms: list[float] = field(default_factory=list)
    """From the acknowledgement to the first answer that shows the task."""
    stream_ms: list[float] = field(default_factory=list)
    """From the acknowledgement to the first event of the stream whose position is past the command."""
    stated_ms: list[float] = field(default_factory=list)
    """staleness_ms of every answer."""
    false_claims: int = 0
    """Answers that claimed to contain an acknowledged command, and did not."""
    unanswered: int = 0
    """Questions that got no answer, or an error."""
    backward: int = 0
    """Answers whose T was older than that of an answer before."""


class Prober:
    """Threads that probe until the `with` ends."""

    def __init__(self, settings: Settings, url: str) -> None:
        self._settings = settings
        self._netloc = urlsplit(url).netloc
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._awaited: dict[Receipt, float] = {}
        """By receipt, when it was acknowledged: not seen in the stream yet."""
        self._latest_t = 0
        self.seen = Seen()

    @contextmanager
    def running(self) -> Iterator[Seen]:
        """Probe for as long as it lasts."""
        threads = [threading.Thread(target=run) for run in (self._probe, self._listen)]
        for thread in threads:
            thread.start()
        try:
            yield self.seen
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def ask(self, path: str) -> dict[str, Any] | None:
        """The answer, None when there was none."""
        connection = http.client.HTTPConnection(self._netloc, timeout=15)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read())
        except OSError:
            return None
        finally:
            connection.close()
        return answer if response.status == 200 else None

    # ----------------------------------------------------------------------- HTTP

    def _probe(self) -> None:
        with Client(self._settings) as client:
            while not self._stop.wait(_PROBE_EVERY_S):
                task_id = f"probe:{uuid.uuid4()}"
                far = int(time.time() * 1_000) + _FAR_MS
                receipt = client.schedule(task_id, run_at_ts=far, payload=b"", handler=HANDLER).receipt()
                acked = time.time() * 1_000
                with self._lock:
                    self._awaited[receipt] = acked
                self._watch(task_id, acked)

    def _watch(self, task_id: str, acked: float) -> None:
        """Look until the task is there; hold each answer against its claim."""
        until = time.monotonic() + _GIVE_UP_S
        while not self._stop.is_set() and time.monotonic() < until:
            answer = self.ask(f"/api/tasks/{quote(task_id, safe='')}")
            if answer is None:
                self.seen.unanswered += 1
            else:
                claimed = answer["as_of"] - answer["staleness_ms"]
                self.seen.stated_ms.append(answer["staleness_ms"])
                self.seen.backward += claimed < self._latest_t
                self._latest_t = max(self._latest_t, claimed)
                if answer["task"] is not None:
                    self.seen.http_ms.append(time.time() * 1_000 - acked)
                    return
                self.seen.false_claims += acked < claimed
            self._stop.wait(_LOOK_EVERY_S)
        self.seen.unanswered += not self._stop.is_set()

    # ----------------------------------------------------------------------- the stream

    def _listen(self) -> None:
        while not self._stop.is_set():
            connection = http.client.HTTPConnection(self._netloc, timeout=5)
            try:
                connection.request("GET", "/api/stream")
                self._take_in(connection.getresponse())
            except OSError:
                # As a page does: it comes back, and the numbers say how long that took.
                self._stop.wait(0.2)
            finally:
                connection.close()

    def _take_in(self, response: http.client.HTTPResponse) -> None:
        event = b""
        while not self._stop.is_set() and (line := response.readline()):
            if line.startswith(b"event: "):
                event = line[7:].strip()
            elif line.startswith(b"data: ") and event == b"status":
                self._status(json.loads(line[6:]), time.time() * 1_000)

    def _status(self, status: dict[str, Any], now: float) -> None:
        reached = {bucket["bucket"]: bucket["commands"] for bucket in status["buckets"]}
        with self._lock:
            for receipt in [r for r in self._awaited if reached.get(r.bucket, 0) > r.offset]:
                self.seen.stream_ms.append(now - self._awaited.pop(receipt))


def wait_for(true: Callable[[], bool], timeout_s: float) -> float:
    """Seconds until it is so. Raises TimeoutError."""
    began = time.monotonic()
    while not true():
        if time.monotonic() - began > timeout_s:
            raise TimeoutError(f"not so after {timeout_s:g} s")
        time.sleep(0.05)
    return time.monotonic() - began
