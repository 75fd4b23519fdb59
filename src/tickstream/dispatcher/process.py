"""One dispatcher process: its store, its membership of the group, a thread for every lane it owns.

The shell around ownership.py (which lanes), takeover.py and lane.py (what a lane does). Threads
live only here.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import shutil
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tickstream.clock import Clock, SystemClock
from tickstream.dispatcher.kafka_log import (
    KafkaFacts,
    KafkaReplies,
)
from tickstream.dispatcher.killpoints import KillSwitch
from tickstream.dispatcher.lane import Events
from tickstream.dispatcher.lane_threads import LaneParts, LaneThreads, PurgeThread, StandbyThread
from tickstream.dispatcher.metrics import dispatcher_health
from tickstream.dispatcher.ownership import Action, Confirm, Late, Ownership, Start, Stop
from tickstream.dispatcher.vigilance import ClockWatch, Repeats, StoreTroubles
from tickstream.dispatcher.vitals import DispatcherVitals
from tickstream.errors import (
    BrokerUnavailable,
    DataDirInUse,
    LayoutMismatch,
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
from tickstream.recurrence.zone_data import ZoneData, in_use
from tickstream.settings import EngineSettings, LaneSettings, Settings
from tickstream.timer_store import TimerStore
from tickstream.topics import Layout, TopicNames

_POLL_S: Final = 0.05


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
    standby: bool = False,
    health: tuple[str, int] | None = None,
    zones: ZoneData | None = None,
) -> None:
    """Run one dispatcher process until `stop` is set.

    `data_dir/index` holds its store. A store that is broken is wiped and restored, one that cannot be
    written (a full disk) is opened anew until it can; meanwhile the group gives the lanes to others.
    `supervised`: also end when the parent process has. `standby`: keep warm what others own, and join
    the group only once everything is. `health`: host and port of /livez, /readyz and /metrics.
    `zones`: the zone data to reckon with, None: those that the process uses. Raises InvalidInput (the port is
    taken), BrokerUnavailable, LayoutMismatch, DataDirInUse, and StoreCorrupted when the disk breaks one store after the other.
    """
    own_dir, clock = data_dir / str(index), clock or SystemClock()
    kill, troubles = KillSwitch(kill_at), StoreTroubles(clock)
    vitals = DispatcherVitals(events, clock)
    events = vitals.event
    with _lock(own_dir), contextlib.ExitStack() as serving:
        if health is not None:
            events({"event": "health", "port": serving.enter_context(dispatcher_health(vitals, *health))})
        while not stop.is_set():
            process = _Process(
                settings,
                own_dir,
                engine or EngineSettings(),
                lane or LaneSettings(),
                events,
                clock,
                kill,
                standby,
                vitals,
                zones or in_use(),
            )
            wipe = False
            troubles.begin()
            try:
                with process:
                    events(_started(index, process))
                    process.run(stop, supervised=supervised)
                return
            except StoreCorrupted as broken:
                events(
                    {"event": "alarm", "reason": f"the store in {own_dir} is broken, and restored: {broken}"}
                )
                troubles.broken(broken)
                wipe = True
            except StoreFailed as failed:
                events({"event": "alarm", "reason": _unusable(own_dir, failed)})
            # Not before the exception is gone: what it refers to would keep the store open.
            if wipe:
                TimerStore.wipe(own_dir / "store")
            stop.wait(troubles.pause_s())


def _started(index: int, process: _Process) -> dict[str, object]:
    return {
        "event": "process_started",
        "pid": os.getpid(),
        "index": index,
        "instance": process.instance,
        "tzdata": process.zones.release,
    }


def _unusable(data_dir: Path, failed: StoreFailed) -> str:
    free_mb = shutil.disk_usage(data_dir).free >> 20
    return (
        f"the store in {data_dir} cannot be used: {failed} ({free_mb} MiB are free there). Nothing that was accepted "
        "is lost, it lies in Kafka, and dispatchers elsewhere have the lanes meanwhile. Make room; this process "
        "then goes on by itself"
    )


@dataclass(slots=True)
class _Process:
    settings: Settings
    data_dir: Path
    engine: EngineSettings
    limits: LaneSettings
    events: Events
    clock: Clock
    kill: KillSwitch
    standby: bool
    vitals: DispatcherVitals
    zones: ZoneData
    instance: str = ""
    _names: TopicNames = field(init=False)
    _layout: Layout = field(init=False)
    _admin: Admin = field(init=False)
    _facts: KafkaFacts = field(init=False)
    _replies: KafkaReplies = field(init=False)
    _store: TimerStore = field(init=False)
    _group: Consumer = field(init=False)
    _owner: Ownership = field(init=False)
    _threads: LaneThreads = field(init=False)
    _standby: StandbyThread | None = None
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
            self._store = self._open.enter_context(TimerStore(self.data_dir / "store"))
            self.vitals.opened(self._store)
            self._open.callback(self.vitals.closed)
            self._replies = KafkaReplies(self.settings, self._names, self.events)
            self._open.callback(self._replies.close)
            group = self._names.dispatcher_group(self._layout.generation)
            self._group = lanes_consumer(self.settings, group, self.instance, self.limits)
            self._open.callback(self._group.close)
            # Lanes stop before the group is left: whoever gets them next finds nothing open.
            self._threads = LaneThreads(self._parts(), self._active, self._failed)
            self._open.callback(self._threads.stop_all)
            if self.standby:
                self._standby = StandbyThread(self._threads.parts, self._threads.fatal)
                self._keep_warm()
                self._standby.start()
                self._open.callback(self._standby.stop)
            purge = PurgeThread(self._threads.parts, self._threads.progress)
            purge.start()
            self._open.callback(purge.stop)
            self._open = self._open.pop_all()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            self._open.close()
        except StoreFailed as closing:
            if error is None:
                raise
            # What ends the process is told already; this is what it does to the store on its way out.
            self.events({"event": "store_not_flushed", "reason": str(closing)})

    def _parts(self) -> LaneParts:
        return LaneParts(
            self.settings,
            self._names,
            self._layout,
            self.instance,
            self.engine,
            self.limits,
            self._admin,
            self._facts,
            self._replies,
            self._store,
            self.clock,
            self.events,
            self.kill,
            self.vitals,
            self.zones,
        )

    # ------------------------------------------------------------------ the main thread

    def run(self, stop: threading.Event, *, supervised: bool) -> None:
        """Poll the group and carry out what Ownership says."""
        parent, joined = os.getppid(), False
        while not stop.is_set():
            if supervised and os.getppid() != parent:
                self.events({"event": "process_stopping", "reason": "its supervisor has ended"})
                return
            if not joined and (self._standby is None or self._standby.warm):
                joined = self._join()
            if not joined:
                stop.wait(_POLL_S)
            elif (message := self._group.poll(_POLL_S)) is not None and (
                error := message.error()
            ) is not None:
                self._trouble(f"the group of dispatchers: {error.str()}")
            if step_ms := self._watch.look():
                self.events({"event": "clock_stepped", "by_ms": step_ms, "steps": self._watch.steps})
            self._threads.hear()
            self._carry_out(self._owner.tick(self.clock.monotonic()))
            self.vitals.looked(self._owner.lanes())
            if self._threads.fatal:
                raise self._threads.fatal[0]
            self._refresh()

    def _join(self) -> bool:
        self._group.subscribe(
            [self._names.lanes(self._layout.generation)],
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )
        return True

    def _keep_warm(self) -> None:
        """All lanes that are not this process's."""
        if self._standby is not None:
            self._standby.keep(set(range(self._layout.lanes)) - self._owner.lanes().keys())

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
        self._threads.stop([a.lane for a in actions if isinstance(a, Stop)])
        # Before a lane begins, and after it has ended: a bucket has one writer.
        self._keep_warm()
        for action in actions:
            match action:
                case Start(lane):
                    self._threads.start(lane)
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

    def _active(self, lane: int) -> None:
        self._carry_out(self._owner.active(lane, self.clock.monotonic()))

    def _failed(self, lane: int) -> None:
        self._carry_out(self._owner.failed(lane, self.clock.monotonic()))

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
