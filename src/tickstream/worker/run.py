"""One Work record in this process: run once, with one outcome, and what is said of it.

No Kafka client may enter here; the threads that run this are in slots.py, how it is executed in
execution.py.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from tickstream.clock import Clock
from tickstream.errors import TickstreamError
from tickstream.model import NEVER, NO_RETRY, Body, Report, ReportKind, Work
from tickstream.worker.app import MAX_NAME_BYTES
from tickstream.worker.context import Context, RunLink
from tickstream.worker.intake import ROUNDS
from tickstream.worker.lease import Lease, Leased

MAX_ERROR_BYTES: Final = 2_048
MAX_NOTE_BYTES: Final = 256


class Owner(Protocol):
    """Who took the record, and wants to know what became of it. Called from other threads."""

    def finished(self) -> None:
        """A run left its slot."""
        ...

    def acked(self, run: Run, kind: ReportKind) -> None:
        """The broker acknowledged a report of the run."""
        ...


class Home(Protocol):
    """Slots of one kind, as the keeper of leases sees them. Called from other threads."""

    def stop(self, run: Run) -> None:
        """End the run as far as this kind of slot can; its `ctx.cancelled` is set already."""
        ...

    def tell(self, run: Run) -> None:
        """`ctx.cancelled` or `ctx.lost` of the run has changed."""
        ...

    def vouch(self, renew: Callable[[Sequence[Run]], None], runs: Sequence[Run]) -> None:
        """Call `renew(runs)` from where the runs are alive: one that hangs does not get that far."""
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

    @property
    def executor(self) -> str | None:
        """Where it runs: "thread", "process", "async", or None for where the worker runs its sync handlers."""
        ...

    def call(self, ctx: Context, payload: bytes) -> Any:
        """Do the work. Raises what makes the run fail."""
        ...

    def retry_ms(self, error: BaseException, attempt: int) -> int:
        """The pause before another attempt; NEVER: as the policy says; NO_RETRY: there is none."""
        ...

    def result_bytes(self, value: Any) -> bytes:
        """What is kept of the returned value."""
        ...


class Refusal:
    """Stands for a handler that cannot be called: the run fails for good with the reason."""

    is_async = False
    executor = None

    def __init__(self, name: str, reason: TickstreamError) -> None:
        self.name = cut(name, MAX_NAME_BYTES)
        self._reason = reason

    def call(self, _ctx: Context, _payload: bytes) -> None:
        """Raises the reason."""
        raise self._reason

    def retry_ms(self, _error: BaseException, _attempt: int) -> int:
        """Another attempt would read the same record."""
        return NO_RETRY

    def result_bytes(self, _value: Any) -> bytes:
        """There is none."""
        return b""


class Run(Leased):
    """A Work record in this process.

    `begin` and `end` are each true for exactly one caller, so a run starts at most once and has at
    most one outcome, whoever is first: its slot, the reader that drops it, the keeper that finds
    it out of time.
    """

    __slots__ = (
        "_open",
        "body",
        "cancelled",
        "claim_offset",
        "covered",
        "ctx",
        "ended_at",
        "fetched_ms",
        "handler",
        "home",
        "lease",
        "left",
        "offset",
        "owner",
        "partition",
        "queue",
        "run_id",
        "said",
        "started_ms",
        "work",
    )

    def __init__(
        self,
        owner: Owner,
        partition: int,
        offset: int,
        work: Work,
        body: Body,
        handler: Callee,
        fetched_ms: int,
        queue: str = "",
    ) -> None:
        self.owner = owner
        self.partition = partition
        self.offset = offset
        """Partition and offset of the Work record."""
        self.work = work
        self.body = body
        self.handler = handler
        self.fetched_ms = fetched_ms
        self.queue = queue
        self.run_id = b""
        """16 bytes, empty before the start."""
        self.started_ms = NEVER
        self.ctx: Context | None = None
        """From the start until the outcome is acknowledged."""
        self.home: Home | None = None
        """The slots it runs in."""
        self.covered = False
        """Whether its offset may be committed. The reader's."""
        self.claim_offset = NEVER
        """Of the message with its acknowledged claim, in `reports`."""
        self.said = (NEVER, "")
        """Thousandths done and note, as the handler said last."""
        self.cancelled = False
        """Whether somebody asked it to stop: then no other attempt is wanted."""
        self.left = False
        """Whether its slot is free again."""
        self.ended_at = 0.0
        """When the keeper gave up on it (monotonic seconds)."""
        self._open = {"begin": True, "claim": True, "end": True}
        """What nobody has done yet. Taking a key out of a dict is atomic, and one dict costs a third of
        three locks: a process has thousands of runs."""

    def begin(self) -> bool:
        """True for exactly one caller: the slot that starts the run, or the reader that drops it."""
        return self._open.pop("begin", False)

    @property
    def begun(self) -> bool:
        """Whether `begin` was true for somebody."""
        return "begin" not in self._open

    @property
    def patient(self) -> bool:
        """Whether earlier attempts were in many places, so that it may wait in one."""
        return self.work.attempt > ROUNDS

    def start(self, run_id: bytes, clock: Clock, link: RunLink | None) -> Context:
        """It is executed from now on."""
        work, body = self.work, self.body
        self.started_ms = clock.wall_ms()
        self.lease = Lease(clock.monotonic(), work.lease_ms / 1_000, work.timeout_ms / 1_000)
        self.ctx = Context(
            work.task_id,
            work.occurrence_ts,
            work.attempt,
            rev=work.rev,
            labels=body.labels,
            headers=body.headers,
            run_id=run_id,
            skipped=work.skipped,
            last_attempt=work.last,
            link=link,
        )
        # Last: whoever sees a run_id finds the rest.
        self.run_id = run_id
        return self.ctx

    def claim(self) -> bool:
        """True for exactly one caller: who sends the claim."""
        return self._open.pop("claim", False)

    def end(self) -> bool:
        """True for exactly one caller: who reports the outcome."""
        return self._open.pop("end", False)

    @property
    def ended(self) -> bool:
        """Whether it has its outcome."""
        return "end" not in self._open

    def leave(self) -> None:
        """Its slot is free."""
        self.left = True
        self.owner.finished()

    def settled(self) -> None:
        """Its outcome is acknowledged: nobody is told anything any more.

        The context knows the run, so without this only the garbage collector could free the two.
        """
        self.ctx = None

    def report(
        self, kind: ReportKind, now_ms: int, error: str = "", retry_ms: int = NEVER, result: bytes = b""
    ) -> Report:
        """A word on it, as of `now_ms`."""
        work = self.work
        progress, note = self.said if kind is ReportKind.HEARTBEAT else (NEVER, "")
        return Report(
            kind,
            work.task_id,
            work.occurrence_ts,
            work.attempt,
            self.run_id,
            self.handler.name,
            self.fetched_ms,
            self.started_ms,
            now_ms,
            error,
            retry_ms,
            result,
            progress,
            note,
        )


def error_text(failure: BaseException) -> str:
    """`ExceptionType: message`, at most 2 KiB of UTF-8."""
    name = type(failure).__name__
    try:
        text = f"{name}: {failure}"
    except Exception as unprintable:  # noqa: BLE001 (foreign code makes the message)
        text = f"{name}: (its message raised {type(unprintable).__name__})"
    return cut(text, MAX_ERROR_BYTES)


def run_ids() -> Callable[[], bytes]:
    """A source of run ids, 16 bytes each: 8 random ones for the process, 8 that count.

    A fifth of the price of 16 random bytes a run, and as unique.
    """
    process, numbers = os.urandom(8), itertools.count()
    return lambda: process + next(numbers).to_bytes(8, "big")


def cut(text: str, limit: int) -> str:
    """`text` with at most `limit` bytes in UTF-8; what has no UTF-8 is shown escaped."""
    encoded = text.encode("utf-8", "backslashreplace")
    return encoded[:limit].decode("utf-8", "ignore")
