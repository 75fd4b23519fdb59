"""Runs whose work came ahead of its instant, held until that is there.

Pure: no Kafka client, no thread, no clock may enter here.
"""

from __future__ import annotations

import itertools
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from tickstream.worker.run import Run

_SHORTEST_S: Final = 0.001
"""A shorter wait is none to librdkafka: it counts whole milliseconds."""
_DRIFT: Final = 1.005
"""Of a lead, so much has to pass on a clock that may run fast: ten times what NTP allows one to."""


class _Held(NamedTuple):
    """One run. Times in monotonic seconds."""

    at: float
    """When to look at the wall clock again."""
    number: int
    latest: float
    """By then its lead has passed since it came: its instant is there, whatever the wall clock says."""
    run: Run


class Early:
    """The runs of one queue that may not start yet, the next one first.

    A run starts when two clocks say so: the wall clock shows its instant, and as much monotonic time has passed
    as was left on the wall clock when it came. So a step of the wall clock, either way, starts nothing
    early. It delays by the lead at most, and a little: the dispatcher decided so long before the instant, by its own clock.
    """

    def __init__(self) -> None:
        self._heap: list[_Held] = []
        self._numbers = itertools.count()

    def hold(self, run: Run, wall_ms: int, now: float) -> bool:
        """Keep it while its instant is ahead; whether it is kept."""
        work = run.work
        if work.not_before_ms <= wall_ms:
            return False
        latest = now + (work.not_before_ms - work.decided_ms) / 1_000 * _DRIFT
        at = min(latest, now + (work.not_before_ms - wall_ms) / 1_000)
        heappush(self._heap, _Held(at, next(self._numbers), latest, run))
        return True

    def ripe(self, wall_ms: int, now: float) -> list[Run]:
        """Those that may start; they are held no longer."""
        ripe: list[Run] = []
        while self._heap and self._heap[0].at <= now:
            held = heappop(self._heap)
            left_ms = held.run.work.not_before_ms - wall_ms
            if left_ms <= 0 or held.latest <= now:
                ripe.append(held.run)
            else:  # the wall clock went back
                heappush(self._heap, held._replace(at=min(held.latest, now + left_ms / 1_000)))
        return ripe

    def let_go(self) -> int:
        """Forget those that were dropped; how many."""
        kept = [held for held in self._heap if not held.run.begun]
        count = len(self._heap) - len(kept)
        if count:
            heapify(kept)
            self._heap = kept
        return count

    def wait_s(self, most_s: float, now: float) -> float:
        """How long to wait for something else: until the next one, `most_s` at most."""
        if not self._heap:
            return most_s
        return min(most_s, max(_SHORTEST_S, self._heap[0].at - now))
