"""Where handlers run, off the thread that talks to Kafka: threads and child processes for sync ones, a loop for async ones.

What a run is and how it ends is run.py's and execution.py's; no Kafka client may enter here.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from queue import SimpleQueue
from typing import Any, Final

from tickstream.worker.events import Events
from tickstream.worker.fair import FairQueue, Share
from tickstream.worker.run import Home, Run

_CLOSE_S: Final = 1.0


class ThreadSlots:
    """One thread a slot.

    Threads of its own, not a ThreadPoolExecutor: the interpreter joins an executor's threads at
    exit, so a handler that hangs would keep a worker from ending; and a Future a run would be the
    dearest part of a short one.
    """

    def __init__(
        self,
        size: int,
        shares: Mapping[str, Share],
        execute: Callable[[Run], None],
        name: str = "handler",
        home: Home | None = None,
    ) -> None:
        """`home`: who ends runs, where a thread only waits for what runs elsewhere."""
        self._execute = execute
        self._home = home or self
        ahead = max(1, size // 2)
        self._fair = FairQueue(size, shares, ahead)
        self._lock = threading.Lock()
        self._batch = max(1, ahead // 2)
        self._arrived: deque[Run] = deque()
        self._ready: SimpleQueue[Run | None] = SimpleQueue()
        """Dealt by the fair queue, some more than there are free slots; None ends a thread."""
        self._done: deque[str] = deque()
        """Queues of runs that ended, for the fair queue to know."""
        self._threads = [
            threading.Thread(target=self._serve, name=f"{name}-{n}", daemon=True) for n in range(size)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, runs: Sequence[Run]) -> None:
        """Start them as slots fall free, those that nobody dropped meanwhile."""
        self._arrived.extend(runs)
        self._deal()

    def full(self, queue: str) -> bool:
        """Whether a run of `queue` would have to wait."""
        self._deal()
        return self._fair.full(queue)

    @property
    def running(self) -> int:
        """Slots in use."""
        self._deal()
        return self._fair.running

    def close(self) -> None:
        """Start nothing more; what runs is left to itself."""
        with self._lock:
            self._arrived.clear()
            self._fair.clear()
        for _ in self._threads:
            self._ready.put(None)

    def _serve(self) -> None:
        while True:
            run = self._ready.get()
            if run is None:
                return
            if run.begin():
                run.home = self._home
                self._execute(run)
            self._done.append(run.queue)
            if len(self._done) >= self._batch or self._ready.empty() or self._fair.limited(run.queue):
                self._deal()

    def _deal(self) -> None:
        """Hand out what may run now; by this thread, or by the one that is at it.

        Nobody waits for the lock: with many short runs in many threads that would cost several times
        what they do. Instead whoever had it looks again after letting it go, for what was put down
        meanwhile by those who could not have it.
        """
        while self._lock.acquire(blocking=False):
            try:
                while self._done:
                    self._fair.done(self._done.popleft())
                if arrived := [self._arrived.popleft() for _ in range(len(self._arrived))]:
                    self._fair.add(arrived)
                while (run := self._fair.take()) is not None:
                    self._ready.put(run)
            finally:
                self._lock.release()
            if not (self._arrived or self._done):
                return

    # ------------------------------------------------------------------ Home

    def stop(self, run: Run) -> None:
        """A thread cannot be ended: its handler looks at `ctx.cancelled`."""

    def tell(self, run: Run) -> None:
        """The context is the handler's own."""

    def vouch(self, renew: Callable[[Sequence[Run]], None], runs: Sequence[Run]) -> None:
        """A thread is taken to be alive until its timeout."""
        renew(runs)


class LoopSlots:
    """One event loop in a thread of its own, at most `size` handlers on it at a time."""

    def __init__(
        self,
        size: int,
        shares: Mapping[str, Share],
        execute: Callable[[Run], Coroutine[Any, Any, None]],
        events: Events,
    ) -> None:
        self._execute = execute
        self._events = events
        self._waiting = FairQueue(size, shares)
        self._tasks: dict[asyncio.Task[None], Run] = {}
        self._answered = True
        """Whether the loop did what it was asked last."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="handler-loop", daemon=True)
        self._thread.start()

    def submit(self, runs: Sequence[Run]) -> None:
        """Start them as slots fall free, those that nobody dropped meanwhile."""
        self._loop.call_soon_threadsafe(self._arrived, runs)

    def full(self, queue: str) -> bool:
        """Whether a run of `queue` would have to wait."""
        return self._waiting.full(queue)

    @property
    def running(self) -> int:
        """Slots in use."""
        return self._waiting.running

    def close(self) -> None:
        """Start nothing more and cancel what runs."""
        self._loop.call_soon_threadsafe(self._stop)
        # A handler that blocks the loop is left behind with its thread.
        self._thread.join(_CLOSE_S)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._end_tasks())
        finally:
            self._loop.close()

    def _arrived(self, runs: Sequence[Run]) -> None:
        self._waiting.add(runs)
        self._fill()

    def _fill(self) -> None:
        while (run := self._waiting.take()) is not None:
            if not run.begin():
                self._waiting.done(run.queue)
                continue
            run.home = self
            task = self._loop.create_task(self._execute(run))
            self._tasks[task] = run
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._waiting.done(self._tasks.pop(task).queue)
        self._fill()

    def _stop(self) -> None:
        self._waiting.clear()
        self._loop.stop()

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ------------------------------------------------------------------ Home

    def stop(self, run: Run) -> None:
        """Cancel its task."""
        self._loop.call_soon_threadsafe(self._cancel, run)

    def _cancel(self, run: Run) -> None:
        for task, its in self._tasks.items():
            if its is run:
                task.cancel()

    def tell(self, run: Run) -> None:
        """The context is the handler's own."""

    def vouch(self, renew: Callable[[Sequence[Run]], None], runs: Sequence[Run]) -> None:
        """From the loop itself: while a handler blocks it, no run on it is renewed, for none goes on."""
        if not self._answered:
            self._events.alarm(
                "event_loop_blocked",
                "the event loop does not turn: a handler blocks it (time.sleep, a long computation), and the "
                f"leases of all {self.running} runs on it are not renewed; make that handler a plain def",
            )
            return
        self._answered = False
        self._loop.call_soon_threadsafe(self._vouch, renew, runs)

    def _vouch(self, renew: Callable[[Sequence[Run]], None], runs: Sequence[Run]) -> None:
        self._answered = True
        renew(runs)
