"""The feed's HTTP: conditional requests, and the address that a subscriber is given.

No index may enter here (feed.py).
"""

from __future__ import annotations

from email.utils import formatdate, parsedate_to_datetime
from typing import Final
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tickstream.projection import parameters
from tickstream.projection.feed import Validators, feed_key
from tickstream.projection.problems import Problem

PREFIX: Final = "/calendars/"
SUFFIX: Final = ".ics"
ROUTE: Final = f"{PREFIX}{{calendar:path}}{SUFFIX}"
MEDIA_TYPE: Final = "text/calendar; charset=utf-8"


def no_such_calendar(calendar: str) -> Problem:
    """404."""
    return Problem(404, "No such calendar", f"calendar {calendar!r} never had an event")


def not_modified(headers: Headers, now: Validators) -> bool:
    """Whether the subscriber has the present file (RFC 9110, 13.2.2: If-None-Match goes before the date)."""
    tags = headers.get("if-none-match")
    if tags is not None:
        given = {tag.strip().removeprefix("W/").strip('"') for tag in tags.split(",")}
        return now.tag in given or "*" in given
    since = headers.get("if-modified-since")
    if since is None or now.modified_ms is None:
        return False
    try:
        return now.modified_ms // 1_000 <= parsedate_to_datetime(since).timestamp()
    except ValueError:
        # No date is no condition (RFC 9110, 13.1.3).
        return False


def headers_of(calendar: str, now: Validators) -> dict[str, str]:
    """What every answer of a feed bears; `no-cache`: may be kept, is asked for again."""
    named = quote(f"{calendar}{SUFFIX}", safe="")
    found = {
        "ETag": f'"{now.tag}"',
        "Cache-Control": "private, no-cache",
        "Content-Disposition": f"inline; filename*=UTF-8''{named}",
    }
    if now.modified_ms is not None:
        found["Last-Modified"] = formatdate(now.modified_ms // 1_000, usegmt=True)
    return found


def answer(calendar: str, now: Validators, file: bytes | None) -> Response:
    """The file, or 304 where there is none to send."""
    headers = headers_of(calendar, now)
    if file is None:
        return Response(None, 304, headers=headers)
    return Response(file, headers=headers, media_type=MEDIA_TYPE)


def calendar_of(path: str) -> str | None:
    """Whose feed lies at a path; None: none does."""
    if path.startswith(PREFIX) and path.endswith(SUFFIX) and len(path) > len(PREFIX + SUFFIX):
        return path[len(PREFIX) : -len(SUFFIX)]
    return None


class Address:
    """The endpoint that says where a calendar's feed lies."""

    def __init__(self, token: str | None) -> None:
        self._token: Final = token

    async def feed(self, request: Request) -> Response:
        """The path with the key that lets a subscriber read this calendar and nothing else."""
        calendar = parameters.feed(request.query_params)
        key = "" if self._token is None else f"?key={feed_key(self._token, calendar)}"
        return JSONResponse({"path": f"{PREFIX}{quote(calendar, safe='')}{SUFFIX}{key}"})
