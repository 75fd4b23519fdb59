"""What a process notices about itself while it runs: steps of its wall clock, troubles that go on or
come again.

Pure but for the injected clock: events are the caller's.
"""

from __future__ import annotations

from typing import Final

from tickstream.clock import Clock
from tickstream.errors import StoreCorrupted

STEP_MS: Final = 250
"""A wall clock that is slewed moves by half a thousandth; by so much at once it was set."""
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 10.0
STEADY_S: Final = 60.0
"""A process that ran so long has recovered from its last trouble."""
HOUR_S: Final = 3_600.0
BROKEN_AN_HOUR: Final = 3
"""More stores than that are not broken by chance."""
AGAIN_S: Final = 60.0
"""How often an alarm about the same trouble is repeated."""


class ClockWatch:
    """Compares the wall clock with the monotonic one, from look to look.

    A step back fires nothing twice, for a task's state guards it and no clock does; a step forward makes
    what lies in between due at once. Both are for people to know.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen = self._offset_ms()
        self.steps = 0
        """Seen so far, in either direction."""

    def look(self) -> int:
        """By how many ms the wall clock was set since the last look: 0 when it was not."""
        offset = self._offset_ms()
        moved, self._seen = offset - self._seen, offset
        if abs(moved) < STEP_MS:
            return 0
        self.steps += 1
        return round(moved)

    def _offset_ms(self) -> float:
        return self._clock.wall_ms() - self._clock.monotonic() * 1000


class Repeats:
    """Whether a trouble is to be told again: at once when it is new, then once a minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told: dict[str, float] = {}

    def tell(self, trouble: str) -> bool:
        """Whether now is the time."""
        now = self._clock.monotonic()
        if now - self._told.get(trouble, float("-inf")) < AGAIN_S:
            return False
        self._told[trouble] = now
        return True


class StoreTroubles:
    """The troubles of a process with its local store: how long to wait before it is opened anew."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = 0.0
        self._pause_s = 0.0
        self._broken: list[float] = []

    def begin(self) -> None:
        """The store is being opened."""
        self._began = self._clock.monotonic()

    def pause_s(self) -> float:
        """Seconds before the next try: short after a good life, doubling after bad ones."""
        good = self._clock.monotonic() - self._began >= STEADY_S
        self._pause_s = FIRST_PAUSE_S if good else min(LONGEST_PAUSE_S, self._pause_s * 2 or FIRST_PAUSE_S)
        return self._pause_s

    def broken(self, error: StoreCorrupted) -> None:
        """The store is broken. Raises `error` when others before it were, within the hour."""
        now = self._clock.monotonic()
        self._broken = [at for at in self._broken if now - at < HOUR_S] + [now]
        if len(self._broken) > BROKEN_AN_HOUR:
            raise StoreCorrupted(
                f"{error}; this is store number {len(self._broken)} within an hour: look at the disk"
            ) from error
