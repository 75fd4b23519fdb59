"""What commands print: events while they run, results at their end, for people or for machines.

stdout carries nothing else; the log goes to stderr.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping
from typing import Any, Final

from tickstream.clock import Clock, SystemClock, iso_utc

_SYSTEM_CLOCK = SystemClock()
_CONTROLS: Final = {
    code: chr(code).encode("unicode_escape").decode()
    for first, last in ((0, 0x1F), (0x7F, 0x9F), (0x200E, 0x200F), (0x202A, 0x202E), (0x2066, 0x2069))
    for code in range(first, last + 1)
    if chr(code) not in "\t\n"
}
"""Ids and errors are whatever a producer wrote: on a terminal they must not
move the cursor, recolour it or turn the direction of what stands beside them."""


class Output:
    """One command's stdout. Threads may share it: every line is written whole and flushed."""

    def __init__(self, as_json: bool, clock: Clock = _SYSTEM_CLOCK) -> None:
        self.as_json = as_json
        self._clock = clock
        self._lock = threading.Lock()

    def event(self, event: Mapping[str, object]) -> None:
        """Something that happened: a JSON line, or a line with the time, the name and the details.

        `at_ms` is added when the event has none.
        """
        stamped = {"event": event["event"], "at_ms": event.get("at_ms", self._clock.wall_ms()), **event}
        self._write(json.dumps(stamped, default=str) if self.as_json else _shown(_sentence(stamped)))

    def result(self, value: Mapping[str, Any], text: str) -> None:
        """The answer of a command: `value` as a JSON line, or `text`."""
        self._write(json.dumps(value, default=str) if self.as_json else _shown(text))

    def _write(self, line: str) -> None:
        with self._lock:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


def _shown(text: str) -> str:
    return text.translate(_CONTROLS)


def _sentence(event: Mapping[str, Any]) -> str:
    details = " ".join(f"{k}={_plain(v)}" for k, v in event.items() if k not in ("event", "at_ms"))
    return f"{iso_utc(event['at_ms'])[11:23]} {str(event['event']).replace('_', ' ')} {details}".rstrip()


def _plain(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
