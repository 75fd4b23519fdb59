"""The threads of one process: one for every lane that it owns or is taking over.

The shell around takeover.py and lane.py. Which lanes these are is decided in ownership.py; what a
thread has to say goes back to the main thread as a note.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from tickstream.clock import Clock
from tickstream.dispatcher.kafka_changelog import KafkaChangelog, KafkaInputLogs, KafkaTimersEnds
from tickstream.dispatcher.kafka_log import (
    KafkaEnds,
    KafkaFacts,
    KafkaInputs,
    KafkaReplies,
    KafkaTransactions,
)
from tickstream.dispatcher.killpoints import KillSwitch
from tickstream.dispatcher.lane import Events, Lane, LanePorts
from tickstream.dispatcher.purge import Purge
from tickstream.dispatcher.standby import Standby
from tickstream.dispatcher.takeover import TakeOver
from tickstream.dispatcher.vitals import DispatcherVitals
from tickstream.errors import LaneFenced, LaneLost, RetryTransaction, StoreCorrupted, StoreFailed
from tickstream.kafka import Admin, partitioner
from tickstream.model import Progress, buckets_of_lane
from tickstream.recurrence.zone_data import ZoneData
from tickstream.settings import EngineSettings, LaneSettings, Settings
from tickstream.timer_store import TimerStore
from tickstream.topics import Layout, TopicNames

_STOP_S: Final = 5.0
"""How long a stopping lane may take to finish its transaction."""
_AGAIN_S: Final = 1.0
"""Pause of a standby that could not read."""


@dataclass(frozen=True, slots=True)
class LaneParts:
    """What all lanes of a process are made of."""

    settings: Settings
    names: TopicNames
    layout: Layout
    instance: str
    engine: EngineSettings
    limits: LaneSettings
    admin: Admin
    facts: KafkaFacts
    replies: KafkaReplies
    store: TimerStore
    clock: Clock
    events: Events
    kill: KillSwitch
    vitals: DispatcherVitals
    zones: ZoneData


@dataclass(slots=True, eq=False)
class _LaneThread:
    """One life of a lane. A lane that is revoked and assigned again gets another."""

    stop: threading.Event
    thread: threading.Thread = field(init=False)
    lane: Lane | None = None
    """Once it is active."""


@dataclass(slots=True)
class LaneThreads:
    """Starts and ends the threads. Called on the main thread only."""

    parts: LaneParts
    active: Callable[[int], None]
    """Told, on the main thread, that a lane's take-over came to its end."""
    failed: Callable[[int], None]
    """Told, on the main thread, that a lane's thread ended by itself."""
    fatal: list[Exception] = field(default_factory=list)
    """What no lane survives: a store that is broken or full, a fault of the program."""
    _threads: dict[int, _LaneThread] = field(default_factory=dict)
    _notes: queue.SimpleQueue[Callable[[], None]] = field(default_factory=queue.SimpleQueue)

    def start(self, lane: int) -> None:
        """Begin a take-over."""
        own = _LaneThread(stop=threading.Event())
        own.thread = threading.Thread(
            target=self._run_lane, args=(lane, own), name=f"lane-{lane}", daemon=True
        )
        self._threads[lane] = own
        own.thread.start()

    def stop(self, lanes: list[int]) -> None:
        """Have the lanes finish or abort what is open, and end."""
        threads = {lane: self._threads.pop(lane) for lane in lanes if lane in self._threads}
        for own in threads.values():
            own.stop.set()
        for lane, own in threads.items():
            own.thread.join(_STOP_S)
            reason = "given back" if not own.thread.is_alive() else f"did not stop within {_STOP_S:g} s"
            self.parts.events({"event": "lane_lost", "lane": lane, "reason": reason})

    def stop_all(self) -> None:
        """As `stop`, for every lane."""
        self.stop(list(self._threads))

    def progress(self) -> dict[int, Progress]:
        """The committed Progress of every active bucket. From any thread: it may be a moment old."""
        lanes = [own.lane for own in list(self._threads.values()) if own.lane is not None]
        return {number: bucket.progress for lane in lanes for number, bucket in list(lane.owned.items())}

    def hear(self) -> None:
        """Pass on what the threads have said since the last call."""
        while not self._notes.empty():
            self._notes.get()()

    def _run_lane(self, number: int, own: _LaneThread) -> None:
        """A lane's whole life: take-over, transactions, and its end."""
        try:
            with contextlib.ExitStack() as resources:
                lane = own.lane = self._take_over(number, resources, own)
                while not own.stop.is_set():
                    for point in lane.run_once():
                        self.parts.kill.reached(point)
        except (LaneLost, RetryTransaction) as lost:
            fenced = isinstance(lost, LaneFenced)
            self.parts.events({"event": "lane_lost", "lane": number, "reason": str(lost), "fenced": fenced})
            self._note(number, own, self._ended)
        except (StoreCorrupted, StoreFailed) as error:
            # All lanes share the store. Made anew: the traceback of this one would keep it open.
            self.fatal.append(type(error)(str(error)))
        except Exception as error:  # noqa: BLE001 - handed to the main thread, which raises it
            # A fault of the program: the process ends and says so; going on without the lane would
            # look healthy.
            self.parts.events(
                {"event": "alarm", "lane": number, "reason": f"{type(error).__name__}: {error}"}
            )
            self.fatal.append(error)

    def _note(self, lane: int, own: _LaneThread, what: Callable[[int], None]) -> None:
        """Have something done on the main thread, unless the lane has another life by then."""
        self._notes.put(lambda: what(lane) if self._threads.get(lane) is own else None)

    def _ended(self, lane: int) -> None:
        self._threads.pop(lane, None)
        self.failed(lane)

    def _take_over(self, number: int, resources: contextlib.ExitStack, own: _LaneThread) -> Lane:
        parts = self.parts
        names, layout = parts.names, parts.layout
        buckets = buckets_of_lane(number, layout.buckets, layout.lanes)
        transactions = KafkaTransactions(parts.settings, names, layout.generation, number, parts.limits)
        resources.callback(transactions.close)
        inputs = KafkaInputs(parts.settings, names, number)
        resources.callback(inputs.close)
        ports = LanePorts(
            transactions,
            inputs,
            KafkaEnds(parts.admin, names, buckets),
            parts.replies,
            parts.facts,
            partitioner(),
        )
        take_over = TakeOver(
            number,
            parts.instance,
            layout.generation,
            buckets,
            parts.zones,
            names,
            ports,
            lambda: KafkaChangelog(parts.settings, names, f"lane-{number}-restore"),
            parts.store,
            parts.clock,
            parts.events,
        )
        steps = take_over.steps()
        try:
            while not own.stop.is_set():
                point = next(steps)
                if point == "takeover.claimed":
                    parts.events({"event": "lane_claimed", "lane": number})
                parts.kill.reached(point)
        except StopIteration as active:
            owned = active.value
        else:
            steps.close()
            raise LaneLost("stopped during the take-over")
        self._note(number, own, self.active)
        parts.events(
            {
                "event": "lane_active",
                "lane": number,
                "pid": os.getpid(),
                "buckets": sorted(owned),
                "restored": take_over.restored,
                "behind": take_over.behind,
            }
        )
        resources.callback(take_over.close)
        lane = Lane(
            number,
            layout.buckets,
            names,
            ports,
            parts.store,
            parts.clock,
            parts.engine,
            parts.limits,
            parts.events,
            owned,
            take_over.leases,
            latecomers=take_over,
            tally=parts.vitals.tally(number),
            zones=parts.zones,
        )
        parts.vitals.begun(lane)
        resources.callback(parts.vitals.ended, number)
        return lane


class StandbyThread:
    """The thread that keeps warm what this process does not own."""

    def __init__(self, parts: LaneParts, fatal: list[Exception]) -> None:
        """`fatal`: as in LaneThreads."""
        self._parts = parts
        self._fatal = fatal
        self._stop = threading.Event()
        self._kept: frozenset[int] = frozenset()
        self._mutex = threading.Lock()
        self._standby = self._begin()
        self._thread = threading.Thread(target=self._run, name="standby", daemon=True)

    @property
    def warm(self) -> bool:
        """Whether it has been within a second of the log's end."""
        return self._standby.warm

    def keep(self, lanes: Collection[int]) -> None:
        """Keep the buckets of these lanes warm, and no others."""
        layout = self._parts.layout
        kept = frozenset(b for k in lanes for b in buckets_of_lane(k, layout.buckets, layout.lanes))
        with self._mutex:
            self._kept = kept
            self._standby.keep(kept)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, having written what was read."""
        self._stop.set()
        self._thread.join(_STOP_S)

    def _begin(self) -> Standby:
        parts = self._parts
        return Standby(
            lambda: KafkaChangelog(parts.settings, parts.names, "standby"),
            parts.store,
            parts.clock,
            parts.layout.generation,
            parts.events,
            parts.facts,
            KafkaTimersEnds(parts.admin, parts.names, parts.layout.buckets),
        )

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    self._standby.step()
                except LaneLost as lost:
                    self._parts.events({"event": "standby_interrupted", "reason": str(lost)})
                    self._again()
            self._standby.close()
        except (StoreCorrupted, StoreFailed) as error:
            self._fatal.append(type(error)(str(error)))
        except Exception as error:  # noqa: BLE001 - handed to the main thread, which raises it
            self._parts.events({"event": "alarm", "reason": f"standby: {type(error).__name__}: {error}"})
            self._fatal.append(error)

    def _again(self) -> None:
        """From where the store stands, with another consumer."""
        self._standby.close()
        warm = self._standby.warm
        self._stop.wait(_AGAIN_S)
        with self._mutex:
            self._standby = self._begin()
            self._standby.warm = warm
            self._standby.keep(self._kept)


class PurgeThread:
    """The thread that deletes what is applied and old."""

    def __init__(self, parts: LaneParts, progress: Callable[[], Mapping[int, Progress]]) -> None:
        logs = KafkaInputLogs(parts.admin, parts.names, parts.layout.buckets)
        self._purge = Purge(logs, parts.clock, parts.limits.input_window_ms, parts.events)
        self._progress = progress
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="purge", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; a question under way is not waited for."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(self._purge.every_s):
            self._purge.run(self._progress())
