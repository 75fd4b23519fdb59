"""T: up to when everything accepted is applied, bucket by bucket, from the end probe.

At t0 the ends of the inputs are asked for; once a bucket's positions have reached them, everything
accepted before t0 is applied. No transaction and no store here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from tickstream.clock import Clock
from tickstream.dispatcher.ports import Ends, Input

Positions = Mapping[tuple[Input, int], int]
HIDDEN_AFTER_S: Final = 5.0
"""Accepted records that cannot be read for so long lie behind somebody's open transaction."""
_AGAIN_AFTER_S: Final = 60.0
_LEASE_PROBE_S: Final = 0.05
"""How soon after a lease's end the broker is asked; also the shortest time between two questions."""
_GOLDEN: Final = 0.618033988749895
_SOONEST: Final = 0.5
"""The part of a period that passes at least between two questions of the rhythm."""
_ANSWER_WAIT_S: Final = 0.01
"""How long a lane may sleep while the broker is answering."""


class _Asked(NamedTuple):
    """An answered question that a bucket has not reached yet."""

    wall_ms: int
    monotonic: float
    ends: dict[Input, int]


class Freshness:
    """Drives the end probe of a lane. Touched by the lane's thread only."""

    def __init__(
        self, ends: Ends, clock: Clock, probe_ms: int, lane: int, hidden: Callable[[int, str], None]
    ) -> None:
        """`hidden(bucket, reason)` is told of accepted records that nobody can read."""
        self._ends = ends
        self._clock = clock
        self._every_s = probe_ms / 1000
        # Lanes that became active together, in one process or many, ask and write at different moments of
        # the second: multiples of the golden section lie far from each other, however many there are.
        self._phase = lane * _GOLDEN % 1
        self._hidden = hidden
        self._due = 0.0
        self._t0 = (0, 0.0)
        self._asked: dict[int, _Asked] = {}
        self._moved: dict[int, float] = {}
        """When the bucket last had input, monotonic."""
        self._applied: dict[int, int] = {}
        self._written = float("-inf")
        self.licensed: dict[int, float] = {}
        """T once more, on the monotonic clock: a lease that ended before it may expire."""
        self._alarmed: dict[int, float] = {}

    def applied_before_ms(self, bucket: int) -> int:
        """T of the bucket, 0 before the first."""
        return self._applied.get(bucket, 0)

    def wait_s(self, deadline: float | None) -> float:
        """How long nothing is to be done here, seconds. `deadline`: the end of the next lease, monotonic."""
        if self._ends.pending():
            return _ANSWER_WAIT_S
        return max(0.0, self._next(deadline) - self._clock.monotonic())

    def _next(self, deadline: float | None) -> float:
        """When to ask next: once a second, and sooner where a lease is at its end."""
        if deadline is None:
            return self._due
        return min(self._due, max(deadline, self._t0[1]) + _LEASE_PROBE_S)

    def has_input(self, buckets: Collection[int]) -> None:
        """Records of these buckets were read."""
        now = self._clock.monotonic()
        self._moved.update(dict.fromkeys(buckets, now))

    def drive(
        self, buckets: Collection[int], reached: Callable[[], Positions], deadline: float | None
    ) -> bool:
        """Ask when it is time, take answers, and move T. True once a second: T is to be written.

        `reached`: the next offset of every input, past what is applied. `deadline`: as for `wait_s`.
        """
        answer = self._ends.answer()
        if answer is not None:
            for bucket in buckets:
                # A bucket that lags keeps the older question: a newer one it would reach later still.
                ends = {source: answer.get((source, bucket), 0) for source in Input}
                self._asked.setdefault(bucket, _Asked(*self._t0, ends))
        for stopped in self._asked.keys() - set(buckets):
            del self._asked[stopped]  # it is nobody's to reach any more
        if self._asked:
            self._settle(reached())
        now = self._clock.monotonic()
        if not self._ends.pending() and now >= self._next(deadline):
            self._t0 = (self._clock.wall_ms(), now)
            if now >= self._due:
                self._due = now + self._until_own_moment_s(self._t0[0])
            self._ends.ask()
        if answer is None or now - self._written < self._every_s / 2:
            return False  # also an extra question, for a lease: it licenses, and writes nothing
        self._written = now
        return True

    def _until_own_moment_s(self, wall_ms: int) -> float:
        """From half a period on: until the lane's own moment in it, seconds."""
        share = (self._phase - wall_ms / 1000 / self._every_s) % 1
        return (share if share >= _SOONEST else share + 1) * self._every_s

    def _settle(self, reached: Positions) -> None:
        for bucket, asked in list(self._asked.items()):
            if all(reached.get((source, bucket), 0) >= end for source, end in asked.ends.items()):
                self._applied[bucket] = asked.wall_ms
                self.licensed[bucket] = asked.monotonic
                del self._asked[bucket]
            else:
                self._look_for_hidden(bucket, asked)

    def _look_for_hidden(self, bucket: int, asked: _Asked) -> None:
        now = self._clock.monotonic()
        quiet_since = max(asked.monotonic, self._moved.get(bucket, 0.0), self._alarmed.get(bucket, 0.0))
        limit = _AGAIN_AFTER_S if bucket in self._alarmed else HIDDEN_AFTER_S
        if now - quiet_since > limit:
            self._alarmed[bucket] = now
            self._hidden(
                bucket,
                f"accepted records cannot be read for {now - asked.monotonic:.0f} s: a client has a transaction open "
                "on commands or reports, which hides everybody's records behind it; find it and end it",
            )
