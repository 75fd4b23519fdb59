"""Where handlers run, off the thread that talks to Kafka: threads for sync ones, a loop for async ones.

What a run is and how it ends is run.py's; no Kafka client may enter here.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any, Final

from tickstream.worker.run import Execution, Run

_CLOSE_S: Final = 1.0


class ThreadSlots:
    """One thread a slot.

    Threads of its own, not a ThreadPoolExecutor: the interpreter joins an executor's threads at
    exit, so a handler that hangs would keep a worker from ending; and a Future a run would be the
    dearest part of a short one.
    """

    def __init__(self, size: int, execute: Callable[[Run], None]) -> None:
        self._execute = execute
        self._waiting: SimpleQueue[Run | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._serve, name=f"handler-{n}", daemon=True) for n in range(size)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, runs: Sequence[Run]) -> None:
        """Start them as slots fall free, in this order, those that nobody dropped meanwhile."""
        for run in runs:
            self._waiting.put(run)

    def close(self) -> None:
        """Start nothing more; what runs is left to itself."""
        for _ in self._threads:
            self._waiting.put(None)

    def _serve(self) -> None:
        while (run := self._waiting.get()) is not None:
            if run.claim():
                self._execute(run)


class LoopSlots:
    """One event loop in a thread of its own, at most `size` handlers on it at a time."""

    def __init__(self, size: int, execute: Callable[[Run], Coroutine[Any, Any, None]]) -> None:
        self._size = size
        self._execute = execute
        self._waiting: deque[Run] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="handler-loop", daemon=True)
        self._thread.start()

    def submit(self, runs: Sequence[Run]) -> None:
        """Start them as slots fall free, in this order, those that nobody dropped meanwhile."""
        self._loop.call_soon_threadsafe(self._arrived, runs)

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
        self._waiting.extend(runs)
        self._fill()

    def _fill(self) -> None:
        while self._waiting and len(self._tasks) < self._size:
            run = self._waiting.popleft()
            if run.claim():
                task = self._loop.create_task(self._execute(run))
                self._tasks.add(task)
                task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._fill()

    def _stop(self) -> None:
        self._waiting.clear()
        self._loop.stop()

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class HandlerPool:
    """The slots of one process, each kind made when its first run comes.

    `concurrency` holds for each kind: so many threads, and so many handlers on the loop.
    """

    def __init__(self, concurrency: int, execution: Execution) -> None:
        self._make_threads = partial(ThreadSlots, concurrency, execution.run)
        self._make_loop = partial(LoopSlots, concurrency, execution.run_async)
        self._threads: ThreadSlots | None = None
        self._loop: LoopSlots | None = None
        self._lock = threading.Lock()

    def submit(self, runs: Sequence[Run]) -> None:
        """Hand each run to the slots of its kind, in the order given. Any thread."""
        on_loop = [run for run in runs if run.handler.is_async]
        in_threads = [run for run in runs if not run.handler.is_async] if on_loop else runs
        with self._lock:
            if in_threads:
                self._threads = self._threads or self._make_threads()
                self._threads.submit(in_threads)
            if on_loop:
                self._loop = self._loop or self._make_loop()
                self._loop.submit(on_loop)

    def close(self) -> None:
        """Start nothing more; async handlers are cancelled, sync ones left to themselves."""
        with self._lock:
            for slots in (self._threads, self._loop):
                if slots is not None:
                    slots.close()
