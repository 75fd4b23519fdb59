"""One dashboard over several shards: each question goes to all of them, and their answers are put together.

No index may enter here, and nothing is merged here (merge.py). A shard is a dashboard over a projection
that follows some of the buckets (`projection run --buckets`). An answer is the whole or none: a shard that
does not answer, a bucket that no shard has, or one that two have, is an error that names it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import httpx
from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tickstream.clock import Clock, SystemClock
from tickstream.projection import merge, merge_calendars, parameters, subscribing
from tickstream.projection.application import application
from tickstream.projection.problems import Problem
from tickstream.projection.stream import StatusCache, events

_CONNECT_S: Final = 2.0
_ANSWER_S: Final = 10.0
"""How long a shard's answer may take beyond the wait that was asked for."""

Pairs = list[tuple[str, str]]
_CONDITIONS: Final = ("if-none-match", "if-modified-since")
_OF_FEED: Final = ("content-type", "content-disposition", "etag", "last-modified", "cache-control")


class Shards:
    """The shards' HTTP APIs. Owns the connections; `aclose` it."""

    def __init__(
        self, urls: Sequence[str], token: str | None, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        """`token`: the shards'. `transport` replaces the network (tests)."""
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._clients = [
            httpx.AsyncClient(base_url=url.rstrip("/"), headers=headers, transport=transport) for url in urls
        ]
        self._buckets: list[frozenset[int]] = []
        """By shard, the buckets it had when it was asked last."""

    async def aclose(self) -> None:
        """Close the connections."""
        for client in self._clients:
            await client.aclose()

    async def ask(self, path: str, query: Pairs) -> list[dict[str, Any]]:
        """Every shard's answer. Raises Problem: a shard's own, or that an answer would not be the whole."""
        after = [text for name, text in query if name == "after"]
        if after and not self._buckets:
            await self.ask("/api/queues", [])
        queries = [
            [(name, text) for name, text in query if name != "after" or self._concerns(shard, text)]
            for shard in range(len(self._clients))
        ]
        answers = await asyncio.gather(
            *(_get(client, path, own) for client, own in zip(self._clients, queries, strict=True))
        )
        self._buckets = _whole([str(client.base_url) for client in self._clients], answers)
        return list(answers)

    async def feed(self, path: str, headers: Mapping[str, str]) -> httpx.Response | None:
        """The file of the shard that has the calendar; None: none has. Raises Problem when one does not answer."""
        try:
            answers = await asyncio.gather(
                *(client.get(path, headers=headers, timeout=_ANSWER_S) for client in self._clients)
            )
        except httpx.HTTPError as error:
            raise _incomplete(f"a shard did not answer ({error or type(error).__name__})") from error
        return next((a for a in answers if a.status_code != httpx.codes.NOT_FOUND), None)

    def _concerns(self, shard: int, receipt: str) -> bool:
        """Whether the shard can tell: it has the bucket, or nobody has and it may say so."""
        bucket = receipt.partition(":")[0]
        owner = next((n for n, own in enumerate(self._buckets) if bucket in map(str, own)), 0)
        return owner == shard


async def _get(client: httpx.AsyncClient, path: str, query: Pairs) -> dict[str, Any]:
    wait_ms = next((int(text) for name, text in query if name == "wait_ms" and text.isdigit()), 0)
    timeout = httpx.Timeout(_ANSWER_S + min(wait_ms, parameters.MAX_WAIT_MS) / 1_000, connect=_CONNECT_S)
    try:
        response = await client.get(path, params=tuple(query), timeout=timeout)
        answer: dict[str, Any] = response.json()
    except (httpx.HTTPError, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise _incomplete(f"the shard at {client.base_url} did not answer ({reason})") from error
    if response.is_success:
        return answer
    more = {
        name: value for name, value in answer.items() if name not in ("type", "title", "status", "detail")
    }
    if response.status_code == httpx.codes.UNAUTHORIZED:
        raise _incomplete(f"the shard at {client.base_url} wants another token")
    raise Problem(response.status_code, answer["title"], answer["detail"], **more)


def _whole(urls: Sequence[str], answers: Sequence[Mapping[str, Any]]) -> list[frozenset[int]]:
    """The buckets of each answer. Raises Problem unless every bucket is in exactly one."""
    own = [frozenset(map(int, answer["position"])) for answer in answers]
    sizes = {answer["of_buckets"] for answer in answers}
    if len(sizes) > 1:
        raise _incomplete(f"the shards are of installations with {sorted(sizes)} buckets")
    for bucket in range(sizes.pop()):
        where = [url for url, buckets in zip(urls, own, strict=True) if bucket in buckets]
        if len(where) != 1:
            raise _incomplete(f"bucket {bucket} is in {' and '.join(where) or 'no shard'}")
    return own


def _incomplete(detail: str) -> Problem:
    problem = Problem(503, "Shards incomplete", detail)
    problem.headers["Retry-After"] = "1"
    return problem


# --------------------------------------------------------------------------- the endpoints

Merge = Callable[[Sequence[merge.Answer], QueryParams], merge.Answer]


def _page(answers: Sequence[merge.Answer], given: QueryParams) -> merge.Answer:
    window = parameters.filters(given)
    return merge.page(answers, limit=window.limit, descending=window.descending)


def _changes(answers: Sequence[merge.Answer], given: QueryParams) -> merge.Answer:
    return merge.changes(answers, limit=parameters.changes(given, answers[0]["as_of"]).limit)


def _failures(answers: Sequence[merge.Answer], given: QueryParams) -> merge.Answer:
    return merge.failures(answers, limit=parameters.failures(given, answers[0]["as_of"]).limit)


def _calendars(answers: Sequence[merge.Answer], given: QueryParams) -> merge.Answer:
    return merge_calendars.calendars(answers, limit=parameters.calendars(given)[0])


def _free(answers: Sequence[merge.Answer], given: QueryParams) -> merge.Answer:
    asked = parameters.free(given, answers[0]["as_of"])
    return merge_calendars.free(answers, least_ms=asked.least_ms, limit=asked.limit)


def _plain(merged: Callable[[Sequence[merge.Answer]], merge.Answer]) -> Merge:
    return lambda answers, _given: merged(answers)


_ROUTES: Final[Mapping[str, Merge]] = {
    "/api/tasks": _page,
    "/api/tasks/{task_id:path}": _plain(merge.task),
    "/api/counts": _plain(merge.counts),
    "/api/forecast": _plain(merge.forecast),
    "/api/lateness": _plain(merge.late),
    "/api/running": _page,
    "/api/failures": _failures,
    "/api/queues": _plain(merge.queues),
    "/api/cluster": _plain(merge.cluster),
    "/api/changes": _changes,
    "/api/calendars": _calendars,
    "/api/events": _plain(merge_calendars.of_one),
    "/api/conflicts": _plain(merge_calendars.of_one),
    "/api/free-busy": _plain(merge_calendars.free_busy),
    "/api/free": _free,
    "/api/bookings": _plain(merge_calendars.of_one),
}


class Front:
    """The endpoints over several shards."""

    def __init__(self, shards: Shards, clock: Clock) -> None:
        self._shards = shards
        self._status = StatusCache(self._make_status, clock)
        self.stopping = asyncio.Event()

    def routes(self) -> list[Route]:
        """Every question of the API."""
        return [
            *(Route(path, self._endpoint(merged)) for path, merged in _ROUTES.items()),
            Route(subscribing.ROUTE, self._feed),
            Route("/api/status", self._at_a_glance),
            Route("/api/stream", self._stream),
        ]

    def _endpoint(self, merged: Merge) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            path = request.scope["raw_path"].decode("ascii")
            answers = await self._shards.ask(path, request.query_params.multi_items())
            return JSONResponse(merged(answers, request.query_params))

        return endpoint

    async def _feed(self, request: Request) -> Response:
        conditions = {name: request.headers[name] for name in _CONDITIONS if name in request.headers}
        answer = await self._shards.feed(request.scope["raw_path"].decode("ascii"), conditions)
        if answer is None:
            raise subscribing.no_such_calendar(request.path_params["calendar"])
        headers = {name: answer.headers[name] for name in _OF_FEED if name in answer.headers}
        return Response(answer.content, answer.status_code, headers=headers)

    async def _make_status(self) -> dict[str, Any]:
        return merge.status(await self._shards.ask("/api/status", []))

    async def _at_a_glance(self, _request: Request) -> Response:
        return JSONResponse(await self._status.get())

    async def _stream(self, _request: Request) -> Response:
        return StreamingResponse(events(self._status, self.stopping), media_type="text/event-stream")


def create_front(
    shards: Shards,
    *,
    clock: Clock | None = None,
    hosts: Iterable[str] = (),
    token: str | None = None,
) -> Starlette:
    """The dashboard over `shards`, which stay the caller's to close. `hosts` and `token` as in `application`."""
    front = Front(shards, clock or SystemClock())
    return application(front.routes(), front.stopping, hosts=hosts, token=token)
