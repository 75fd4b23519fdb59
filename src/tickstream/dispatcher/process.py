"""One dispatcher process: its store, its membership of the group, a thread for every lane it owns.

The shell around ownership.py (which lanes), takeover.py and lane.py (what a lane does). Threads
live only here.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.metadata
import os
import queue
import random
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tickstream.clock import Clock, SystemClock
from tickstream.dispatcher.kafka_log import (
    KafkaChangelog,
    KafkaEnds,
    KafkaFacts,
    KafkaInputs,
    KafkaReplies,
    KafkaTransactions,
)
from tickstream.dispatcher.killpoints import KillSwitch
from tickstream.dispatcher.lane import Events, Lane, LanePorts
from tickstream.dispatcher.ownership import Action, Confirm, Late, Ownership, Start, Stop
from tickstream.dispatcher.takeover import TakeOver
from tickstream.dispatcher.vigilance import ClockWatch, Repeats
from tickstream.errors import (
    BrokerUnavailable,
    DataDirInUse,
    LaneLost,
    LayoutMismatch,
    RetryTransaction,
    StoreCorrupted,
    StoreFailed,
)
from tickstream.kafka import (
    Admin,
    Consumer,
    KafkaException,
    TopicPartition,
    is_evicted,
    lanes_consumer,
)
from tickstream.model import buckets_of_lane
from tickstream.settings import EngineSettings, LaneSettings, Settings
from tickstream.timer_store import TimerStore
from tickstream.topics import Layout, TopicNames

_STOP_S: Final = 5.0
"""How long a stopping lane may take to finish its transaction."""
_POLL_S: Final = 0.05
_CORRUPT: Final = "CORRUPT"
"""A file of this name in the data directory: the store is wiped at the next start."""


def run_dispatcher(
    settings: Settings,
    *,
    data_dir: Path,
    index: int = 0,
    engine: EngineSettings | None = None,
    lane: LaneSettings | None = None,
    events: Events,
    stop: threading.Event,
    clock: Clock | None = None,
    kill_at: str = "",
    supervised: bool = False,
) -> None:
    """Run one dispatcher process until `stop` is set.

    `data_dir/index` holds its store. `supervised`: also end when the parent process has. Raises
    BrokerUnavailable, LayoutMismatch, DataDirInUse, StoreCorrupted (restart: it is wiped and restored).
    """
    with _Process(
        settings,
        data_dir / str(index),
        engine or EngineSettings(),
        lane or LaneSettings(),
        events,
        clock or SystemClock(),
        KillSwitch(kill_at),
    ) as process:
        events({"event": "process_started", "pid": os.getpid(), "index": index, "instance": process.instance})
        process.run(stop, supervised=supervised)


@dataclass(slots=True, eq=False)
class _LaneThread:
    """One life of a lane. A lane that is revoked and assigned again gets another."""

    stop: threading.Event
    thread: threading.Thread = field(init=False)


@dataclass(slots=True)
class _Process:
    settings: Settings
    data_dir: Path
    engine: EngineSettings
    limits: LaneSettings
    events: Events
    clock: Clock
    kill: KillSwitch
    instance: str = ""
    _names: TopicNames = field(init=False)
    _layout: Layout = field(init=False)
    _admin: Admin = field(init=False)
    _facts: KafkaFacts = field(init=False)
    _replies: KafkaReplies = field(init=False)
    _store: TimerStore = field(init=False)
    _group: Consumer = field(init=False)
    _owner: Ownership = field(init=False)
    _threads: dict[int, _LaneThread] = field(default_factory=dict)
    _notes: queue.SimpleQueue[Callable[[], list[Action]]] = field(default_factory=queue.SimpleQueue)
    """What lanes' threads have to say to `Ownership`, done on the main thread."""
    _fatal: list[Exception] = field(default_factory=list)
    _watch: ClockWatch = field(init=False)
    _repeats: Repeats = field(init=False)
    _open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __enter__(self) -> _Process:
        self.instance = self.instance or f"{os.uname().nodename}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self._watch, self._repeats = ClockWatch(self.clock), Repeats(self.clock)
        self._names = TopicNames(self.settings.prefix)
        self._admin = Admin(self.settings)
        self._layout = self._admin.layout()
        self._facts = KafkaFacts(self._admin, self._names, self._layout.buckets)
        self._facts.refresh()
        self._owner = Ownership(random.Random())
        with self._open:
            self._open.enter_context(_lock(self.data_dir))
            self._store = self._open.enter_context(_store(self.data_dir / "store"))
            self._replies = KafkaReplies(self.settings, self._names, self.events)
            self._open.callback(self._replies.close)
            group = self._names.dispatcher_group(self._layout.generation)
            self._group = lanes_consumer(self.settings, group, self.instance, self.limits)
            self._open.callback(self._group.close)
            # Lanes stop before the group is left: whoever gets them next finds nothing open.
            self._open.callback(self._stop_all)
            self._open = self._open.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    # ------------------------------------------------------------------ the main thread

    def run(self, stop: threading.Event, *, supervised: bool) -> None:
        """Poll the group and carry out what Ownership says."""
        parent = os.getppid()
        self._group.subscribe(
            [self._names.lanes(self._layout.generation)],
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )
        while not stop.is_set():
            if supervised and os.getppid() != parent:
                self.events({"event": "process_stopping", "reason": "its supervisor has ended"})
                return
            message = self._group.poll(_POLL_S)
            if message is not None and (error := message.error()) is not None:
                self._trouble(f"the group of dispatchers: {error.str()}")
            if step_ms := self._watch.look():
                self.events({"event": "clock_stepped", "by_ms": step_ms, "steps": self._watch.steps})
            while not self._notes.empty():
                self._carry_out(self._notes.get()())
            self._carry_out(self._owner.tick(self.clock.monotonic()))
            if self._fatal:
                raise self._fatal[0]
            self._refresh()

    def _refresh(self) -> None:
        try:
            self._facts.refresh()
        except (BrokerUnavailable, LayoutMismatch) as error:
            self._trouble(f"the queues that exist cannot be asked for: {error}")

    def _trouble(self, reason: str) -> None:
        """An alarm, repeated once a minute while its reason lasts."""
        if self._repeats.tell(reason):
            self.events({"event": "alarm", "reason": reason})

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_assign(partitions)
        consumer.pause(partitions)
        lanes = [p.partition for p in partitions]
        for lane in lanes:
            self.events({"event": "lane_assigned", "lane": lane})
        self._carry_out(self._owner.assigned(lanes, self.clock.monotonic()))

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._carry_out(self._owner.revoked(p.partition for p in partitions))
        consumer.incremental_unassign(partitions)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        lanes = [p.partition for p in partitions]
        self.events({"event": "membership_lost", "lanes": lanes})
        self._carry_out(self._owner.lost(lanes))
        consumer.incremental_unassign(partitions)

    def _carry_out(self, actions: list[Action]) -> None:
        stops = [a.lane for a in actions if isinstance(a, Stop)]
        self._stop(stops)
        for action in actions:
            match action:
                case Start(lane):
                    self._start(lane)
                case Confirm(lane):
                    member = self._is_member(lane)
                    self._carry_out(self._owner.confirmed(lane, member, self.clock.monotonic()))
                case Late(lane, seconds):
                    self.events(
                        {
                            "event": "alarm",
                            "lane": lane,
                            "reason": f"assigned, not active for {seconds:.1f} s",
                        }
                    )
                case Stop():
                    pass

    def _is_member(self, lane: int) -> bool:
        """A synchronous commit is the one call that asks the coordinator."""
        place = TopicPartition(self._names.lanes(self._layout.generation), lane, 0)
        try:
            self._group.commit(offsets=[place], asynchronous=False)
        except KafkaException as error:
            self.events({"event": "membership_refused", "lane": lane, "reason": str(error)})
            # A rebalance under way, or a coordinator that is away, is no eviction: the lane is claimed
            # again, and the log decides.
            return not is_evicted(error.args[0])
        return True

    # ------------------------------------------------------------------ lanes' threads

    def _start(self, lane: int) -> None:
        own = _LaneThread(stop=threading.Event())
        own.thread = threading.Thread(
            target=self._run_lane, args=(lane, own), name=f"lane-{lane}", daemon=True
        )
        self._threads[lane] = own
        own.thread.start()

    def _stop(self, lanes: list[int]) -> None:
        threads = {lane: self._threads.pop(lane) for lane in lanes if lane in self._threads}
        for own in threads.values():
            own.stop.set()
        for lane, own in threads.items():
            own.thread.join(_STOP_S)
            reason = "given back" if not own.thread.is_alive() else f"did not stop within {_STOP_S:g} s"
            self.events({"event": "lane_lost", "lane": lane, "reason": reason})

    def _stop_all(self) -> None:
        self._stop(list(self._threads))

    def _run_lane(self, number: int, own: _LaneThread) -> None:
        """A lane's whole life: take-over, transactions, and its end."""
        try:
            with contextlib.ExitStack() as resources:
                lane = self._take_over(number, resources, own)
                while not own.stop.is_set():
                    for point in lane.run_once():
                        self.kill.reached(point)
        except (LaneLost, RetryTransaction, StoreFailed) as lost:
            self.events({"event": "lane_lost", "lane": number, "reason": str(lost)})
            self._note(number, own, self._failed)
        except Exception as error:  # noqa: BLE001 - handed to the main thread, which raises it
            # A fault of the program or of the disk: the process ends and says so; going on
            # without the lane would look healthy.
            if isinstance(error, StoreCorrupted):
                (self.data_dir / _CORRUPT).touch()
            self.events({"event": "alarm", "lane": number, "reason": f"{type(error).__name__}: {error}"})
            self._fatal.append(error)

    def _note(self, lane: int, own: _LaneThread, what: Callable[[int], list[Action]]) -> None:
        """Have something done on the main thread, unless the lane has another life by then."""
        self._notes.put(lambda: what(lane) if self._threads.get(lane) is own else [])

    def _active(self, lane: int) -> list[Action]:
        return self._owner.active(lane, self.clock.monotonic())

    def _failed(self, lane: int) -> list[Action]:
        self._threads.pop(lane, None)
        return self._owner.failed(lane, self.clock.monotonic())

    def _take_over(self, number: int, resources: contextlib.ExitStack, own: _LaneThread) -> Lane:
        names, layout = self._names, self._layout
        buckets = buckets_of_lane(number, layout.buckets, layout.lanes)
        transactions = KafkaTransactions(self.settings, names, layout.generation, number, self.limits)
        resources.callback(transactions.close)
        inputs = KafkaInputs(self.settings, names, number)
        resources.callback(inputs.close)
        ports = LanePorts(
            transactions, inputs, KafkaEnds(self._admin, names, buckets), self._replies, self._facts
        )
        take_over = TakeOver(
            number,
            self.instance,
            layout.generation,
            buckets,
            importlib.metadata.version("tzdata"),
            names,
            ports,
            lambda: KafkaChangelog(self.settings, names, number),
            self._store,
            self.clock,
            self.events,
        )
        steps = take_over.steps()
        try:
            while not own.stop.is_set():
                point = next(steps)
                if point == "takeover.claimed":
                    self.events({"event": "lane_claimed", "lane": number})
                self.kill.reached(point)
        except StopIteration as active:
            owned = active.value
        else:
            steps.close()
            raise LaneLost("stopped during the take-over")
        self._note(number, own, self._active)
        self.events(
            {"event": "lane_active", "lane": number, "buckets": sorted(owned), "restored": take_over.restored}
        )
        return Lane(
            number,
            layout.buckets,
            names,
            ports,
            self._store,
            self.clock,
            self.engine,
            self.limits,
            self.events,
            owned,
            take_over.leases,
        )


@contextlib.contextmanager
def _lock(data_dir: Path) -> Iterator[None]:
    """One process per data directory."""
    data_dir.mkdir(parents=True, exist_ok=True)
    with open(data_dir / "lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DataDirInUse(data_dir) from error
        yield


def _store(path: Path) -> TimerStore:
    """The store, wiped first when it is known or found to be broken: the changelog has it all."""
    marker = path.parent / _CORRUPT
    if marker.exists():
        TimerStore.wipe(path)
        marker.unlink()
    try:
        return TimerStore(path)
    except StoreCorrupted:
        TimerStore.wipe(path)
        return TimerStore(path)
