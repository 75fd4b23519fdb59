"""The example of the booking desk on everything real: files as three programs write them, bookings, conflicts, the feed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import httpx
import pytest

from examples.room_booking import __main__ as desk
from examples.room_booking.rooms import ZONE, book
from tests.cli import Cli
from tests.kafka.rig import Rig
from tests.waiting import eventually
from tickstream import Client, VerdictKind
from tickstream.calendar.ical import read_calendar
from tickstream.model import Phase
from tickstream.ops.processes import ManagedProcess, tickstream_command

FILES = Path(desk.__file__).parent / "files"
STANDUP = "5k2m0q7t8v9h3c1e6b4d@google.com"


class Desk(NamedTuple):
    """Rooms, and a way to reach them."""

    client: Client
    url: str
    options: tuple[str, ...]


@pytest.fixture
def rooms(broker: str, prefix: str, tmp_path: Path) -> Iterator[Desk]:
    connection = (f"--bootstrap={broker}", f"--prefix={prefix}")
    with Rig(broker, prefix, tmp_path, lanes=1) as rig, ExitStack() as running:

        def start(*arguments: str) -> ManagedProcess:
            command = tickstream_command(*arguments, "--json")
            return running.enter_context(ManagedProcess.start(command, name=arguments[0]))

        dispatcher = rig.dispatcher("first")
        worker = start("worker", "run", "examples.room_booking.app:app", *connection, "--session-ms=2000")
        projection = start("projection", "run", f"--data={tmp_path / 'index'}", *connection)
        dashboard = start("dashboard", "run", f"--data={tmp_path / 'index'}", "--port=0")
        rig.wait_active(dispatcher)
        worker.wait_event("ready")
        projection.wait_event("ready")
        url = str(dashboard.wait_event("ready")["url"])
        with Client(rig.settings, dashboard=url) as client:
            yield Desk(client, url, connection)


def next_tuesday(hour: int, minute: int) -> datetime:
    """One that is no holiday's, at least a week ahead."""
    day = datetime.now(ZoneInfo(ZONE)) + timedelta(days=8)
    day += timedelta(days=(1 - day.weekday()) % 7)
    return day.replace(hour=hour, minute=minute, second=0, microsecond=0)


@pytest.mark.timeout(180)
def test_a_room_is_never_two_peoples(rooms: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    client = rooms.client

    def ask(*arguments: str) -> tuple[int, list[str]]:
        code = desk.main(client, [*arguments])
        return code, capsys.readouterr().out.splitlines()

    # What the three programs have written comes into room 7.
    ran = Cli(capsys, *rooms.options)(
        "calendar", "import", str(FILES), "--calendar=room-7", f"--zone={ZONE}",
        "--handler=meeting", "--on-conflict=report", "--wait=60", "--json",
    )  # fmt: skip
    assert (ran.code, ran.value["files"], ran.value["taken"], ran.value["rejected"]) == (0, 3, 6, 0)
    tuesday = next_tuesday(10, 15)
    code, said = ask("book", "room-7", f"{tuesday:%Y-%m-%dT%H:%M}", "45", "Planning", "anna@example.org")
    assert code == 1
    assert "meets '040000008200E00074C5B7101A82E008" in said[0]
    assert said[1] == "free then: room-8"
    code, said = ask("book", "room-8", f"{tuesday:%Y-%m-%dT%H:%M}", "45", "Planning", "anna@example.org")
    assert (code, said[0].startswith("booked as ")) == (0, True)
    uid = said[0].removeprefix("booked as ")

    # The index follows.
    _, verdict = book(
        client, "room-8", tuesday + timedelta(days=1), timedelta(hours=9), "Workshop", "ben@example.org"
    )
    assert verdict.kind is VerdictKind.SCHEDULED
    assert eventually(lambda: len(ask("agenda", "room-8", f"{tuesday:%Y-%m-%d}")[1]) == 2, 30)
    assert ask("find", "60", f"{tuesday:%Y-%m-%d}")[1] == ["room-7  11:00", "room-8  09:00"]
    assert ask("find", "120", f"{tuesday:%Y-%m-%d}")[1] == ["room-7  11:00", "room-8  11:00"]
    week = ask("agenda", "room-7", f"{tuesday:%Y-%m-%d}")[1]
    assert week[0] == f"{tuesday:%a %d %b} 09:30  Standup"
    assert week[1] == f"{tuesday:%a %d %b} 10:00  Design-Review"
    assert ask("cancel", "room-8", uid) == (0, ["given back"])
    assert ask("cancel", "room-8", "nobody") == (1, ["there is no such booking"])

    # Any calendar program may subscribe to the room.
    address = httpx.get(f"{rooms.url}/api/feed", params={"calendar": "room-7"}).json()["path"]
    feed = httpx.get(f"{rooms.url}{address}")
    assert feed.headers["content-type"] == "text/calendar; charset=utf-8"
    read = {found.event.uid: found.event for found in read_calendar(feed.content, ZONE).events}
    assert len(read) == 6
    assert [override.start for override in read[STANDUP].overrides][:1] == ["2026-02-03T13:30:00"]
    again = httpx.get(f"{rooms.url}{address}", headers={"If-None-Match": feed.headers["etag"]})
    assert again.status_code == httpx.codes.NOT_MODIFIED

    # A meeting that begins runs its handler.
    soon = (datetime.now(ZoneInfo(ZONE)) + timedelta(seconds=3)).replace(microsecond=0)
    uid, verdict = book(client, "room-9", soon, timedelta(minutes=5), "Now", "anna@example.org")
    assert verdict.kind is VerdictKind.SCHEDULED

    def begun() -> bool:
        found = client.get(f"{{room-9}}{uid}").occurrences
        return bool(found) and found[0].state is Phase.SUCCEEDED

    assert eventually(begun, 30)
