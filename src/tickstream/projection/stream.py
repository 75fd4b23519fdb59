"""The live stream (server-sent events): the status object, and which minutes changed since the last one.

No database may enter here. However many watch, the status is made once a second.

    event: status      data: the object of /api/status
    event: minutes     data: {"minutes": [start of each minute whose counts differ, ms UTC]}
    event: problem     data: a problem object; the stream goes on
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from tickstream.clock import Clock
from tickstream.projection.problems import Problem

PERIOD_S: Final = 1.0
Status = dict[str, Any]


class StatusCache:
    """The status of this second, shared by all who ask within it."""

    def __init__(self, make: Callable[[], Awaitable[Status]], clock: Clock) -> None:
        self._make = make
        self._clock = clock
        self._lock = asyncio.Lock()
        self._made_at = float("-inf")
        self._status: Status = {}

    async def get(self) -> Status:
        """A status at most PERIOD_S old. Raises Problem."""
        async with self._lock:
            if self._clock.monotonic() - self._made_at >= PERIOD_S * 0.9:
                self._status = await self._make()
                self._made_at = self._clock.monotonic()
            return self._status


async def events(cache: StatusCache, stopping: asyncio.Event) -> AsyncIterator[bytes]:
    """The stream of one watcher, until it leaves or the server stops."""
    yield b"retry: 1000\n\n"
    before: dict[int, dict[str, int]] | None = None
    while not stopping.is_set():
        try:
            status = await cache.get()
        except Problem as problem:
            yield _event("problem", problem.body)
        else:
            minutes = {minute["minute_ms"]: minute for minute in status["minutes"]}
            changed = [] if before is None else changed_minutes(before, minutes)
            before = minutes
            yield _event("status", status)
            if changed:
                yield _event("minutes", {"minutes": changed})
        try:
            await asyncio.wait_for(stopping.wait(), PERIOD_S)
        except TimeoutError:
            continue


def changed_minutes(before: dict[int, dict[str, int]], now: dict[int, dict[str, int]]) -> list[int]:
    """The minutes whose counts differ, ascending."""
    return sorted(m for m in before.keys() | now.keys() if before.get(m) != now.get(m))


def _event(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
