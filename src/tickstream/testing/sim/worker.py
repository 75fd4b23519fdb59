"""A worker process of the simulation: the real reader, reporter, keeper and execution without their threads.

Slots are played: a run takes as long, and ends, as the dice of its process say. Nothing else of a
worker is decided here.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from tickstream.codec import decode_signal
from tickstream.ingest.client import Client
from tickstream.kafka import Consumer, Producer
from tickstream.model import NEVER, Report
from tickstream.settings import Settings
from tickstream.testing.sim.faults import Dice
from tickstream.testing.sim.group import SimGroup
from tickstream.testing.sim.kafka_clients import SimConsumer, SimProducer
from tickstream.testing.sim.transactions import Broker
from tickstream.testing.sim.world import MS, SECOND, Crashed, Process, World
from tickstream.topics import TopicNames
from tickstream.worker.context import Context
from tickstream.worker.events import Events
from tickstream.worker.execution import Execution
from tickstream.worker.keeper import LeaseKeeper
from tickstream.worker.lease import CLAIM_AFTER_S
from tickstream.worker.outbox import Entry
from tickstream.worker.pool import Kind
from tickstream.worker.reader import QueueReader
from tickstream.worker.reporter import Reporter
from tickstream.worker.run import Callee, Run

QUEUE: Final = "default"
HANDLER: Final = "job"
_SHORT_US: Final = (1 * MS, 10 * MS, 30 * MS)
_LONG_US: Final = (80 * MS, 300 * MS, 1 * SECOND, 3 * SECOND)
_LIVELY_US: Final = 600 * MS
"""How long a reader goes on turning after the last thing that happened to it."""
_ROUND_US: Final = 200 * MS


class Job:
    """The handler of every task; its slot decides what becomes of it."""

    name = HANDLER
    is_async = False
    executor = None

    def call(self, _ctx: Context, _payload: bytes) -> None:
        """Never called: slots are played."""

    def retry_ms(self, _error: BaseException, _attempt: int) -> int:
        """As the policy says."""
        return NEVER

    def result_bytes(self, _value: Any) -> bytes:
        """None."""
        return b""


@dataclass(frozen=True, slots=True)
class Shop:
    """What all workers have in common."""

    world: World
    broker: Broker
    names: TopicNames
    group: SimGroup
    concurrency: int
    failing: float
    """Share of runs that fail."""
    hanging: float
    """Share of runs that never end by themselves."""


class PlayedSlots:
    """Slots whose runs take the time that the dice say. Implements reader.Slots and run.Home."""

    def __init__(self, worker: SimWorker, size: int) -> None:
        self._worker = worker
        self._free = size
        self._waiting: deque[Run] = deque()

    def kind(self, _handler: Callee) -> Kind:
        return "thread"

    def submit(self, _kind: Kind, runs: Sequence[Run]) -> None:
        self._waiting.extend(runs)
        self._start()

    def full(self, _kind: Kind, _queue: str) -> bool:
        return self._free == 0

    def _start(self) -> None:
        worker = self._worker
        while self._free and self._waiting:
            run = self._waiting.popleft()
            if not run.begin():
                continue
            self._free -= 1
            run.home = self
            worker.execution.start(run)
            worker.look_within(CLAIM_AFTER_S)
            shop, rng = worker.shop, worker.process.rng
            if not shop.world.calm and rng.random() < shop.hanging:
                continue
            times = _LONG_US if rng.random() < 0.5 else _SHORT_US
            shop.world.after(rng.choice(times), worker.process, self._ending(run, rng.random()))

    def _ending(self, run: Run, luck: float) -> Callable[[], None]:
        def end() -> None:
            if run.left:
                return
            execution = self._worker.execution
            if luck < self._worker.shop.failing and not self._worker.shop.world.calm:
                execution.failed(run, "Error: as the dice say", NEVER)
            else:
                execution.succeeded(run, b"")
            self._free += 1
            self._start()

        return end

    # ------------------------------------------------------------------ Home

    def stop(self, run: Run) -> None:
        """The handler looks at `ctx.cancelled` before long."""
        world = self._worker.shop.world
        world.after(20 * MS, self._worker.process, self._ending(run, 1.0))

    def tell(self, run: Run) -> None:
        """The context is the handler's own."""

    def vouch(self, renew: Callable[[Sequence[Run]], None], runs: Sequence[Run]) -> None:
        renew(runs)


class _Waits(threading.Event):
    """An event whose wait lets the world go on: the one call of a worker that others run beside."""

    def __init__(self, worker: SimWorker) -> None:
        super().__init__()
        self._worker = worker

    def wait(self, timeout: float | None = None) -> bool:
        """Raises Crashed when the process does meanwhile."""
        self._worker.stand_by(int((timeout or 0) * SECOND))
        return self.is_set()


class _Never(threading.Event):
    """A wait that is not one: the reader looks again at its next turn."""

    def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002 - as the interface has it
        return self.is_set()


class SimWorker:
    """One worker over all its incarnations."""

    def __init__(self, shop: Shop, process: Process, dice: Dice) -> None:
        self.shop = shop
        self.process = process
        self.dice = dice
        self._turning = 0
        self._standing = False
        """Its reader waits inside a callback."""
        self._lively = 0

    def start(self) -> None:
        """A new incarnation, with nothing but what Kafka knows."""
        shop, process = self.shop, self.process
        shop.world.start(process)
        shop.world.tell(process.name, "starts")
        events = Events(self._event, process.clock)
        self._numbers = 0
        self.reporter = Reporter(
            cast("Producer", SimProducer(process, self.dice, shop.broker, self._report_soon)),
            shop.names.reports,
            process.name,
            process.clock,
            events,
            self._acknowledged,
        )
        self.keeper = LeaseKeeper(process.clock, events, self._put, _no_client)
        self.execution = Execution(process.clock, self._new_run_id, self._put, self.keeper)
        self._look_at = self._report_at = -1
        self.reader = QueueReader(
            QUEUE,
            {HANDLER: Job()},
            Settings("", shop.names.prefix),
            concurrency=shop.concurrency,
            grace_s=1.0,
            session_ms=0,
            worker_id=process.name,
            pool=PlayedSlots(self, shop.concurrency),
            claim=self.keeper.claim,
            put=self._put,
            new_run_id=self._new_run_id,
            assigned=_nobody,
            clock=process.clock,
            events=events,
            stop=threading.Event(),
            kill=_Waits(self),
            connect=self._connect,
            wake=_Never(),
        )
        self.reader.join()
        self.wake()

    def signal(self, value: bytes) -> None:
        """A message of `signals`."""
        if self.process.runs_at(self.shop.world.now):
            self.keeper.signal(decode_signal(value))
            self.look_within(0.0)

    def stand_by(self, us: int) -> None:
        """Wait while the world goes on. Raises Crashed."""
        world, life = self.shop.world, self.process.life
        self._standing = True
        world.run(world.now + us)
        while self.process.alive and self.process.life == life and self.process.paused_until > world.now:
            world.run(self.process.paused_until)
        self._standing = False
        if self.process.life != life or not self.process.alive:
            raise Crashed(self.process.name)

    # ------------------------------------------------------------------ the reader's turns

    def wake(self) -> None:
        """There may be something to do for the reader."""
        self._lively = self.shop.world.now + _LIVELY_US
        self._turn_in(self.dice.delay())

    def _turn_in(self, delay: int) -> None:
        self._turning += 1
        turn = self._turning
        self.shop.world.after(delay, self.process, lambda: self._turn(turn))

    def _turn(self, turn: int) -> None:
        if turn != self._turning:
            return
        if self._standing:
            self._turn_in(_ROUND_US)
            return
        if self._dies_at("reads"):
            return
        self.reader.turn()
        if self.reader.unacknowledged:
            self._lively = self.shop.world.now + _LIVELY_US
        if self.shop.world.now < self._lively:
            self._turn_in(_ROUND_US)

    # ------------------------------------------------------------------ the reporter's and the keeper's turns

    def _put(self, run: Run, report: Report) -> None:
        self.reporter.put(run, report)
        self._report_soon()

    def _report_soon(self) -> None:
        self._report_in(self.dice.delay())

    def _report_in(self, delay: int) -> None:
        at = self.shop.world.now + delay
        if self._report_at < 0 or at < self._report_at:
            self._report_at = at
            self.shop.world.at(at, self.process, lambda: self._report(at))

    def _report(self, at: int) -> None:
        if at != self._report_at:
            return
        self._report_at = -1
        if self._dies_at("reports"):
            return
        self.reporter.turn(0.0)
        wait_s = self.reporter.next_send_s()
        if wait_s is not None:
            self._report_in(max(1, int(wait_s * SECOND)))

    def look_within(self, seconds: float) -> None:
        """The keeper looks at its runs by then."""
        at = self.shop.world.now + int(seconds * SECOND) + 1
        if self._look_at < 0 or at < self._look_at:
            self._look_at = at
            self.shop.world.at(at, self.process, lambda: self._look(at))

    def _look(self, at: int) -> None:
        if at != self._look_at:
            return
        self._look_at = -1
        wait_s = self.keeper.look(self.process.clock.monotonic())
        if wait_s is not None:
            self.look_within(wait_s)

    def _acknowledged(self, entries: Sequence[Entry], sent_at: float, offset: int) -> None:
        self.keeper.acked(entries, sent_at, offset)
        for run, report in entries:
            run.owner.acked(run, report.kind)
        self.wake()

    # ------------------------------------------------------------------ small parts

    def _dies_at(self, point: str) -> bool:
        life = self.process.life
        self.shop.world.reached(self.process, point)
        return self.process.life != life

    def _connect(self, *_: object, on_commit: Callable[..., None], **__: object) -> Consumer:
        group, broker = self.shop.group, self.shop.broker
        return cast("Consumer", SimConsumer(self.process, self.dice, broker, group, on_commit, self.wake))

    def _new_run_id(self) -> bytes:
        self._numbers += 1
        return f"{self.process.name[-3:]:>3}.{self.process.life:04}.{self._numbers:07}".encode()

    def _event(self, event: Mapping[str, object]) -> None:
        self.shop.world.tell(self.process.name, str(event.get("event")))


def _no_client() -> Client:
    raise AssertionError("no handler of a simulation schedules anything")


def _nobody(_queue: str) -> None:
    """Readiness is of no interest here."""
