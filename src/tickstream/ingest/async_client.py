"""The client for asyncio: the same Client, awaited.

No check, no encoding and no sending of its own may enter here: the producer core behind a Client
returns handles, and this awaits them; what blocks for other reasons runs in threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Final, ParamSpec, Self, TypeVar, Unpack, overload

from tickstream.clock import Clock, SystemClock
from tickstream.errors import InvalidInput
from tickstream.ingest.acknowledgements import Acknowledgements, Room
from tickstream.ingest.backfill import MOST_BACKFILLED, Backfilled
from tickstream.ingest.bulk import ItemResult
from tickstream.ingest.client import CANCEL_TIMEOUT, FLUSH_S, Client
from tickstream.ingest.connection import Connection, connect_kafka
from tickstream.ingest.dashboard import Page, TaskView
from tickstream.ingest.recurring import Recurring
from tickstream.ingest.request import Item, ScheduleRequest
from tickstream.model import Phase, Receipt, Verdict
from tickstream.settings import Settings

if TYPE_CHECKING:
    from tickstream.ingest.agenda import FreeBusy
    from tickstream.ingest.async_calendar import AsyncCalendar
    from tickstream.recurrence import Previewed

P = ParamSpec("P")
T = TypeVar("T")

WINDOW: Final = 10_000
"""Commands sent and not acknowledged, at most; the next ones await their turn. A tenth of what the
producer's queue takes, since a full queue would hold up the loop."""
THREADS: Final = 32
"""For what waits for a verdict or a dashboard: so many at a time."""
_CHUNK: Final = 256
"""Results of `schedule_many` fetched from its thread at a time."""


class AsyncClient:
    """Schedules and cancels tasks from a coroutine. Use it with `async with`, in one event loop.

    One for a process is enough: thousands of calls can be on their way at a time.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        bootstrap: str | None = None,
        prefix: str | None = None,
        dashboard: str | None = None,
        dashboard_token: str | None = None,
        client_id: str | None = None,
        clock: Clock | None = None,
        connect: Callable[[Settings, str], Connection] = connect_kafka,
    ) -> None:
        """As `Client`; the connection is made on entering, which raises what `Client` raises."""
        self._clock = clock or SystemClock()
        self._make = partial(
            Client,
            settings,
            bootstrap=bootstrap,
            prefix=prefix,
            dashboard=dashboard,
            dashboard_token=dashboard_token,
            client_id=client_id,
            clock=self._clock,
            connect=connect,
        )
        self._made: tuple[Client, Acknowledgements] | None = None
        self._room = Room(WINDOW)
        self._looking = asyncio.Lock()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="async-client")

    # ----------------------------------------------------------------- commands

    @overload
    async def schedule(
        self, task_id: str, *, wait: None = None, **request: Unpack[ScheduleRequest]
    ) -> Receipt: ...

    @overload
    async def schedule(
        self, task_id: str, *, wait: timedelta, **request: Unpack[ScheduleRequest]
    ) -> Verdict: ...

    async def schedule(
        self, task_id: str, *, wait: timedelta | None = None, **request: Unpack[ScheduleRequest]
    ) -> Receipt | Verdict:
        """As `Client.schedule`, but awaits the acknowledgement: a Receipt; with `wait`, the verdict.

        Cancelling it takes nothing back: the command may be in the log. Raises InvalidInput (nothing
        was sent), BrokerUnavailable, SendFailed, VerdictTimeout.
        """
        client, acknowledgements = self._open()
        if wait is not None:
            return await self._in_thread(lambda: client.schedule(task_id, wait=wait, **request))
        async with self._room:
            if self._clock.monotonic() >= client.layout.stale_at:
                await self._look_again(client)
            return await acknowledgements.receipt(client.schedule(task_id, **request))

    def preview(
        self, *, after: datetime | None = None, count: int = 10, **asked: Unpack[Recurring]
    ) -> tuple[Previewed, ...]:
        """As `Client.preview`: it only computes."""
        return self._open()[0].preview(after=after, count=count, **asked)

    async def cancel(
        self, task_id: str, *, running: bool = False, timeout: timedelta = CANCEL_TIMEOUT
    ) -> Verdict:
        """As `Client.cancel`."""
        return await self._in_thread(self._open()[0].cancel, task_id, running=running, timeout=timeout)

    async def pause(self, task_id: str, *, timeout: timedelta = CANCEL_TIMEOUT) -> Verdict:
        """As `Client.pause`."""
        return await self._in_thread(self._open()[0].pause, task_id, timeout=timeout)

    async def resume(self, task_id: str, *, timeout: timedelta = CANCEL_TIMEOUT) -> Verdict:
        """As `Client.resume`."""
        return await self._in_thread(self._open()[0].resume, task_id, timeout=timeout)

    async def trigger(self, task_id: str, *, timeout: timedelta = CANCEL_TIMEOUT) -> Verdict:
        """As `Client.trigger`."""
        return await self._in_thread(self._open()[0].trigger, task_id, timeout=timeout)

    async def reschedule(
        self,
        task_id: str,
        *,
        run_at: datetime | None = None,
        run_at_ts: int | None = None,
        allow_past: bool = False,
        timeout: timedelta = CANCEL_TIMEOUT,
    ) -> Verdict:
        """As `Client.reschedule`."""
        return await self._in_thread(
            self._open()[0].reschedule,
            task_id,
            run_at=run_at,
            run_at_ts=run_at_ts,
            allow_past=allow_past,
            timeout=timeout,
        )

    def calendar(
        self, calendar: str, *, zone: str = "UTC", timeout: timedelta = CANCEL_TIMEOUT
    ) -> AsyncCalendar:
        """As `Client.calendar`; its calls are awaited."""
        from tickstream.ingest.async_calendar import AsyncCalendar

        return AsyncCalendar(self._open()[0].calendar(calendar, zone=zone, timeout=timeout), self._in_thread)

    async def backfill(
        self,
        task_id: str,
        start: datetime,
        end: datetime,
        *,
        most: int = MOST_BACKFILLED,
        again: bool = False,
        dry_run: bool = False,
        timeout: timedelta = CANCEL_TIMEOUT,
    ) -> tuple[Backfilled, ...]:
        """As `Client.backfill`."""
        return await self._in_thread(
            self._open()[0].backfill,
            task_id,
            start,
            end,
            most=most,
            again=again,
            dry_run=dry_run,
            timeout=timeout,
        )

    async def schedule_many(
        self, items: Iterable[Item], *, wait: timedelta | None = None, paced: bool = True
    ) -> AsyncIterator[ItemResult]:
        """As `Client.schedule_many`; `items` are read in a thread. Close it when not read to its end."""
        results = self._open()[0].schedule_many(items, wait=wait, paced=paced)
        try:
            while True:
                chunk, error = await self._in_thread(_next_of, results)
                for result in chunk:
                    yield result
                if error is not None:
                    raise error
                if not chunk:
                    return
        finally:
            close: Callable[[], None] | None = getattr(results, "close", None)
            if close is not None:
                await self._in_thread(close)

    # ----------------------------------------------------------------- reading

    async def get(
        self, task_id: str, *, after: Receipt | Sequence[Receipt] = (), wait_ms: int = 5_000
    ) -> TaskView:
        """As `Client.get`."""
        return await self._in_thread(self._open()[0].get, task_id, after=after, wait_ms=wait_ms)

    async def query(
        self,
        start: datetime | int | None = None,
        end: datetime | int | None = None,
        *,
        state: Phase | str | None = None,
        queue: str | None = None,
        handler: str | None = None,
        label: tuple[str, str] | None = None,
        id_prefix: str | None = None,
        calendar: str | None = None,
        error: str | None = None,
        order: str = "asc",
        limit: int = 100,
        cursor: str | None = None,
        after: Receipt | Sequence[Receipt] = (),
        wait_ms: int = 5_000,
    ) -> Page:
        """As `Client.query`."""
        return await self._in_thread(
            self._open()[0].query,
            start,
            end,
            state=state,
            queue=queue,
            handler=handler,
            label=label,
            id_prefix=id_prefix,
            calendar=calendar,
            error=error,
            order=order,
            limit=limit,
            cursor=cursor,
            after=after,
            wait_ms=wait_ms,
        )

    async def free_busy(
        self, calendars: Sequence[str], start: datetime | int, end: datetime | int
    ) -> FreeBusy:
        """As `Client.free_busy`."""
        return await self._in_thread(self._open()[0].free_busy, calendars, start, end)

    # ----------------------------------------------------------------- life

    async def flush(self, timeout: float = FLUSH_S) -> None:
        """As `Client.flush`."""
        await self._in_thread(self._open()[0].flush, timeout)

    async def __aenter__(self) -> Self:
        client = await self._in_thread(self._make)
        self._made = client, Acknowledgements(client.core)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        client, acknowledgements = self._open()
        self._made = None
        try:
            await self._in_thread(client.__exit__, kind, error, trace)
        finally:
            acknowledgements.close()
            self._threads.shutdown(wait=False)

    def _open(self) -> tuple[Client, Acknowledgements]:
        if self._made is None:
            raise InvalidInput("this AsyncClient is not open: write async with AsyncClient(…) as client")
        return self._made

    async def _look_again(self, client: Client) -> None:
        """Ask the cluster for its layout, off the loop, once for all who find it too old."""
        async with self._looking:
            await self._in_thread(client.layout.check)

    async def _in_thread(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, partial(call, *args, **kwargs))


def _next_of(results: Iterator[ItemResult]) -> tuple[list[ItemResult], Exception | None]:
    """The next results, and what was raised after them, if anything was."""
    chunk: list[ItemResult] = []
    try:
        for result in islice(results, _CHUNK):
            chunk.append(result)
    except Exception as error:  # noqa: BLE001 (raised by who asked, once it has seen the results)
        return chunk, error
    return chunk, None
