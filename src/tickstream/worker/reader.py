"""One queue of one worker: takes its work, keeps its offsets.

Owns the consumer and its thread. Handlers, slots and the producer may not enter here.

The rules (docs/protocol.md): an offset is committed once every record up to it has an
acknowledged report; a partition that goes away takes with it what has not started.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from tickstream.clock import Clock
from tickstream.codec import decode_body, decode_work
from tickstream.errors import BrokerUnavailable, CodecError, MalformedValue, UnknownHandler, UnknownSchema
from tickstream.kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
    place,
    worker_consumer,
)
from tickstream.model import Body, Work
from tickstream.settings import Settings
from tickstream.topics import TopicNames
from tickstream.worker.events import Events
from tickstream.worker.intake import Intake
from tickstream.worker.ledger import OffsetLedger
from tickstream.worker.run import Callee, Refusal, Run

COMMIT_S: Final = 0.2
POLL_S: Final = 0.05
PATIENCE_S: Final = 0.5
"""A full buffer is waited for so long before the partitions are paused: pausing throws away
what was fetched ahead, not polling delays a rebalance."""
REVOKE_S: Final = 2.0
"""How long a rebalance waits for handlers that run on a partition which goes away."""
_ROUND_S: Final = 0.005
"""Between two looks for acknowledgements."""
MAX_UNREPORTED: Final = 20_000
"""Records whose report is not acknowledged, at most."""
_NO_BODY: Final = Body("", b"", {}, {})


class QueueReader:
    """The consumer of one queue. `serve` is its thread; `finished` and `acked` come from others."""

    def __init__(
        self,
        queue: str,
        handlers: Mapping[str, Callee],
        settings: Settings,
        *,
        concurrency: int,
        grace_s: float,
        session_ms: int,
        worker_id: str,
        submit: Callable[[Sequence[Run]], None],
        assigned: Callable[[str], None],
        clock: Clock,
        events: Events,
        stop: threading.Event,
        kill: threading.Event,
    ) -> None:
        names = TopicNames(settings.prefix)
        self._queue = queue
        self._topic = names.work(queue)
        self._handlers = handlers
        self._grace_s = grace_s
        self._submit = submit
        self._tell_assigned = assigned
        self._clock = clock
        self._events = events
        self._stop = stop
        self._kill = kill
        self._consumer: Consumer = worker_consumer(
            settings,
            names.worker_group(queue),
            worker_id,
            session_ms=session_ms,
            on_commit=self._commit_answered,
        )
        self._ledger = OffsetLedger()
        self._intake = Intake(concurrency)
        self._in_flight: dict[tuple[int, int], Run] = {}
        """(partition, offset) → run whose report is not acknowledged. Outlives the assignment: a
        record that comes again meanwhile is not started a second time beside itself."""
        self._in_slots = 0
        """Runs handed out and not finished."""
        self._finished: deque[None] = deque()
        self._acked: deque[tuple[int, int]] = deque()
        self._wake = threading.Event()
        self._wake_at = 1
        self._assignment: set[int] = set()
        self._halted: set[int] = set()
        """Partitions with a record that only a newer release can read."""
        self._paused = False
        self._full_since: float | None = None
        self._next_commit = 0.0
        self._revoke_s = REVOKE_S

    # ------------------------------------------------------------------ heard from other threads

    def finished(self) -> None:
        """See Owner."""
        self._finished.append(None)
        if len(self._finished) >= self._wake_at and not self._wake.is_set():
            self._wake.set()

    def acked(self, run: Run) -> None:
        """See Owner."""
        self._acked.append((run.partition, run.offset))

    # ------------------------------------------------------------------ the loop

    def serve(self) -> None:
        """Read, hand out, commit, until stopped; then drain and leave the group.

        Raises BrokerUnavailable when the consumer cannot go on.
        """
        self._consumer.subscribe(
            [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        try:
            while not self._stop.is_set():
                self._settle()
                self._commit_if_due()
                self._take(self._fetch())
            self._drain()
        finally:
            # Closing revokes what is left, and that commits.
            self._revoke_s = 0.0
            self._consumer.close()

    def _settle(self) -> None:
        """Take note of what other threads said."""
        count = len(self._finished)
        for _ in range(count):
            self._finished.popleft()
        self._in_slots -= count
        self._intake.finished(count, self._clock.monotonic())
        for _ in range(len(self._acked)):
            key = self._acked.popleft()
            self._in_flight.pop(key, None)
            self._ledger.done(*key)

    def _fetch(self) -> list[Message]:
        """The next records, no more than there is room for; none while there is none."""
        room = min(self._intake.room(self._in_slots), MAX_UNREPORTED - len(self._in_flight))
        if room <= 0:
            return self._wait_for_room()
        self._full_since = None
        if self._paused:
            self._paused = False
            self._consumer.resume(self._partitions(self._assignment - self._halted))
        first = self._consumer.poll(POLL_S)
        if first is None:
            return []
        return [first, *self._consumer.consume(room - 1, 0)] if room > 1 else [first]

    def _wait_for_room(self) -> list[Message]:
        now = self._clock.monotonic()
        if self._full_since is None:
            self._full_since = now
        elif not self._paused and now - self._full_since >= PATIENCE_S:
            self._pause()
        self._wake_at = max(1, self._intake.excess(self._in_slots))
        self._wake.clear()
        if len(self._finished) < self._wake_at:
            self._wake.wait(POLL_S)
        if not self._paused:
            return []
        # Nothing is expected: this serves rebalances.
        message = self._consumer.poll(0)
        return [] if message is None else [message]

    def _pause(self) -> None:
        self._paused = True
        self._consumer.pause(self._partitions(self._assignment))

    # ------------------------------------------------------------------ records

    def _take(self, messages: Sequence[Message]) -> None:
        if not messages:
            return
        fetched_ms = self._clock.wall_ms()
        runs: list[Run] = []
        for message in messages:
            error = message.error()
            if error is not None:
                self._complain(error)
            elif run := self._run_of(message, fetched_ms):
                runs.append(run)
        if runs:
            self._in_slots += len(runs)
            self._submit(runs)

    def _run_of(self, message: Message, fetched_ms: int) -> Run | None:
        """The run of this record; None when it is under way already, or is no work."""
        _, partition, offset = place(message)
        # A rebalance within the same fetch may have taken the partition away: then it is another's.
        if partition not in self._assignment or partition in self._halted:
            return None
        key = (partition, offset)
        self._ledger.take(partition, offset)
        if key in self._in_flight:
            return None
        try:
            work = decode_work(message.value())
        except UnknownSchema as error:
            self._halt(partition, offset, error)
            return None
        except MalformedValue as error:
            # Nobody can ever read it: said aloud, then passed. It stays in the topic for 7 days.
            self._events.emit(
                "alarm",
                kind="undecodable_work",
                reason=f"{self._topic}[{partition}]@{offset} is no Work record and was passed over: {error}",
                queue=self._queue,
            )
            self._ledger.done(partition, offset)
            return None
        body, callee = self._callee(work)
        run = self._in_flight[key] = Run(self, partition, offset, work, body, callee, fetched_ms)
        return run

    def _callee(self, work: Work) -> tuple[Body, Callee]:
        """The body and the handler it names, or one that fails with the reason."""
        try:
            body = decode_body(work.body)
        except CodecError as error:
            self._events.alarm("undecodable_body", f"task {work.task_id!r}: {error}", queue=self._queue)
            return _NO_BODY, Refusal("", error)
        callee = self._handlers.get(body.handler)
        if callee is not None:
            return body, callee
        unknown = UnknownHandler(body.handler, tuple(self._handlers))
        self._events.alarm("unknown_handler", f"task {work.task_id!r}: {unknown}", queue=self._queue)
        return body, Refusal(body.handler, unknown)

    def _halt(self, partition: int, offset: int, error: UnknownSchema) -> None:
        """Read no further here: its offset stays in the ledger, a newer worker goes on from it."""
        self._halted.add(partition)
        self._consumer.pause(self._partitions((partition,)))
        self._events.emit(
            "alarm",
            kind="newer_schema",
            reason=f"{self._topic}[{partition}] is not read on from offset {offset}: {error}",
            queue=self._queue,
        )

    def _complain(self, error: KafkaError) -> None:
        if error.fatal():
            raise BrokerUnavailable(f"the consumer of {self._topic} cannot go on: {error.str()}")
        self._events.alarm("consumer", f"{self._topic}: {error.str()}", queue=self._queue)

    # ------------------------------------------------------------------ commits

    def _commit_if_due(self) -> None:
        now = self._clock.monotonic()
        if now < self._next_commit:
            return
        self._next_commit = now + COMMIT_S
        if positions := self._ledger.to_commit():
            self._ledger.committed(positions)
            self._commit(positions, wait=False)

    def _commit_now(self, partitions: Collection[int]) -> None:
        positions = {p: position for p, position in self._ledger.to_commit().items() if p in partitions}
        if positions and not self._kill.is_set():
            self._ledger.committed(positions)
            self._commit(positions, wait=True)

    def _commit(self, positions: Mapping[int, int], *, wait: bool) -> None:
        offsets = [TopicPartition(self._topic, p, position) for p, position in positions.items()]
        try:
            if wait:
                self._commit_answered(None, self._consumer.commit(offsets=offsets, asynchronous=False) or [])
            else:
                self._consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as error:
            self._commit_answered(error.args[0], offsets)

    def _commit_answered(self, error: KafkaError | None, offsets: Sequence[TopicPartition]) -> None:
        """A commit that failed is repeated at the next occasion; until then work may come twice."""
        failed = [tp.partition for tp in offsets if error is not None or tp.error is not None]
        if failed:
            self._ledger.commit_failed(failed)
            reason = error or next(tp.error for tp in offsets if tp.error is not None)
            self._events.emit(
                "commit_failed", queue=self._queue, partitions=sorted(failed), reason=reason.str()
            )

    # ------------------------------------------------------------------ partitions come and go

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        numbers = {tp.partition for tp in partitions}
        self._assignment |= numbers
        self._halted -= numbers
        if self._paused and partitions:
            consumer.incremental_assign(partitions)
            consumer.pause(partitions)
        self._events.emit("assigned", queue=self._queue, partitions=sorted(numbers))
        if self._assignment:
            self._tell_assigned(self._queue)

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        numbers = {tp.partition for tp in partitions}
        dropped = self._drop(numbers)
        self._await_reports(numbers, self._revoke_s)
        self._commit_now(numbers)
        self._forget(numbers)
        self._events.emit("revoked", queue=self._queue, partitions=sorted(numbers), dropped=dropped)

    def _on_lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        numbers = {tp.partition for tp in partitions}
        dropped = self._drop(numbers)
        self._forget(numbers)
        self._events.emit("lost", queue=self._queue, partitions=sorted(numbers), dropped=dropped)

    def _drop(self, partitions: Collection[int]) -> int:
        """Take back what has not started; how many."""
        dropped = [key for key, run in self._in_flight.items() if key[0] in partitions and run.claim()]
        for key in dropped:
            del self._in_flight[key]
        self._in_slots -= len(dropped)
        return len(dropped)

    def _await_reports(self, partitions: Collection[int], wait_s: float) -> None:
        """Until the reports of what runs on these are acknowledged, `wait_s` at most."""
        deadline = self._clock.monotonic() + wait_s
        self._settle()
        while any(partition in partitions for partition, _ in self._in_flight):
            if self._clock.monotonic() >= deadline or self._kill.wait(_ROUND_S):
                return
            self._settle()

    def _forget(self, partitions: Collection[int]) -> None:
        self._ledger.forget(partitions)
        self._assignment.difference_update(partitions)
        self._halted.difference_update(partitions)

    def _drain(self) -> None:
        """Let what runs end within the grace; commit. The group is served meanwhile."""
        self._pause()
        dropped = self._drop(self._assignment)
        self._events.emit("draining", queue=self._queue, dropped=dropped, running=len(self._in_flight))
        deadline = self._clock.monotonic() + self._grace_s
        while self._in_flight and self._clock.monotonic() < deadline and not self._kill.is_set():
            self._commit_if_due()
            self._consumer.poll(0)
            # Also those of partitions that went away while they ran.
            self._await_reports({partition for partition, _ in self._in_flight}, POLL_S)
        self._commit_now(self._assignment)
        self._events.emit("drained", queue=self._queue, abandoned=len(self._in_flight))

    def _partitions(self, numbers: Collection[int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, number) for number in numbers]
