"""A booking desk for meeting rooms.

tickstream calendar import examples/room_booking/files --calendar room-7 --zone Europe/Berlin \\
    --handler meeting --on-conflict report
python -m examples.room_booking book room-7 2026-12-15T10:15 45 'Planning' anna@example.org
python -m examples.room_booking find 60 2026-12-15
python -m examples.room_booking agenda room-7 2026-12-14
python -m examples.room_booking cancel room-7 UID
"""

import argparse
import sys
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from examples.room_booking.rooms import ROOMS, ZONE, agenda, book, cancel, first_slot, free_rooms
from tickstream import Client, VerdictKind


def local(text: str) -> datetime:
    """A time on the rooms' clock."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(ZONE))


def minutes(text: str) -> timedelta:
    return timedelta(minutes=int(text))


def main(client: Client, arguments: list[str]) -> int:
    """Do what is asked; the exit code."""
    parser = argparse.ArgumentParser(prog="room_booking", description="A booking desk for meeting rooms.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    booking = verbs.add_parser("book", help="take a room")
    for name, kind in (("room", str), ("start", local), ("minutes", minutes), ("title", str), ("who", str)):
        booking.add_argument(name, type=kind)
    finding = verbs.add_parser("find", help="the first free time of a day in each room")
    finding.add_argument("minutes", type=minutes)
    finding.add_argument("day", type=local)
    showing = verbs.add_parser("agenda", help="a week of a room")
    showing.add_argument("room")
    showing.add_argument("day", type=local)
    giving_back = verbs.add_parser("cancel", help="give a room back")
    giving_back.add_argument("room")
    giving_back.add_argument("uid")
    given = parser.parse_args(arguments)
    match given.verb:
        case "book":
            uid, verdict = book(client, given.room, given.start, given.minutes, given.title, given.who)
            if verdict.kind is not VerdictKind.SCHEDULED:
                print(f"not booked: {verdict.detail}")
                others = [
                    room for room in free_rooms(client, given.start, given.minutes) if room != given.room
                ]
                print(f"free then: {', '.join(others) or 'no other room'}")
                return 1
            print(f"booked as {uid}")
        case "find":
            for room in ROOMS:
                slot = first_slot(client, room, given.day, given.minutes)
                print(f"{room}  {'nothing is free' if slot is None else f'{slot:%H:%M}'}")
        case "agenda":
            for line in agenda(client, given.room, given.day, 7):
                print(line)
        case "cancel":
            done = cancel(client, given.room, given.uid)
            print("given back" if done else "there is no such booking")
            return 0 if done else 1
    return 0


if __name__ == "__main__":
    with Client() as client:
        sys.exit(main(client, sys.argv[1:]))
