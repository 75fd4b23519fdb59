"""Topics of their own, a hand that writes them as dispatchers do, and projections that follow."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from starlette.testclient import TestClient

from tests.projection_log import LogWriter
from tests.projection_oracle import plain_fold
from tickstream.kafka import Admin, transactional_producer
from tickstream.projection.api import create_app
from tickstream.projection.reader import IndexReader
from tickstream.projection.service import run_projection
from tickstream.settings import LaneSettings, Settings
from tickstream.topics import TopicNames, topic_table

BUCKETS = 2
DEADLINE_S = 30.0


class ProjectionRig:
    """The logs of BUCKETS buckets, in Kafka and in memory."""

    def __init__(self, bootstrap: str, prefix: str, data_dir: Path, *, replication: int = 1) -> None:
        self.settings = Settings(bootstrap, prefix)
        self.names = TopicNames(prefix)
        self.admin = Admin(self.settings)
        self.data_dir = data_dir
        self._replication = replication
        self._cleanup = ExitStack()
        self.begin()

    def begin(self) -> None:
        """Create the topics and forget what was written."""
        self.admin.create(topic_table(self.names, buckets=BUCKETS, lanes=1), replication=self._replication)
        self.logs = [LogWriter(bucket) for bucket in range(BUCKETS)]
        self._producer = transactional_producer(self.settings, f"{self.names.prefix}hand", LaneSettings())
        self._producer.init_transactions(20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    # ------------------------------------------------------------------ writing

    def act(self, action: str, task: int, at_ms: int) -> None:
        """One decision about task-<task>, in bucket task mod BUCKETS."""
        self.logs[task % BUCKETS].act(action, f"task-{task}", at_ms)

    def commit(self, *buckets: int, applied_before_ms: int | None = None) -> None:
        """One transaction of these buckets (all), its Progress last. Returns when it is committed."""
        self._producer.begin_transaction()
        for bucket in buckets or range(BUCKETS):
            log = self.logs[bucket]
            written, told = len(log.timers), len(log.history)
            log.commit(applied_before_ms=applied_before_ms or now_ms())
            for key, value in log.timers[written:]:
                self._producer.produce(self.names.timers, value, key, bucket)
            for value in log.history[told:]:
                self._producer.produce(self.names.history, value, b"", bucket)
        self._producer.commit_transaction(20)

    def expected(self) -> list[dict[str, Any]]:
        """All rows, by the oracle."""
        rows = [row for log in self.logs for row in plain_fold(log.timers, log.history)]
        return sorted(rows, key=lambda row: (row["occurrence_ts"], row["task_id"]))

    def applied(self, bucket: int) -> str:
        """Receipt of the last command of the bucket."""
        return f"{bucket}:{self.logs[bucket].commands - 1}:0"

    # ------------------------------------------------------------------ following

    def projection(self, **options: Any) -> AbstractContextManager[list[Mapping[str, object]]]:
        """A projection in a thread; its events, of which `ready` has come."""
        return following(self.settings, self.data_dir, **options)

    def dashboard(self) -> AbstractContextManager[TestClient]:
        """The HTTP API on the projection's directory."""
        return asked(self.data_dir)

    def all_rows(self, client: TestClient, **query: Any) -> list[dict[str, Any]]:
        """All rows that the API gives, page by page, having waited for the last command of each bucket."""
        query = {"limit": 7, "wait_ms": 10_000, "after": self._receipts(), **query}
        rows: list[dict[str, Any]] = []
        while True:
            response = client.get("/api/tasks", params=query)
            assert response.status_code == 200, response.text
            answer = response.json()
            rows += answer["rows"]
            if answer["cursor"] is None:
                return rows
            query["cursor"] = answer["cursor"]

    def _receipts(self) -> list[str]:
        return [self.applied(log.bucket) for log in self.logs if log.commands]


@contextmanager
def following(settings: Settings, data_dir: Path, **options: Any) -> Iterator[list[Mapping[str, object]]]:
    """A projection in a thread; its events, of which `ready` has come."""
    seen: list[Mapping[str, object]] = []
    stop = threading.Event()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            run_projection(settings, data_dir=data_dir, events=seen.append, stop=stop, **options)
        except BaseException as error:
            failed.append(error)
            raise

    thread = threading.Thread(target=run, name="projection")
    thread.start()
    try:
        eventually(lambda: failed or any(event["event"] == "ready" for event in seen))
        yield seen
    finally:
        stop.set()
        thread.join(DEADLINE_S)
    assert not failed


@contextmanager
def asked(data_dir: Path) -> Iterator[TestClient]:
    """The HTTP API on a projection's directory."""
    with (
        IndexReader(data_dir) as reader,
        TestClient(create_app(reader), base_url="http://localhost") as client,
    ):
        yield client


def now_ms() -> int:
    """The wall clock, ms."""
    return time.time_ns() // 1_000_000


def eventually(true: Callable[[], object], timeout_s: float = DEADLINE_S) -> None:
    """Look until it is true. Fails after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, f"not true within {timeout_s:g} s"
        time.sleep(0.02)
