"""A dispatcher process of the simulation: the real ownership, take-over and lanes without their threads.

The twin of dispatcher/process.py, which is nothing but threads and Kafka clients around the same
parts: each lane's thread is a chain of events here, one step of its generator each.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tickstream.dispatcher.lane import Lane, LanePorts
from tickstream.dispatcher.ownership import Action, Confirm, LaneStatus, Ownership, Start, Stop
from tickstream.dispatcher.takeover import TakeOver
from tickstream.errors import LaneLost, RetryTransaction, StoreFailed
from tickstream.model import buckets_of_lane
from tickstream.recurrence.zone_data import in_use
from tickstream.settings import EngineSettings, LaneSettings
from tickstream.testing.sim.faults import Dice
from tickstream.testing.sim.group import SimGroup
from tickstream.testing.sim.lane_ports import (
    SimChangelog,
    SimEnds,
    SimFacts,
    SimInputs,
    SimReplies,
    SimTransactions,
    Site,
    Waiter,
)
from tickstream.testing.sim.standby import SimStandby
from tickstream.testing.sim.store import Disk, MemoryStore
from tickstream.testing.sim.transactions import Broker
from tickstream.testing.sim.world import MS, SECOND, Process, World
from tickstream.topics import TopicNames

_TICK_US: Final = 100 * MS
_STEP_US: Final = 59
"""Longest time between two points that no call lies between."""
_STOP_US: Final = 5 * SECOND
"""How long a process waits for a lane that is to stop, as process.py does."""


@dataclass(frozen=True, slots=True)
class Plant:
    """What all dispatchers have in common."""

    world: World
    broker: Broker
    names: TopicNames
    buckets: int
    lanes: int
    engine: EngineSettings
    limits: LaneSettings
    group: SimGroup
    signals: Callable[[bytes], None]
    broken: Callable[[str], None]
    """Hears of what should never happen: a fault of the program."""
    standby: bool
    """Whether processes keep warm what others own."""
    take_over: type[TakeOver] = TakeOver
    lane: type[Lane] = Lane


class SimDispatcher:
    """One dispatcher over all its incarnations. Its disk outlives them."""

    def __init__(self, plant: Plant, process: Process, dice: Dice) -> None:
        self.plant = plant
        self.process = process
        self.dice = dice
        self.disk = Disk()
        self.saved = self.disk
        """The disk as a machine that loses its latest writes has it."""
        self.store = MemoryStore(self.disk)
        self.owner = Ownership(process.rng)
        self.running: dict[int, LaneThread] = {}
        self._standby: SimStandby | None = None

    def start(self) -> None:
        """A new incarnation on the same disk."""
        plant = self.plant
        plant.world.start(self.process)
        self.saved = self.disk.copy()
        self.store = MemoryStore(self.disk)
        self.owner = Ownership(self.process.rng)
        self.running = {}
        plant.world.tell(self.process.name, "starts")
        if not plant.standby:
            plant.group.join(self.process, self)
            return
        site = Site(self.process, self.dice, plant.broker, plant.names, Waiter())
        self._standby = SimStandby(
            site,
            plant.buckets,
            plant.lanes,
            self.store,
            self.event,
            lambda: plant.group.join(self.process, self),
        )
        self._keep_warm()
        plant.world.after(self.dice.delay(), self.process, self._standby.run)

    # ------------------------------------------------------------------ the group speaks

    def on_assign(self, partitions: list[int]) -> None:
        """See GroupMember."""
        self._carry_out(self.owner.assigned(partitions, self.process.clock.monotonic()))
        self._tick_later()

    def on_revoke(self, partitions: list[int], done: Callable[[], None]) -> None:
        """See GroupMember. The process waits, a while, for what is open to be finished."""
        stopping = self._carry_out(self.owner.revoked(partitions))
        left = len(stopping)
        said = False

        def one_less() -> None:
            nonlocal left, said
            left -= 1
            if left <= 0 and not said:
                said = True
                done()

        def give_up() -> None:
            nonlocal left
            left = 0
            one_less()

        if not stopping:
            done()
            return
        for thread in stopping:
            thread.on_end.append(one_less)
        self.plant.world.after(_STOP_US, self.process, give_up)

    def on_lost(self, partitions: list[int]) -> None:
        """See GroupMember."""
        self._carry_out(self.owner.lost(partitions))

    def _carry_out(self, actions: list[Action]) -> list[LaneThread]:
        stopped = []
        for action in actions:
            match action:
                case Stop(lane) if lane in self.running:
                    thread = self.running.pop(lane)
                    thread.stop()
                    stopped.append(thread)
        # Before a lane begins. One that has to end meanwhile may lose its bucket in the store first.
        self._keep_warm()
        for action in actions:
            match action:
                case Start(lane):
                    self.running[lane] = LaneThread(self, lane)
                case Confirm(lane):
                    member = self.plant.group.is_member(self.process)
                    now = self.process.clock.monotonic()
                    stopped += self._carry_out(self.owner.confirmed(lane, member, now))
        return stopped

    def _keep_warm(self) -> None:
        """All lanes that are not this process's."""
        if self._standby is not None:
            self._standby.keep(set(range(self.plant.lanes)) - self.owner.lanes().keys())

    def event(self, event: Mapping[str, object]) -> None:
        """Hears of what lanes and the standby have to say."""
        if event.get("event") == "alarm":
            self.plant.world.tell(self.process.name, f"alarm: {event}")

    def _tick_later(self) -> None:
        if any(status is not LaneStatus.ACTIVE for status in self.owner.lanes().values()):
            self.plant.world.after(_TICK_US, self.process, self._tick)

    def _tick(self) -> None:
        self._carry_out(self.owner.tick(self.process.clock.monotonic()))
        self._tick_later()

    # ------------------------------------------------------------------ lanes speak

    def active(self, thread: LaneThread) -> None:
        """A take-over came to its end."""
        if self.running.get(thread.number) is thread:
            self._carry_out(self.owner.active(thread.number, self.process.clock.monotonic()))

    def failed(self, thread: LaneThread) -> None:
        """A lane's thread ended by itself."""
        if self.running.get(thread.number) is thread:
            del self.running[thread.number]
            self._carry_out(self.owner.failed(thread.number, self.process.clock.monotonic()))
            self._tick_later()


@dataclass(eq=False)
class LaneThread:
    """One life of a lane: a take-over, then transactions, step by step."""

    owner: SimDispatcher
    number: int
    on_end: list[Callable[[], None]] = field(default_factory=list)
    _stopping: bool = False
    _ended: bool = False
    _turn: int = 0
    """Which of the events made for it is the one that counts."""
    _idle: bool = False

    def __post_init__(self) -> None:
        plant, process = self.owner.plant, self.owner.process
        self._world, self._process = plant.world, process
        self._waiter = Waiter()
        site = Site(process, self.owner.dice, plant.broker, plant.names, self._waiter)
        self._inputs = SimInputs(site, self.wake)
        buckets = buckets_of_lane(self.number, plant.buckets, plant.lanes)
        timeout_us = plant.limits.transaction_timeout_ms * MS
        self._ports = LanePorts(
            SimTransactions(site, 0, self.number, timeout_us),
            self._inputs,
            SimEnds(site, buckets, self.wake),
            SimReplies(site, plant.signals),
            SimFacts(site, plant.buckets),
        )
        self._steps = self._life(site, buckets)
        self._next(0)

    def stop(self) -> None:
        """Finish the transaction that is open, then end."""
        self._stopping = True
        self.wake()

    def wake(self) -> None:
        """Something arrived: an idle lane does not sleep on."""
        if self._idle:
            self._idle = False
            self._next(self.owner.dice.delay())

    def _next(self, delay: int) -> None:
        self._turn += 1
        turn = self._turn
        self._world.after(delay, self._process, lambda: self._step(turn))

    def _step(self, turn: int) -> None:
        while turn == self._turn and not self._ended:
            delay = self._one_step()
            if delay < 0:
                return
            if self._idle or not self._world.pass_over(delay):
                self._next(delay)
                return

    def _one_step(self) -> int:
        """How long the thread is busy with it, or sleeps after it, µs; -1: it has ended."""
        world, process, waiter = self._world, self._process, self._waiter
        waiter.busy_us, waiter.wait_us, self._idle = 0, 0, False
        life = process.life
        try:
            point = next(self._steps)
        except StopIteration:
            self._end()
            return -1
        except (LaneLost, RetryTransaction, StoreFailed) as lost:
            world.tell(process.name, f"lane {self.number} lost: {lost}")
            self._end()
            self.owner.failed(self)
            return -1
        except Exception as error:
            # A fault of the program would end the process.
            self.owner.plant.broken(f"{type(error).__name__} in lane {self.number}: {error}")
            raise
        if point:
            world.reached(process, point, self.number)
            if process.life != life:
                return -1
            if process.paused_until > world.now:
                return process.paused_until - world.now
        if waiter.wait_us and not waiter.busy_us:
            self._idle = True
            return waiter.wait_us
        return waiter.busy_us + 1 + int(process.rng.random() * _STEP_US)

    def _end(self) -> None:
        self._ended = True
        self._inputs.close()
        for told in self.on_end:
            told()

    def _life(self, site: Site, buckets: tuple[int, ...]) -> Generator[str, None, None]:
        plant, process, store = self.owner.plant, self.owner.process, self.owner.store
        take_over = plant.take_over(
            self.number,
            f"{process.name}.{process.life}",
            0,
            buckets,
            in_use(),
            plant.names,
            self._ports,
            lambda: SimChangelog(site, self.wake),
            store,
            process.clock,
            self.owner.event,
        )
        steps = take_over.steps()
        while True:
            try:
                point = next(steps)
            except StopIteration as done:
                owned: Any = done.value
                break
            yield point
            if self._stopping:
                steps.close()
                raise LaneLost("stopped during the take-over")
        self.owner.active(self)
        lane = plant.lane(
            self.number,
            plant.buckets,
            plant.names,
            self._ports,
            store,
            process.clock,
            plant.engine,
            plant.limits,
            self.owner.event,
            owned,
            take_over.leases,
            latecomers=take_over,
        )
        while not self._stopping:
            yield from lane.run_once()
            yield ""
