"""Child processes that run handlers, so that one which overruns its time can be killed.

The parent's side; the child's is child.py. No Kafka client may enter here.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from tickstream.errors import InvalidInput
from tickstream.model import NEVER
from tickstream.worker import child
from tickstream.worker.context import Context
from tickstream.worker.execution import CANCELLED, Execution
from tickstream.worker.run import Run, error_text

_SPAWN = multiprocessing.get_context("spawn")


class _Child:
    """One child process and the pipe to it."""

    def __init__(self) -> None:
        self.pipe: Connection[Any, Any]
        self.pipe, theirs = _SPAWN.Pipe()
        # Not daemonic: a handler may start processes of its own. It ends with its parent all the same.
        self.process: SpawnProcess = _SPAWN.Process(
            target=child.serve, args=(theirs,), name="tickstream-child"
        )
        self.process.start()
        theirs.close()
        self.pipe.recv()
        self._sending = threading.Lock()

    def send(self, message: child.ToChild) -> bool:
        """Whether it could be sent: not to one that has ended."""
        with self._sending:
            try:
                self.pipe.send(message)
            except OSError:
                return False
        return True

    def kill(self) -> None:
        """End it at once, whatever it does."""
        self.process.kill()

    def reap(self) -> str:
        """Wait for its end; how it ended, in words."""
        self.process.join()
        self.pipe.close()
        code = self.process.exitcode or 0
        return signal.Signals(-code).name if code < 0 else f"exit status {code}"


class Children:
    """Long-lived child processes, each for one run at a time; one that was killed is replaced when needed.

    `execute` is called by as many threads as there may be children.
    """

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._idle: list[_Child] = []
        self._busy: dict[Run, _Child] = {}
        self._lock = threading.Lock()
        self._closed = False

    def execute(self, run: Run) -> None:
        """Run the handler in a child. Returns when it did, or the child was killed."""
        # A new one takes its time to come up, which is not the handler's.
        try:
            its = self._take()
        except (OSError, EOFError) as error:
            self._execution.start(run)
            self._execution.failed(
                run, f"ChildDied: no process for the handler came up ({error_text(error)})", NEVER
            )
            return
        ctx = self._execution.start(run)
        self._occupy(run, its)
        try:
            call = child.call_of(run, ctx)
        except InvalidInput as error:
            self._free(run, its)
            self._execution.failed(run, error_text(error), NEVER)
            return
        if its.send(call):
            self._attend(run, ctx, its)
        else:
            self._ended(run, its)

    def close(self) -> None:
        """Kill every child."""
        with self._lock:
            self._closed = True
            children = [*self._idle, *self._busy.values()]
            self._idle.clear()
        for its in children:
            its.kill()

    def _take(self) -> _Child:
        while True:
            with self._lock:
                its = self._idle.pop() if self._idle else None
            if its is None:
                return _Child()
            if its.process.is_alive():
                return its
            its.reap()

    def _occupy(self, run: Run, its: _Child) -> None:
        with self._lock:
            self._busy[run] = its
        # Whoever ended the run before it stood there could not kill it.
        if run.ended or self._closed:
            its.kill()

    def _attend(self, run: Run, ctx: Context, its: _Child) -> None:
        """Answer what the handler asks until it has ended."""
        while True:
            try:
                message = its.pipe.recv()
            except (EOFError, OSError):
                self._ended(run, its)
                return
            match message:
                case child.Done():
                    self._free(run, its)
                    if message.error is None:
                        self._execution.succeeded(run, message.result)
                    else:
                        self._execution.failed(run, message.error, message.retry_ms)
                    return
                case child.Progress():
                    ctx.progress(message.thousandths / 1_000, message.note)
                case child.AskFence() | child.Schedule() | child.Settle():
                    its.send(child.answer(message, ctx))

    def _free(self, run: Run, its: _Child) -> None:
        with self._lock:
            del self._busy[run]
            if not self._closed:
                self._idle.append(its)

    def _ended(self, run: Run, its: _Child) -> None:
        with self._lock:
            del self._busy[run]
        how = its.reap()
        error = CANCELLED if run.cancelled else f"ChildDied: the handler's process ended with {how}"
        self._execution.failed(run, error, NEVER)

    # ------------------------------------------------------------------ Home

    def stop(self, run: Run) -> None:
        """Kill its process."""
        its = self._of(run)
        if its is not None:
            its.kill()

    def tell(self, run: Run) -> None:
        """Pass it on to the context in the child."""
        its, ctx = self._of(run), run.ctx
        if its is not None and ctx is not None:
            its.send(child.Flags(ctx.cancelled, ctx.lost))

    def vouch(self, renew: Callable[[Sequence[Run]], None], runs: Sequence[Run]) -> None:
        """A child that dies is noticed; one that hangs has until its timeout."""
        renew(runs)

    def _of(self, run: Run) -> _Child | None:
        with self._lock:
            return self._busy.get(run)
