"""Executes a run here and now, and says how it ended.

No Kafka client and no thread may enter here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import CoroutineType
from typing import Final, Protocol

from tickstream.clock import Clock
from tickstream.errors import CodecError, PayloadUnreadable, RetryIn, UnknownHandler
from tickstream.model import NO_RETRY, Report, ReportKind
from tickstream.worker.context import Context, RunLink
from tickstream.worker.run import Run, error_text

CANCELLED: Final = "Cancelled: the task was cancelled while it ran"
_SAYS_ALL: Final = (PayloadUnreadable, UnknownHandler, CodecError, RetryIn)
"""Failures that no line of the handler's is to blame for: their message is enough, without a traceback."""
_LOGGER: Final = logging.getLogger("tickstream.worker")


class Watch(Protocol):
    """Who looks after runs while they are executed."""

    def link(self, run: Run) -> RunLink:
        """By what the run's handler reaches the worker."""
        ...

    def started(self, run: Run) -> None:
        """It is about to be executed."""
        ...


class Execution:
    """Runs handlers. Used by many threads; has no state of its own.

    `finished` hears the outcome, unless somebody else gave the run one before. Without a `watch`
    (tests) nothing is claimed, renewed or timed out.
    """

    def __init__(
        self,
        clock: Clock,
        new_run_id: Callable[[], bytes],
        finished: Callable[[Run, Report], None],
        watch: Watch | None = None,
    ) -> None:
        self._clock = clock
        self._new_run_id = new_run_id
        self._finished = finished
        self._watch = watch

    def run(self, run: Run) -> None:
        """Execute a sync handler. Returns when it did."""
        ctx = self.start(run)
        try:
            value = run.handler.call(ctx, run.body.payload)
            if isinstance(value, CoroutineType):
                value.close()
                raise TypeError("the handler returned a coroutine nobody awaits; declare it with async def")
        except BaseException as failure:  # noqa: BLE001 (foreign code; sys.exit() in it ends the run, not the slot)
            self.failed(run, error_text(failure), run.handler.retry_ms(failure, run.work.attempt), failure)
        else:
            self.succeeded(run, run.handler.result_bytes(value))

    async def run_async(self, run: Run) -> None:
        """Execute an async handler."""
        ctx = self.start(run)
        try:
            value = await run.handler.call(ctx, run.body.payload)
        except BaseException as failure:  # noqa: BLE001 (as above; a cancellation from within is a failure too)
            self.failed(run, error_text(failure), run.handler.retry_ms(failure, run.work.attempt), failure)
        else:
            self.succeeded(run, run.handler.result_bytes(value))

    def start(self, run: Run) -> Context:
        """What every execution begins with."""
        watch = self._watch
        ctx = run.start(self._new_run_id(), self._clock, None if watch is None else watch.link(run))
        if watch is not None:
            watch.started(run)
        return ctx

    def succeeded(self, run: Run, result: bytes) -> None:
        """The run left its slot, having done its work."""
        run.leave()
        if run.end():
            self._finished(run, run.report(ReportKind.SUCCEEDED, self._clock.wall_ms(), result=result))

    def failed(self, run: Run, error: str, retry_ms: int, failure: BaseException | None = None) -> None:
        """The run left its slot without having done its work."""
        run.leave()
        if not run.end():
            return
        if run.cancelled:
            retry_ms = NO_RETRY
            error = CANCELLED if isinstance(failure, asyncio.CancelledError) else error
        _LOGGER.warning(
            "handler %s failed: task %s, occurrence %d, attempt %d: %s",
            run.handler.name,
            run.work.task_id,
            run.work.occurrence_ts,
            run.work.attempt,
            error,
            exc_info=None if isinstance(failure, _SAYS_ALL) else failure,
        )
        self._finished(run, run.report(ReportKind.FAILED, self._clock.wall_ms(), error, retry_ms))
