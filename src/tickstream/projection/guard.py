"""What every request passes first: Host, Origin, method and token; and the headers every answer bears.

Pure ASGI, so that it also covers streams and files; nothing of the index may enter here.

The page shows what producers wrote (ids, labels, errors), so its policy is strict: only its own
files, nothing inline. The Host check keeps a foreign site from reaching a loopback dashboard by
rebinding its name; the Origin check keeps one from reading it through a visitor's browser.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tickstream.projection.feed import feed_key
from tickstream.projection.problems import Problem
from tickstream.projection.subscribing import calendar_of

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_HEADERS: Final = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """ASGI middleware. `hosts`: names under which this server may be called, besides loopback's."""

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str] = (), token: str | None = None) -> None:
        self._app = app
        self._hosts = LOOPBACK | {host.lower() for host in hosts}
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check, pass on, and add the headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        problem = self._refusal(scope, Headers(scope=scope))
        app = self._app if problem is None else problem.response()
        await app(scope, receive, send_guarded)

    def _refusal(self, scope: Scope, headers: Headers) -> Problem | None:
        host = _name(headers.get("host", ""))
        if host not in self._hosts:
            return Problem(
                421,
                "Unknown host",
                f"this server is not called {host!r}; start it with --allow-host {host or 'NAME'}",
            )
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            return Problem(403, "Foreign origin", "pages of other sites may not read this one")
        if scope["method"] not in ("GET", "HEAD"):
            problem = Problem(
                405,
                "Read only",
                f"{scope['method']}: there is nothing to change here; use the client or the command line",
            )
            problem.headers["Allow"] = "GET, HEAD"
            return problem
        calendar = calendar_of(scope["path"])
        if self._token is not None and (scope["path"].startswith("/api/") or calendar is not None):
            given = headers.get("authorization", "")
            known = hmac.compare_digest(given.encode(), f"Bearer {self._token}".encode())
            if not known and calendar is not None:
                # Programs that subscribe to calendars send no header: theirs is a key for this one feed.
                (key, *_) = parse_qs(scope["query_string"].decode("latin-1")).get("key", [""])
                known = hmac.compare_digest(key.encode(), feed_key(self._token, calendar).encode())
            if not known:
                problem = Problem(401, "Token needed", "send the header Authorization: Bearer <token>")
                problem.headers["WWW-Authenticate"] = "Bearer"
                return problem
        return None


def _name(host: str) -> str:
    """The name in a Host header, without port and brackets, in lower case."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
