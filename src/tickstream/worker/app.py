"""The handlers of an application: registered by a decorator, called with arguments checked beforehand.

No Kafka client, no thread and no clock may enter here.

One rule: a handler takes the Context first, then its own arguments. They travel as one JSON
object by parameter name (`{"to": "a@b"}`): readable on a dashboard, writable in any language,
and still right when parameters change places. A raw handler takes the payload's bytes instead.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Concatenate, Final, Generic, Literal, ParamSpec, TypeVar, overload

from tickstream.errors import InvalidInput
from tickstream.model import DEFAULT_QUEUE, BoundCall
from tickstream.topics import check_queue
from tickstream.worker.context import Context

P = ParamSpec("P")
R = TypeVar("R")

MAX_NAME_BYTES: Final = 255
_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED: Final = (
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.KEYWORD_ONLY,
    inspect.Parameter.VAR_KEYWORD,
)


class Handler(Generic[P, R]):
    """A registered function. Calling it runs it here and now, as a unit test does."""

    def __init__(
        self, function: Callable[Concatenate[Context, P], R], name: str, queue: str, raw: bool
    ) -> None:
        self.function = function
        self.name = name
        self.queue = queue
        self.raw = raw
        self.is_async = inspect.iscoroutinefunction(inspect.unwrap(function))
        self._parameters = _own_parameters(function, name, raw)
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
        if self.raw:
            return BoundCall(self.name, self.queue, self._bytes(bound))
        return BoundCall(self.name, self.queue, self._json(_by_name(bound)))

    def call(self, ctx: Context, payload: bytes) -> R:
        """Run the function on a payload that `bind` (or another client) made.

        Raises InvalidInput when the payload is no JSON object, and whatever the function raises.
        """
        if self.raw:
            return self.function(ctx, payload)  # type: ignore[call-arg, arg-type]
        # An absent payload is a call without arguments.
        return self.function(ctx, **(_arguments(payload) if payload else {}))  # type: ignore[call-arg]

    def _bytes(self, bound: inspect.BoundArguments) -> bytes:
        (payload,) = bound.args
        if not isinstance(payload, bytes):
            raise InvalidInput(
                f"{self.name}.bind: a raw handler takes bytes, not {type(payload).__name__}; encode it first"
            )
        return payload

    def _json(self, arguments: dict[str, Any]) -> bytes:
        for name, value in arguments.items():
            try:
                # A tuple that comes back as a list, or an int key as text, would lie to the handler.
                same = json.loads(_dumps(value).encode()) == value
            except (TypeError, ValueError, RecursionError) as error:
                raise InvalidInput(
                    f"{self.name}.bind: argument {name!r} cannot be written as JSON ({error}); "
                    "pass plain values, or use raw=True"
                ) from error
            if not same:
                raise InvalidInput(
                    f"{self.name}.bind: argument {name!r} does not survive JSON unchanged "
                    "(a tuple, or a key that is no text?); pass lists and text keys, or use raw=True"
                )
        return _dumps(arguments).encode()

    def __repr__(self) -> str:
        return f"<handler {self.name!r} on queue {self.queue!r}>"


class _Decorator:
    """What `App.handler(…)` returns; a class so that mypy keeps the decorated signature."""

    def __init__(self, app: App, name: str | None, queue: str, raw: bool) -> None:
        self._app = app
        self._name = name
        self._queue = queue
        self._raw = raw

    def __call__(self, function: Callable[Concatenate[Context, P], R]) -> Handler[P, R]:
        name = getattr(function, "__name__", "") if self._name is None else self._name
        handler = Handler(function, _check_name(name), self._queue, self._raw)
        self._app.register(handler)
        return handler


class _RawDecorator(_Decorator):
    """The same for handlers of bytes."""

    def __call__(  # type: ignore[override]
        self, function: Callable[[Context, bytes], R]
    ) -> Handler[[bytes], R]:
        return super().__call__(function)


class App:
    """The handlers that a worker can run."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler[..., Any]] = {}

    @property
    def handlers(self) -> Mapping[str, Handler[..., Any]]:
        """Name → handler."""
        return MappingProxyType(self._handlers)

    @overload
    def handler(
        self, name: str | None = None, *, queue: str = ..., raw: Literal[False] = False
    ) -> _Decorator: ...
    @overload
    def handler(self, name: str | None = None, *, queue: str = ..., raw: Literal[True]) -> _RawDecorator: ...
    def handler(
        self, name: str | None = None, *, queue: str = DEFAULT_QUEUE, raw: bool = False
    ) -> _Decorator:
        """Register the decorated function, sync or async, under `name` (default: the function's own).

        `queue`: where its tasks go unless `schedule` says otherwise. `raw`: it takes the payload's
        bytes instead of JSON arguments. Raises InvalidInput on a name that is taken or no name, and on
        a function that does not take the Context first.
        """
        if name is not None and not isinstance(name, str):
            raise InvalidInput("write @app.handler() with parentheses")
        return (_RawDecorator if raw else _Decorator)(self, name, check_queue(queue), raw)

    def register(self, handler: Handler[..., Any]) -> None:
        """Add a handler. Raises InvalidInput when the name is taken."""
        if handler.name in self._handlers:
            raise InvalidInput(f"handler {handler.name!r} is registered twice; give one of them another name")
        self._handlers[handler.name] = handler


def _check_name(name: str) -> str:
    if name.isprintable() and 0 < len(name.encode()) <= MAX_NAME_BYTES:
        return name
    raise InvalidInput(
        f"handler name {name!r}: must be 1-{MAX_NAME_BYTES} bytes of printable text; pass one to @app.handler(…)"
    )


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


def _by_name(bound: inspect.BoundArguments) -> dict[str, Any]:
    """Name → value, with what `**kwargs` took beside the rest."""
    arguments: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            arguments |= value
        else:
            arguments[name] = value
    return arguments


def _arguments(payload: bytes) -> dict[str, Any]:
    try:
        arguments = json.loads(payload)
    except ValueError as error:
        raise InvalidInput(f"the payload is no JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise InvalidInput(
            f"the payload is a JSON {type(arguments).__name__}, not an object of arguments by name"
        )
    return arguments


def _dumps(value: Any) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
