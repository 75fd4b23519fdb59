"""What every dashboard is besides its answers: the page's files, the description, the guard, errors as problems.

No index and no shard may enter here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from tickstream.projection.guard import Guard
from tickstream.projection.openapi import document
from tickstream.projection.problems import Problem
from tickstream.projection.subscribing import Address

PAGE: Final = Path(__file__).parent / "page"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


def application(
    routes: Sequence[Route],
    stopping: asyncio.Event,
    *,
    hosts: Iterable[str] = (),
    token: str | None = None,
) -> Starlette:
    """The application around `routes`; `stopping` is set when the server ends.

    `hosts`: names under which it may be called besides loopback's. `token`: then every request
    under /api/ needs `Authorization: Bearer <token>`, and a calendar's feed that or its own key; the page's
    own files hold no data.
    """

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        stopping.set()

    app = Starlette(
        routes=[
            *routes,
            Route("/api/feed", Address(token).feed),
            Route("/openapi.json", _openapi),
            Route("/", _page),
            Route("/{name:path}", _page),
        ],
        middleware=[Middleware(Guard, hosts=tuple(hosts), token=token)],
        exception_handlers={Problem: _problem, HTTPException: _refused, Exception: _failed},
        lifespan=lifespan,
    )
    app.state.stopping = stopping
    return app


async def _openapi(_request: Request) -> Response:
    """The description of this API."""
    return JSONResponse(document())


async def _page(request: Request) -> Response:
    """The page and its files: only what lies in its directory by name."""
    name = request.path_params.get("name") or "index.html"
    files = {path.relative_to(PAGE).as_posix(): path for path in PAGE.rglob("*") if path.suffix in _TYPES}
    if name in files:
        return FileResponse(files[name], media_type=_TYPES[files[name].suffix])
    if name == "index.html":
        return PlainTextResponse("tickstream dashboard: the API is described at /openapi.json\n")
    raise Problem(404, "Not found", f"there is nothing at {request.url.path}; the API is at /openapi.json")


async def _problem(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return error.response()


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Problem(error.status_code, error.detail, f"{request.method} {request.url.path}").response()


async def _failed(_request: Request, _error: Exception) -> Response:
    """The traceback is the server's to log (Starlette raises it on), not the reader's to see."""
    return Problem(500, "Internal error", "the server's log says more").response()
