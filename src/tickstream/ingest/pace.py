"""The pace of a bulk import: so much is sent ahead of what is applied, and no more.

A bucket's log is applied in order, which is what a task's commands rely on (G2); so whatever an import
puts into it stands before everybody's next command. Now and then one item of the import travels alone
and asks for its verdict: when that comes, everything before it is applied. How much is sent between two
such marks is adapted to how long they take. A second input for bulk would need no pace, but then a
Cancel could overtake its task's Schedule.
"""

from __future__ import annotations

from typing import Final

from tickstream.clock import Clock
from tickstream.ingest.asking import Asking

AIM_S: Final = 0.2
"""How long an item may lie unapplied: well below the half second that interactive commands are promised."""
_FIRST_WINDOW: Final = 256
_LEAST: Final = 32
_MOST: Final = 16_384
_SHRINK: Final = 0.7
_GROW: Final = 1.25
_PATIENCE_S: Final = 1.0
"""How long a mark is waited for. Acceptance does not depend on dispatchers (G1): without them the import goes on."""
_UNPACED_S: Final = 10.0
"""How long no mark is set after one that was not answered."""


class _Stretch:
    """What was sent into one bucket since its last mark was set."""

    __slots__ = ("mark", "sent", "sent_at", "window")

    def __init__(self) -> None:
        self.window = float(_FIRST_WINDOW)
        self.sent = 0
        self.mark = b""
        """command_id of the mark that is not answered yet, empty: none."""
        self.sent_at = 0.0


class Pace:
    """The pace of one import, bucket by bucket."""

    def __init__(self, asking: Asking, clock: Clock) -> None:
        self._asking = asking
        self._clock = clock
        self._stretches: dict[int, _Stretch] = {}
        self._unpaced_until = 0.0

    @property
    def reply(self) -> int:
        """Where the verdicts on marks have to be sent."""
        return self._asking.reply

    def marks(self, bucket: int, command_id: bytes) -> bool:
        """Whether this item, the bucket's next, is to travel alone and ask for its verdict.

        Waits, when more lies unapplied than should.
        """
        stretch = self._stretches.get(bucket)
        if stretch is None:
            stretch = self._stretches[bucket] = _Stretch()
        stretch.sent += 1
        if stretch.sent < stretch.window or self._clock.monotonic() < self._unpaced_until:
            return False
        if stretch.mark and not self._reached(stretch):
            return False
        stretch.sent, stretch.mark, stretch.sent_at = 0, command_id, self._clock.monotonic()
        self._asking.expect(command_id)
        return True

    def close(self) -> None:
        """Wait for nothing any more."""
        for stretch in self._stretches.values():
            if stretch.mark:
                self._asking.forget(stretch.mark)

    def _reached(self, stretch: _Stretch) -> bool:
        """Wait until the mark is applied, and adapt the window; False when nobody answers."""
        mark, stretch.mark = stretch.mark, b""
        try:
            if self._asking.is_answered(mark):
                # Applied before as much again was sent: the dispatcher keeps up.
                stretch.window = min(_MOST, stretch.window * _GROW)
                return True
            answered = self._asking.arrives(mark, _PATIENCE_S)
        finally:
            self._asking.forget(mark)
        now = self._clock.monotonic()
        if not answered:
            self._unpaced_until = now + _UNPACED_S
            return False
        slow = now - stretch.sent_at > AIM_S
        stretch.window = max(_LEAST, stretch.window * _SHRINK) if slow else min(_MOST, stretch.window * _GROW)
        return True
