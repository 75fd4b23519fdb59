"""What a dashboard answers, as values: `get` and `query`, and the questions of someone on call.

Reads only, over HTTP; no command may enter here. The answers are described in docs beside the
API: rows by (occurrence_ts, task_id), each answer with its own age.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote

import httpx

from tickstream.errors import DashboardUnavailable, InvalidInput
from tickstream.ingest.request import instant_ms
from tickstream.model import Phase, Receipt

_CONNECT_S: Final = 4.0
_ANSWER_S: Final = 10.0
"""How long an answer may take beyond the wait that was asked for."""
MAX_WAIT_MS: Final = 10_000


Answer: TypeAlias = dict[str, Any]
"""An answer of the API, described at /openapi.json; it carries `as_of` and `staleness_ms`."""


class Row(NamedTuple):
    """One occurrence, as a listing shows it. Times are ms since the epoch, UTC."""

    task_id: str
    occurrence_ts: int
    state: Phase
    queue: str
    handler: str
    labels: Mapping[str, str]
    attempt: int | None
    worker: str | None
    decided_ms: int | None
    fetched_ms: int | None
    started_ms: int | None
    ended_ms: int | None
    retry_at_ms: int | None
    """Of one that waits for its next attempt: when that is dispatched."""
    error: str | None
    rev: str


class Page(NamedTuple):
    """A page of rows, and how far it can be trusted."""

    rows: tuple[Row, ...]
    cursor: str | None
    """Pass it to `query` for the next page; None: this was the last."""
    as_of: int
    staleness_ms: int
    """The reader's clock minus the instant before which everything is applied, in every bucket."""
    slowest_bucket: int
    """The bucket that holds the answer back most."""
    position: Mapping[str, Mapping[str, int]]


class TaskView(NamedTuple):
    """One task with its occurrences, and how far that can be trusted."""

    task: Mapping[str, Any] | None
    """None: there is no such task."""
    occurrences: tuple[Row, ...]
    attempts: tuple[Mapping[str, Any], ...]
    """Of each occurrence in turn, as the API's `Attempt` describes them."""
    as_of: int
    staleness_ms: int


class Dashboard:
    """A dashboard's read-only HTTP API. Owns its connections."""

    def __init__(
        self, url: str, transport: httpx.BaseTransport | None = None, *, token: str | None = None
    ) -> None:
        """`token`: what a dashboard with --token-file asks for. `transport` replaces the network (tests).

        Raises InvalidInput.
        """
        self._url = url.rstrip("/")
        if token is not None and not (token.isascii() and token.isprintable()):
            raise InvalidInput(
                "the dashboard's token: no HTTP header can carry it; only printable ASCII may be in it"
            )
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._asked_with_token = token is not None
        self._http = httpx.Client(base_url=self._url, transport=transport, headers=headers)

    def task(self, task_id: str, *, after: Sequence[Receipt] = (), wait_ms: int = 0) -> TaskView:
        """One task. Raises DashboardUnavailable, InvalidInput."""
        answer = self._get(f"/api/tasks/{quote(task_id, safe='')}", _reading(after, wait_ms), wait_ms)
        return TaskView(
            answer["task"],
            tuple(_row(row) for row in answer["occurrences"]),
            tuple(answer["attempts"]),
            answer["as_of"],
            answer["staleness_ms"],
        )

    def tasks(self, filters: Mapping[str, str], *, after: Sequence[Receipt] = (), wait_ms: int = 0) -> Page:
        """A page of occurrences. Raises DashboardUnavailable, InvalidInput."""
        answer = self._get("/api/tasks", [*filters.items(), *_reading(after, wait_ms)], wait_ms)
        return Page(
            tuple(_row(row) for row in answer["rows"]),
            answer["cursor"],
            answer["as_of"],
            answer["staleness_ms"],
            answer["slowest_bucket"],
            answer["position"],
        )

    def running(self, filters: Mapping[str, str] | None = None) -> Answer:
        """What is out, and who holds it: a page of `rows`, each with its lease. Raises as `tasks`."""
        return self.ask("running", filters)

    def counts(self, start_ms: int, end_ms: int, *, by: str = "minute", queue: str | None = None) -> Answer:
        """Rows per period (`second`, `minute` or `hour`) and state, in `periods`. Raises as `tasks`."""
        span = {"start": str(start_ms), "end": str(end_ms), "by": by}
        return self.ask("counts", span | ({} if queue is None else {"queue": queue}))

    def forecast(self, horizon: str = "hour") -> Answer:
        """What is due within an `hour`, `day` or `week`, with its worst seconds. Raises as `tasks`."""
        return self.ask("forecast", {"horizon": horizon})

    def lateness(self, filters: Mapping[str, str] | None = None) -> Answer:
        """Percentiles of lateness over time, by stage; the last hour by default. Raises as `tasks`."""
        return self.ask("lateness", filters)

    def failures(self, filters: Mapping[str, str] | None = None) -> Answer:
        """What was given up on, in `groups` of one handler and error. Raises as `tasks`."""
        return self.ask("failures", filters)

    def queues(self) -> Answer:
        """Each queue: what waits, what is late, who works on it. Raises as `tasks`."""
        return self.ask("queues")

    def cluster(self) -> Answer:
        """Buckets, lanes, their owners, and the members of groups. Raises as `tasks`."""
        return self.ask("cluster")

    def changes(self, filters: Mapping[str, str] | None = None) -> Answer:
        """Take-overs, new zone data, new layouts; latest first. Raises as `tasks`."""
        return self.ask("changes", filters)

    def ask(
        self,
        what: str,
        filters: Mapping[str, str] | Sequence[tuple[str, str]] | None = None,
        *,
        after: Sequence[Receipt] = (),
        wait_ms: int = 0,
    ) -> Answer:
        """The answer of `/api/<what>`, as the API describes it; pairs where a name comes more than once.

        Raises DashboardUnavailable, InvalidInput.
        """
        pairs = filters.items() if isinstance(filters, Mapping) else filters or ()
        return self._get(f"/api/{what}", [*pairs, *_reading(after, wait_ms)], wait_ms)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _get(self, path: str, params: list[tuple[str, str]], wait_ms: int) -> dict[str, Any]:
        timeout = httpx.Timeout(_ANSWER_S + wait_ms / 1_000, connect=_CONNECT_S)
        try:
            response = self._http.get(path, params=tuple(params), timeout=timeout)
            answer: dict[str, Any] = response.json()
        except httpx.HTTPError as error:
            raise DashboardUnavailable(
                f"no dashboard answered at {self._url} ({error or type(error).__name__}); "
                "start one with: tickstream dashboard run, or pass another address as dashboard="
            ) from error
        except ValueError as error:
            raise DashboardUnavailable(
                f"{self._url}{path} answered {response.status_code} with something that is no JSON; "
                "is another service running there?"
            ) from error
        if response.is_success:
            return answer
        if response.status_code == httpx.codes.UNAUTHORIZED:
            raise InvalidInput(self._refused())
        said = (
            f"{self._url}{path}: {response.status_code} {answer.get('detail') or answer.get('title') or ''}"
        )
        if response.status_code == httpx.codes.GATEWAY_TIMEOUT:
            raise DashboardUnavailable(
                f"{said} (staleness_ms={answer.get('staleness_ms')}, position={answer.get('position')})"
            )
        raise InvalidInput(said) if response.is_client_error else DashboardUnavailable(said)

    def _refused(self) -> str:
        if self._asked_with_token:
            return (
                f"{self._url} does not take this token; "
                "it must be the first line of the file that its --token-file names"
            )
        return (
            f"{self._url} asks for a token: name the file that holds it with --token-file or "
            "TICKSTREAM_DASHBOARD_TOKEN_FILE, or put it into TICKSTREAM_DASHBOARD_TOKEN or dashboard_token="
        )


def _reading(after: Sequence[Receipt], wait_ms: int) -> list[tuple[str, str]]:
    if not 0 <= wait_ms <= MAX_WAIT_MS:
        raise InvalidInput(f"wait_ms={wait_ms}: an answer can wait for 0-{MAX_WAIT_MS} ms")
    return [("after", str(receipt)) for receipt in after] + ([("wait_ms", str(wait_ms))] if after else [])


def _row(fields: Mapping[str, Any]) -> Row:
    named: dict[str, Any] = {name: fields.get(name) for name in Row._fields}
    return Row(**named | {"state": Phase(fields["state"])})


def receipts_of(after: Receipt | Sequence[Receipt]) -> Sequence[Receipt]:
    """One receipt or several, as several."""
    return (after,) if isinstance(after, Receipt) else after


def bound_of(name: str, value: datetime | int | None) -> str | None:
    """A bound of a window in ms, as text. Raises InvalidInput."""
    if value is None:
        return None
    if isinstance(value, datetime):
        return str(instant_ms(name, value, None))
    return str(instant_ms(name, None, value))
