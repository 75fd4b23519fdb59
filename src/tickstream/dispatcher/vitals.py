"""What a dispatcher process knows of itself: its lanes, what they count, its store, and what it has told.

Read by metrics.py from the server's threads; nothing is decided here. Events are counted as they pass, so
that who tells them need not count.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from tickstream.clock import Clock
from tickstream.dispatcher.lane import Events, Lane
from tickstream.dispatcher.ownership import LaneStatus
from tickstream.dispatcher.tally import LaneTally
from tickstream.timer_store import StoreSizes, TimerStore

BACKLOG_LIMIT: Final = 1_000
"""Due entries counted in one bucket: a scrape must not walk through a million."""
_STALLED_S: Final = 60.0
"""A main thread that has not come round for so long hangs: its longest call gives up sooner."""


class Backlog(NamedTuple):
    """What is due and not dispatched, over all buckets of active lanes."""

    due: int
    """At most BACKLOG_LIMIT of each bucket are counted."""
    oldest_s: float
    """Age of the oldest, 0 when nothing is due."""


class DispatcherVitals:
    """See health.Probes; and the figures of one process."""

    def __init__(self, events: Events, clock: Clock) -> None:
        self._events = events
        self._clock = clock
        self._mutex = threading.Lock()
        """Of the counts, held for an instant."""
        self._looking = threading.Lock()
        """Of store and lanes, held by who looks into them, so that they do not go meanwhile."""
        self._tallies: dict[int, LaneTally] = {}
        self._lanes: dict[int, Lane] = {}
        self._store: TimerStore | None = None
        self._statuses: Mapping[int, LaneStatus] = {}
        self._seen_s = clock.monotonic()
        self._joined = False
        self._told: Counter[str] = Counter()
        self._fenced = 0
        self._left: dict[int, int] = {}

    # ------------------------------------------------------------------ told by the process

    def event(self, event: Mapping[str, object]) -> None:
        """Count an event and pass it on. Any thread."""
        name = str(event["event"])
        with self._mutex:
            self._told[name] += 1
            self._fenced += bool(event.get("fenced"))
            match event:
                case {
                    "event": "bucket_restoring",
                    "bucket": int(bucket),
                    "done": int(done),
                    "total": int(total),
                }:
                    self._left[bucket] = total - done
                case {"event": "bucket_restored", "bucket": int(bucket)}:
                    self._left.pop(bucket, None)
                case {"event": "lane_assigned"}:
                    self._joined = True
        self._events(event)

    def looked(self, statuses: Mapping[int, LaneStatus]) -> None:
        """The main thread came round: these are its lanes."""
        self._statuses = statuses
        self._seen_s = self._clock.monotonic()

    def opened(self, store: TimerStore) -> None:
        """This is the store from now on."""
        with self._looking:
            self._store = store

    def closed(self) -> None:
        """There is no store: nobody looks into it from now on."""
        with self._looking:
            self._store = None

    def begun(self, lane: Lane) -> None:
        """The lane is active."""
        with self._looking:
            self._lanes[lane.number] = lane

    def ended(self, lane: int) -> None:
        """The lane's thread ends."""
        with self._looking:
            self._lanes.pop(lane, None)

    def tally(self, lane: int) -> LaneTally:
        """The counts of a lane, the same for all its lives."""
        with self._mutex:
            return self._tallies.setdefault(lane, LaneTally())

    # ------------------------------------------------------------------ asked by the server

    def alive(self) -> bool:
        """Whether the main thread goes on."""
        return self._clock.monotonic() - self._seen_s < _STALLED_S

    def ready(self) -> bool:
        """Whether the group has given it lanes, and every one that it has is active."""
        return self._joined and all(s is LaneStatus.ACTIVE for s in self._statuses.values())

    def lanes(self) -> Mapping[LaneStatus, int]:
        """Lanes by where they stand."""
        return Counter(self._statuses.values())

    def tallies(self) -> list[LaneTally]:
        """The counts of every lane that this process has had."""
        with self._mutex:
            return list(self._tallies.values())

    def told(self) -> Mapping[str, int]:
        """Events so far, by name."""
        with self._mutex:
            return self._told.copy()

    @property
    def fenced(self) -> int:
        """Lanes lost to another owner's claim so far."""
        return self._fenced

    def left(self) -> int:
        """Offsets of the changelog that are still to be read by restores under way."""
        with self._mutex:
            return sum(self._left.values())

    def sizes(self) -> StoreSizes | None:
        """Of the store; None while there is none."""
        with self._looking:
            return None if self._store is None else self._store.sizes()

    def backlog(self) -> Backlog:
        """What is due now."""
        now, due, oldest = self._clock.wall_ms(), 0, 0
        with self._looking:
            if self._store is None:
                return Backlog(0, 0.0)
            for lane in self._lanes.values():
                for number, bucket in list(lane.owned.items()):
                    first = self._store.next_due_ms(number, since_ms=bucket.due_since_ms)
                    if first is None or first > now:
                        continue
                    oldest = max(oldest, now - first)
                    due += self._store.count_due(number, now, BACKLOG_LIMIT, since_ms=first)
        return Backlog(due, oldest / 1_000)

    def applied_age_s(self) -> float | None:
        """How long ago the moment lies before which everything accepted is applied; None before it is known."""
        with self._looking:
            moments = [
                bucket.progress.applied_before_ms
                for lane in self._lanes.values()
                for bucket in list(lane.owned.values())
            ]
        if not moments or min(moments) == 0:
            return None
        return (self._clock.wall_ms() - min(moments)) / 1_000
