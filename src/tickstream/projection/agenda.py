"""Events of calendars in the index: kept beside the tasks that they are, and found by their time.

No HTTP and no clock may enter here. What takes place in a window is computed in calendar/listing.py; here lies which
events may have a part in it: single ones by class of length and start, as in calendar/occupancy.py, and every
series, since expanding one is cheap and does not depend on its age.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from tickstream.calendar.occupancy import CLASSES, length_class, look_back
from tickstream.calendar.stored import Booking
from tickstream.errors import InvalidInput
from tickstream.projection import keys
from tickstream.projection.batch import Batch
from tickstream.projection.families import CALENDARS, EVENTS, PLACES, Family
from tickstream.projection.reader import View
from tickstream.projection.rows import BookingChange, CalendarRecord, Kept
from tickstream.projection.stored import decode_calendar, decode_kept, encode_calendar, encode_kept

_NEW: Final = CalendarRecord("", 0, 0, -1)


def take_in(
    batch: Batch, read: Callable[[Family, bytes], bytes | None], changed: Mapping[str, BookingChange]
) -> None:
    """Write what became of events, with their places and what is known of their calendars."""
    records: dict[str, CalendarRecord] = {}
    for task_id, change in changed.items():
        key = keys.task_key(task_id)
        stored = read(EVENTS, key)
        before = None if stored is None else decode_kept(stored)
        after = Kept(change.at_ms, change.value) if change.value else None
        if before is not None:
            batch.delete(PLACES, _place(before.booking))
            batch.delete(EVENTS, key)
        if after is not None:
            batch.put(PLACES, _place(after.booking), b"")
            batch.put(EVENTS, key, encode_kept(after))
        if (either := after or before) is not None:
            booking = either.booking
            known = records.get(booking.calendar) or _record(read(CALENDARS, _key(booking.calendar)))
            records[booking.calendar] = CalendarRecord(
                booking.calendar_zone if after is not None or not known.zone else known.zone,
                known.events + (after is not None) - (before is not None),
                max(known.changed_ms, change.at_ms),
                max(known.offset, change.offset),
            )
    for calendar, record in records.items():
        batch.put(CALENDARS, _key(calendar), encode_calendar(record))


def _key(calendar: str) -> bytes:
    return keys.calendar_key(calendar)


def _record(value: bytes | None) -> CalendarRecord:
    return _NEW if value is None else decode_calendar(value)


def _place(booking: Booking) -> bytes:
    calendar, event = booking.calendar, booking.event
    if not event.recurring and not event.overrides:
        try:
            only = booking.expansion.first()
        except InvalidInput:
            # Admitted with newer zone data: it is looked at in every window, and said to be unreadable there.
            only = None
        if only is not None:
            return keys.place_key(
                calendar, length_class(only.start_ms, only.end_ms), only.start_ms, event.uid
            )
    return keys.place_key(calendar, keys.SERIES_CLASS, 0, event.uid)


# --------------------------------------------------------------------------- reading


def calendar(view: View, name: str) -> CalendarRecord | None:
    """What is known of a calendar; None: it never had an event."""
    value = view.get(CALENDARS, _key(name))
    return None if value is None else decode_calendar(value)


def calendars(view: View, after: bytes = b"") -> Iterator[tuple[str, CalendarRecord]]:
    """Every calendar that has events, by name, behind that key."""
    start = keys.after(after) if after else b""
    for key, value in view.scan(CALENDARS, start, keys.CALENDARS_END):
        if (record := decode_calendar(value)).events:
            yield key.decode(), record


def event(view: View, task_id: str) -> Kept | None:
    """The event that a task is."""
    value = view.get(EVENTS, keys.task_key(task_id))
    return None if value is None else decode_kept(value)


def events(view: View, calendar: str, after: bytes = b"") -> Iterator[tuple[bytes, Kept]]:
    """Every event of a calendar with its key, behind `after`, by uid."""
    prefix = keys.task_key(f"{{{calendar}}}")
    start = keys.after(after) if after else prefix
    for key, value in view.scan(EVENTS, max(start, prefix), prefix + b"\xff"):
        yield key, decode_kept(value)


def bookings_in(view: View, calendar: str, start_ms: int, end_ms: int) -> Iterator[Booking]:
    """The events that may have time in common with [start_ms, end_ms) or start there: all that do, and a few more."""
    for of_length in range(CLASSES):
        start = keys.place_bound(calendar, of_length, look_back(of_length, start_ms))
        yield from _bookings(view, calendar, start, keys.place_bound(calendar, of_length, end_ms))
    series = keys.place_bound(calendar, keys.SERIES_CLASS, 0)
    yield from _bookings(view, calendar, series, keys.places_end(calendar))


def _bookings(view: View, calendar: str, start: bytes, end: bytes) -> Iterator[Booking]:
    for key, _ in view.scan(PLACES, start, end):
        found = event(view, f"{{{calendar}}}{keys.read_place_key(key, calendar)}")
        if found is not None:
            yield found.booking
