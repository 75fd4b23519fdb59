"""A registered function: its arguments checked beforehand, its run, and what its failure means.

No Kafka client, no thread and no clock may enter here.

One rule: a handler takes the Context first, then its own arguments. They travel as one JSON
object by parameter name (`{"to": "a@b"}`): readable on a dashboard, writable in any language,
and still right when parameters change places. A raw handler takes the payload's bytes instead.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import CoroutineType
from typing import Any, Concatenate, Final, Generic, Literal, ParamSpec, TypeVar, cast

from tickstream.errors import InvalidInput, RetryIn
from tickstream.model import (
    DEFAULT_QUEUE,
    DEFAULT_RETRY,
    DEFAULT_TERMS,
    NEVER,
    NO_RETRY,
    VERSION_HEADER,
    BoundCall,
    Retry,
    overridden,
)
from tickstream.topics import check_queue
from tickstream.worker.context import Context
from tickstream.worker.hooks import Hooks
from tickstream.worker.payload import (
    Upcaster,
    Versions,
    by_name,
    checked_arguments,
    decode_arguments,
    encode_arguments,
    encode_result,
)

P = ParamSpec("P")
R = TypeVar("R")

Executor = Literal["thread", "process", "async"]

_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED: Final = (
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.KEYWORD_ONLY,
    inspect.Parameter.VAR_KEYWORD,
)
_LOGGER: Final = logging.getLogger("tickstream.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerOptions:
    """What `App.handler` was told. Raises InvalidInput."""

    queue: str = DEFAULT_QUEUE
    raw: bool = False
    lease: timedelta | None = None
    timeout: timedelta | None = None
    retry: Retry = DEFAULT_RETRY
    executor: Executor | None = None
    version: int = 1
    upcast: Mapping[int, Upcaster] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_queue(self.queue)
        if self.executor not in (None, "thread", "process", "async"):
            raise InvalidInput(f"executor={self.executor!r}: 'thread', 'process' or 'async'")
        if not isinstance(self.retry, Retry):
            raise InvalidInput(f"retry={self.retry!r}: a Retry(…)")


class Handler(Generic[P, R]):
    """A registered function. Calling it runs it here and now, as a unit test does."""

    def __init__(
        self,
        function: Callable[Concatenate[Context, P], R],
        name: str,
        options: HandlerOptions,
        hooks: Hooks | None = None,
    ) -> None:
        """Raises InvalidInput when function and options do not fit each other."""
        self.function = function
        self.name = name
        self.queue = options.queue
        self.raw = options.raw
        self.retry = options.retry
        terms = overridden(DEFAULT_TERMS, options.lease, options.timeout, options.retry)
        self.terms = None if terms == DEFAULT_TERMS else terms
        """Lease, timeout and retries of its tasks; None: DEFAULT_TERMS."""
        self.is_async = inspect.iscoroutinefunction(inspect.unwrap(function))
        self.executor = _executor(name, options.executor, self.is_async)
        """Where it runs; None: where the worker runs its sync handlers."""
        self._parameters = _own_parameters(function, name, options.raw)
        self._version = options.version
        self._versions = Versions(name, options.version, options.upcast)
        self._hooks = Hooks() if hooks is None else hooks
        self._result_refused = False
        functools.update_wrapper(self, function)

    def __call__(self, ctx: Context, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(ctx, *args, **kwargs)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> BoundCall:
        """This handler with its arguments (without the Context), to be given to `Client.schedule`.

        Raises InvalidInput when they do not fit the signature or would not survive JSON.
        """
        try:
            bound = self._parameters.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidInput(
                f"{self.name}.bind: {error}; the handler takes {self._parameters} after the Context"
            ) from error
        payload = self._bytes(bound) if self.raw else encode_arguments(self.name, by_name(bound))
        return BoundCall(self.name, self.queue, payload, self.terms, self._version)

    # ----------------------------------------------------------------- in a worker

    def call(self, ctx: Context, payload: bytes) -> R:
        """Run the function on a payload that `bind` (or another client) made, hooks and all.

        Returns, for an async handler: with the coroutine, once what `ctx.schedule` took is acknowledged.
        Raises InvalidInput when the payload cannot be read, SendFailed when a follow-up was not
        acknowledged, and whatever the function raises.
        """
        if self.is_async:
            return cast("R", self._awaited(ctx, payload))
        if not self._hooks.any:
            result = self._run(ctx, payload)
            if ctx.follow_ups:
                _settle(ctx)
            return result
        self._hooks.started(ctx)
        try:
            result = self._run(ctx, payload)
            if isinstance(result, CoroutineType):
                # Nobody awaits it: the worker fails this run.
                return result
            _settle(ctx)
        except BaseException as error:
            self._failed(ctx, error)
            raise
        self._hooks.succeeded(ctx, result)
        return result

    def retry_ms(self, error: BaseException, attempt: int = 1) -> int:
        """What the policy makes of a failure: a pause in ms, NEVER (the task's backoff), or NO_RETRY.

        A policy that fails itself is logged, and leaves it to the backoff.
        """
        if isinstance(error, RetryIn):
            return -(-error.delay // timedelta(milliseconds=1))
        try:
            return self.retry.retry_ms(error, attempt)
        except Exception:
            _LOGGER.exception("the retry policy of handler %s failed; the backoff decides", self.name)
            return NEVER

    def result_bytes(self, value: object) -> bytes:
        """What the function returned as JSON, for history; empty for None.

        A result that is no JSON, or over 4 KiB, is not kept: the effect is made, so the run is no
        failure. Said in the log once per handler.
        """
        if value is None:
            return b""
        try:
            return encode_result(value)
        except InvalidInput as error:
            if not self._result_refused:
                self._result_refused = True
                _LOGGER.warning("handler %s: %s; history keeps no result of it", self.name, error)
            return b""

    def _run(self, ctx: Context, payload: bytes) -> R:
        version = self._versions.of(ctx.headers) if VERSION_HEADER in ctx.headers else 1
        if self.raw:
            if version != self._version:
                payload = self._versions.upcast(payload, version)
            return self.function(ctx, payload)  # type: ignore[call-arg, arg-type]
        arguments = decode_arguments(payload)
        if version != self._version:
            arguments = checked_arguments("the upcast payload", self._versions.upcast(arguments, version))
        return self.function(ctx, **arguments)  # type: ignore[call-arg]

    async def _awaited(self, ctx: Context, payload: bytes) -> object:
        self._hooks.started(ctx)
        try:
            result = await cast("Awaitable[object]", self._run(ctx, payload))
            if ctx.follow_ups:
                await asyncio.to_thread(_settle, ctx)
        except BaseException as error:
            self._failed(ctx, error)
            raise
        self._hooks.succeeded(ctx, result)
        return result

    def _failed(self, ctx: Context, error: BaseException) -> None:
        if self._hooks.any:
            gives_up = ctx.last_attempt or self.retry_ms(error, ctx.attempt) == NO_RETRY
            self._hooks.failed(ctx, error, gives_up)

    def _bytes(self, bound: inspect.BoundArguments) -> bytes:
        (payload,) = bound.args
        if not isinstance(payload, bytes):
            raise InvalidInput(
                f"{self.name}.bind: a raw handler takes bytes, not {type(payload).__name__}; encode it first"
            )
        return payload

    def __repr__(self) -> str:
        return f"<handler {self.name!r} on queue {self.queue!r}>"


def _settle(ctx: Context) -> None:
    for made in ctx.follow_ups:
        made.settle()


def _executor(name: str, wanted: Executor | None, is_async: bool) -> Executor | None:
    """Raises InvalidInput when the function cannot run there."""
    if is_async:
        if wanted not in (None, "async"):
            raise InvalidInput(f"handler {name!r} is async: it runs on the worker's loop, not in a {wanted}")
        return "async"
    if wanted == "async":
        raise InvalidInput(f"handler {name!r} is no async function: executor='thread' or 'process'")
    return wanted


def _own_parameters(function: Callable[..., Any], name: str, raw: bool) -> inspect.Signature:
    """The signature without the Context. Raises InvalidInput when it breaks the rule."""
    signature = inspect.signature(function)
    parameters = tuple(signature.parameters.values())
    own = parameters[1:]
    if not parameters or parameters[0].kind not in _POSITIONAL:
        raise InvalidInput(f"handler {name!r} must take the Context first: def {name}(ctx: Context, …)")
    if raw and (len(own) != 1 or own[0].kind not in _POSITIONAL):
        raise InvalidInput(
            f"raw handler {name!r} must take the Context and the payload: (ctx, payload: bytes)"
        )
    for parameter in own:
        if not raw and parameter.kind not in _NAMED:
            raise InvalidInput(
                f"handler {name!r}: arguments travel by name, and {parameter} has none; make it an ordinary parameter"
            )
    return signature.replace(parameters=own, return_annotation=inspect.Signature.empty)
