"""What a process notices about itself while it runs: steps of its wall clock, troubles that go on.

Pure but for the injected clock: events are the caller's.
"""

from __future__ import annotations

from typing import Final

from tickstream.clock import Clock

STEP_MS: Final = 250
"""A wall clock that is slewed moves by half a thousandth; by so much at once it was set."""
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
