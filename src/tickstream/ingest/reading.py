"""What a client reads: tasks, occurrences, calendars, as a dashboard answers.

No command may enter here; the questions themselves are in dashboard.py and agenda.py.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from tickstream.ingest.dashboard import Dashboard, Page, TaskView, bound_of, receipts_of
from tickstream.model import Phase, Receipt
from tickstream.settings import dashboard_token, dashboard_url

if TYPE_CHECKING:
    from tickstream.ingest.agenda import FreeBusy


class Reading:
    """Asks a dashboard, from the first question on. Thread-safe."""

    def __init__(self, dashboard: str | None, token: str | None = None) -> None:
        """`dashboard`: its address, else TICKSTREAM_DASHBOARD. `token`: else the environment's."""
        self._dashboard_url: Final = dashboard
        self._token: Final = token
        self._dashboard: Dashboard | None = None
        self._opening: Final = threading.Lock()

    def get(self, task_id: str, *, after: Receipt | Sequence[Receipt] = (), wait_ms: int = 5_000) -> TaskView:
        """One task and its occurrences, from the dashboard.

        With `after`, the answer waits until it contains that command, at most `wait_ms`. Raises
        DashboardUnavailable.
        """
        return self.dashboard.task(task_id, after=receipts_of(after), wait_ms=wait_ms if after else 0)

    def query(
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
        """Occurrences in [start, end), by time, from the dashboard; bounds as datetime or ms.

        `calendar`: whose events they are. `error`: contained in the row's error, whatever its case.
        `order`: "asc" or "desc". `cursor`: that of the page before. With `after`, the answer waits until it contains that
        command, at most `wait_ms`. Raises InvalidInput, DashboardUnavailable.
        """
        filters = {
            "start": bound_of("start", start),
            "end": bound_of("end", end),
            "state": state.value if isinstance(state, Phase) else state,
            "queue": queue,
            "handler": handler,
            "label": None if label is None else ":".join(label),
            "id_prefix": id_prefix,
            "calendar": calendar,
            "error": error,
            "order": order,
            "limit": str(limit),
            "cursor": cursor,
        }
        given = {name: value for name, value in filters.items() if value is not None}
        return self.dashboard.tasks(given, after=receipts_of(after), wait_ms=wait_ms if after else 0)

    def free_busy(self, calendars: Sequence[str], start: datetime | int, end: datetime | int) -> FreeBusy:
        """What is taken of [start, end) in each of these calendars, at most 400 days, from the dashboard.

        Each lies in its own bucket: this is no reservation. Raises InvalidInput, DashboardUnavailable.
        """
        from tickstream.ingest.agenda import free_busy

        return free_busy(self.dashboard, calendars, start, end)

    @property
    def dashboard(self) -> Dashboard:
        """All that a dashboard answers: `client.dashboard.failures()`, `.running()`, `.forecast()`, …"""
        with self._opening:
            if self._dashboard is None:
                self._dashboard = Dashboard(
                    self._dashboard_url or dashboard_url(), token=self._token or dashboard_token()
                )
            return self._dashboard

    def close_dashboard(self) -> None:
        """Close its connections, if there are any."""
        with self._opening:
            reader, self._dashboard = self._dashboard, None
        if reader is not None:
            reader.close()
