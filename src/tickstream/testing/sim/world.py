"""Virtual time, the processes that live in it, and the order in which everything happens.

No log, no dispatcher, no real clock may enter here. All instants are whole microseconds of true
time; what a process believes the time to be is its SimClock's.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

from tickstream.testing.clock import START_MS

SECOND: Final = 1_000_000
MS: Final = 1_000


class Crashed(Exception):
    """The process died inside a call that it waited for."""


class SimClock:
    """What one process sees of time. Implements tickstream.clock.Clock."""

    __slots__ = ("_base_s", "_rate", "_world", "offset_ms")

    def __init__(self, world: World, offset_ms: int = 0, rate: float = 1.0, base_s: float = 0.0) -> None:
        self._world = world
        self.offset_ms = offset_ms
        """How far the wall clock is ahead of true time; a step changes it."""
        self._rate = rate
        self._base_s = base_s

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, as this process believes."""
        return START_MS + self._world.now // MS + self.offset_ms

    def monotonic(self) -> float:
        """Seconds since some start; a clock may run a little fast or slow."""
        return self._base_s + self._world.now * self._rate / SECOND


@dataclass(eq=False)
class Process:
    """Something that dies, stands still and comes back as a whole."""

    name: str
    clock: SimClock
    rng: random.Random
    alive: bool = False
    life: int = 0
    """Which of its incarnations this is; events of earlier ones are void."""
    paused_until: int = 0
    traps: list[Trap] = field(default_factory=list)
    on_silence: list[Callable[[Process], None]] = field(default_factory=list)
    """Told when it stops answering: crashed or paused."""

    def runs_at(self, now: int) -> bool:
        """Whether it lives and is not paused."""
        return self.alive and self.paused_until <= now


@dataclass(slots=True)
class Trap:
    """What happens to a process when it has passed some more points."""

    left: int
    spring: Callable[[], None]


Event = tuple[int, int, "Process | None", int, Callable[[], None]]


class World:
    """The scheduler: one heap of events, drawn from by time; ties by the order in which they were made."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now = 0
        self.rng = random.Random(seed)
        self.calm = False
        """After the heal: nothing is injected any more."""
        self.trace: list[str] | None = None
        """Lines for a reader, None while nobody reads."""
        self._heap: list[Event] = []
        self._until = 0
        self._made = 0

    def at(self, when: int, process: Process | None, do: Callable[[], None]) -> None:
        """Do something at an instant, unless its process is another incarnation by then."""
        self._made += 1
        life = process.life if process is not None else 0
        heappush(self._heap, (when if when > self.now else self.now, self._made, process, life, do))

    def after(self, delay: int, process: Process | None, do: Callable[[], None]) -> None:
        """The same, counted from now. `delay` is not negative."""
        self._made += 1
        life = process.life if process is not None else 0
        heappush(self._heap, (self.now + delay, self._made, process, life, do))

    def pass_over(self, delay: int) -> bool:
        """Let `delay` pass here and now, if nothing else happens meanwhile; else nothing has changed."""
        at = self.now + delay
        if at > self._until or (self._heap and self._heap[0][0] <= at):
            return False
        self.now = at
        return True

    def run(self, until: int) -> None:
        """Let everything before `until` happen. An event may do so itself: others then happen within it."""
        heap, outer = self._heap, self._until
        self._until = until
        while heap and heap[0][0] <= until:
            when, made, process, life, do = heappop(heap)
            if process is not None:
                if process.life != life or not process.alive:
                    continue
                if process.paused_until > when:
                    heappush(heap, (process.paused_until, made, process, life, do))
                    continue
            if when > self.now:
                self.now = when
            do()
        self._until = outer
        if until > self.now:
            self.now = until

    def stop(self) -> None:
        """Nothing happens any more."""
        self._heap.clear()

    # ------------------------------------------------------------------ processes

    def process(self, name: str, clock: SimClock) -> Process:
        """A process with dice of its own, so that what one of them does not draw changes no other."""
        return Process(name, clock, random.Random(f"{self.seed}/{name}"))

    def start(self, process: Process) -> None:
        """It lives from now on, as a new incarnation."""
        process.alive = True
        process.life += 1
        process.paused_until = 0
        process.traps.clear()

    def crash(self, process: Process) -> None:
        """It is gone, with everything in its memory."""
        if not process.alive:
            return
        self.tell(process.name, "crashes")
        process.alive = False
        process.life += 1
        self._silent(process)

    def pause(self, process: Process, duration: int) -> None:
        """It stands still, sockets open, and goes on as if nothing had been."""
        if process.alive:
            self.tell(process.name, f"stands still for {duration / SECOND:.3f} s")
            process.paused_until = max(process.paused_until, self.now + duration)
            self._silent(process)

    def _silent(self, process: Process) -> None:
        for told in process.on_silence:
            told(process)

    def reached(self, process: Process, point: str, lane: int = -1) -> None:
        """A process passes a point: what was laid there for it may spring."""
        if self.trace is not None:
            self.tell(process.name, f"lane {lane} {point}" if lane >= 0 else point)
        if process.traps:
            for trap in list(process.traps):
                trap.left -= 1
                if trap.left < 0:
                    process.traps.remove(trap)
                    if not self.calm:
                        trap.spring()

    def tell(self, who: str, what: str) -> None:
        """One line of the history, for a reader."""
        if self.trace is not None:
            self.trace.append(f"{self.now / SECOND:10.6f}  {who:<14} {what}")
