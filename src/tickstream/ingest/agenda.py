"""What a calendar has, as a dashboard answers it: occurrences, free and busy time, and the events themselves.

Reads only, over HTTP; no command may enter here. Instants are ms since the epoch, UTC.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from tickstream.calendar import Event, Slot, Stretch
from tickstream.calendar.stored import decode_booking
from tickstream.errors import InvalidInput
from tickstream.ingest.dashboard import Answer, Dashboard, bound_of, receipts_of
from tickstream.model import Receipt

_MS: Final = timedelta(milliseconds=1)
_PAGE: Final = 1_000

Bound = datetime | int
"""An aware datetime, or ms since the epoch."""


class Meeting(NamedTuple):
    """An occurrence that wants the same time as another."""

    start_ms: int
    end_ms: int
    uid: str
    recurrence_ms: int
    tentative: bool


class Occurring(NamedTuple):
    """One occurrence of an event."""

    uid: str
    start_ms: int
    end_ms: int
    recurrence_ms: int
    """Where its rule puts it, wherever it was moved: its identity."""
    all_day: bool
    zone: str | None
    """Of the event; None: the calendar's."""
    rule: str
    recurring: bool
    changed: bool
    """By hand (RECURRENCE-ID)."""
    tentative: bool
    blocks: bool
    """Whether it takes up its time."""
    clock_change: str | None
    """`gap` or `fold` when a change of clocks touches its start."""
    summary: str
    location: str
    description: str
    attendees: tuple[str, ...]
    conflicts: tuple[Meeting, ...]
    """The first of those that want the same time."""
    conflict_count: int


class Freshness(NamedTuple):
    """How far an answer can be trusted."""

    as_of: int
    staleness_ms: int
    """The reader's clock minus the instant before which everything is applied, in every bucket."""
    slowest_bucket: int


class Occurrences(NamedTuple):
    """What takes place in a window, by start."""

    events: tuple[Occurring, ...]
    unreadable: Mapping[str, str]
    """By uid, why an event is missing that the dashboard cannot expand."""
    zone: str | None
    """The calendar's; None: it never had an event."""
    fresh: Freshness


class FreeSlots(NamedTuple):
    """The first gaps that are long enough, whole."""

    slots: tuple[Slot, ...]
    more: bool
    fresh: Freshness


class FreeBusy(NamedTuple):
    """What is taken, by calendar. Each lies in its own bucket: this is no reservation."""

    calendars: Mapping[str, tuple[Stretch, ...]]
    fresh: Freshness


class CalendarReader:
    """What one calendar has. `Calendar` is this, and changes it too."""

    def __init__(self, calendar: str, dashboard: Callable[[], Dashboard] | None) -> None:
        """`dashboard` None: there is nobody to ask (a test's harness)."""
        self.id: Final = calendar
        self._dashboard: Final = dashboard

    def events(
        self,
        start: Bound,
        end: Bound,
        *,
        uid: str | None = None,
        after: Receipt | Sequence[Receipt] = (),
        wait_ms: int = 5_000,
    ) -> Occurrences:
        """All that takes place in [start, end), by start, and what meets what; at most 400 days.

        `uid`: only that event. With `after`, the answer waits until it contains that command, at most `wait_ms`.
        Raises InvalidInput, DashboardUnavailable.
        """
        filters = _span(start, end) | {"limit": str(_PAGE)} | ({} if uid is None else {"uid": uid})
        found: list[Occurring] = []
        answers: list[Answer] = []
        while not answers or answers[-1]["cursor"] is not None:
            cursor = {"cursor": answers[-1]["cursor"]} if answers else {}
            answers.append(self._ask("events", filters | cursor, after, wait_ms))
            found += map(_occurring, answers[-1]["events"])
        unreadable = {one["uid"]: one["reason"] for one in answers[0]["unreadable"]}
        # As old as the oldest of its pages.
        oldest = max(answers, key=lambda answer: answer["staleness_ms"] - answer["as_of"])
        return Occurrences(tuple(found), unreadable, answers[0]["zone"], _fresh(oldest))

    def free(
        self,
        start: Bound,
        end: Bound,
        duration: timedelta,
        *,
        also: Sequence[str] = (),
        limit: int = 10,
        after: Receipt | Sequence[Receipt] = (),
        wait_ms: int = 5_000,
    ) -> FreeSlots:
        """The first gaps of [start, end) that last `duration` or longer; `also`: in these calendars, too.

        Raises as `events`.
        """
        filters = _span(start, end) | {"duration_ms": str(duration // _MS), "limit": str(limit)}
        answer = self._ask("free", filters, after, wait_ms, also)
        return FreeSlots(tuple(Slot(**slot) for slot in answer["slots"]), answer["more"], _fresh(answer))

    def stored(self, *, after: Receipt | Sequence[Receipt] = (), wait_ms: int = 5_000) -> tuple[Event, ...]:
        """Every event of the calendar as it is kept, by uid. Raises as `events`."""
        found: list[Event] = []
        cursor: str | None = ""
        while cursor is not None:
            answer = self._ask("bookings", {"limit": str(_PAGE), "cursor": cursor}, after, wait_ms)
            found += (decode_booking(b64decode(one["event"])).event for one in answer["bookings"])
            cursor = answer["cursor"]
        return tuple(found)

    def _ask(
        self,
        what: str,
        filters: Mapping[str, str],
        after: Receipt | Sequence[Receipt],
        wait_ms: int,
        also: Sequence[str] = (),
    ) -> Answer:
        if self._dashboard is None:
            raise InvalidInput("this calendar has no dashboard to read from; open it with Client.calendar")
        given = [("calendar", name) for name in (self.id, *also)] + list(filters.items())
        receipts = receipts_of(after)
        return self._dashboard().ask(what, given, after=receipts, wait_ms=wait_ms if receipts else 0)


def free_busy(dashboard: Dashboard, calendars: Sequence[str], start: Bound, end: Bound) -> FreeBusy:
    """What is taken of [start, end), by calendar. Raises InvalidInput, DashboardUnavailable."""
    given = [("calendar", name) for name in calendars]
    answer = dashboard.ask("free-busy", [*given, *_span(start, end).items()])
    taken = {
        name: tuple(Stretch(**stretch) for stretch in of["busy"]) for name, of in answer["calendars"].items()
    }
    return FreeBusy(taken, _fresh(answer))


def _span(start: Bound, end: Bound) -> dict[str, str]:
    bounds = {"start": bound_of("start", start), "end": bound_of("end", end)}
    return {name: text for name, text in bounds.items() if text is not None}


def _occurring(one: Answer) -> Occurring:
    named = {name: one[name] for name in Occurring._fields}
    conflicts = tuple(Meeting(**meeting) for meeting in one["conflicts"])
    return Occurring(**named | {"attendees": tuple(one["attendees"]), "conflicts": conflicts})


def _fresh(answer: Answer) -> Freshness:
    return Freshness(*(answer[name] for name in Freshness._fields))
