"""Command ids: UUIDv7 from an injected clock and an injected source of randomness.

Nothing may enter here that reads the system's time or randomness by itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count

from tickstream.clock import Clock

_VERSION = 7 << 76
_VARIANT = 0b10 << 62


class CommandIds:
    """UUIDv7 (RFC 9562, 5.7), rising within a process.

    Layout, from the high bits: 48 ms since the epoch, 4 version, 12 random, 2 variant, 62 of a
    counter that starts at a random place in its lower half every millisecond (method 2 of 6.2,
    with a step of one). Thread-safe: an id is one step of one `itertools.count`.
    """

    def __init__(self, clock: Clock, entropy: Callable[[int], bytes] = os.urandom) -> None:
        self._clock = clock
        self._entropy = entropy
        self._ms = -1
        self._values: Iterator[int] = count()

    def next(self) -> bytes:
        """A new id, 16 bytes. A clock that steps back keeps the last millisecond."""
        now = self._clock.wall_ms()
        if now > self._ms:
            self._values = self._from(now)
            self._ms = now
        return next(self._values).to_bytes(16)

    def _from(self, ms: int) -> Iterator[int]:
        drawn = int.from_bytes(self._entropy(10))
        rand_a = drawn >> 62 & 0xFFF
        start = drawn & (1 << 61) - 1
        return count(ms << 80 | _VERSION | rand_a << 64 | _VARIANT | start)
