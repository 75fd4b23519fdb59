"""Runs that a worker holds until their instant: the reader on a consumer and a clock that the test plays."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from tickstream.codec import encode_body, encode_work
from tickstream.kafka import Consumer, TopicPartition
from tickstream.model import NEVER, Body, Report, Rev, Work
from tickstream.settings import Settings
from tickstream.testing import ManualClock
from tickstream.worker.events import Events
from tickstream.worker.pool import Kind
from tickstream.worker.reader import POLL_S, QueueReader
from tickstream.worker.run import Callee, Refusal, Run

LEAD_MS = 250


class Record:
    """A message as a consumer gives it."""

    def __init__(self, topic: str, partition: int, offset: int, value: bytes) -> None:
        self._place = topic, partition, offset
        self._value = value

    def error(self) -> None: ...

    def topic(self) -> str:
        return self._place[0]

    def partition(self) -> int:
        return self._place[1]

    def offset(self) -> int:
        return self._place[2]

    def value(self) -> bytes:
        return self._value


class Desk:
    """A reader with partitions 0 and 1, the slots that it fills, and what it says and commits."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.submitted: list[Run] = []
        self.claimed: list[Run] = []
        self.put: list[Report] = []
        self.events: list[Mapping[str, object]] = []
        self.polls: list[float] = []
        self.committed: dict[int, int] = {}
        self._log: deque[Record] = deque()
        self._ends = [0, 0]
        self.reader = QueueReader(
            "default",
            {"job": Refusal("job", ValueError())},  # type: ignore[arg-type]
            Settings("", "t."),
            concurrency=2,
            grace_s=1.0,
            session_ms=0,
            worker_id="w",
            pool=self,
            claim=self.claimed.append,
            put=lambda _run, report: self.put.append(report),
            new_run_id=lambda: b"r" * 16,
            assigned=lambda _queue: None,
            clock=self.clock,
            events=Events(self.events.append, self.clock),
            stop=threading.Event(),
            kill=threading.Event(),
            connect=lambda *_args, **_options: cast("Consumer", self),
        )
        self.reader.join()
        self._on_assign(self, self._both())

    def send(
        self, name: str, partition: int = 0, in_ms: int = LEAD_MS, decided_ms: int | None = None
    ) -> None:
        """Work whose instant is so far ahead of the wall clock; negative: it says nothing of one."""
        now = self.clock.wall_ms()
        body = encode_body(Body("job", b"", {}, {}))
        work = Work(
            partition,
            1,
            name,
            now + in_ms,
            1,
            Rev(0, 0),
            now if decided_ms is None else decided_ms,
            10_000,
            60_000,
            body,
            now + in_ms if in_ms > 0 else NEVER,
        )
        self._log.append(Record("t.work.default", partition, self._ends[partition], encode_work(work)))
        self._ends[partition] += 1

    @property
    def started(self) -> list[str]:
        return [run.work.task_id for run in self.submitted]

    def turn(self, ms: int = 0) -> list[str]:
        """Let time pass, and the reader go round once; what was handed out so far."""
        self.clock.advance(ms)
        self.reader.turn()
        return self.started

    def revoke(self, partition: int) -> Mapping[str, object]:
        """Take a partition away; what the reader says of it."""
        self._on_revoke(self, [TopicPartition("t.work.default", partition)])
        return self.events[-1]

    @staticmethod
    def _both() -> list[TopicPartition]:
        return [TopicPartition("t.work.default", partition) for partition in (0, 1)]

    # ------------------------------------------------------------------ slots

    def kind(self, handler: Callee) -> Kind:
        del handler
        return "thread"

    def submit(self, kind: Kind, runs: Sequence[Run]) -> None:
        del kind
        for run in runs:
            assert run.begin()
        self.submitted += runs

    def full(self, kind: Kind, queue: str) -> bool:
        del kind, queue
        return False

    # ------------------------------------------------------------------ consumer

    def subscribe(self, _topics: list[str], *, on_assign: Any, on_revoke: Any, on_lost: Any) -> None:
        self._on_assign, self._on_revoke, self._on_lost = on_assign, on_revoke, on_lost

    def poll(self, timeout_s: float) -> Record | None:
        self.polls.append(timeout_s)
        return self._log.popleft() if self._log else None

    def consume(self, count: int, _timeout_s: float) -> list[Record]:
        return [self._log.popleft() for _ in range(min(count, len(self._log)))]

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        del asynchronous
        self.committed |= {tp.partition: tp.offset for tp in offsets}
        return offsets


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_run_is_held_until_its_instant(desk: Desk) -> None:
    desk.send("later", in_ms=500)
    desk.send("ahead")
    desk.send("now", in_ms=-5)
    assert desk.turn() == ["now"]
    assert desk.turn(LEAD_MS - 1) == ["now"]
    assert desk.turn(1) == ["now", "ahead"]
    assert desk.turn(250) == ["now", "ahead", "later"]


def test_the_reader_wakes_for_the_next_one(desk: Desk) -> None:
    desk.send("ahead")
    desk.turn()
    assert desk.polls == [POLL_S]
    desk.turn(LEAD_MS - 100)
    desk.turn(70)
    desk.turn(29)
    desk.turn(1)
    assert desk.polls[1:] == [POLL_S, pytest.approx(0.03), pytest.approx(0.001), pytest.approx(0.001)]
    # Handed out at the end of the turn in which its time came; then there is none to wake for.
    assert desk.started == ["ahead"]
    desk.turn()
    assert desk.polls[-1] == POLL_S


def test_what_is_held_takes_up_no_room(desk: Desk) -> None:
    for n in range(100):
        desk.send(f"ahead{n}")
    for _ in range(60):
        desk.turn()
    desk.send("now", in_ms=-5)
    assert desk.turn() == ["now"]
    assert len(desk.turn(LEAD_MS)) == 101


def test_what_is_held_goes_with_its_partition_unclaimed_and_uncommitted(desk: Desk) -> None:
    desk.send("gone")
    desk.send("stays", partition=1)
    desk.turn()
    assert desk.revoke(0)["dropped"] == 1
    assert desk.turn(LEAD_MS) == ["stays"]
    assert (desk.claimed, desk.put, desk.committed) == ([], [], {})
    assert desk.reader.unacknowledged == 1


def test_slots_are_counted_right_after_a_drop(desk: Desk) -> None:
    desk.send("held")
    desk.turn()
    desk.revoke(0)
    for n in range(10):
        desk.send(f"now{n}", partition=1, in_ms=-5)
    # Two slots and a reserve of one record each.
    for _ in range(10):
        desk.turn()
    assert len(desk.started) == 4


def test_what_is_held_is_dropped_when_the_worker_leaves(desk: Desk) -> None:
    desk.send("held")
    desk.turn()
    desk.reader.leave()
    assert desk.events[-1]["dropped"] == 1
    assert (desk.claimed, desk.reader.unacknowledged) == ([], 0)


def test_work_that_comes_again_after_a_drop_is_held_anew(desk: Desk) -> None:
    desk.send("again")
    record = desk._log[0]
    desk.turn()
    desk.revoke(0)
    desk._on_assign(desk, [TopicPartition("t.work.default", 0)])
    desk._log.append(record)
    assert desk.turn(LEAD_MS - 1) == []
    assert desk.turn(1) == ["again"]


def test_a_step_forward_starts_nothing_early(desk: Desk) -> None:
    desk.send("ahead")
    desk.turn()
    desk.clock.step(3_600_000)
    assert desk.turn(LEAD_MS - 1) == []
    assert desk.turn(1) == ["ahead"]


def test_a_step_back_starts_nothing_early_either(desk: Desk) -> None:
    # The clock was 200 ms fast when the work came: decided 250 ms ahead, it seemed to have 50 ms left.
    desk.send("ahead", in_ms=50, decided_ms=desk.clock.wall_ms() - 200)
    desk.turn()
    desk.clock.step(-200)
    assert desk.turn(50) == []
    assert desk.turn(199) == []
    assert desk.turn(1) == ["ahead"]


def test_a_clock_that_is_far_behind_delays_by_the_lead_and_half_a_percent(desk: Desk) -> None:
    desk.send("ahead", in_ms=3_600_000, decided_ms=desk.clock.wall_ms() + 3_600_000 - LEAD_MS)
    assert desk.turn() == []
    assert desk.turn(LEAD_MS + 1) == []
    assert desk.turn(1) == ["ahead"]


def test_a_monotonic_clock_that_runs_fast_starts_nothing_early(desk: Desk) -> None:
    desk.send("ahead")
    desk.turn()
    desk.clock.step(
        -1
    )  # seen from the monotonic clock, which gained a ms: the lead has passed, the instant has not come
    assert desk.turn(LEAD_MS) == []
    assert desk.turn(1) == ["ahead"]
