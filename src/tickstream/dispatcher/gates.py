"""Gates: who may be dispatched now. Paused queues, limits of queues, and one task at a time per key.

Pure: told of what is set and of what came and went; no store, no clock. A limit counts within one
bucket, since a bucket is what an owner decides alone (docs/protocol.md, "Gates").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import ceil
from typing import Final, Protocol

from tickstream.model import EVERY_QUEUE, NO_LIMIT, DueEntry, QueueLimits, QueueState, TaskState

_QUEUE: Final = "q:"
_KEY: Final = "k:"
_PAGE: Final = 1_000
"""At most that many leave a gate in one transaction."""


@lru_cache
def _nothing_set(queue: str) -> QueueState:
    """Kept: nearly every queue is one, and it is asked about at every dispatch."""
    return QueueState(queue)


def queue_gate(queue: str) -> str:
    """The gate at which occurrences of a queue wait."""
    return _QUEUE + queue


def key_gate(limit_key: str) -> str:
    """The gate at which occurrences with the same limit_key wait."""
    return _KEY + limit_key


def places(state: TaskState | None) -> Iterable[str]:
    """The places under limits that the runs of a task hold."""
    return () if state is None else (place for run in state.runs for place in run.places)


class HeldView(Protocol):
    """What waits at gates, as the store has it."""

    def held(self, bucket: int, gate: str, limit: int) -> list[DueEntry]: ...


class Spread:
    """Dispatches of one queue as they are spread: a token bucket that holds `starts`, refilled over `per_ms`.

    It begins empty: what a former owner dispatched a moment ago is not known.
    """

    __slots__ = ("at_ms", "tokens")

    def __init__(self, tokens: float, at_ms: int) -> None:
        self.tokens = tokens
        self.at_ms = at_ms

    def at(self, now_ms: int, limits: QueueLimits) -> float:
        """What may be dispatched at `now_ms`."""
        gained = max(0, now_ms - self.at_ms) * limits.starts / limits.per_ms
        return min(float(limits.starts), self.tokens + gained)


class Gates:
    """The gates of one bucket, as its last committed transaction left them."""

    def __init__(self, queues: Mapping[str, QueueState], waiting: Iterable[str], now_ms: int) -> None:
        """`queues`: what is set; `waiting`: gates at which something waits."""
        self.queues = dict(queues)
        self.waiting = set(waiting)
        self.running: Counter[str] = Counter()
        """Occurrences in flight that hold a place, by place."""
        self.spread: dict[str, Spread] = {}
        self._began_ms = now_ms

    def enter(self, state: TaskState) -> None:
        """A task that has runs in flight at a take-over."""
        self.running.update(places(state))

    def turn(self, now_ms: int) -> GateTurn:
        """The same gates for one transaction, which is committed or dropped."""
        return GateTurn(self, now_ms)

    def leaving(self, bucket: int, held: HeldView, now_ms: int) -> list[DueEntry]:
        """What may pass the open gates now, each gate's in order of instant."""
        if not self.waiting:
            return []
        turn, found = self.turn(now_ms), []
        for gate in sorted(self.waiting):
            room = turn.room(gate)
            if room > 0:
                first = held.held(bucket, gate, room)
                found += first
                if not first:
                    self.waiting.discard(gate)
        return found

    def next_open_ms(self, now_ms: int) -> int | None:
        """When a gate at which something waits lets the next one pass, nothing else happening; None: never."""
        if not self.waiting:
            return None
        turn = self.turn(now_ms)
        instants = [at for gate in self.waiting if (at := turn.opens_ms(gate)) is not None]
        return min(instants, default=None)

    def tokens(self, queue: str, now_ms: int, limits: QueueLimits) -> float:
        """What the spreading of `queue` lets pass at `now_ms`."""
        spread = self.spread.get(queue)
        return (spread or Spread(0.0, self._began_ms)).at(now_ms, limits)


class GateTurn:
    """Gates within one transaction: what it dispatched and ended counts at once."""

    def __init__(self, gates: Gates, now_ms: int) -> None:
        self._gates = gates
        self._now_ms = now_ms
        self._moved: dict[str, int] = {}
        self._started: dict[str, int] = {}
        self._held: set[str] = set()
        self._set: dict[str, QueueState] = {}

    # ------------------------------------------------------------------ asked by decisions

    def state(self, queue: str) -> QueueState:
        """What is set for a queue."""
        return self._set.get(queue) or self._gates.queues.get(queue) or _nothing_set(queue)

    def closed(self, queue: str, limit_key: str, held: str = "") -> str:
        """The gate that an occurrence has to wait at; empty: none. `held`: the one that it waited at.

        Who waits for a limit_key goes before what falls due as its gate opens: in order of instant.
        """
        if queue and not self._is_open(queue):
            return queue_gate(queue)
        if limit_key:
            gate = key_gate(limit_key)
            if self._running(gate) > 0 or (gate != held and self._is_awaited(gate)):
                return gate
        return ""

    def places(self, queue: str, limit_key: str) -> tuple[str, ...]:
        """The places that an occurrence holds from its first dispatch to its end."""
        limits = self.state(queue).limits
        held = (queue_gate(queue),) if limits is not None and limits.max_running != NO_LIMIT else ()
        return (*held, key_gate(limit_key)) if limit_key else held

    def room(self, gate: str) -> int:
        """How many may pass a gate now."""
        name = gate[len(_QUEUE) :]
        if gate.startswith(_KEY):
            return 0 if self._running(gate) > 0 else 1
        if self._paused(name):
            return 0
        limits = self.state(name).limits
        rooms = [_PAGE]
        if limits is not None and limits.max_running != NO_LIMIT:
            rooms.append(limits.max_running - self._running(gate))
        if limits is not None and limits.starts != NO_LIMIT:
            rooms.append(int(self._tokens(name, limits)))
        return max(0, min(rooms))

    def opens_ms(self, gate: str) -> int | None:
        """When the next one may pass, nothing else happening; None: something has to happen first."""
        if self.room(gate) > 0:
            return self._now_ms
        name = gate[len(_QUEUE) :]
        limits = None if gate.startswith(_KEY) else self.state(name).limits
        if limits is None or limits.starts == NO_LIMIT or self._paused(name):
            return None
        if limits.max_running != NO_LIMIT and self._running(gate) >= limits.max_running:
            return None
        lacking = 1.0 - self._tokens(name, limits)
        return self._now_ms + max(1, ceil(lacking * limits.per_ms / limits.starts))

    # ------------------------------------------------------------------ told by the turn

    def dispatched(self, queue: str) -> None:
        """The first attempt of an occurrence goes out."""
        self._started[queue] = self._started.get(queue, 0) + 1

    def moved(self, before: TaskState | None, after: TaskState | None) -> None:
        """A task changed: places taken and left."""
        for place in places(before):
            self._moved[place] = self._moved.get(place, 0) - 1
        for place in places(after):
            self._moved[place] = self._moved.get(place, 0) + 1
        if after is not None and after.extras.held:
            self._held.add(after.extras.held)

    def set(self, state: QueueState) -> None:
        """Something was set for a queue."""
        self._set[state.queue] = state

    @property
    def settings(self) -> Mapping[str, QueueState]:
        """What this turn set."""
        return self._set

    def commit(self) -> None:
        """The transaction is committed: the bucket's gates are what the turn made of them."""
        gates = self._gates
        for queue, count in self._started.items():
            limits = self.state(queue).limits
            if limits is not None and limits.starts != NO_LIMIT:
                left = gates.tokens(queue, self._now_ms, limits) - count
                gates.spread[queue] = Spread(max(0.0, left), self._now_ms)
        gates.queues.update(self._set)
        gates.waiting |= self._held
        for place, by in self._moved.items():
            gates.running[place] += by
            if gates.running[place] <= 0:
                del gates.running[place]

    # ------------------------------------------------------------------ inside

    def _paused(self, queue: str) -> bool:
        return self.state(queue).paused or self.state(EVERY_QUEUE).paused

    def _is_open(self, queue: str) -> bool:
        """As `room(…) > 0`, the usual case first: nothing was ever set."""
        if not self._set and not self._gates.queues:
            return True
        return self.room(queue_gate(queue)) > 0

    def _is_awaited(self, gate: str) -> bool:
        """Whether something waits there, or did until a moment ago: then a newcomer waits for a turn at most."""
        return gate in self._gates.waiting or gate in self._held

    def _running(self, gate: str) -> int:
        return self._gates.running.get(gate, 0) + self._moved.get(gate, 0)

    def _tokens(self, queue: str, limits: QueueLimits) -> float:
        return self._gates.tokens(queue, self._now_ms, limits) - self._started.get(queue, 0)
