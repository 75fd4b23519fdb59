"""One history: a plan carried out, first with everything going wrong, then healed, until all is done.

What it came to is a Result: the logs as they are, what clients know, what the projection showed.
Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tickstream.codec import PROGRESS, decode_progress
from tickstream.dispatcher.lane import Lane
from tickstream.dispatcher.takeover import TakeOver
from tickstream.projection.rows import Position
from tickstream.settings import EngineSettings, LaneSettings
from tickstream.testing.clock import START_MS
from tickstream.testing.sim.asks import Ask
from tickstream.testing.sim.client import Asked, SimClient
from tickstream.testing.sim.dispatcher import Plant, SimDispatcher
from tickstream.testing.sim.faults import Dice
from tickstream.testing.sim.group import SimGroup
from tickstream.testing.sim.plan import Fault, Kind, Plan
from tickstream.testing.sim.projection import Index, SimProjection
from tickstream.testing.sim.store import Disk
from tickstream.testing.sim.transactions import Broker
from tickstream.testing.sim.worker import QUEUE, Shop, SimWorker
from tickstream.testing.sim.world import MS, SECOND, Process, SimClock, Trap, World
from tickstream.topics import VERDICT_PARTITIONS, TopicNames

NAMES: Final = TopicNames("sim.")
SESSION_US: Final = 2 * SECOND
BOUND_US: Final = 40 * SECOND
"""After the heal, and after the last instant asked for, everything is done by then."""
_ROUND_US: Final = 500 * MS
_LOOKED_AT: Final = 0.1
"""Share of the projection's steps whose rows are looked at."""
_SETTLED_US: Final = 2 * SECOND
"""How long nothing is open before the history is taken to be over: late words may still come."""
FRESH_US: Final = 12 * SECOND
"""Age of an answer, at most, where nothing has been the matter for a while: four probes."""
_RECOVERED_US: Final = FRESH_US + 13 * SECOND
"""So long after the heal it is: the longest pause before a claim, the take-over, and four probes."""


class Shown(NamedTuple):
    """The projection's index at one moment."""

    at_us: int
    positions: dict[int, Position]
    rows: dict[tuple[str, int], str]
    """(task_id, occurrence_ts) → state."""


@dataclass(slots=True)
class Result:
    """What a history came to."""

    plan: Plan
    broker: Broker
    names: TopicNames
    journal: list[Asked]
    views: list[Shown]
    """What the projection showed, now and then, and at the end."""
    end_us: int
    open: list[str]
    """What was not done when the bound was reached."""
    broken: list[str]
    """Faults of the program: what ended a process that nobody had told to."""
    trace: list[str] = field(default_factory=list)

    def release(self) -> None:
        """Forget the logs. They stand in cycles, and fresh memory costs more than anything in a run of thousands."""
        for partition in self.broker.partitions.values():
            partition.clear()
        self.views.clear()
        self.journal.clear()


class Simulation:
    """Everything there is in one history."""

    def __init__(
        self,
        plan: Plan,
        *,
        pending: Callable[[Broker], list[str]],
        traced: bool = False,
        take_over: type[TakeOver] = TakeOver,
        lane: type[Lane] = Lane,
    ) -> None:
        """`pending`: what is still to be done, by the logs alone."""
        self.plan = plan
        self._pending = pending
        self.world = world = World(plan.seed)
        world.trace = [] if traced else None
        self.broker = Broker(
            world,
            {
                NAMES.commands: plan.buckets,
                NAMES.reports: plan.buckets,
                NAMES.timers: plan.buckets,
                NAMES.history: plan.buckets,
                NAMES.work(QUEUE): plan.buckets,
                NAMES.dead_letter: 4,
                NAMES.verdicts: VERDICT_PARTITIONS,
            },
        )
        self._broken: list[str] = []
        self._views: list[Shown] = []
        self._lanes = SimGroup(world, "dispatchers", plan.lanes, SESSION_US)
        self._queue = SimGroup(world, "workers", plan.buckets, SESSION_US)
        plant = Plant(
            world,
            self.broker,
            NAMES,
            plan.buckets,
            plan.lanes,
            EngineSettings(done_retention_ms=plan.retention_ms),
            LaneSettings(
                batch_open_ms=2, probe_ms=3_000, idle_wait_ms=3_000, transaction_timeout_ms=4_000, due_page=5
            ),
            self._lanes,
            self._signal,
            self._broken.append,
            plan.standby,
            take_over,
            lane,
        )
        shop = Shop(world, self.broker, NAMES, self._queue, 3, plan.failing, plan.hanging)
        numbers = iter(range(100))

        def process(name: str) -> tuple[Process, Dice]:
            number = next(numbers)
            clock = SimClock(
                world,
                plan.offsets_ms[number] if number < len(plan.offsets_ms) else 0,
                plan.drifts[number] if number < len(plan.drifts) else 1.0,
                base_s=100.0 * number,
            )
            made = world.process(name, clock)
            return made, Dice(world, made.rng, plan.rates)

        self.dispatchers = [
            SimDispatcher(plant, *process(f"dispatcher-{n}")) for n in range(plan.dispatchers)
        ]
        self.workers = [SimWorker(shop, *process(f"worker-{n}")) for n in range(plan.workers)]
        self.projection = SimProjection(
            world, self.broker, NAMES, plan.buckets, *process("projection"), folded=self._shown
        )
        self.clients = [
            SimClient(world, self.broker, NAMES, plan.buckets, *process(f"client-{n}"), reply=n)
            for n in range(2)
        ]
        everybody: list[SimDispatcher | SimWorker | SimProjection] = [*self.dispatchers, *self.workers]
        self._by_name = {one.process.name: one for one in (*everybody, self.projection)}

    def run(self) -> Result:
        """From the first process to the last outcome."""
        world, plan = self.world, self.plan
        for one in self._by_name.values():
            world.after(world.rng.randrange(200 * MS), None, one.start)
        for ask in plan.asks:
            world.at(ask.at_us, None, self._asking(ask))
        for fault in plan.faults:
            world.at(fault.at_us, None, self._failing(fault))
        world.run(plan.heal_us)
        self._heal()
        last_us = max((ask.at_us for ask in plan.asks), default=0)
        bound = max(plan.heal_us, last_us) + BOUND_US
        open_now: list[str] = []
        settled_at = -1
        while world.now < bound:
            world.run(world.now + _ROUND_US)
            open_now = self._open()
            if open_now:
                settled_at = -1
            elif settled_at < 0:
                settled_at = world.now + _SETTLED_US
            elif world.now >= settled_at and (self._fresh() or world.now >= plan.heal_us + _RECOVERED_US):
                break
        world.stop()
        index = self.projection.index
        self._views.append(Shown(world.now, dict(index.positions), index.shown()))
        return Result(
            plan,
            self.broker,
            NAMES,
            [asked for client in self.clients for asked in client.journal],
            self._views,
            world.now,
            open_now,
            self._broken,
            world.trace or [],
        )

    def _open(self) -> list[str]:
        if self.world.now < max((ask.at_us for ask in self.plan.asks), default=0):
            return ["clients are not done"]
        unanswered = [f"no verdict on {a.command.task_id}" for c in self.clients for a in c.unanswered()]
        return unanswered or self._pending(self.broker)

    def _fresh(self) -> bool:
        """Whether no answer is older than it may be. Right after the heal some are: by clocks that were wrong."""
        oldest_ms = START_MS + (self.world.now - FRESH_US) // MS
        return all(p.applied_before_ms >= oldest_ms for p in self.projection.index.positions.values())

    def _heal(self) -> None:
        """From here on nothing goes wrong: who is dead comes back, who stands still goes on, clocks are right."""
        self.world.calm = True
        self.world.tell("world", "is healed")
        for one in self._by_name.values():
            one.process.clock.offset_ms = 0
            one.process.paused_until = 0
            if not one.process.alive:
                one.start()

    # ------------------------------------------------------------------ carrying out a plan

    def _asking(self, ask: Ask) -> Callable[[], None]:
        def send() -> None:
            client = self.clients[ask.client]
            for command in ask.commands:
                self.world.tell(
                    client.process.name, f"asks: {command.verb.value} {command.task_id} at {command.when}"
                )
            client.send(ask.commands, waits=ask.waits)

        return send

    def _failing(self, fault: Fault) -> Callable[[], None]:
        return lambda: self._fail(fault)

    def _fail(self, fault: Fault) -> None:
        world = self.world
        if fault.kind is Kind.STALL:
            world.tell("world", "the group's coordinator is away")
            self._lanes.stall()
            return
        if fault.kind is Kind.COMPACT:
            for bucket in range(self.plan.buckets):
                partition = self.broker.partitions[NAMES.timers, bucket]
                partition.compact(partition.end * fault.amount // 1_000)
            return
        if fault.kind is Kind.PURGE:
            self._purge()
            return
        one = self._by_name.get(fault.whom)
        if one is None or not one.process.alive:
            return
        process = one.process
        if fault.kind is Kind.STEP:
            world.tell(process.name, f"its clock is set by {fault.amount} ms")
            process.clock.offset_ms += fault.amount
        elif fault.kind is Kind.PAUSE:
            process.traps.append(Trap(fault.points, lambda: world.pause(process, fault.amount)))
        elif fault.kind is Kind.CRASH:
            process.traps.append(Trap(fault.points, lambda: self._crash(fault)))
        elif fault.kind is Kind.LOSE_DISK:
            process.traps.append(Trap(fault.points, lambda: self._lose_disk(fault)))
        if one is self.projection:
            for trap in process.traps:
                trap.spring()
            process.traps.clear()

    def _crash(self, fault: Fault) -> None:
        one = self._by_name[fault.whom]
        self.world.crash(one.process)

        def restart() -> None:
            if not one.process.alive:
                one.start()

        self.world.after(fault.amount, None, restart)

    def _lose_disk(self, fault: Fault) -> None:
        one = self._by_name[fault.whom]
        if isinstance(one, SimDispatcher):
            one.disk = one.saved if fault.amount else Disk()
            self._crash(fault._replace(amount=500 * MS))

    def _purge(self) -> None:
        """delete_records below the last Progress, as an operator's job does."""
        for bucket in range(self.plan.buckets):
            records, _ = self.broker.partitions[NAMES.timers, bucket].read(
                self.broker.partitions[NAMES.timers, bucket].start, 1_000_000
            )
            last = next((r for r in reversed(records) if (r.key or b"")[:1] == PROGRESS), None)
            if last is None or last.value is None:
                continue
            progress = decode_progress(last.value)
            self.broker.partitions[NAMES.commands, bucket].delete_before(progress.commands.offset)
            self.broker.partitions[NAMES.reports, bucket].delete_before(progress.reports.offset)

    def _signal(self, value: bytes) -> None:
        for worker in self.workers:
            worker.signal(value)

    def _shown(self, index: Index) -> None:
        if self.world.rng.random() < _LOOKED_AT:
            self._views.append(Shown(self.world.now, dict(index.positions), index.shown()))
