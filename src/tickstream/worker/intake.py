"""How many records may wait in this process for a free slot, and how long.

Pure: no Kafka client, no thread, no clock may enter here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, Generic, Protocol, TypeVar

_WINDOW_S: Final = 0.05
BUSY_S: Final = 0.15
RESERVE_S: Final = 0.5
ROUNDS: Final = 4
"""Attempts in as many places after which work that finds all slots busy waits where it is."""
HELD: Final = 4
"""Of these, records a slot."""
HOLD_S: Final = 2.0
"""How long it does."""
BOUNCE_S: Final = 0.1
MOST_BOUNCES: Final = 200
MOST: Final = 512
"""Upper bound of the reserve: what a worker that turns slow can hold up."""


class Intake:
    """Slots, plus a reserve that follows what they get done.

    The reserve is what the slots finished in the last 50 ms, at least one record a slot: long jobs
    hold up no work that another worker could do, and short ones never wait for the next fetch.
    """

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._reserve = concurrency
        self._finished = 0
        self._since = 0.0

    @property
    def limit(self) -> int:
        """Records that may be handed out and not finished."""
        return self._concurrency + self._reserve

    def finished(self, count: int, now: float) -> None:
        """`count` records were finished by `now` (monotonic seconds)."""
        self._finished += count
        elapsed = now - self._since
        if elapsed >= _WINDOW_S:
            recent = int(self._finished * _WINDOW_S / elapsed)
            self._reserve = max(self._concurrency, min(recent, MOST))
            self._finished = 0
            self._since = now

    def room(self, outstanding: int) -> int:
        """How many to take now. None before half the reserve is free: few large steps, not many small."""
        free = self.limit - outstanding
        return free if free >= self._step else 0

    def excess(self, outstanding: int) -> int:
        """How many must finish before there is room again."""
        return max(0, outstanding - self.limit + self._step)

    @property
    def _step(self) -> int:
        return max(1, self._reserve // 2)


class Startable(Protocol):
    """A run that waits for a slot."""

    @property
    def begun(self) -> bool:
        """Whether it waits no longer: it got a slot, or was dropped."""
        ...

    @property
    def patient(self) -> bool:
        """Whether it has been in many places by now, so that it may wait in one."""
        ...


R = TypeVar("R", bound=Startable)


class Waiting(Generic[R]):
    """Runs of one queue that were handed to slots of one kind, oldest first: which are to go back.

    A slot that comes free starts the oldest, so the slots are busy for as long as the oldest waits
    and nothing starts. After 150 ms of that everything beyond a reserve of one record a slot goes
    back to where another worker can take it, after 500 ms the reserve too: long jobs here hold up
    nothing that could run elsewhere, and short ones never leave a slot without work.

    What has been in four places and comes to a fifth finds all workers full, most likely. It is held here,
    four records a slot and 2 s at most, so that a slot that comes free has work at once; then it moves on to
    the next place without a pause, for it has had one.
    """

    def __init__(self, reserve: int) -> None:
        self._reserve = reserve
        self._runs: deque[R] = deque()
        self._held: deque[tuple[R, float]] = deque()
        """With the time from which they are, the oldest first."""
        self._since = 0.0
        """Since when nothing has started although something waits."""
        self.stalled = False
        """Whether the last look gave everything back: what comes now need not wait for that."""

    def add(self, runs: Iterable[R], now: float) -> None:
        """They wait from `now` (monotonic seconds) on."""
        if not self._runs:
            self._since = now
        self._runs.extend(runs)

    def overdue(self, now: float) -> list[R]:
        """Those to be given back, the oldest first."""
        while self._runs and self._runs[0].begun:
            self._runs.popleft()
            self._since = now
            self.stalled = False
        stalled_s = now - self._since
        if not self._runs or stalled_s < BUSY_S:
            return []
        if stalled_s >= RESERVE_S:
            self.stalled = True
            keep = 0
        else:
            keep = self._reserve
        back = list(self._runs)[keep:]
        for _ in back:
            self._runs.pop()
        return self.turned_away(back, now) if self.stalled else back

    def turned_away(self, runs: Iterable[R], now: float) -> list[R]:
        """Of these, while the slots stall, those to be given back; the others are held."""
        room = HELD * self._reserve - self.held
        back: list[R] = []
        for run in runs:
            if run.patient and room > 0:
                self._held.append((run, now))
                room -= 1
            else:
                back.append(run)
        return back

    def rested(self, now: float) -> list[R]:
        """Those that were held long enough: to be given back, and sent out again without a pause."""
        count = sum(since <= now - HOLD_S for _, since in self._held)
        return [run for run, _ in (self._held.popleft() for _ in range(count)) if not run.begun]

    @property
    def held(self) -> int:
        """How many are held. They take up none of the room for what comes."""
        if self._held:
            self._held = deque(entry for entry in self._held if not entry[0].begun)
        return len(self._held)


class Bounces:
    """How fast a worker without a free slot may hand work on: at most 200 records in 100 ms.

    Where every worker is full, work goes round with pauses that double; this bounds what one of
    them adds to the reports meanwhile.
    """

    def __init__(self) -> None:
        self._count = 0
        self._since = 0.0

    def add(self, now: float) -> None:
        """One was handed on."""
        self._turn(now)
        self._count += 1

    def room(self, now: float) -> int:
        """How many more may be."""
        self._turn(now)
        return max(0, MOST_BOUNCES - self._count)

    def _turn(self, now: float) -> None:
        if now - self._since >= BOUNCE_S:
            self._since = now
            self._count = 0
