"""Looks at the demo through its dashboard, as anybody would, and says it in one line.

Nothing is decided here but whether all is done.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import httpx

_TIMEOUT_S: Final = 2.0


class Seen(NamedTuple):
    """The dashboard's state at a glance; counts, and ms."""

    scheduled: int
    in_flight: int
    """Dispatched, running, or waiting for another attempt."""
    succeeded: int
    dead: int
    cancelled: int
    late_p50_ms: int | None
    late_p99_ms: int | None
    staleness_ms: int

    @property
    def drained(self) -> bool:
        """Whether nothing waits or runs."""
        return self.scheduled == self.in_flight == 0

    def line(self, seconds: float) -> str:
        """One line for a person; `seconds` since the first instant."""
        late = "–" if self.late_p50_ms is None else f"{self.late_p50_ms}/{self.late_p99_ms}"
        return (
            f"{seconds:+4.0f} s  {self.scheduled:,} waiting, {self.in_flight:,} out, {self.succeeded:,} done, "
            f"{self.cancelled:,} cancelled, {self.dead:,} dead; late p50/p99 {late} ms, "
            f"shown {self.staleness_ms:,} ms behind"
        )


class Watch:
    """Asks one dashboard; owns the connection."""

    def __init__(self, url: str, token: str | None = None) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=url, timeout=_TIMEOUT_S, headers=headers)

    def look(self) -> Seen | None:
        """What it says now; None when it does not answer (it may be busy, the demo goes on)."""
        try:
            answer = self._http.get("/api/status")
        except httpx.TransportError:
            return None
        return seen_in(answer.json()) if answer.is_success else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()


def seen_in(status: dict[str, Any]) -> Seen:
    """From the answer of /api/status."""
    totals, late = status["totals"], status["lateness"]["stages"]["due_to_started"]
    return Seen(
        totals["scheduled"],
        status["running"]["count"],
        totals["succeeded"],
        totals["dead"],
        totals["cancelled"],
        late["p50_ms"],
        late["p99_ms"],
        status["staleness_ms"],
    )
