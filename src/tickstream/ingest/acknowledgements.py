"""Awaiting what a producer core sends: delivery reports of one core wake futures of one event loop.

No command and no verdict may enter here.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from functools import partial
from typing import Final

from tickstream.errors import SendFailed
from tickstream.ingest.producer import CommandProducer, Submission
from tickstream.model import Receipt

_SERVE_S: Final = 0.05
"""How long one look for delivery reports waits; the thread sees `close` that late at most."""


class Acknowledgements:
    """The futures of one event loop. Made and used in that loop, except for its one thread.

    The core serves delivery reports while it is called; nobody calls it while everyone awaits. So a
    thread serves them as long as something is awaited, and sleeps otherwise.
    """

    def __init__(self, core: CommandProducer) -> None:
        self._core = core
        self._loop = asyncio.get_running_loop()
        self._awaited: set[asyncio.Future[None]] = set()
        self._settled: deque[asyncio.Future[None]] = deque()
        self._waking = False
        self._wanted = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="acknowledgements", daemon=True)
        self._thread.start()

    async def receipt(self, submission: Submission) -> Receipt:
        """The receipt, once the broker has the command. Raises SendFailed.

        Always ends: the producer says what became of a message within its own timeout, 8 s.
        """
        if not submission.done():
            await self._settlement(submission)
        return submission.receipt(0)

    async def close(self) -> None:
        """End the thread; what is still awaited raises SendFailed."""
        self._closed = True
        self._wanted.set()
        await asyncio.to_thread(self._thread.join)
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
        submission.on_settled = partial(self._note, future)
        if submission.done():
            # Between the two lines another thread may have served the report.
            self._note(future)
        self._wanted.set()
        try:
            await future
        finally:
            submission.on_settled = None
            self._awaited.discard(future)

    def _note(self, future: asyncio.Future[None]) -> None:
        """From any thread. The loop is woken once for all that settles until it looks."""
        self._settled.append(future)
        if not self._waking:
            self._waking = True
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        # First, so that what settles from here on wakes the loop again.
        self._waking = False
        while self._settled:
            future = self._settled.popleft()
            if not future.done():
                future.set_result(None)

    def _serve(self) -> None:
        while True:
            self._wanted.wait()
            if self._closed:
                return
            self._core.serve(_SERVE_S)
            if not self._awaited:
                self._wanted.clear()
                # It may have been set for one that came just before it was cleared.
                if self._awaited or self._closed:
                    self._wanted.set()
