"""What the worker's tests share: topics of their own, work put there by hand, reports read back."""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from tickstream.codec import (
    CommandBatch,
    decode_batch,
    decode_reports,
    encode_body,
    encode_signal,
    encode_work,
)
from tickstream.errors import TickstreamError
from tickstream.kafka import Admin, plain_producer, state_consumer
from tickstream.model import (
    DEFAULT_TERMS,
    NEVER,
    Body,
    BoundCall,
    Report,
    ReportKind,
    Rev,
    Signal,
    SignalKind,
    Work,
)
from tickstream.ops.processes import ManagedProcess, tickstream_command
from tickstream.settings import Settings
from tickstream.topics import TopicNames, topic_table
from tickstream.worker import App
from tickstream.worker.runtime import run_worker

BUCKETS = 4
DEADLINE_S = 30.0
_IN_BETWEEN = (ReportKind.CLAIMED, ReportKind.HEARTBEAT)


class Told(NamedTuple):
    """A report as it lies in the topic."""

    partition: int
    key: bytes | None
    worker: str
    report: Report


class Stage:
    """An installation without a dispatcher: the test plays its part."""

    def __init__(self, bootstrap: str, prefix: str, queues: tuple[str, ...] = ("default",)) -> None:
        self.settings = Settings(bootstrap, prefix)
        self.names = TopicNames(prefix)
        Admin(self.settings).create(topic_table(self.names, buckets=BUCKETS, lanes=2, queues=queues))
        self._producer = plain_producer(self.settings, "test")
        self._reports = state_consumer(self.settings, "test")
        self._reports.assign([TopicPartition(self.names.reports, b, 0) for b in range(BUCKETS)])

    def put(
        self,
        call: BoundCall,
        task_id: str = "task",
        *,
        partition: int = 0,
        bucket: int | None = None,
        labels: Mapping[str, str] | None = None,
        lease_ms: int = DEFAULT_TERMS.lease_ms,
        timeout_ms: int = DEFAULT_TERMS.timeout_ms,
        not_before_ms: int = NEVER,
    ) -> Work:
        """One Work record, as a dispatcher would write it."""
        body = encode_body(Body(call.handler, call.payload, {}, dict(labels or {})))
        work = Work(
            partition if bucket is None else bucket,
            1,
            task_id,
            1_767_225_600_000,
            1,
            Rev(3, 1),
            time.time_ns() // 1_000_000,
            lease_ms,
            timeout_ms,
            body,
            not_before_ms,
        )
        self.put_bytes(encode_work(work), partition=partition, queue=call.queue)
        return work

    def put_bytes(self, value: bytes, *, partition: int = 0, queue: str = "default") -> None:
        """Any record on a work topic, acknowledged."""
        self._producer.produce(self.names.work(queue), value, partition=partition)
        assert self._producer.flush(DEADLINE_S) == 0

    def reports(self, count: int) -> list[Told]:
        """The next `count` reports."""
        told: list[Told] = []
        deadline = time.monotonic() + DEADLINE_S
        while len(told) < count:
            assert time.monotonic() < deadline, f"{len(told)} of {count} reports came: {told}"
            for message in self._reports.consume(100, 0.05):
                assert message.error() is None, message.error()
                batch = decode_reports(message.value())
                partition = message.partition()
                assert partition is not None
                told += [Told(partition, message.key(), batch.worker, report) for report in batch.reports]
        return told

    def commands(self) -> list[CommandBatch]:
        """What clients have sent so far."""
        consumer = state_consumer(self.settings, "test")
        ends = Admin(self.settings).ends([(self.names.commands, b) for b in range(BUCKETS)])
        consumer.assign([TopicPartition(self.names.commands, b, 0) for b in range(BUCKETS)])
        found: list[CommandBatch] = []
        while len(found) < sum(ends.values()):
            found += [decode_batch(message.value()) for message in consumer.consume(100, 0.05)]
        consumer.close()
        return found

    def outcomes(self, count: int) -> list[Told]:
        """The next `count` reports that are neither claims nor heartbeats."""
        told: list[Told] = []
        while len(told) < count:
            told += [t for t in self.reports(1) if t.report.kind not in _IN_BETWEEN]
        return told

    def report_of(self, kind: ReportKind, task_id: str) -> Told:
        """The next report of that kind on that task; others are passed over."""
        while True:
            for told in self.reports(1):
                if (told.report.kind, told.report.task_id) == (kind, task_id):
                    return told

    def signal(self, told: Told, kind: SignalKind) -> None:
        """Ask the run of this report to stop, as a dispatcher does."""
        report = told.report
        signal = Signal(report.run_id, kind, report.task_id, report.occurrence_ts, report.attempt)
        self._producer.produce(self.names.signals, encode_signal(signal), key=report.run_id)
        assert self._producer.flush(DEADLINE_S) == 0

    def committed(self, queue: str = "default") -> dict[int, int]:
        """Partition → committed position of the workers' group."""
        admin = AdminClient({"bootstrap.servers": self.settings.bootstrap})
        group = self.names.worker_group(queue)
        answer = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(10)
        return {tp.partition: tp.offset for tp in answer.topic_partitions}

    def await_committed(self, expected: Mapping[int, int], queue: str = "default") -> None:
        """Until the group has committed exactly this."""
        eventually(lambda: self.committed(queue), lambda found: found == expected)

    def close(self) -> None:
        """Take the topics away."""
        self._reports.close()
        admin = Admin(self.settings)
        admin.delete_topics([t for t in admin.partitions() if t.startswith(self.settings.prefix)])


def eventually(look: Callable[[], Any], right: Callable[[Any], bool]) -> None:
    """Look again and again until it is right; fails with what was seen last."""
    deadline = time.monotonic() + DEADLINE_S
    while not right(seen := look()):
        assert time.monotonic() < deadline, f"last seen: {seen}"
        time.sleep(0.05)


class Installed(Protocol):
    """Topics that are there: a Stage, or a rig with dispatchers."""

    settings: Settings


class LocalWorker:
    """A worker in a thread of the test's process."""

    def __init__(self, stage: Installed, app: App, **options: Any) -> None:
        self.stop = threading.Event()
        self.events: list[Mapping[str, object]] = []
        self._news: SimpleQueue[Mapping[str, object]] = SimpleQueue()
        self._error: TickstreamError | None = None
        self._options: dict[str, Any] = {
            "queues": ["default"],
            # Slots for all: without a dispatcher, work that a busy moment hands back does not return.
            "concurrency": 64,
            "grace_s": 5.0,
            "worker_id": "local",
            "session_ms": 2_000,
        } | options
        self._thread = threading.Thread(target=self._run, args=(stage, app))
        self._thread.start()

    def _run(self, stage: Installed, app: App) -> None:
        try:
            run_worker(app, stage.settings, events=self._news.put, stop=self.stop, **self._options)
        except TickstreamError as error:
            self._error = error
            self._news.put({"event": "failed", "reason": repr(error)})

    def wait_event(self, event: str, **fields: object) -> Mapping[str, object]:
        """The next event of that name and with these fields."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            found = self._news.get(timeout=max(0.01, deadline - time.monotonic()))
            self.events.append(found)
            if found["event"] == event and fields.items() <= found.items():
                return found
            assert found["event"] != "failed", found

    def end(self) -> None:
        """Stop it and wait until it has ended."""
        self.stop.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        while not self._news.empty():
            self.events.append(self._news.get())
        if self._error is not None:
            raise self._error


@contextmanager
def local_worker(stage: Installed, app: App, **options: Any) -> Iterator[LocalWorker]:
    """A worker that has its partitions."""
    worker = LocalWorker(stage, app, **options)
    try:
        worker.wait_event("ready")
        yield worker
    finally:
        worker.end()


def start_process(stage: Stage, worker_id: str, *options: str, app: str = "worker_app") -> ManagedProcess:
    """`tickstream worker run` on the app of worker_app.py, or another module here, in a process of its own."""
    command = tickstream_command(
        *("worker", "run", f"tests.kafka.{app}:app", "--worker-id", worker_id, "--json"),
        *("--session-ms", "2000", *options),
    )
    connection = {
        "TICKSTREAM_BOOTSTRAP": stage.settings.bootstrap,
        "TICKSTREAM_PREFIX": stage.settings.prefix,
    }
    return ManagedProcess.start(command, env=os.environ | connection, name=worker_id)


def say(event: str, **fields: object) -> None:
    """From within a worker process: an event line for the test."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()
