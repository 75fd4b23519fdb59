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
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, NamedTuple, NoReturn, TypeAlias

from tickstream.errors import BrokerUnavailable, InvalidInput, TickstreamError
from tickstream.model import NEVER, Rev
from tickstream.worker.context import Context
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
    payload: bytes


class Flags(NamedTuple):
    """To the child: what the context says now."""

    cancelled: bool
    lost: bool


class FenceIs(NamedTuple):
    """To the child: the fence, or why there is none."""

    fence: Fence | None
    error: str = ""


class Up(NamedTuple):
    """From the child: it is there."""


class AskFence(NamedTuple):
    """From the child: the handler wants its fence."""


class Progress(NamedTuple):
    """From the child: how far it is."""

    thousandths: int
    note: str


class Done(NamedTuple):
    """From the child: the handler has ended."""

    result: bytes
    error: str | None = None
    retry_ms: int = NEVER


ToChild: TypeAlias = Call | Flags | FenceIs


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
        run.body.payload,
    )


def answer(ask: Callable[[], Fence]) -> FenceIs:
    """The answer to AskFence."""
    try:
        return FenceIs(ask())
    except TickstreamError as error:
        return FenceIs(None, str(error))


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
        self._fences: SimpleQueue[FenceIs] = SimpleQueue()
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
                case FenceIs():
                    self._fences.put(message)
                case Flags() if self._ctx is not None:
                    self._ctx.cancelled, self._ctx.lost = message

    def run(self, call: Call) -> None:
        """Execute one handler and say how it ended."""
        ctx = self._ctx = Context(
            call.task_id,
            call.occurrence_ts,
            call.attempt,
            rev=call.rev,
            labels=call.labels,
            headers=call.headers,
            run_id=call.run_id,
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
        self._send(AskFence())
        told = self._fences.get()
        if told.fence is None:
            raise BrokerUnavailable(told.error)
        return told.fence

    def progress(self, thousandths: int, note: str) -> None:
        """See RunLink."""
        self._send(Progress(thousandths, note))

    def client(self) -> NoReturn:
        """See RunLink."""
        raise InvalidInput(
            "ctx.schedule is not there in a child process: make a tickstream.Client in the handler's module, "
            "or let the handler run in a thread"
        )

    def _send(self, message: AskFence | Progress | Done) -> None:
        with self._sending:
            self._pipe.send(message)


def _handler(call: Call) -> Callee:
    sys.path[:] = call.path
    found: Any = importlib.import_module(call.module)
    for part in call.attribute.split("."):
        found = getattr(found, part)
    handler: Callee = found
    return handler
