"""Several dispatcher processes under one command: started, watched, restarted, ended together.

When a child is started again, and when never more, is decided by `Restarts`, which is pure.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tickstream.clock import Clock
from tickstream.dispatcher.lane import Events
from tickstream.errors import ProcessKeepsFailing

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0
QUICK_S: Final = 10.0
"""A child that ends sooner after its start has achieved nothing."""
QUICK_ENDS: Final = 5
"""So many of them in a row, and the cause is not going away by itself."""
_STOP_S: Final = 15.0
_WATCH_S: Final = 0.1


class ExitCodes(NamedTuple):
    """Two exit codes that say more than that something failed."""

    hopeless: int
    """The command was called wrongly: the same call fails the same way."""
    unavailable: int
    """Its broker did not answer: that heals, so it is tried for ever."""


@dataclass(slots=True)
class Restarts:
    """One child's ends so far: how long to wait before it is started again."""

    index: int
    codes: ExitCodes
    _quick: int = 0
    """Ends in a row that came soon after the start, for want of a broker or not."""
    _fruitless: int = 0
    """Those among them that do not heal."""

    def after(self, code: int, lived_s: float) -> float:
        """Seconds until the next start of a child that ended with `code` (negative: a signal).

        Raises ProcessKeepsFailing when it is not to be started again.
        """
        if code == self.codes.hopeless:
            raise ProcessKeepsFailing(self.index, 1, code)
        if lived_s >= QUICK_S:
            self._quick = self._fruitless = 0
        self._quick += 1
        self._fruitless = 0 if code == self.codes.unavailable else self._fruitless + 1
        if self._fruitless >= QUICK_ENDS:
            raise ProcessKeepsFailing(self.index, self._fruitless, code)
        return float(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(self._quick - 1, 10)))


@dataclass(slots=True)
class _Child:
    restarts: Restarts
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    again_at: float = 0.0


def supervise(
    command: Callable[[int], Sequence[str]],
    processes: int,
    *,
    events: Events,
    stop: threading.Event,
    clock: Clock,
    codes: ExitCodes,
    restart: bool = True,
) -> None:
    """Run `command(0)` … `command(processes - 1)` until `stop` is set; then end them.

    A child that died is started again after a pause, unless `restart` is off (drills). One that keeps
    dying is given up with an alarm, and the others go on. Raises ProcessKeepsFailing once none is left,
    or at the end. Children watch their parent themselves, so none outlives it.
    """
    children = [_Child(Restarts(index, codes)) for index in range(processes)]
    given_up: list[ProcessKeepsFailing] = []
    try:
        while len(given_up) < processes and not stop.wait(_WATCH_S):
            for index, child in enumerate(children):
                now = clock.monotonic()
                if child.process is not None and (code := child.process.poll()) is not None:
                    events({"event": "process_ended", "index": index, "pid": child.process.pid, "code": code})
                    child.process, child.again_at = None, float("inf")
                    if restart:
                        try:
                            child.again_at = now + child.restarts.after(code, now - child.started)
                        except ProcessKeepsFailing as hopeless:
                            events({"event": "alarm", "index": index, "reason": str(hopeless)})
                            given_up.append(hopeless)
                if child.process is None and now >= child.again_at:
                    child.process, child.started = subprocess.Popen(command(index)), now
                    events({"event": "process_spawned", "index": index, "pid": child.process.pid})
    finally:
        _end([child.process for child in children if child.process is not None])
    if given_up:
        raise given_up[0]


def _end(children: list[subprocess.Popen[bytes]]) -> None:
    for child in children:
        child.terminate()
    for child in children:
        try:
            child.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
