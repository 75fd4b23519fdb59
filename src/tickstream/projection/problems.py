"""Errors of the HTTP API as problem+json (RFC 9457): what was wrong, where, what to do.

Nothing of the index may enter here.
"""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse


class Problem(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, title: str, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.body = {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}
        self.headers: dict[str, str] = {}

    def response(self) -> JSONResponse:
        """It, as a response."""
        return JSONResponse(
            self.body, self.status, headers=self.headers, media_type="application/problem+json"
        )


def bad_parameter(name: str, value: str, expected: str) -> Problem:
    """400: a parameter that cannot be understood. `expected` says what it should look like."""
    shown = value if len(value) <= 80 else value[:80] + "…"
    return Problem(400, "Bad parameter", f"{name}={shown!r}: {expected}", parameter=name)


def not_visible(missing: list[str], waited_ms: int, **answer: Any) -> Problem:
    """504: `after=` was not reached in time; carries position and staleness."""
    return Problem(
        504,
        "Not visible yet",
        f"the commands {', '.join(missing)} are not in the index after {waited_ms} ms; repeat the request with a "
        "longer wait_ms (at most 10000), and see staleness_ms and slowest_bucket for what holds it back",
        missing=missing,
        **answer,
    )


def not_ready(detail: str) -> Problem:
    """503: there is no index to answer from."""
    problem = Problem(503, "No index yet", detail)
    problem.headers["Retry-After"] = "1"
    return problem
