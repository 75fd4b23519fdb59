"""A child process that runs handlers for its parent (children.py), one at a time.

It ends when its parent does. No Kafka client may enter here.
"""

from __future__ import annotations

import importlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, NamedTuple, NoReturn, TypeAlias

from tickstream.errors import BrokerUnavailable, InvalidInput, SendFailed, TickstreamError
from tickstream.model import NEVER, Rev
from tickstream.worker.context import Context
from tickstream.worker.follow_up import FollowUp
from tickstream.worker.idempotency import Fence
from tickstream.worker.run import Callee, Run, error_text


class Call(NamedTuple):
    """To the child: run this."""

    module: str
    attribute: str
    """Where the handler is."""
    path: tuple[str, ...]
    """The parent's sys.path, so that it is found."""
    task_id: str
    occurrence_ts: int
    attempt: int
    rev: Rev
    labels: Mapping[str, str]
    headers: Mapping[str, str]
    run_id: bytes
    skipped: int
    last_attempt: bool
    payload: bytes


class Flags(NamedTuple):
    """To the child: what the context says now."""

    cancelled: bool
    lost: bool


class FenceIs(NamedTuple):
    """To the child: the fence, or why there is none."""

    fence: Fence | None
    error: str = ""


class Answer(NamedTuple):
    """To the child: what it asked for is done, or why not."""

    failed: type[TickstreamError] | None = None
    reason: str = ""


class Up(NamedTuple):
    """From the child: it is there."""


class AskFence(NamedTuple):
    """From the child: the handler wants its fence."""


class Progress(NamedTuple):
    """From the child: how far it is."""

    thousandths: int
    note: str


class Schedule(NamedTuple):
    """From the child: hand this to the worker's client."""

    made: FollowUp


class Settle(NamedTuple):
    """From the child: wait until the broker has the follow-up of this number, from 0."""

    number: int


class Done(NamedTuple):
    """From the child: the handler has ended."""

    result: bytes
    error: str | None = None
    retry_ms: int = NEVER


ToChild: TypeAlias = Call | Flags | FenceIs | Answer
Asked: TypeAlias = AskFence | Schedule | Settle


def call_of(run: Run, ctx: Context) -> Call:
    """What a child needs to run it. Raises InvalidInput when the handler cannot be imported there."""
    function = getattr(run.handler, "function", None)
    module, name = getattr(function, "__module__", "__main__"), getattr(function, "__qualname__", "")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if module == "__main__" or found is not run.handler:
        raise InvalidInput(
            f"handler {run.handler.name!r} runs in a child process, which imports it as {module}:{name}, and "
            "there it is not; define it at the top level of an importable module, under its own name"
        )
    return Call(
        module,
        name,
        tuple(sys.path),
        ctx.task_id,
        ctx.occurrence_ts,
        ctx.attempt,
        ctx.rev,
        dict(ctx.labels),
        dict(ctx.headers),
        ctx.run_id,
        ctx.skipped,
        ctx.last_attempt,
        run.body.payload,
    )


def answer(asked: Asked, ctx: Context) -> FenceIs | Answer:
    """Do what a child asked for with the context that the run has in the parent."""
    try:
        match asked:
            case AskFence():
                return FenceIs(ctx.fence)
            case Schedule():
                ctx.hand_over(asked.made)
            case Settle():
                ctx.follow_ups[asked.number].settle()
    except TickstreamError as error:
        if isinstance(asked, AskFence):
            return FenceIs(None, str(error))
        # Some errors cannot be sent, for they are made of other things than their text.
        kinds = (InvalidInput, SendFailed, BrokerUnavailable)
        return Answer(next((kind for kind in kinds if isinstance(error, kind)), TickstreamError), str(error))
    return Answer()


def serve(pipe: Connection[Any, Any]) -> None:
    """The main function of a child: runs what comes through `pipe` until the parent is gone."""
    # Ctrl-C at a terminal reaches the whole group; when to end is the parent's decision.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    link = _Link(pipe)
    pipe.send(Up())
    threading.Thread(target=link.listen, daemon=True).start()
    while True:
        link.run(link.calls.get())


def _end_with_parent() -> NoReturn:
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)


class _Link:
    """The child's end of the pipe; also what the context of the current run reaches its worker by."""

    def __init__(self, pipe: Connection[Any, Any]) -> None:
        self._pipe = pipe
        self._sending = threading.Lock()
        self._asking = threading.Lock()
        self._answers: SimpleQueue[FenceIs | Answer] = SimpleQueue()
        self._scheduled = 0
        """Follow-ups of the current run that the parent has."""
        self._ctx: Context | None = None
        self.calls: SimpleQueue[Call] = SimpleQueue()

    def listen(self) -> None:
        """The thread that hears the parent, also while a handler runs."""
        while True:
            try:
                message = self._pipe.recv()
            except (EOFError, OSError):
                os._exit(1)
            match message:
                case Call():
                    self.calls.put(message)
                case FenceIs() | Answer():
                    self._answers.put(message)
                case Flags() if self._ctx is not None:
                    self._ctx.cancelled, self._ctx.lost = message

    def run(self, call: Call) -> None:
        """Execute one handler and say how it ended."""
        self._scheduled = 0
        ctx = self._ctx = Context(
            call.task_id,
            call.occurrence_ts,
            call.attempt,
            rev=call.rev,
            labels=call.labels,
            headers=call.headers,
            run_id=call.run_id,
            skipped=call.skipped,
            last_attempt=call.last_attempt,
            link=self,
        )
        handler: Callee | None = None
        try:
            handler = _handler(call)
            done = Done(handler.result_bytes(handler.call(ctx, call.payload)))
        except BaseException as failure:  # noqa: BLE001 (foreign code; sys.exit() in it ends the run, not the child)
            done = Done(
                b"",
                error_text(failure),
                NEVER if handler is None else handler.retry_ms(failure, call.attempt),
            )
        self._ctx = None
        self._send(done)

    def fence(self) -> Fence:
        """See RunLink."""
        told = self._ask(AskFence())
        if not isinstance(told, FenceIs) or told.fence is None:
            raise BrokerUnavailable(told.error if isinstance(told, FenceIs) else told.reason)
        return told.fence

    def schedule(self, made: FollowUp) -> FollowUp:
        """See RunLink. The worker's client is in the parent, and so is the way into the log."""
        labels = None if made.labels is None else dict(made.labels)
        with self._asking:
            self._done(self._ask_now(Schedule(made._replace(labels=labels))))
            number, self._scheduled = self._scheduled, self._scheduled + 1
        return made._replace(submission=_InParent(self, number))

    def settle(self, number: int) -> None:
        """Return once the broker has that follow-up. Raises SendFailed."""
        self._done(self._ask(Settle(number)))

    def progress(self, thousandths: int, note: str) -> None:
        """See RunLink."""
        self._send(Progress(thousandths, note))

    def _ask(self, question: Asked) -> FenceIs | Answer:
        with self._asking:
            return self._ask_now(question)

    def _ask_now(self, question: Asked) -> FenceIs | Answer:
        """Answers come in the order of the questions: a handler's threads ask one after the other."""
        self._send(question)
        return self._answers.get()

    @staticmethod
    def _done(told: FenceIs | Answer) -> None:
        if isinstance(told, Answer) and told.failed is not None:
            raise told.failed(told.reason)

    def _send(self, message: Asked | Progress | Done) -> None:
        with self._sending:
            self._pipe.send(message)


class _InParent:
    """A follow-up whose way into the log the parent knows (Sent)."""

    def __init__(self, link: _Link, number: int) -> None:
        self._link = link
        self._number = number

    def receipt(self, _timeout: float) -> None:
        """See Sent; the parent waits as long as it does for its own."""
        self._link.settle(self._number)


def _handler(call: Call) -> Callee:
    sys.path[:] = call.path
    found: Any = importlib.import_module(call.module)
    for part in call.attribute.split("."):
        found = getattr(found, part)
    handler: Callee = found
    return handler
