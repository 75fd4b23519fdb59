"""Which lanes this process runs: a pure state machine between the consumer group and the lanes.

No Kafka, thread or clock here: events go in with their time, actions come out. An assignment is
only the right to try; whether a lane is owned is decided by the log (takeover.py).
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

FIRST_RETRY_S: Final = (0.3, 1.0)
"""The pause before a lane is claimed again is drawn from here, and doubles."""
LONGEST_RETRY_S: Final = 10.0
LATE_AFTER_S: Final = 5.0
"""An assigned lane that is not active by then is an alarm."""
LATE_AGAIN_S: Final = 60.0
"""How often that alarm is repeated."""
STEADY_AFTER_S: Final = 60.0
"""A lane that was active for so long has recovered: its next pause is short again."""


class LaneStatus(Enum):
    """Where a lane of this process stands."""

    WAITING = "waiting"
    """Assigned; to be claimed at a certain time."""
    CLAIMING = "claiming"
    """A thread is taking it over."""
    ACTIVE = "active"
    CONFIRMING = "confirming"
    """It failed; the group is asked whether this process is still a member."""


MOVES: Final[dict[LaneStatus, frozenset[LaneStatus]]] = {
    LaneStatus.WAITING: frozenset({LaneStatus.CLAIMING}),
    LaneStatus.CLAIMING: frozenset({LaneStatus.ACTIVE, LaneStatus.CONFIRMING}),
    LaneStatus.ACTIVE: frozenset({LaneStatus.CONFIRMING}),
    LaneStatus.CONFIRMING: frozenset({LaneStatus.WAITING}),
}
"""Legal moves; besides these a lane leaves the table from anywhere. Also in docs/protocol.md."""


class Start(NamedTuple):
    """Begin a take-over of the lane."""

    lane: int


class Stop(NamedTuple):
    """End the lane's thread: finish or abort what is open."""

    lane: int


class Confirm(NamedTuple):
    """Ask the group whether this process is still a member, by a synchronous commit."""

    lane: int


class Late(NamedTuple):
    """Alarm: the lane is assigned and not active."""

    lane: int
    seconds: float


Action = Start | Stop | Confirm | Late


@dataclass(slots=True)
class _Lane:
    status: LaneStatus
    since: float
    """When it was assigned, or last active."""
    start_at: float
    pause_s: float = 0.0
    alarm_after_s: float = LATE_AFTER_S
    active_at: float = 0.0

    def move(self, to: LaneStatus) -> None:
        if to not in MOVES[self.status]:
            raise AssertionError(f"a lane does not move from {self.status.value} to {to.value}")
        self.status = to


@dataclass(slots=True)
class Ownership:
    """The lanes of one process. Times are seconds of one monotonic clock."""

    rng: random.Random
    _lanes: dict[int, _Lane] = field(default_factory=dict)
    _lost: set[int] = field(default_factory=set)
    """Lanes of a lost membership: they go on until fenced, or until a newer assignment lacks them."""

    def lanes(self) -> dict[int, LaneStatus]:
        """Every lane of this process."""
        return {number: lane.status for number, lane in self._lanes.items()}

    def assigned(self, lanes: Iterable[int], now: float) -> list[Action]:
        """The group gave lanes. After a loss this is the whole new assignment."""
        given = set(lanes)
        gone = self._lost - given
        self._lost.clear()
        actions: list[Action] = [Stop(n) for n in sorted(gone) if self._lanes.pop(n, None)]
        for number in sorted(given - self._lanes.keys()):
            self._lanes[number] = _Lane(LaneStatus.WAITING, now, now)
        return actions + self.tick(now)

    def revoked(self, lanes: Iterable[int]) -> list[Action]:
        """The group takes lanes back in good order."""
        return [Stop(n) for n in sorted(lanes) if self._lanes.pop(n, None)]

    def lost(self, lanes: Iterable[int]) -> list[Action]:
        """The membership is gone. That is no word about the lanes: fencing is."""
        self._lost.update(n for n in lanes if n in self._lanes)
        return []

    def active(self, lane: int, now: float) -> list[Action]:
        """A take-over came to its end."""
        if lane in self._lanes:
            own = self._lanes[lane]
            own.move(LaneStatus.ACTIVE)
            own.since = own.active_at = now
            own.alarm_after_s = LATE_AFTER_S
        return []

    def failed(self, lane: int, now: float) -> list[Action]:
        """The lane's thread ended: fenced, aborted by the coordinator, or an unknown outcome."""
        own = self._lanes.get(lane)
        if own is None:
            return []
        if lane in self._lost:
            # Lost and now fenced: somebody else has it.
            self._lost.discard(lane)
            del self._lanes[lane]
            return []
        if own.status is LaneStatus.ACTIVE:
            own.since = now
            if now - own.active_at >= STEADY_AFTER_S:
                # Only then: a lane that fails on its first batch must not be claimed at full speed for ever.
                own.pause_s = 0.0
        own.move(LaneStatus.CONFIRMING)
        return [Confirm(lane)]

    def confirmed(self, lane: int, member: bool, now: float) -> list[Action]:
        """The group's answer: still assigned, claim again after a pause; or not ours any more."""
        own = self._lanes.get(lane)
        if own is None or own.status is not LaneStatus.CONFIRMING:
            return []
        if not member:
            del self._lanes[lane]
            return []
        own.move(LaneStatus.WAITING)
        own.pause_s = min(LONGEST_RETRY_S, own.pause_s * 2 or self.rng.uniform(*FIRST_RETRY_S))
        own.start_at = now + own.pause_s
        return []

    def tick(self, now: float) -> list[Action]:
        """What time asks for: claims whose pause is over, and alarms."""
        actions: list[Action] = []
        for number, own in sorted(self._lanes.items()):
            lost = number in self._lost  # somebody else may have it: to claim it would fence them
            if own.status is LaneStatus.WAITING and now >= own.start_at and not lost:
                own.move(LaneStatus.CLAIMING)
                actions.append(Start(number))
            late_s = now - own.since
            if own.status is not LaneStatus.ACTIVE and not lost and late_s > own.alarm_after_s:
                own.alarm_after_s = late_s + LATE_AGAIN_S
                actions.append(Late(number, late_s))
        return actions
