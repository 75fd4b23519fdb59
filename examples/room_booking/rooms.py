"""What the booking desk does, on top of a client: book, find, show, cancel.

A booking is decided by the room's own calendar, in the transaction that takes it: whoever comes second hears with
whom. What is free elsewhere is read from a dashboard, and may be taken a moment later: only `book` decides.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import uuid4
from zoneinfo import ZoneInfo

from examples.room_booking.app import meeting
from tickstream import Client, Verdict, VerdictKind

ZONE = "Europe/Berlin"
ROOMS = ("room-7", "room-8")


def book(
    client: Client, room: str, start: datetime, duration: timedelta, title: str, who: str
) -> tuple[str, Verdict]:
    """Take the room. The uid, by which it can be cancelled, and SCHEDULED; or CONFLICT with what is there."""
    uid = str(uuid4())
    verdict = client.calendar(room, zone=ZONE).add(
        uid, start, duration=duration, summary=title, attendees=[f"mailto:{who}"], call=meeting.bind()
    )
    return uid, verdict


def free_rooms(
    client: Client, start: datetime, duration: timedelta, rooms: Sequence[str] = ROOMS
) -> list[str]:
    """The rooms that nobody has in that time, as of a moment ago."""
    taken = client.free_busy(rooms, start, start + duration)
    return [room for room in rooms if not taken.calendars[room]]


def first_slot(client: Client, room: str, day: datetime, duration: timedelta) -> datetime | None:
    """The first time between 9 and 18 o'clock of that day at which the room is free for so long."""
    opens, closes = day.replace(hour=9, minute=0), day.replace(hour=18, minute=0)
    slots = client.calendar(room, zone=ZONE).free(opens, closes, duration, limit=1).slots
    return datetime.fromtimestamp(slots[0].start_ms / 1_000, ZoneInfo(ZONE)) if slots else None


def agenda(client: Client, room: str, start: datetime, days: int) -> list[str]:
    """A line for each occurrence, on the room's clock."""
    found = client.calendar(room, zone=ZONE).events(start, start + timedelta(days=days))
    return [
        f"{datetime.fromtimestamp(one.start_ms / 1_000, ZoneInfo(ZONE)):%a %d %b %H:%M}  {one.summary or one.uid}"
        f"{'  (tentative)' if one.tentative else ''}{'  CONFLICT' if one.conflicts else ''}"
        for one in found.events
    ]


def cancel(client: Client, room: str, uid: str) -> bool:
    """Give the room back. False: there was no such booking."""
    return client.calendar(room, zone=ZONE).remove(uid).kind is VerdictKind.CANCELLED
