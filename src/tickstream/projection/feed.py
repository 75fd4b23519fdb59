"""A calendar as an iCalendar file to subscribe to, and what tells a subscriber that it has not changed.

No HTTP may enter here. The file follows from the calendar's revision and the day alone, so that it need not be written
to know that it is the one that a subscriber has.
"""

from __future__ import annotations

import hashlib
import hmac
from itertools import islice
from typing import Final, NamedTuple

from tickstream.errors import InvalidInput, MissingExtra
from tickstream.projection import agenda
from tickstream.projection.calendars import DAY_MS
from tickstream.projection.freshness import Freshness
from tickstream.projection.reader import View
from tickstream.recurrence import tzdata_version

PAST_MS: Final = 92 * DAY_MS
"""How far back single events are in it."""
MAX_FEED: Final = 5_000
"""Events: what reads a feed reads all of it, every time."""
REFRESH_S: Final = 900
"""How soon a subscriber may ask again, as the file says."""
_FAR_MS: Final = 253_402_300_800_000


class Validators(NamedTuple):
    """What tells whether a subscriber's copy is the present one."""

    tag: str
    modified_ms: int | None
    """When the calendar was changed last; None while another change could still bear the same second."""


def validators(view: View, calendar: str, fresh: Freshness) -> Validators | None:
    """Of a calendar's present file; None: there is no such calendar."""
    record = agenda.calendar(view, calendar)
    if record is None:
        return None
    day = fresh.as_of // DAY_MS
    stated = f"{calendar}\0{record.changed_ms}\0{record.offset}\0{record.zone}\0{day}\0{tzdata_version()}"
    settled = record.changed_ms // 1_000 * 1_000 + 1_000 <= fresh.as_of - fresh.staleness_ms
    tag = hashlib.sha256(stated.encode()).hexdigest()[:32]
    return Validators(tag, record.changed_ms if settled else None)


def feed(view: View, calendar: str, fresh: Freshness) -> bytes:
    """The file: every series, and the single events of the last 92 days and of all time to come.

    Raises InvalidInput for more than MAX_FEED of them, MissingExtra.
    """
    try:
        from tickstream.calendar.ical import write_calendar
    except ModuleNotFoundError as error:
        raise MissingExtra("a calendar's feed", "calendar") from error
    record = agenda.calendar(view, calendar)
    zone, stamp = (None, 0) if record is None else (record.zone, record.changed_ms)
    since = fresh.as_of // DAY_MS * DAY_MS - PAST_MS
    found = list(islice(agenda.bookings_in(view, calendar, since, _FAR_MS), MAX_FEED + 1))
    if len(found) > MAX_FEED:
        raise InvalidInput(
            f"calendar {calendar!r} has more than {MAX_FEED:,} events that a feed would bear; "
            "use tickstream calendar export"
        )
    events = sorted((booking.event for booking in found), key=lambda event: event.uid)
    return write_calendar(events, stamp_ms=stamp, name=calendar, zone=zone, refresh_s=REFRESH_S)


def feed_key(token: str, calendar: str) -> str:
    """What lets a subscriber read this calendar's feed and nothing else, of a dashboard with a token."""
    return hmac.digest(token.encode(), b"feed\0" + calendar.encode(), "sha256").hex()[:40]
