"""An installation without Kafka: the projection's own fold fills an index, and the real server serves it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tickstream.calendar.stored import Booking, encode_booking
from tickstream.model import NEVER, History, Outcome, Recurrence, Rev, RunState, TaskState, bucket_of
from tickstream.projection.fold import Step, fold
from tickstream.projection.index import Identity, IndexWriter
from tickstream.projection.rows import BookingChange, Columns, Definition, Payload, Position, Pulse
from tickstream.projection.server import serve
from tickstream.projection.snapshot import Member, Snapshot, encode_snapshot

BUCKETS = 4
NOW = 1_773_144_030_000
"""2026-03-10T12:00:30Z"""
DEADLINE_S = 10.0


class Wall:
    """A clock whose wall stands still until it is moved."""

    def __init__(self) -> None:
        self.now = NOW

    def wall_ms(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return time.monotonic()


class Board:
    """What the dispatchers have done so far, one call a deed; `commit` shows it to readers."""

    def __init__(self, data_dir: Path) -> None:
        identity = Identity({"timers": b"t" * 16, "history": b"h" * 16}, BUCKETS)
        self.data_dir = data_dir
        self.wall = Wall()
        self.index = IndexWriter(data_dir, identity)
        self._offsets = 0
        self._open: dict[int, tuple[dict[str, Any], dict[str, Any], list[History]]] = {}
        self._known: dict[str, tuple[Definition, TaskState]] = {}
        self._booked: dict[int, dict[str, BookingChange]] = {}

    def schedule(
        self,
        task_id: str,
        at_ms: int,
        *,
        queue: str = "default",
        handler: str = "noop",
        labels: Mapping[str, str] | None = None,
        recurrence: Recurrence | None = None,
        payload: Payload | None = None,
    ) -> None:
        """A task comes to wait for `at_ms`."""
        self._offsets += 1
        definition = Definition(
            Rev(self._offsets, 0),
            Columns(queue, handler, dict(labels or {})),
            recurrence=recurrence,
            payload=payload,
        )
        self._put(task_id, definition, TaskState(definition.rev, at_ms, NEVER, (), None, NEVER, ()))

    def book(self, booking: Booking) -> None:
        """An event comes into a calendar, or is changed there."""
        first = booking.expansion.first()
        assert first is not None
        self.schedule(booking.task_id, first.start_ms, handler="meet")
        change = BookingChange(encode_booking(booking), self.wall.now, self._offsets)
        self._booked.setdefault(bucket_of(booking.task_id, BUCKETS), {})[booking.task_id] = change

    def dispatch(self, task_id: str, *, after_ms: int = 4) -> None:
        """It goes out, that long after it was due."""
        definition, state = self._known[task_id]
        due = state.next_occurrence_ts
        run = RunState(due, 1, state.rev, due + after_ms)
        self._put(
            task_id, definition, state._replace(next_occurrence_ts=NEVER, last_occurrence_ts=due, runs=(run,))
        )

    def claim(self, task_id: str, *, worker: str = "worker-1", after_ms: int = 12) -> None:
        """A worker starts it, that long after it was dispatched."""
        definition, state = self._known[task_id]
        run = state.runs[0]
        run = run._replace(holder=b"h" * 16, worker=worker, started_ms=run.decided_ms + after_ms)
        self._put(task_id, definition, state._replace(runs=(run,)))

    def heartbeat(self, task_id: str, progress: int, note: str) -> None:
        """Its holder is heard of, now."""
        due = self._known[task_id][1].runs[0].occurrence_ts
        self.index.hear([Pulse(task_id, due, (b"h" * 16).hex(), self.wall.now, progress, note)])

    def fail(self, task_id: str, *, error: str, retry_in_ms: int, expired: bool = False) -> None:
        """An attempt fails now, or its lease expires; the next one is to come."""
        definition, state = self._known[task_id]
        run, now = state.runs[0], self.wall.now
        self._offsets += 1
        outcome = Outcome.LEASE_EXPIRED if expired else Outcome.ATTEMPT_FAILED
        history = History(
            self._offsets, task_id, run.occurrence_ts, run.attempt, run.rev, outcome, now,
            definition.columns.queue, definition.columns.handler, run.worker, run.holder, run.decided_ms,
            run.decided_ms + 10, run.started_ms, NEVER if expired else now, error,
        )  # fmt: skip
        self._deeds(task_id)[2].append(history)
        retry = run._replace(
            attempt=run.attempt + 1,
            holder=b"",
            worker="",
            started_ms=NEVER,
            failures=run.failures + 1,
            retry_at_ms=now + retry_in_ms,
        )
        self._put(task_id, definition, state._replace(runs=(retry,)))

    def retry(self, task_id: str) -> None:
        """The next attempt is dispatched, when it was to be."""
        definition, state = self._known[task_id]
        run = state.runs[0]
        run = run._replace(decided_ms=run.retry_at_ms, retry_at_ms=NEVER)
        self._put(task_id, definition, state._replace(runs=(run,)))

    def end(
        self, task_id: str, *, error: str = "", fetch_ms: int = 11, start_ms: int = 1, took_ms: int = 40
    ) -> None:
        """A dispatched task ends, well or with an error."""
        definition, state = self._known[task_id]
        run = state.runs[0]
        fetched = run.decided_ms + fetch_ms
        started = fetched + start_ms
        outcome = Outcome.DEAD if error else Outcome.SUCCEEDED
        times = (run.decided_ms, fetched, started, started + took_ms)
        self._end(
            task_id, definition, state, run.occurrence_ts, run.attempt, outcome, "worker-1", times, error
        )

    def cancel(self, task_id: str) -> None:
        """A waiting task is cancelled."""
        definition, state = self._known[task_id]
        never = (NEVER, NEVER, NEVER, NEVER)
        self._end(task_id, definition, state, state.next_occurrence_ts, 0, Outcome.CANCELLED, "", never, "")

    def stop(self, task_id: str, **extras: Any) -> None:
        """A waiting task does not go on by itself: `paused`, `held` or `faulted` of its extras."""
        definition, state = self._known[task_id]
        self._put(task_id, definition, state.with_extras(**extras))

    def broker(
        self,
        *,
        workers: Mapping[str, tuple[str, ...]],
        waiting: Mapping[str, int] | None = None,
        dispatchers: tuple[str, ...] = ("alpha",),
        ends: int = 10,
    ) -> None:
        """What the broker says now: workers and uncommitted work by queue; lanes go to `dispatchers` by turns."""
        lanes = 2
        members = tuple(
            Member(name, "10.0.0.1", tuple(range(n, lanes, len(dispatchers))))
            for n, name in enumerate(dispatchers)
        )
        snapshot = Snapshot(
            self.wall.now - 1_000, "", lanes, 0, tuple(workers), members,
            {queue: tuple(Member(name, "10.0.0.2", (0, 1)) for name in names) for queue, names in workers.items()},
            {queue: (waiting or {}).get(queue, 0) for queue in workers},
            dict.fromkeys(("commands", "reports", "timers", "history"), (ends,) * BUCKETS),
        )  # fmt: skip
        self.index.put_cluster(encode_snapshot(snapshot))

    def commit(
        self,
        *,
        behind_ms: int = 300,
        held_back: Mapping[int, int] | None = None,
        restoring: tuple[int, ...] = (),
    ) -> None:
        """Show it: every bucket stands `behind_ms` before now, those in `held_back` as long as it says."""
        steps = []
        for bucket in range(BUCKETS):
            definitions, states, outcomes = self._open.pop(bucket, ({}, {}, []))
            lag = (held_back or {}).get(bucket, behind_ms)
            position = Position(
                1, 1, 0, self.wall.now - lag, self._offsets + 1, 0, restoring=bucket in restoring
            )
            booked = self._booked.pop(bucket, {})
            steps.append(Step(bucket, definitions, states, outcomes, position, booked))
        self.index.apply(fold(steps, self.index))

    def _end(
        self,
        task_id: str,
        definition: Definition,
        state: TaskState,
        due: int,
        attempt: int,
        outcome: Outcome,
        worker: str,
        times: tuple[int, int, int, int],
        error: str,
    ) -> None:
        self._offsets += 1
        ended = self.wall.now if times[3] == NEVER else times[3]
        queue, handler, _ = definition.columns
        history = History(
            self._offsets, task_id, due, attempt, definition.rev, outcome, ended, queue, handler, worker,
            b"r" * 16 if attempt else b"", *times, error,
        )  # fmt: skip
        self._deeds(task_id)[2].append(history)
        self._put(task_id, definition, TaskState(state.rev, NEVER, due, (), outcome, ended, ()))

    def _put(self, task_id: str, definition: Definition, state: TaskState) -> None:
        definitions, states, _ = self._deeds(task_id)
        self._known[task_id] = definition, state
        definitions[task_id] = [definition]
        states[task_id] = state

    def _deeds(self, task_id: str) -> tuple[dict[str, Any], dict[str, Any], list[History]]:
        return self._open.setdefault(bucket_of(task_id, BUCKETS), ({}, {}, []))


@contextmanager
def serving(board: Board, *, port: int = 0, token: str | None = None) -> Iterator[str]:
    """The dashboard on the board's index, by its address."""
    events: SimpleQueue[Mapping[str, object]] = SimpleQueue()
    stop = threading.Event()
    options = {"data_dir": board.data_dir, "port": port, "token": token, "clock": board.wall}
    server = threading.Thread(target=serve, kwargs=options | {"events": events.put, "stop": stop})
    server.start()
    try:
        ready = events.get(timeout=DEADLINE_S)
        yield str(ready["url"])
    finally:
        stop.set()
        server.join(DEADLINE_S)
        assert not server.is_alive()
