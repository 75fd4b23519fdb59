"""Keeping the store warm for buckets that others own, so that a take-over has next to nothing to read.

A step function over ports, like a lane: its thread is in lane_threads.py. Nothing is decided, and
nothing is written to the log. A bucket that this process takes over is acquired in the store by its
lane: from then on a write of the standby is refused, however late it comes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tickstream.clock import Clock
from tickstream.dispatcher.lane import Events
from tickstream.dispatcher.ports import Facts, FollowedChangelog, TimersEnds
from tickstream.dispatcher.restore import Restorer
from tickstream.errors import StoreRefused
from tickstream.timer_store import TimerStore

WARM_S: Final = 1.0
"""How old the end of the log may be that the store has reached."""
_STRETCH: Final = 2_000
"""Records in one write, for which the active lanes of the process wait."""
_WAIT_S: Final = 0.1


class _Asked(NamedTuple):
    """The last stable offsets, and when they were asked for (monotonic)."""

    at: float
    ends: Mapping[int, int]


@dataclass(slots=True)
class Standby:
    """Touched by its own thread only, but for `keep` and `warm`."""

    changelog: Callable[[], FollowedChangelog]
    store: TimerStore
    clock: Clock
    layout: int
    events: Events
    facts: Facts
    ends: TimersEnds
    warm: bool = False
    """Whether everything that was kept has been within a second of the log's end, once."""
    _wanted: frozenset[int] = frozenset()
    _stopped: set[int] = field(default_factory=set)
    """Buckets that cannot be read: a newer schema, say. Their owners' take-over says so too."""
    _asked: _Asked | None = None
    _mutex: threading.Lock = field(default_factory=threading.Lock)
    _log: FollowedChangelog = field(init=False)
    _restorer: Restorer = field(init=False)

    def __post_init__(self) -> None:
        self._log = self.changelog()
        self._restorer = Restorer(
            self._log,
            self.store,
            self.clock,
            self.layout,
            self.events,
            self._stop,
            self._refused,
            follows=True,
        )

    def keep(self, buckets: frozenset[int]) -> None:
        """Keep these warm from now on, and no others. When it returns, no other will be acquired."""
        with self._mutex:
            self._wanted = buckets

    def step(self) -> None:
        """Read and write one stretch. Raises LaneLost when the log or the broker cannot be asked."""
        self._turn_to()
        self._restorer.step(_WAIT_S, _STRETCH)
        if not self.warm:
            self._look_how_warm()

    def close(self) -> None:
        """Leave the log."""
        self._restorer.close()

    def _turn_to(self) -> None:
        """Begin with what is new among the wanted, leave what is not wanted any more."""
        with self._mutex:
            for bucket in self._restorer.readings.keys() - self._wanted:
                self._restorer.drop(bucket)
            self._stopped &= self._wanted
            missing = self._wanted - self._restorer.readings.keys() - self._stopped
        if not missing:
            return
        facts, ends = self.facts.log(), self.ends.high()
        with self._mutex:
            still = missing & self._wanted
            if still:
                self._restorer.open({bucket: ends[bucket] - 1 for bucket in still}, facts)

    def _look_how_warm(self) -> None:
        now = self.clock.monotonic()
        if self._asked is None or now - self._asked.at > WARM_S:
            self._asked = _Asked(now, self.ends.stable())
        reached = self._log.positions()
        with self._mutex:
            wanted = self._wanted - self._stopped
        if wanted <= self._restorer.readings.keys() and all(
            self._restorer.readings[bucket].at_least(reached.get(bucket, 0)) >= self._asked.ends[bucket]
            for bucket in wanted
        ):
            self.warm = True
            self.events(
                {"event": "standby_warm", "buckets": sorted(wanted), "restored": self._restorer.restored}
            )

    def _stop(self, bucket: int, reason: str) -> None:
        self._stopped.add(bucket)
        self.events({"event": "alarm", "bucket": bucket, "reason": f"no standby of this bucket: {reason}"})

    def _refused(self, bucket: int, _refused: StoreRefused) -> None:
        """Its lane has it now."""
        with self._mutex:
            self._wanted -= {bucket}
