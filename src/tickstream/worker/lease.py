"""A run's lease as its worker counts it.

Pure: no Kafka client, no thread, no clock may enter here. All times are monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Final, TypeVar

CLAIM_AFTER_S: Final = 0.05
"""A run that has not ended by then is claimed; a shorter one only reports its outcome."""
BEATS: Final = 3
"""Heartbeats sent per lease, so that two may be late."""
MARGIN: Final = 0.1
"""Part of the lease at whose end the handler is warned that it is lost."""
PROGRESS_S: Final = 1.0
"""Between two heartbeats that carry something new."""


class Lease:
    """When one run is claimed, renewed, lost and out of time.

    The worker counts from the time at which it *sent* what was acknowledged last; the dispatcher
    counts from when it applied that, which is later. So a run is lost here before it is there.
    """

    __slots__ = ("_asked", "_from", "claim_at", "claimed", "duration", "lost", "news", "timeout_at")

    def __init__(self, started: float, lease_s: float, timeout_s: float) -> None:
        self.duration = lease_s
        self.claim_at = started + CLAIM_AFTER_S
        self.timeout_at = started + timeout_s
        self.claimed = False
        """Whether the claim is acknowledged."""
        self.lost = False
        """Whether the run has been told that its lease is gone; it is never renewed after that."""
        self.news = False
        """Whether the handler said something that no heartbeat carried yet."""
        self._from = inf
        self._asked = started

    def asked(self, now: float) -> None:
        """A claim or a heartbeat is on its way."""
        self._asked = now
        self.news = False
        if self._from == inf:
            self._from = now

    def acked(self, sent_at: float) -> None:
        """The claim or heartbeat sent at `sent_at` is acknowledged."""
        self.claimed = True
        self._from = max(self._from, sent_at) if self._from != inf else sent_at

    @property
    def lost_at(self) -> float:
        """When the handler has to be told, unless something is acknowledged before; inf before the claim."""
        return self._from + self.duration * (1 - MARGIN)

    @property
    def interval(self) -> float:
        """Between two heartbeats."""
        third = self.duration / BEATS
        return min(third, PROGRESS_S) if self.news else third

    @property
    def beat_at(self) -> float:
        """When the next heartbeat is due; inf when none is to be sent."""
        return self._asked + self.interval if self.claimed and not self.lost else inf

    def may_beat(self, now: float) -> bool:
        """Whether a heartbeat that goes out anyway takes this run along: half its interval is over."""
        return self.claimed and not self.lost and now >= self._asked + self.interval / 2

    def next_at(self) -> float:
        """When to look at it again."""
        return min(self.timeout_at, self.beat_at, inf if self.lost else self.lost_at)


class Leased:
    """Anything that holds a lease."""

    __slots__ = ()
    lease: Lease


L = TypeVar("L", bound=Leased)


def to_renew(runs: Iterable[L], now: float) -> list[L]:
    """The runs whose heartbeats are to be sent now: none, or all that are past half their interval.

    So runs that began at different times soon beat together, in one message a bucket.
    """
    runs = list(runs)
    if not any(run.lease.beat_at <= now for run in runs):
        return []
    return [run for run in runs if run.lease.may_beat(now)]
