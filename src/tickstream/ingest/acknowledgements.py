"""Awaiting what a producer core sends: delivery reports of one core wake futures of one event loop.

No command and no verdict may enter here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import Final

from tickstream.errors import SendFailed
from tickstream.ingest.producer import CommandProducer, Submission
from tickstream.model import Receipt

_LOOK_S: Final = 0.002
"""Between two looks for delivery reports while something is awaited; the producer itself waits longer
for a batch to fill."""


class Room:
    """Lets so many in at a time, the others in their order. Used in one event loop.

    asyncio's own Semaphore looks through all who wait at every release: with ten thousand at a time
    that was two fifths of a call's price.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        if self._free:
            self._free -= 1
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                # Its place had been handed over by then.
                self._leave()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    def _leave(self) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
                return
        self._free += 1


class Acknowledgements:
    """The futures of one event loop, made and used in it.

    The core serves delivery reports while it is called, and nobody calls it while everyone awaits. So
    the loop looks, every 2 ms as long as something is awaited. Not a thread: it would fight the loop
    for the interpreter's lock at every single report.
    """

    def __init__(self, core: CommandProducer) -> None:
        self._core = core
        self._loop = asyncio.get_running_loop()
        self._awaited: set[asyncio.Future[None]] = set()
        self._settled: deque[asyncio.Future[None]] = deque()
        self._next_look: asyncio.TimerHandle | None = None

    async def receipt(self, submission: Submission) -> Receipt:
        """The receipt, once the broker has the command. Raises SendFailed.

        Always ends: the producer says what became of a message within its own timeout, 8 s.
        """
        if not submission.done():
            await self._settlement(submission)
        return submission.receipt(0)

    def close(self) -> None:
        """Look no further; what is still awaited raises SendFailed."""
        if self._next_look is not None:
            self._next_look.cancel()
        for future in self._awaited:
            if not future.done():
                future.set_exception(
                    SendFailed(
                        "the client was closed before the acknowledgement; the command may be in the log"
                    )
                )

    async def _settlement(self, submission: Submission) -> None:
        future: asyncio.Future[None] = self._loop.create_future()
        self._awaited.add(future)
        # Another thread that waits for a verdict may serve the report: it only leaves a note.
        submission.on_settled = partial(self._settled.append, future)
        if submission.done():
            self._settled.append(future)
        if self._next_look is None:
            self._next_look = self._loop.call_later(_LOOK_S, self._look)
        try:
            await future
        finally:
            submission.on_settled = None
            self._awaited.discard(future)

    def _look(self) -> None:
        self._core.poll()
        while self._settled:
            future = self._settled.popleft()
            self._awaited.discard(future)
            if not future.done():
                future.set_result(None)
        self._next_look = self._loop.call_later(_LOOK_S, self._look) if self._awaited else None
