"""What an application wants to hear of its runs, beside the handlers: counters, alarms, traces.

No Kafka client may enter here. A hook is told, never asked: what it raises is logged, and the run's
outcome stays what it was.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any, Final

from tickstream.errors import InvalidInput
from tickstream.worker.context import Context

Started = Callable[[Context], object]
Missed = Callable[[Context, int], object]
Succeeded = Callable[[Context, Any], object]
Failed = Callable[[Context, BaseException], object]

_LOGGER: Final = logging.getLogger("tickstream.worker")


class Hooks:
    """The hooks of one App, called in the order in which they were registered, where the handler runs."""

    def __init__(self) -> None:
        self.on_missed: list[Missed] = []
        self.on_start: list[Started] = []
        self.on_success: list[Succeeded] = []
        self.on_failure: list[Failed] = []
        self.on_dead: list[Failed] = []
        self.any = False
        """Whether there is one at all: asked for every run."""

    def add(self, hooks: list[Any], hook: Callable[..., object]) -> None:
        """Register a hook in one of the lists. Raises InvalidInput unless it can be called as it is."""
        if inspect.iscoroutinefunction(hook):
            raise InvalidInput(f"hook {hook!r}: hooks are plain functions; start what has to wait from there")
        if not callable(hook):
            raise InvalidInput(f"hook {hook!r}: write @app.on_start, without parentheses")
        hooks.append(hook)
        self.any = True

    def started(self, ctx: Context) -> None:
        """The handler is about to be called."""
        if ctx.skipped:
            for missed in self.on_missed:
                _tell(missed, ctx, ctx, ctx.skipped)
        for hook in self.on_start:
            _tell(hook, ctx, ctx)

    def succeeded(self, ctx: Context, result: object) -> None:
        """The handler returned, and what it scheduled is in the log."""
        for hook in self.on_success:
            _tell(hook, ctx, ctx, result)

    def failed(self, ctx: Context, error: BaseException, gives_up: bool) -> None:
        """The attempt failed; `gives_up`: the handler's policy wants no other one, or there is none left."""
        for hook in self.on_failure:
            _tell(hook, ctx, ctx, error)
        if gives_up:
            for hook in self.on_dead:
                _tell(hook, ctx, ctx, error)


def _tell(hook: Callable[..., object], ctx: Context, *arguments: object) -> None:
    try:
        hook(*arguments)
    except Exception:
        _LOGGER.exception("hook %r failed: task %s, attempt %d", hook, ctx.task_id, ctx.attempt)
