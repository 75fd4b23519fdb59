"""The handlers of an application, registered by a decorator that keeps their signatures, its hooks and schedules.

No Kafka client, no thread and no clock may enter here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Concatenate, Final, Literal, ParamSpec, TypeVar, Unpack, overload

from tickstream.errors import InvalidInput
from tickstream.ingest.recurring import Moment
from tickstream.model import DEFAULT_QUEUE, DEFAULT_RETRY, BoundCall, Retry
from tickstream.worker.context import Context
from tickstream.worker.declared import Declaration, Declared, caller, declaration
from tickstream.worker.handler import Executor, Handler, HandlerOptions
from tickstream.worker.hooks import Failed, Hooks, Missed, Started, Succeeded
from tickstream.worker.payload import Upcaster

P = ParamSpec("P")
R = TypeVar("R")
OnMissed = TypeVar("OnMissed", bound=Missed)
OnStart = TypeVar("OnStart", bound=Started)
OnSuccess = TypeVar("OnSuccess", bound=Succeeded)
OnFailure = TypeVar("OnFailure", bound=Failed)

MAX_NAME_BYTES: Final = 255
_NO_UPCAST: Final[Mapping[int, Upcaster]] = MappingProxyType({})


class _Decorator:
    """What `App.handler(…)` returns; a class so that mypy keeps the decorated signature."""

    def __init__(self, app: App, name: str | None, options: HandlerOptions) -> None:
        self._app = app
        self._name = name
        self._options = options

    def __call__(self, function: Callable[Concatenate[Context, P], R]) -> Handler[P, R]:
        name = getattr(function, "__name__", "") if self._name is None else self._name
        handler = Handler(function, _check_name(name), self._options, self._app.hooks)
        self._app.register(handler)
        return handler


class _RawDecorator(_Decorator):
    """The same for handlers of bytes."""

    def __call__(  # type: ignore[override]
        self, function: Callable[[Context, bytes], R]
    ) -> Handler[[bytes], R]:
        return super().__call__(function)


class App:
    """The handlers that a worker can run, the hooks around their runs, and the recurring tasks declared for them."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler[..., Any]] = {}
        self._declarations: dict[str, Declaration] = {}
        self.hooks = Hooks()

    @property
    def handlers(self) -> Mapping[str, Handler[..., Any]]:
        """Name → handler."""
        return MappingProxyType(self._handlers)

    @overload
    def handler(
        self,
        name: str | None = None,
        *,
        queue: str = ...,
        raw: Literal[False] = False,
        lease: timedelta | None = ...,
        timeout: timedelta | None = ...,
        retry: Retry = ...,
        executor: Executor | None = ...,
        version: int = ...,
        upcast: Mapping[int, Upcaster] = ...,
    ) -> _Decorator: ...
    @overload
    def handler(
        self,
        name: str | None = None,
        *,
        queue: str = ...,
        raw: Literal[True],
        lease: timedelta | None = ...,
        timeout: timedelta | None = ...,
        retry: Retry = ...,
        executor: Executor | None = ...,
        version: int = ...,
        upcast: Mapping[int, Upcaster] = ...,
    ) -> _RawDecorator: ...
    def handler(
        self,
        name: str | None = None,
        *,
        queue: str = DEFAULT_QUEUE,
        raw: bool = False,
        lease: timedelta | None = None,
        timeout: timedelta | None = None,
        retry: Retry = DEFAULT_RETRY,
        executor: Executor | None = None,
        version: int = 1,
        upcast: Mapping[int, Upcaster] = _NO_UPCAST,
    ) -> _Decorator:
        """Register the decorated function, sync or async, under `name` (default: the function's own).

        `queue`: where its tasks go unless `schedule` says otherwise. `raw`: it takes the payload's
        bytes instead of JSON arguments. `lease` (10 s): a run is given to another worker when nothing
        is heard of this one for so long. `timeout` (1 h): the longest one attempt may take. `retry`: what
        follows a failure. `executor`: "thread" or "process" for a sync function. `version`: of the
        arguments, to be raised when they change; `upcast`: version n → function that makes the
        arguments of n + 1 from those of n. Raises InvalidInput on a name that is taken or no name, on
        a function that does not take the Context first, and on options that do not fit.
        """
        if name is not None and not isinstance(name, str):
            raise InvalidInput("write @app.handler() with parentheses")
        options = HandlerOptions(
            queue=queue,
            raw=raw,
            lease=lease,
            timeout=timeout,
            retry=retry,
            executor=executor,
            version=version,
            upcast=upcast,
        )
        return (_RawDecorator if raw else _Decorator)(self, name, options)

    def register(self, handler: Handler[..., Any]) -> None:
        """Add a handler. Raises InvalidInput when the name is taken."""
        if handler.name in self._handlers:
            raise InvalidInput(f"handler {handler.name!r} is registered twice; give one of them another name")
        self._handlers[handler.name] = handler

    # ----------------------------------------------------------------- schedules

    @property
    def declarations(self) -> Mapping[str, Declaration]:
        """Task id → the recurring task that was declared under it."""
        return MappingProxyType(self._declarations)

    def cron(self, task_id: str, expression: str, *, call: BoundCall, **declared: Unpack[Declared]) -> None:
        """Declare a task that recurs by a cron expression: five fields, or six with seconds first.

        Nothing is sent: `tickstream schedule apply module:app --owner NAME` brings what runs in line with what
        is declared (docs/scheduling.md). `call`: from a handler of this App, as `report.bind("eu")`; the
        others are the arguments of `Client.schedule`. Raises InvalidInput on what a dispatcher would refuse,
        on an id that is declared already, and on a handler of another App.
        """
        self._declare(task_id, call, {**declared, "cron": expression})

    def every(
        self, task_id: str, interval: timedelta, *, call: BoundCall, **declared: Unpack[Declared]
    ) -> None:
        """Declare a task that recurs every interval, counted from `start`, else from 1970. As `cron`."""
        self._declare(task_id, call, {**declared, "every": interval})

    def rrule(
        self,
        task_id: str,
        rule: str,
        *,
        call: BoundCall,
        rdate: Sequence[Moment] = (),
        exdate: Sequence[Moment] = (),
        **declared: Unpack[Declared],
    ) -> None:
        """Declare a task that recurs by a rule of RFC 5545, from `start` on. As `cron`."""
        self._declare(task_id, call, {**declared, "rrule": rule, "rdate": rdate, "exdate": exdate})

    def _declare(self, task_id: str, call: BoundCall, asked: dict[str, Any]) -> None:
        made = declaration(task_id, {**asked, "call": call}, caller(depth=2), self._handlers)
        before = self._declarations.get(task_id)
        if before is not None:
            raise InvalidInput(
                f"{made.place}: task {task_id!r} is declared already, at {before.place}; give one of them another id"
            )
        self._declarations[task_id] = made

    # ----------------------------------------------------------------- hooks

    def on_missed(self, hook: OnMissed) -> OnMissed:
        """Call `hook(ctx, skipped)` before `on_start` of a run before which occurrences were passed over.

        `skipped`: how many, by misfire, overlap or pause. Which, and why, stands in `history`. Told with the
        next occurrence that runs, so a task that never runs again is not heard of here.
        """
        self.hooks.add(self.hooks.on_missed, hook)
        return hook

    def on_start(self, hook: OnStart) -> OnStart:
        """Call `hook(ctx)` before each handler. What any hook raises is logged and changes nothing."""
        self.hooks.add(self.hooks.on_start, hook)
        return hook

    def on_success(self, hook: OnSuccess) -> OnSuccess:
        """Call `hook(ctx, result)` when a handler has returned."""
        self.hooks.add(self.hooks.on_success, hook)
        return hook

    def on_failure(self, hook: OnFailure) -> OnFailure:
        """Call `hook(ctx, error)` when an attempt has failed here."""
        self.hooks.add(self.hooks.on_failure, hook)
        return hook

    def on_dead(self, hook: OnFailure) -> OnFailure:
        """Call `hook(ctx, error)` when a failure here is the end of the work.

        That is when the last attempt fails, or the handler's policy gives up (`never=`, `Never()`). Work
        whose last run was lost, or killed with its process, has no handler left to fail: it stands in
        `history` and in `dead-letter`.
        """
        self.hooks.add(self.hooks.on_dead, hook)
        return hook


def _check_name(name: str) -> str:
    if name.isprintable() and 0 < len(name.encode()) <= MAX_NAME_BYTES:
        return name
    raise InvalidInput(
        f"handler name {name!r}: must be 1-{MAX_NAME_BYTES} bytes of printable text; pass one to @app.handler(…)"
    )
