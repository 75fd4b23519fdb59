"""Dying on purpose at a named point, for tests and drills. Off unless asked for."""

from __future__ import annotations

import signal
import threading

from tickstream.errors import InvalidInput


class KillSwitch:
    """Sends this process a signal when a named point is reached for the n-th time."""

    def __init__(self, where: str = "") -> None:
        """`where`: empty (never), `POINT`, `POINT:N` or `POINT:N:STOP` (SIGSTOP, not SIGKILL).

        Raises InvalidInput.
        """
        point, _, rest = where.partition(":")
        times, _, how = rest.partition(":")
        if (times and not times.isdigit()) or how not in ("", "KILL", "STOP"):
            raise InvalidInput(f"kill point {where!r}: write POINT, POINT:N or POINT:N:STOP")
        self._point = point
        self._left = int(times or 1)
        self._signal = signal.SIGSTOP if how == "STOP" else signal.SIGKILL
        self._mutex = threading.Lock()

    def reached(self, point: str) -> None:
        """Called by every lane's thread at every named point."""
        if point != self._point:
            return
        with self._mutex:
            self._left -= 1
            fatal = self._left == 0
        if fatal:
            # To this very thread: a stop that is sent to the process may find another one first, and this one goes on
            # meanwhile, past the point.
            signal.pthread_kill(threading.get_ident(), self._signal)
