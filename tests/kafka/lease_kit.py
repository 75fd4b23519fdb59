"""What the tests of leases share: dispatcher and workers as processes, and the log that tells on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from tests.kafka.lease_app import until_open
from tests.kafka.rig import Rig
from tickstream.codec import decode_history, decode_reports, decode_work, encode_body
from tickstream.kafka import TopicPartition, state_consumer
from tickstream.model import (
    Body,
    BoundCall,
    Command,
    History,
    Options,
    Outcome,
    Report,
    ReportKind,
    RunTerms,
    Verb,
    Work,
    bucket_of,
)
from tickstream.ops.processes import ManagedProcess, tickstream_command
from tickstream.topics import topic_table

LEASE_MS = 2_000
TERMS = RunTerms(lease_ms=LEASE_MS, backoff_ms=200, backoff_cap_ms=10_000)
PROMISE_MS = 1_000
"""Beyond the lease, until the next attempt has started."""
WORKER_SESSION_MS = 1_000
DEADLINE_S = 40.0
_LOOK_S = 0.05

T = TypeVar("T")


class Said(NamedTuple):
    """A report, and the worker whose it is."""

    worker: str
    report: Report


class Tail(Generic[T]):
    """Everything that lies in a topic, and what still comes."""

    def __init__(self, rig: Rig, topic: str, decode: Callable[[bytes], Iterable[T]]) -> None:
        self._topic = topic
        self._decode = decode
        self._consumer = state_consumer(rig.settings, "tail", isolation="read_committed")
        partitions = rig.admin.partitions()[topic]
        self._consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
        self._seen: list[T] = []

    def seen(self) -> list[T]:
        """What has come so far."""
        while messages := self._consumer.consume(1_000, _LOOK_S):
            for message in messages:
                assert message.error() is None, message.error()
                self._seen += self._decode(message.value() or b"")
        return list(self._seen)

    def until(self, enough: Callable[[list[T]], Any], timeout_s: float = DEADLINE_S) -> list[T]:
        """What has come, once that is enough; fails with the last of it."""
        deadline = time.monotonic() + timeout_s
        while not enough(seen := self.seen()):
            assert time.monotonic() < deadline, (
                f"{self._topic}: {len(seen)} after {timeout_s:g} s: {seen[-9:]}"
            )
        return seen

    def close(self) -> None:
        """Read no more."""
        self._consumer.close()


class Crew(Rig):
    """A Rig with queues, and workers that run the handlers of lease_app.py."""

    def __init__(
        self, bootstrap: str, prefix: str, data: Path, *, queues: tuple[str, ...] = ("default",)
    ) -> None:
        super().__init__(bootstrap, prefix, data)
        self.admin.create(topic_table(self.names, buckets=self.buckets, lanes=self.lanes, queues=queues))
        self._history = Tail(self, self.names.history, lambda value: [decode_history(value)])
        self._reports = Tail(self, self.names.reports, _said)
        self._work: dict[str, Tail[Work]] = {
            queue: Tail(self, self.names.work(queue), lambda value: [decode_work(value)]) for queue in queues
        }

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._history.close()
        self._reports.close()
        for tail in self._work.values():
            tail.close()

    # ------------------------------------------------------------------ processes

    def worker_command(self, name: str, queue: str = "default", *options: str) -> list[str]:
        """`tickstream worker run` on the app of lease_app.py."""
        return tickstream_command(
            *("worker", "run", "tests.kafka.lease_app:app", "--json", f"--worker-id={name}"),
            *(f"--queue={queue}", f"--session-ms={WORKER_SESSION_MS}"),
            *(f"--bootstrap={self.settings.bootstrap}", f"--prefix={self.settings.prefix}", *options),
        )

    @contextmanager
    def workers(
        self,
        queue: str,
        *names: str,
        options: Sequence[str] = (),
        beside: Sequence[ManagedProcess] = (),
    ) -> Iterator[list[ManagedProcess]]:
        """Workers of a queue, each with its share of the partitions, `beside` others. Killed at the end."""
        running: list[ManagedProcess] = []
        try:
            for name in names:
                running.append(self.start_worker(name, queue, *options))
            self.await_shares([*beside, *running])
            yield running
        finally:
            for worker in running:
                end(worker)

    def start_worker(self, name: str, queue: str, *options: str) -> ManagedProcess:
        """One worker; whoever starts it ends it."""
        return ManagedProcess.start(self.worker_command(name, queue, *options), name=name)

    def await_shares(self, workers: Sequence[ManagedProcess]) -> None:
        """Until each has partitions, and all together have all."""
        wait_until(
            lambda: [held(worker) for worker in workers],
            lambda shares: all(shares) and sum(map(len, shares)) == self.buckets,
        )

    # ------------------------------------------------------------------ inputs

    def put(
        self, call: BoundCall, task_id: str, queue: str, *, terms: RunTerms = TERMS, in_ms: int = 0
    ) -> int:
        """An acked Schedule command; the instant."""
        at = now_ms() + in_ms
        self.put_later(call, task_id, queue, at, terms)
        self.flush()
        return at

    def put_later(self, call: BoundCall, task_id: str, queue: str, at: int, terms: RunTerms = TERMS) -> None:
        """The same, unacked until `flush`."""
        body = encode_body(Body(call.handler, call.payload, {}, {}))
        options = Options(terms=terms)
        self.send(Command(self.command_id(), Verb.SCHEDULE, task_id, at, queue, options, body))

    @contextmanager
    def holding(self, queue: str, worker: ManagedProcess, gate: Path) -> Iterator[None]:
        """Beside what happens within, a thread of `worker` holds a run: it keeps its lease, for two and more."""
        mine = held(worker)
        task_id = next(
            name for n in range(1_000) if bucket_of(name := f"{worker.name} {n}", self.buckets) in mine
        )
        began = self.put(until_open.bind(str(gate)), task_id, queue)
        handling(worker, task_id)
        yield
        until = began + 2 * LEASE_MS
        self.reports_until(
            lambda seen: any(
                r.kind is ReportKind.HEARTBEAT and r.task_id == task_id and r.ended_ms >= until
                for _, r in seen
            )
        )
        gate.touch()
        (done,) = self.outcomes(task_id)
        assert (done.attempt, done.outcome, done.worker) == (1, Outcome.SUCCEEDED, worker.name)

    # ------------------------------------------------------------------ what the log says

    def outcomes(self, *task_ids: str, timeout_s: float = DEADLINE_S) -> list[History]:
        """All history of these tasks, once each has its end."""
        wanted = set(task_ids)

        def ended(seen: list[History]) -> bool:
            return wanted <= {h.task_id for h in seen if h.outcome.terminal}

        return [h for h in self._history.until(ended, timeout_s) if h.task_id in wanted]

    def history_now(self, *task_ids: str) -> list[History]:
        """All history of these tasks, once everything said before is applied."""
        self.wait_applied()
        return [h for h in self._history.seen() if h.task_id in task_ids]

    def reports(self, kind: ReportKind, count: int = 0, **fields: object) -> list[Said]:
        """The reports of that kind with these fields, once there are so many."""

        def right(said: Said) -> bool:
            values = said.report._asdict()
            return said.report.kind is kind and all(values[name] == value for name, value in fields.items())

        seen = self._reports.until(lambda seen: sum(map(right, seen)) >= count)
        return [said for said in seen if right(said)]

    def dead_letters(self, task_id: str) -> list[bytes]:
        """The bodies of a task that were given up."""
        letters = self.read(self.names.dead_letter)
        return [value or b"" for _, _, key, value in letters if key == task_id.encode()]

    def reports_until(self, enough: Callable[[list[Said]], Any]) -> list[Said]:
        """All reports, once they are enough."""
        return self._reports.until(enough)

    def work_of(self, queue: str, task_id: str, attempt: int) -> Work:
        """The Work record of an attempt, once it is there."""

        def its(work: Work) -> bool:
            return (work.task_id, work.attempt) == (task_id, attempt)

        return next(filter(its, self._work[queue].until(lambda seen: any(map(its, seen)))))


def handling(worker: ManagedProcess, task_id: str) -> Mapping[str, object]:
    """The event with which a handler began."""
    return worker.wait_event(lambda e: (e["event"], e.get("task_id")) == ("handling", task_id), DEADLINE_S)


def who_handles(workers: Sequence[ManagedProcess], task_id: str) -> tuple[ManagedProcess, ManagedProcess]:
    """Of two workers: the one where the task began, and the other."""

    def began(worker: ManagedProcess) -> bool:
        return any(e["event"] == "handling" and e["task_id"] == task_id for e in worker.events)

    found = wait_until(lambda: [worker for worker in workers if began(worker)], bool)
    return found[0], next(worker for worker in workers if worker is not found[0])


def held(worker: ManagedProcess) -> set[int]:
    """The partitions that a worker of one queue has now."""
    mine: set[int] = set()
    for event in worker.events:
        numbers = set(event.get("partitions", ()))
        if event["event"] == "assigned":
            mine |= numbers
        elif event["event"] in ("revoked", "lost"):
            mine -= numbers
    return mine


def wait_until(look: Callable[[], T], right: Callable[[T], Any], timeout_s: float = DEADLINE_S) -> T:
    """What is seen once it is right; fails with what was seen last."""
    deadline = time.monotonic() + timeout_s
    while not right(seen := look()):
        assert time.monotonic() < deadline, f"last seen after {timeout_s:g} s: {seen}"
        time.sleep(_LOOK_S)
    return seen


def end(worker: ManagedProcess) -> None:
    """Kill it, also when it is stopped; reap it."""
    if worker.returncode is None:
        worker.kill()
    worker.stop()


def now_ms() -> int:
    """Wall clock."""
    return time.time_ns() // 1_000_000


def show(what: str, **figures: object) -> None:
    """A line for `pytest -rP`."""
    print(f"{what}:", ", ".join(f"{name}={value}" for name, value in figures.items()))


def _said(value: bytes) -> list[Said]:
    batch = decode_reports(value)
    return [Said(batch.worker, report) for report in batch.reports]


def percentile(values: Sequence[int], share: float) -> int:
    """The smallest value that `share` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(len(ordered) * share * 1_000) // 1_000) - 1)]
