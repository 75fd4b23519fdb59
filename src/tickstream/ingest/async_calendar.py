"""A calendar for asyncio: the same Calendar, awaited.

No check, no command and no question of its own may enter here: each call is the Calendar's, in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from tickstream.ingest.calendar import Calendar

P = ParamSpec("P")
T = TypeVar("T")


class InThread(Protocol):
    """Runs a call that blocks in a thread, and awaits it."""

    async def __call__(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...


def _awaited(
    method: Callable[Concatenate[Calendar, P], T],
) -> Callable[Concatenate[AsyncCalendar, P], Coroutine[Any, Any, T]]:
    @wraps(method)
    async def call(self: AsyncCalendar, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._in_thread(method, self._calendar, *args, **kwargs)

    return call


def _as_it_is(method: Callable[Concatenate[Calendar, P], T]) -> Callable[Concatenate[AsyncCalendar, P], T]:
    """For what only computes."""

    @wraps(method)
    def call(self: AsyncCalendar, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(self._calendar, *args, **kwargs)

    return call


class AsyncCalendar:
    """One calendar; get it from `AsyncClient.calendar`. All is as in `Calendar`; cancelling a call takes nothing back."""

    def __init__(self, calendar: Calendar, in_thread: InThread) -> None:
        """`calendar` belongs to a client that is open."""
        self.id: Final = calendar.id
        self.zone: Final = calendar.zone
        self._calendar: Final = calendar
        self._in_thread: Final = in_thread

    event = _as_it_is(Calendar.event)
    add = _awaited(Calendar.add)
    put = _awaited(Calendar.put)
    conflicts = _awaited(Calendar.conflicts)
    change = _awaited(Calendar.change)
    move = _awaited(Calendar.move)
    cancel = _awaited(Calendar.cancel)
    remove = _awaited(Calendar.remove)
    events = _awaited(Calendar.events)
    free = _awaited(Calendar.free)
    stored = _awaited(Calendar.stored)
