"""The HTTP API of the dashboard: read-only, JSON, on a projection's index.

No Kafka may enter here. Reads of RocksDB run in a thread pool; waiting for a command does not hold
a thread. Shapes of answers: answers.py and status.py; their description: openapi.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import orjson
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tickstream.clock import Clock, SystemClock
from tickstream.errors import IndexNotReady, InvalidInput, InvalidTaskId, MissingExtra
from tickstream.model import Receipt, check_task_id
from tickstream.projection import (
    answers,
    calendars,
    charts,
    failures,
    installation,
    parameters,
    runs,
    subscribing,
)
from tickstream.projection.application import application
from tickstream.projection.feed import Validators, feed, validators
from tickstream.projection.freshness import Freshness, freshness, missing
from tickstream.projection.problems import Problem, bad_parameter, not_ready, not_visible
from tickstream.projection.reader import IndexReader, View
from tickstream.projection.status import status
from tickstream.projection.stream import StatusCache, events

_LOOK_AGAIN_S: Final = 0.02
"""How often a request that waits for a command looks; a catch-up of the secondary costs 0.5 ms."""

Answer = dict[str, Any] | bytes
"""JSON-ready, or JSON already."""
_T = TypeVar("_T")


class Dashboard:
    """The endpoints over one reader."""

    def __init__(self, reader: IndexReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._status = StatusCache(self._make_status, clock)
        self.stopping = asyncio.Event()

    async def tasks(self, request: Request) -> Response:
        """A page of rows in a window."""
        window = parameters.window(request.query_params)
        return await self._answer(request, lambda view, fresh: answers.page(view, window, fresh))

    async def task(self, request: Request) -> Response:
        """One task."""
        parameters.nothing(request.query_params)
        task_id = request.path_params["task_id"]
        try:
            check_task_id(task_id)
        except InvalidTaskId as error:
            raise Problem(400, "Bad task id", str(error)) from error
        return await self._answer(request, lambda view, fresh: answers.task(view, task_id, fresh))

    async def counts(self, request: Request) -> Response:
        """Rows per second, minute or hour, and state."""
        span = parameters.counts(request.query_params)
        return await self._answer(request, lambda view, fresh: charts.counts(view, span, fresh))

    async def forecast(self, request: Request) -> Response:
        """The load to come."""
        horizon = parameters.forecast(request.query_params)
        return await self._answer(request, lambda view, fresh: charts.forecast(view, horizon, fresh))

    async def lateness(self, request: Request) -> Response:
        """Percentiles of lateness over time, by stage."""
        span = parameters.lateness(request.query_params, self._clock.wall_ms())
        return await self._answer(request, lambda view, fresh: charts.late(view, span, fresh))

    async def running(self, request: Request) -> Response:
        """What is out, and who holds it."""
        window = parameters.running(request.query_params)
        return await self._answer(request, lambda view, fresh: runs.running(view, window, fresh))

    async def failures(self, request: Request) -> Response:
        """What was given up on, by handler and error."""
        asked = parameters.failures(request.query_params, self._clock.wall_ms())
        return await self._answer(request, lambda view, fresh: failures.failures(view, asked, fresh))

    async def queues(self, request: Request) -> Response:
        """Each queue, and who works on it."""
        parameters.nothing(request.query_params)
        return await self._answer(request, installation.queues)

    async def cluster(self, request: Request) -> Response:
        """Buckets, lanes and their owners."""
        parameters.nothing(request.query_params)
        return await self._answer(request, installation.cluster)

    async def changes(self, request: Request) -> Response:
        """What became different, latest first."""
        strip = parameters.changes(request.query_params, self._clock.wall_ms())
        return await self._answer(request, lambda view, fresh: installation.changes(view, strip, fresh))

    async def calendars(self, request: Request) -> Response:
        """The calendars that have events."""
        limit, cursor = parameters.calendars(request.query_params)
        return await self._answer(
            request, lambda view, fresh: calendars.calendars(view, limit, cursor, fresh)
        )

    async def events(self, request: Request) -> Response:
        """What takes place in a calendar."""
        asked = parameters.events(request.query_params, self._clock.wall_ms())
        return await self._answer(request, lambda view, fresh: calendars.events(view, asked, fresh))

    async def conflicts(self, request: Request) -> Response:
        """What wants the same time."""
        asked = parameters.conflicts(request.query_params, self._clock.wall_ms())
        return await self._answer(request, lambda view, fresh: calendars.conflicts(view, asked, fresh))

    async def free_busy(self, request: Request) -> Response:
        """What is taken, by calendar."""
        asked = parameters.free_busy(request.query_params, self._clock.wall_ms())
        return await self._answer(request, lambda view, fresh: calendars.free_busy(view, asked, fresh))

    async def free(self, request: Request) -> Response:
        """The first free slots."""
        asked = parameters.free(request.query_params, self._clock.wall_ms())
        return await self._answer(request, lambda view, fresh: calendars.free(view, asked, fresh))

    async def bookings(self, request: Request) -> Response:
        """Events as they are kept."""
        asked = parameters.bookings(request.query_params)
        return await self._answer(request, lambda view, fresh: calendars.bookings(view, asked, fresh))

    async def feed(self, request: Request) -> Response:
        """A calendar as a file to subscribe to."""
        calendar = request.path_params["calendar"]

        def look(view: View, fresh: Freshness) -> tuple[Validators, bytes | None]:
            now = validators(view, calendar, fresh)
            if now is None:
                raise subscribing.no_such_calendar(calendar)
            same = subscribing.not_modified(request.headers, now)
            return now, None if same else feed(view, calendar, fresh)

        now, file = await run_in_threadpool(self._read, look)
        return subscribing.answer(calendar, now, file)

    async def status(self, _request: Request) -> Response:
        """Everything at a glance."""
        return JSONResponse(await self._make_status())

    async def stream(self, _request: Request) -> Response:
        """The status, live."""
        return StreamingResponse(events(self._status, self.stopping), media_type="text/event-stream")

    async def _make_status(self) -> dict[str, Any]:
        return await run_in_threadpool(self._read, status)

    async def _answer(self, request: Request, make: Callable[[View, Freshness], Answer]) -> Response:
        """What `make` says of the index once the commands named by `after=` are in it."""
        receipts, wait_ms = parameters.receipts(request.query_params)

        def look(view: View, fresh: Freshness) -> tuple[list[Receipt], Freshness, bytes]:
            late = missing(_of_known_buckets(receipts, fresh), fresh.positions)
            return late, fresh, b"" if late else _as_json(make(view, fresh))

        deadline = self._clock.monotonic() + wait_ms / 1000
        while True:
            late, fresh, answer = await run_in_threadpool(self._read, look)
            if not late:
                return Response(answer, media_type="application/json")
            if self._clock.monotonic() >= deadline:
                raise not_visible([str(receipt) for receipt in late], wait_ms, **fresh.fields())
            await asyncio.sleep(_LOOK_AGAIN_S)

    def _read(self, make: Callable[[View, Freshness], _T]) -> _T:
        try:
            with self._reader.view() as view:
                return make(view, freshness(view.positions(), self._clock.wall_ms(), view.of_buckets()))
        except IndexNotReady as error:
            raise not_ready(str(error)) from error
        except MissingExtra as error:
            raise Problem(501, "Not installed", str(error)) from error
        except InvalidInput as error:
            raise Problem(400, "Bad request", str(error)) from error


def _as_json(answer: Answer) -> bytes:
    return answer if isinstance(answer, bytes) else orjson.dumps(answer)


def _of_known_buckets(receipts: list[Receipt], fresh: Freshness) -> list[Receipt]:
    for receipt in receipts:
        if receipt.bucket not in fresh.positions:
            raise bad_parameter(
                "after",
                str(receipt),
                f"there are only {fresh.of_buckets} buckets: of another installation?"
                if receipt.bucket >= fresh.of_buckets
                else f"bucket {receipt.bucket} is not in this shard",
            )
    return receipts


def create_app(
    reader: IndexReader,
    *,
    clock: Clock | None = None,
    hosts: Iterable[str] = (),
    token: str | None = None,
) -> Starlette:
    """The dashboard as an ASGI application. `reader` stays the caller's to close.

    `hosts` and `token` as in `application`.
    """
    dashboard = Dashboard(reader, clock or SystemClock())
    routes = [
        Route("/api/tasks", dashboard.tasks),
        Route("/api/tasks/{task_id:path}", dashboard.task),
        Route("/api/counts", dashboard.counts),
        Route("/api/forecast", dashboard.forecast),
        Route("/api/lateness", dashboard.lateness),
        Route("/api/running", dashboard.running),
        Route("/api/failures", dashboard.failures),
        Route("/api/queues", dashboard.queues),
        Route("/api/cluster", dashboard.cluster),
        Route("/api/changes", dashboard.changes),
        Route("/api/calendars", dashboard.calendars),
        Route("/api/events", dashboard.events),
        Route("/api/conflicts", dashboard.conflicts),
        Route("/api/free-busy", dashboard.free_busy),
        Route("/api/free", dashboard.free),
        Route("/api/bookings", dashboard.bookings),
        Route(subscribing.ROUTE, dashboard.feed),
        Route("/api/status", dashboard.status),
        Route("/api/stream", dashboard.stream),
    ]
    return application(routes, dashboard.stopping, hosts=hosts, token=token)
