"""A standby of the simulation: the real Standby, its thread a chain of events.

The twin of dispatcher/lane_threads.py's StandbyThread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from tickstream.dispatcher.lane import Events
from tickstream.dispatcher.standby import Standby
from tickstream.errors import LaneLost
from tickstream.model import buckets_of_lane
from tickstream.testing.sim.lane_ports import SimChangelog, SimFacts, Site
from tickstream.testing.sim.log import Partition
from tickstream.testing.sim.world import MS
from tickstream.timer_store import TimerStore

_ROUND_US: Final = 250 * MS
_AGAIN_US: Final = 1_000 * MS


@dataclass(slots=True)
class SimTimersEnds:
    """Where `timers` ends."""

    site: Site
    buckets: int

    def high(self) -> Mapping[int, int]:
        return {b: partition.end for b, partition in self._asked()}

    def stable(self) -> Mapping[int, int]:
        return {b: partition.stable for b, partition in self._asked()}

    def _asked(self) -> list[tuple[int, Partition]]:
        site = self.site
        site.call()
        if site.dice.hit(site.dice.now.facts_lost):
            raise LaneLost("the ends of timers cannot be had")
        return [(b, site.broker.partitions[site.names.timers, b]) for b in range(self.buckets)]


class SimStandby:
    """What keeps warm the lanes that one incarnation of a process does not own."""

    def __init__(
        self,
        site: Site,
        buckets: int,
        lanes: int,
        store: TimerStore,
        events: Events,
        warm: Callable[[], None],
    ) -> None:
        """`warm` is told once, when the process may join its group."""
        self._site = site
        self._buckets = buckets
        self._lanes = lanes
        self._store = store
        self._events = events
        self._told = warm
        self._is_warm = False
        self._kept: frozenset[int] = frozenset()
        self._standby = self._begin()

    def keep(self, lanes: Collection[int]) -> None:
        """Keep the buckets of these lanes warm, and no others."""
        self._kept = frozenset(b for k in lanes for b in buckets_of_lane(k, self._buckets, self._lanes))
        self._standby.keep(self._kept)

    def run(self) -> None:
        """One step, and all those after it."""
        site, delay = self._site, _ROUND_US
        try:
            self._standby.step()
        except LaneLost as lost:
            site.dice.world.tell(site.process.name, f"standby interrupted: {lost}")
            self._standby.close()
            self._standby = self._begin()
            self._standby.warm = self._is_warm
            self._standby.keep(self._kept)
            delay = _AGAIN_US
        if self._standby.warm and not self._is_warm:
            self._is_warm = True
            self._told()
        site.dice.world.after(delay, site.process, self.run)

    def _begin(self) -> Standby:
        site = self._site
        return Standby(
            lambda: SimChangelog(site, _nobody_waits),
            self._store,
            site.process.clock,
            0,
            self._events,
            SimFacts(site, self._buckets),
            SimTimersEnds(site, self._buckets),
        )


def _nobody_waits() -> None:
    """The next step comes by itself."""
