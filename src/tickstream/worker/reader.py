"""One queue of one worker: takes its work, keeps its offsets.

Owns the consumer and its thread. Handlers, slots and the producer may not enter here.

The rules (docs/protocol.md): an offset is committed once every record up to it has an
acknowledged claim, outcome or release; a partition that goes away takes with it what has not
started, and what runs on it is claimed; what finds no slot goes back to where others can take it.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from tickstream.clock import Clock
from tickstream.errors import BrokerUnavailable, MalformedValue, UnknownSchema
from tickstream.kafka import Consumer, KafkaError, Message, TopicPartition, place, worker_consumer
from tickstream.model import NEVER, Report, ReportKind
from tickstream.settings import Settings
from tickstream.topics import TopicNames
from tickstream.worker.arrivals import Arrivals
from tickstream.worker.commits import Commits
from tickstream.worker.early import Early
from tickstream.worker.events import Events
from tickstream.worker.intake import Bounces, Intake, Waiting
from tickstream.worker.ledger import OffsetLedger
from tickstream.worker.pool import Kind, Slots
from tickstream.worker.run import Callee, Run

POLL_S: Final = 0.05
PATIENCE_S: Final = 0.5
"""A full buffer is waited for so long before the partitions are paused: pausing throws away
what was fetched ahead, not polling delays a rebalance."""
REVOKE_S: Final = 2.0
"""How long a rebalance waits for the claims of what runs on a partition which goes away."""
_ROUND_S: Final = 0.005
"""Between two looks for acknowledgements."""
MAX_UNREPORTED: Final = 20_000
"""Records whose report is not acknowledged, at most."""


class QueueReader:
    """The consumer of one queue. `serve` is its thread; `finished` and `acked` come from others.

    A simulation calls `join`, `turn` and `leave` itself; `connect` makes the consumer, `wake` is waited for.
    """

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
        pool: Slots,
        claim: Callable[[Run], None],
        put: Callable[[Run, Report], None],
        new_run_id: Callable[[], bytes],
        assigned: Callable[[str], None],
        clock: Clock,
        events: Events,
        stop: threading.Event,
        kill: threading.Event,
        connect: Callable[..., Consumer] = worker_consumer,
        wake: threading.Event | None = None,
    ) -> None:
        names = TopicNames(settings.prefix)
        self._queue = queue
        self._topic = names.work(queue)
        self._grace_s = grace_s
        self._pool = pool
        self._claim = claim
        self._put = put
        self._new_run_id = new_run_id
        self._tell_assigned = assigned
        self._clock = clock
        self._events = events
        self._stop = stop
        self._kill = kill
        self._ledger = OffsetLedger()
        self._commits = Commits(queue, self._topic, self._ledger, clock, events)
        self._consumer: Consumer = connect(
            settings,
            names.worker_group(queue),
            worker_id,
            session_ms=session_ms,
            on_commit=self._commits.answered,
        )
        self._arrivals = Arrivals(queue, handlers, self, events)
        self._intake = Intake(concurrency)
        self._waiting: defaultdict[Kind, Waiting[Run]] = defaultdict(lambda: Waiting(concurrency))
        self._bounces = Bounces()
        self._early = Early()
        self._in_flight: dict[tuple[int, int], Run] = {}
        """(partition, offset) → run whose outcome is not acknowledged. Outlives the assignment: a
        record that comes again meanwhile is not started a second time beside itself."""
        self._in_slots = 0
        """Runs handed out and not finished. What is held until its instant is none of them."""
        self._finished: deque[None] = deque()
        self._acked: deque[tuple[Run, ReportKind]] = deque()
        self._wake = wake or threading.Event()
        self._wake_at = 1
        self._assignment: set[int] = set()
        self._halted: set[int] = set()
        """Partitions with a record that only a newer release can read."""
        self._paused = False
        self._full_since: float | None = None
        self._revoke_s = REVOKE_S

    # ------------------------------------------------------------------ heard from other threads

    def finished(self) -> None:
        """See Owner."""
        self._finished.append(None)
        if len(self._finished) >= self._wake_at and not self._wake.is_set():
            self._wake.set()

    def acked(self, run: Run, kind: ReportKind) -> None:
        """See Owner."""
        if kind is not ReportKind.HEARTBEAT:
            self._acked.append((run, kind))

    @property
    def unacknowledged(self) -> int:
        """Runs whose outcome the broker does not have."""
        return len(self._in_flight)

    # ------------------------------------------------------------------ the loop

    def serve(self) -> None:
        """Read, hand out, commit, until stopped; then leave the group, and let what runs end.

        Raises BrokerUnavailable when the consumer cannot go on.
        """
        self.join()
        try:
            while not self._stop.is_set():
                self.turn()
            drained_by = self._clock.monotonic() + self._grace_s
            self.leave()
        finally:
            # Closing revokes what is left, and that commits.
            self._revoke_s = 0.0
            self._consumer.close()
        self._drain(drained_by)

    def join(self) -> None:
        """Enter the queue's group."""
        self._consumer.subscribe(
            [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def turn(self) -> None:
        """Once round the loop. Raises BrokerUnavailable."""
        self._settle()
        self._give_back()
        self._commits.if_due(self._consumer)
        self._take(self._fetch())

    def _settle(self) -> None:
        """Take note of what other threads said."""
        count = len(self._finished)
        for _ in range(count):
            self._finished.popleft()
        self._in_slots -= count
        self._intake.finished(count, self._clock.monotonic())
        for _ in range(len(self._acked)):
            run, kind = self._acked.popleft()
            key = (run.partition, run.offset)
            run.covered = True
            if kind is not ReportKind.CLAIMED:
                run.settled()
            if self._in_flight.get(key) is run:
                if kind is not ReportKind.CLAIMED:
                    del self._in_flight[key]
                self._ledger.done(*key)

    def _give_back(self) -> None:
        """Release what has waited in vain for a slot."""
        now = self._clock.monotonic()
        for waiting in self._waiting.values():
            for runs, pause_ms in ((waiting.overdue(now), NEVER), (waiting.rested(now), 0)):
                for run in runs:
                    if run.begin():
                        self._in_slots -= 1
                        self._release(run, pause_ms)

    def _release(self, run: Run, pause_ms: int = NEVER) -> None:
        """Another worker may take it; its offset may be committed once that is acknowledged."""
        self._bounces.add(self._clock.monotonic())
        run.run_id = self._new_run_id()
        self._put(run, run.report(ReportKind.RELEASED, self._clock.wall_ms(), retry_ms=pause_ms))

    @property
    def _outstanding(self) -> int:
        return self._in_slots - sum(waiting.held for waiting in self._waiting.values())

    def _fetch(self) -> list[Message]:
        """The next records, no more than there is room for; none while there is none."""
        room = min(
            self._intake.room(self._outstanding),
            MAX_UNREPORTED - len(self._in_flight),
            self._bounces.room(self._clock.monotonic()),
        )
        if room <= 0:
            return self._wait_for_room()
        self._full_since = None
        if self._paused:
            self._paused = False
            self._consumer.resume(self._partitions(self._assignment - self._halted))
        first = self._consumer.poll(self._early.wait_s(POLL_S, self._clock.monotonic()))
        if first is None:
            return []
        return [first, *self._consumer.consume(room - 1, 0)] if room > 1 else [first]

    def _wait_for_room(self) -> list[Message]:
        now = self._clock.monotonic()
        if self._full_since is None:
            self._full_since = now
        elif not self._paused and now - self._full_since >= PATIENCE_S:
            self._pause()
        self._wake_at = max(1, self._intake.excess(self._outstanding))
        self._wake.clear()
        if len(self._finished) < self._wake_at:
            self._wake.wait(self._early.wait_s(POLL_S, now))
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
        """Hand out what came and what was held until now; hold what came ahead of its instant."""
        fetched_ms, now = self._clock.wall_ms(), self._clock.monotonic()
        runs: defaultdict[Kind, list[Run]] = defaultdict(list)
        for message in messages:
            error = message.error()
            if error is not None:
                self._complain(error)
            elif (run := self._run_of(message, fetched_ms)) and not self._early.hold(run, fetched_ms, now):
                runs[self._pool.kind(run.handler)].append(run)
        for run in self._early.ripe(fetched_ms, now):
            runs[self._pool.kind(run.handler)].append(run)
        for kind, some in runs.items():
            self._hand_out(kind, some)

    def _hand_out(self, kind: Kind, runs: list[Run]) -> None:
        """To the slots; or straight back while those have been busy for long."""
        waiting, now = self._waiting[kind], self._clock.monotonic()
        if waiting.stalled and self._pool.full(kind, self._queue):
            for run in waiting.turned_away(runs, now):
                run.begin()
                self._release(run)
            runs = [run for run in runs if not run.begun]
        else:
            waiting.stalled = False
            waiting.add(runs, now)
        self._in_slots += len(runs)
        self._pool.submit(kind, runs)

    def _run_of(self, message: Message, fetched_ms: int) -> Run | None:
        """The run of this record; None when it is under way already, or not for this worker."""
        _, partition, offset = place(message)
        # A rebalance within the same fetch may have taken the partition away: then it is another's.
        if partition not in self._assignment or partition in self._halted:
            return None
        key = (partition, offset)
        self._ledger.take(partition, offset)
        if under_way := self._in_flight.get(key):
            if under_way.covered:
                self._ledger.done(partition, offset)
            return None
        try:
            run, ours = self._arrivals.run_of(message.value(), partition, offset, fetched_ms)
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
        self._in_flight[key] = run
        if not ours:
            run.begin()
            self._release(run)
            return None
        return run

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
        self._cover(numbers, self._revoke_s)
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
        dropped = [key for key, run in self._in_flight.items() if key[0] in partitions and run.begin()]
        for key in dropped:
            del self._in_flight[key]
        self._in_slots -= len(dropped) - self._early.let_go()
        return len(dropped)

    def _cover(self, partitions: Collection[int], wait_s: float) -> None:
        """Claim what runs on these, and wait for the acknowledgements, `wait_s` at most."""
        deadline = self._clock.monotonic() + wait_s
        self._settle()
        while open_runs := [
            run for (p, _), run in self._in_flight.items() if p in partitions and not run.covered
        ]:
            for run in open_runs:
                self._claim(run)
            if self._clock.monotonic() >= deadline or self._kill.wait(_ROUND_S):
                return
            self._settle()

    def _commit_now(self, partitions: Collection[int]) -> None:
        if not self._kill.is_set():
            self._commits.now(self._consumer, partitions)

    def _forget(self, partitions: Collection[int]) -> None:
        self._ledger.forget(partitions)
        self._assignment.difference_update(partitions)
        self._halted.difference_update(partitions)

    def leave(self) -> None:
        """Claim and commit what runs, so that others have the partitions now and not after the grace."""
        dropped = self._drop(self._assignment)
        self._events.emit("draining", queue=self._queue, dropped=dropped, running=len(self._in_flight))
        self._cover(self._assignment, self._revoke_s)
        self._commit_now(self._assignment)

    def _drain(self, deadline: float) -> None:
        """Let what runs end within the grace: its lease is renewed, and no report needs the group."""
        while self._in_flight and self._clock.monotonic() < deadline and not self._kill.wait(_ROUND_S):
            self._settle()
        # What was started and has not ended: its lease runs out, and another attempt is made.
        self._events.emit("drained", queue=self._queue, abandoned=len(self._in_flight))

    def _partitions(self, numbers: Collection[int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, number) for number in numbers]
