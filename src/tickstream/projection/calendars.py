"""What calendars have in a window: occurrences, who meets whom, free and busy time, and the events themselves.

No HTTP and no clock may enter here. What takes place is computed in calendar/; which events may have a part in it is
looked up in agenda.py. An answer over several calendars reads one state of the index, but each calendar lies in its own
bucket: it is as old as the oldest of them, and no reservation.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from tickstream.calendar import Busy, Conflict, Slot, Stretch, busy_stretches, free_slots
from tickstream.calendar.listing import (
    MOST_LISTED,
    NOTHING_MET,
    Listed,
    Listing,
    Met,
    busy_of,
    clock_change,
    meetings,
    met_by_each,
    occurrences_in,
)
from tickstream.calendar.values import Details
from tickstream.errors import InvalidInput
from tickstream.projection import agenda, keys
from tickstream.projection.cursors import encode_cursor
from tickstream.projection.freshness import Freshness
from tickstream.projection.reader import View

DAY_MS: Final = 86_400_000
MAX_SPAN_MS: Final = 400 * DAY_MS
"""Of one question: as far as a calendar's busy time is known to its dispatcher."""
MAX_CALENDARS: Final = 50
MAX_EVENTS: Final = 1_000
MAX_SLOTS: Final = 1_000
MAX_MEETINGS: Final = 1_000


class Asked(NamedTuple):
    """Calendars, a time, and how much of it is wanted."""

    calendars: tuple[str, ...]
    start_ms: int
    end_ms: int
    limit: int = MAX_EVENTS
    cursor: bytes = b""
    """Of the page before."""
    uid: str = ""
    """Only this event."""
    least_ms: int = 0
    """How long a free slot lasts at least."""


# --------------------------------------------------------------------------- occurrences


def events(view: View, asked: Asked, fresh: Freshness) -> dict[str, Any]:
    """The answer of /api/events: a page of occurrences by start, each with what it meets."""
    (calendar,) = asked.calendars
    record = agenda.calendar(view, calendar)
    listing = _listing(view, calendar, asked)
    listed = listing.listed
    if asked.cursor:
        after = keys.read_occurrence_key(asked.cursor)
        listed = [one for one in listed if one.place > after]
    page = listed[: asked.limit]
    met = _met(view, calendar, page)
    more = len(listed) > len(page)
    return {
        "calendar": calendar,
        "zone": None if record is None else record.zone,
        "events": [_occurrence_object(one, met) for one in page],
        "unreadable": [one._asdict() for one in listing.unreadable],
        "cursor": encode_cursor(keys.occurrence_key(*page[-1].place)) if more else None,
        **fresh.fields(),
    }


def _listing(view: View, calendar: str, asked: Asked) -> Listing:
    if asked.uid:
        kept = agenda.event(view, f"{{{calendar}}}{asked.uid}")
        return occurrences_in([] if kept is None else [kept.booking], asked.start_ms, asked.end_ms)
    return occurrences_in(
        agenda.bookings_in(view, calendar, asked.start_ms, asked.end_ms), asked.start_ms, asked.end_ms
    )


def _met(view: View, calendar: str, page: list[Listed]) -> dict[Busy, Met]:
    """What these meet of all that the calendar has, within the page's bounds or not."""
    mine = busy_of(page)
    if not mine:
        return {}
    start, end = mine[0].start_ms, max(busy.end_ms for busy in mine)
    around = occurrences_in(agenda.bookings_in(view, calendar, start, end), start, end)
    return met_by_each(busy_of(around.listed))


def _occurrence_object(one: Listed, met: dict[Busy, Met]) -> dict[str, Any]:
    booking, occurrence = one
    event, override = booking.event, occurrence.override
    details: Details = event.details if override is None or override.details is None else override.details
    mine = NOTHING_MET if one.busy is None else met.get(one.busy, NOTHING_MET)
    return {
        "uid": event.uid,
        "task_id": booking.task_id,
        "start_ms": occurrence.start_ms,
        "end_ms": occurrence.end_ms,
        "recurrence_ms": occurrence.recurrence_ms,
        "all_day": event.all_day if override is None or override.start is None else "T" not in override.start,
        "zone": "UTC" if event.start.endswith("Z") else event.zone,
        "rule": event.rule or "",
        "recurring": event.recurring,
        "changed": override is not None,
        "tentative": occurrence.tentative,
        "blocks": occurrence.blocks,
        "clock_change": clock_change(booking, occurrence),
        "summary": details.summary,
        "location": details.location,
        "description": details.description,
        "attendees": list(details.attendees),
        "conflicts": [_busy_object(busy) for busy in mine.named],
        "conflict_count": mine.in_all,
    }


def _busy_object(busy: Busy) -> dict[str, Any]:
    return busy._asdict()


# --------------------------------------------------------------------------- conflicts


def conflicts(view: View, asked: Asked, fresh: Freshness) -> dict[str, Any]:
    """The answer of /api/conflicts: every two occurrences that want the same time, by where that begins."""
    (calendar,) = asked.calendars
    listing = _listing(view, calendar, asked)
    found = list(islice(meetings(busy_of(listing.listed), asked.start_ms, asked.end_ms), asked.limit + 1))
    summaries = {one.busy: _summary(one) for one in listing.listed}
    return {
        "calendar": calendar,
        "conflicts": [_conflict_object(conflict, summaries) for conflict in found[: asked.limit]],
        "more": len(found) > asked.limit,
        "unreadable": [one._asdict() for one in listing.unreadable],
        **fresh.fields(),
    }


def _summary(one: Listed) -> str:
    override = one.occurrence.override
    details = one.booking.event.details if override is None else override.details or one.booking.event.details
    return details.summary


def _conflict_object(conflict: Conflict, summaries: dict[Busy | None, str]) -> dict[str, Any]:
    return {
        "start_ms": conflict.start_ms,
        "end_ms": conflict.end_ms,
        "tentative": conflict.tentative,
        "one": _busy_object(conflict.occurrence) | {"summary": summaries[conflict.occurrence]},
        "other": _busy_object(conflict.busy) | {"summary": summaries[conflict.busy]},
    }


# --------------------------------------------------------------------------- free and busy


def free_busy(view: View, asked: Asked, fresh: Freshness) -> dict[str, Any]:
    """The answer of /api/free-busy: by calendar, what is taken."""
    taken = {
        calendar: busy_stretches(busy, asked.start_ms, asked.end_ms)
        for calendar, busy in _busy_by_calendar(view, asked)
    }
    return {
        "start_ms": asked.start_ms,
        "end_ms": asked.end_ms,
        "calendars": {
            calendar: {
                "known": agenda.calendar(view, calendar) is not None,
                "busy": [_stretch_object(stretch) for stretch in stretches],
            }
            for calendar, stretches in taken.items()
        },
        **fresh.fields(),
    }


def free(view: View, asked: Asked, fresh: Freshness) -> dict[str, Any]:
    """The answer of /api/free: the first gaps that all these calendars have in common."""
    everything = [busy for _, of_one in _busy_by_calendar(view, asked) for busy in of_one]
    taken = busy_stretches(everything, asked.start_ms, asked.end_ms)
    slots = free_slots(taken, asked.start_ms, asked.end_ms, asked.least_ms, asked.limit + 1)
    return {
        "slots": [slot_object(slot) for slot in slots[: asked.limit]],
        "more": len(slots) > asked.limit,
        **fresh.fields(),
    }


def _busy_by_calendar(view: View, asked: Asked) -> Iterator[tuple[str, list[Busy]]]:
    counted = 0
    for calendar in asked.calendars:
        busy = busy_of(_listing(view, calendar, asked).listed)
        counted += len(busy)
        if counted > MOST_LISTED:
            raise InvalidInput(
                f"more than {MOST_LISTED:,} occurrences lie between start and end in these calendars; "
                "ask for a shorter time, or for fewer of them"
            )
        yield calendar, busy


def _stretch_object(stretch: Stretch) -> dict[str, Any]:
    return stretch._asdict()


def slot_object(slot: Slot) -> dict[str, Any]:
    """A free slot as the API shows it."""
    return slot._asdict()


# --------------------------------------------------------------------------- what there is


def calendars(view: View, limit: int, cursor: bytes, fresh: Freshness) -> dict[str, Any]:
    """The answer of /api/calendars: a page of the calendars that have events, by name."""
    found = list(islice(agenda.calendars(view, cursor), limit + 1))
    objects = [
        {"calendar": name, "zone": of.zone, "events": of.events, "changed_ms": of.changed_ms}
        for name, of in found[:limit]
    ]
    cursor_of = None if len(found) <= limit else keys.calendar_key(found[limit - 1][0])
    return {"calendars": objects, "cursor": encode_cursor(cursor_of), **fresh.fields()}


def bookings(view: View, asked: Asked, fresh: Freshness) -> dict[str, Any]:
    """The answer of /api/bookings: a page of a calendar's events as they are kept, by uid."""
    (calendar,) = asked.calendars
    found = list(islice(agenda.events(view, calendar, asked.cursor), asked.limit + 1))
    page = found[: asked.limit]
    return {
        "calendar": calendar,
        "bookings": list(_booking_objects(kept for _, kept in page)),
        "cursor": encode_cursor(page[-1][0] if len(found) > len(page) else None),
        **fresh.fields(),
    }


def _booking_objects(found: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for kept in found:
        yield {
            "uid": kept.booking.event.uid,
            "changed_ms": kept.changed_ms,
            "event": b64encode(kept.value).decode(),
        }
