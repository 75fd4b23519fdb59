"""One execution of one attempt, from the Work record to its Report.

No Kafka client may enter here; the threads that run this are in slots.py.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections.abc import Callable
from types import CoroutineType
from typing import Any, Final, Protocol

from tickstream.clock import Clock
from tickstream.errors import TickstreamError
from tickstream.model import Body, Report, ReportKind, Work
from tickstream.worker.app import MAX_NAME_BYTES
from tickstream.worker.context import Context

MAX_ERROR_BYTES: Final = 2_048
_LOGGER: Final = logging.getLogger("tickstream.worker")


class Owner(Protocol):
    """Who took the record, and wants to know what became of it. Called from other threads."""

    def finished(self) -> None:
        """A run left its slot."""
        ...

    def acked(self, run: Run) -> None:
        """The broker acknowledged the report of the run."""
        ...


class Callee(Protocol):
    """What a run calls: a Handler, or what stands for one that is missing."""

    @property
    def name(self) -> str:
        """As it stands in reports, 1-255 bytes."""
        ...

    @property
    def is_async(self) -> bool:
        """Whether `call` returns a coroutine."""
        ...

    def call(self, ctx: Context, payload: bytes) -> Any:
        """Do the work. Raises what makes the run fail."""
        ...


class Refusal:
    """Stands for a handler that cannot be called: the run fails with the reason."""

    is_async = False

    def __init__(self, name: str, reason: TickstreamError) -> None:
        self.name = _cut(name, MAX_NAME_BYTES)
        self._reason = reason

    def call(self, _ctx: Context, _payload: bytes) -> None:
        """Raises the reason."""
        raise self._reason


class Run:
    """A Work record in this process."""

    __slots__ = ("_claim", "body", "fetched_ms", "handler", "offset", "owner", "partition", "work")

    def __init__(
        self,
        owner: Owner,
        partition: int,
        offset: int,
        work: Work,
        body: Body,
        handler: Callee,
        fetched_ms: int,
    ) -> None:
        self.owner = owner
        self.partition = partition
        self.offset = offset
        """Partition and offset of the Work record."""
        self.work = work
        self.body = body
        self.handler = handler
        self.fetched_ms = fetched_ms
        self._claim = threading.Lock()

    def claim(self) -> bool:
        """True for exactly one caller: the slot that starts the run, or the reader that drops it."""
        return self._claim.acquire(blocking=False)


class Execution:
    """Runs handlers and says how they ended. Used by many threads; has no state of its own."""

    def __init__(
        self, clock: Clock, new_run_id: Callable[[], bytes], finished: Callable[[Run, Report], None]
    ) -> None:
        self._clock = clock
        self._new_run_id = new_run_id
        self._finished = finished

    def run(self, run: Run) -> None:
        """Execute a sync handler. Returns when it did."""
        run_id, started_ms, ctx = self._new_run_id(), self._clock.wall_ms(), _context(run)
        error = ""
        try:
            result = run.handler.call(ctx, run.body.payload)
            if isinstance(result, CoroutineType):
                result.close()
                error = "TypeError: the handler returned a coroutine nobody awaits; declare it with async def"
        except BaseException as failure:  # noqa: BLE001 (foreign code; sys.exit() in it ends the run, not the slot)
            error = self._failed(run, failure)
        self._finished(run, self._report(run, run_id, started_ms, error))

    async def run_async(self, run: Run) -> None:
        """Execute an async handler."""
        run_id, started_ms, ctx = self._new_run_id(), self._clock.wall_ms(), _context(run)
        error = ""
        try:
            await run.handler.call(ctx, run.body.payload)
        except BaseException as failure:  # noqa: BLE001 (as above; a cancellation from within is a failure too)
            error = self._failed(run, failure)
        self._finished(run, self._report(run, run_id, started_ms, error))

    def _report(self, run: Run, run_id: bytes, started_ms: int, error: str) -> Report:
        work = run.work
        return Report(
            ReportKind.FAILED if error else ReportKind.SUCCEEDED,
            work.task_id,
            work.occurrence_ts,
            work.attempt,
            run_id,
            run.handler.name,
            run.fetched_ms,
            started_ms,
            self._clock.wall_ms(),
            error,
        )

    def _failed(self, run: Run, failure: BaseException) -> str:
        _LOGGER.warning(
            "handler %s failed: task %s, occurrence %d, attempt %d",
            run.handler.name,
            run.work.task_id,
            run.work.occurrence_ts,
            run.work.attempt,
            exc_info=failure,
        )
        return error_text(failure)


def error_text(failure: BaseException) -> str:
    """`ExceptionType: message`, at most 2 KiB of UTF-8."""
    name = type(failure).__name__
    try:
        text = f"{name}: {failure}"
    except Exception as unprintable:  # noqa: BLE001 (foreign code makes the message)
        text = f"{name}: (its message raised {type(unprintable).__name__})"
    return _cut(text, MAX_ERROR_BYTES)


def run_ids() -> Callable[[], bytes]:
    """A source of run ids, 16 bytes each: 8 random ones for the process, 8 that count.

    A fifth of the price of 16 random bytes a run, and as unique.
    """
    process, numbers = os.urandom(8), itertools.count()
    return lambda: process + next(numbers).to_bytes(8, "big")


def _context(run: Run) -> Context:
    work, body = run.work, run.body
    return Context(
        work.task_id,
        work.occurrence_ts,
        work.attempt,
        rev=work.rev,
        labels=body.labels,
        headers=body.headers,
    )


def _cut(text: str, limit: int) -> str:
    """`text` with at most `limit` bytes in UTF-8; what has no UTF-8 is shown escaped."""
    encoded = text.encode("utf-8", "backslashreplace")
    return encoded[:limit].decode("utf-8", "ignore")
