"""`tickstream calendar events|free|conflicts|export` over a real index; what was imported has the same occurrences."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples import room_booking
from tests.cli import Cli
from tests.projection_log import LogWriter
from tests.unit.projection_index import fold_in, new_index
from tests.unit.test_calendar_listing import at
from tests.unit.test_projection_api import dashboard
from tests.unit.test_projection_calendars import logs_of
from tickstream.calendar import expand
from tickstream.calendar.ical import plan, read_calendar, write_calendar
from tickstream.calendar.stored import Booking, OnConflict
from tickstream.ingest.dashboard import Dashboard

BERLIN = "Europe/Berlin"
FILE = b"""BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//somebody//EN
BEGIN:VEVENT
UID:standup@example
SUMMARY:Standup\\, daily
LOCATION:Room 7
DTSTART;TZID=Europe/Berlin:20261123T093000
DURATION:PT15M
RRULE:FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;COUNT=40
EXDATE;TZID=Europe/Berlin:20261208T093000
RDATE;TZID=Europe/Berlin:20261212T100000
END:VEVENT
BEGIN:VEVENT
UID:standup@example
RECURRENCE-ID;TZID=Europe/Berlin:20261209T093000
DTSTART;TZID=Europe/Berlin:20261209T110000
DURATION:PT45M
SUMMARY:Standup\\, long
END:VEVENT
BEGIN:VEVENT
UID:fair@example
DTSTART;VALUE=DATE:20261210
DTEND;VALUE=DATE:20261212
SUMMARY:Fair
END:VEVENT
BEGIN:VEVENT
UID:tea@example
DTSTART:20261207T093500
DURATION:PT10M
STATUS:TENTATIVE
SUMMARY:\xc3\x9cbung
END:VEVENT
END:VCALENDAR
"""
ARGUMENTS = ("--calendar", "room-7", "--from", "2026-12-07T00:00:00Z", "--to", "2026-12-14T00:00:00Z")


def taken(data: bytes) -> tuple[Booking, ...]:
    planned = plan(read_calendar(data, BERLIN), {}.get, BERLIN)
    events = [one.event for one in planned if one.event is not None]
    return tuple(Booking("room-7", BERLIN, OnConflict.ALLOW, event) for event in events)


def occurrences(bookings: tuple[Booking, ...]) -> list[tuple[Any, ...]]:
    span = at("2026-01-01T00:00:00"), at("2028-01-01T00:00:00")
    return sorted(
        (b.event.uid, *occurrence[:6])
        for b in bookings
        for occurrence in expand(b.event, BERLIN).overlapping(*span)
    )


@pytest.mark.parametrize("program", ["apple", "google", "outlook"])
def test_files_as_programs_write_them_come_back_alike(program: str) -> None:
    bookings = taken((Path(room_booking.__file__).parent / "files" / f"{program}.ics").read_bytes())
    assert len(bookings) == 2
    written = write_calendar([booking.event for booking in bookings], stamp_ms=0)
    assert occurrences(taken(written)) == occurrences(bookings)
    assert len(occurrences(bookings)) > 24


@pytest.fixture
def answering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A dashboard over the file's events; the command line reaches it without a socket."""
    logs: list[LogWriter] = logs_of(taken(FILE))
    with new_index(tmp_path / "index") as index:
        fold_in(index, *logs)
    with dashboard(tmp_path / "index") as client:

        def ask(_self: Dashboard, what: str, filters: Any, **_: Any) -> dict[str, Any]:
            given = filters if isinstance(filters, list) else list(filters.items())
            return dict(client.get(f"/api/{what}", params=given).raise_for_status().json())

        monkeypatch.setattr(Dashboard, "ask", ask)
        yield


@pytest.mark.usefixtures("answering")
def test_it_prints_what_takes_place(capsys: pytest.CaptureFixture[str]) -> None:
    ran = Cli(capsys)("calendar", "events", *ARGUMENTS)
    lines = ran.out.splitlines()
    assert lines[0] == (
        "Mon 2026-12-07 09:30+0100 to 09:45  standup@example (Standup, daily)  Room 7  CONFLICT with tea@example"
    )
    assert lines[1] == (
        "Mon 2026-12-07 09:35+0100 to 09:45  tea@example (Übung)  tentative  CONFLICT with standup@example"
    )
    assert "Wed 2026-12-09 11:00+0100 to 11:45  standup@example (Standup, long)  changed" in lines
    assert "Thu 2026-12-10 to 2026-12-11  fair@example (Fair)  CONFLICT with standup@example" in lines
    assert lines[-1].startswith("as of 2026-11-30T12:00:30.000Z")
    in_tokyo = Cli(capsys)("calendar", "events", *ARGUMENTS, "--zone", "Asia/Tokyo")
    assert in_tokyo.out.startswith("Mon 2026-12-07 17:30+0900 to 17:45")
    machine = Cli(capsys)("calendar", "events", *ARGUMENTS, "--uid", "fair@example", "--json")
    assert [one["uid"] for one in machine.value["events"]] == ["fair@example"]
    assert machine.value["staleness_ms"] == 300


@pytest.mark.usefixtures("answering")
def test_it_prints_conflicts_and_free_time(capsys: pytest.CaptureFixture[str]) -> None:
    ran = Cli(capsys)("calendar", "conflicts", *ARGUMENTS, "--zone", BERLIN)
    assert ran.out.splitlines()[:2] == [
        (
            "Mon 2026-12-07 09:35+0100 to Mon 2026-12-07 09:45+0100  standup@example (Standup, daily) meets "
            "tea@example (Übung)  tentative"
        ),
        (
            "Thu 2026-12-10 09:30+0100 to Thu 2026-12-10 09:45+0100  fair@example (Fair) meets "
            "standup@example (Standup, daily)"
        ),
    ]
    ran = Cli(capsys)("calendar", "free", *ARGUMENTS, "--for", "40h", "--zone", BERLIN)
    assert ran.out.splitlines()[:2] == [
        "Mon 2026-12-07 09:45+0100 to Wed 2026-12-09 11:00+0100  2 days, 1:15:00",
        "as of 2026-11-30T12:00:30.000Z, 300 ms behind",
    ]
    nothing = Cli(capsys)("calendar", "free", *ARGUMENTS, "--for", "7d")
    assert nothing.out.startswith("nothing is free for 7d")
    badly = Cli(capsys)("calendar", "free", *ARGUMENTS, "--for", "ages")
    assert (badly.code, "'ages' is no duration" in badly.err) == (2, True)


@pytest.mark.usefixtures("answering")
def test_what_was_imported_is_exported_with_the_same_occurrences(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = tmp_path / "out.ics"
    ran = Cli(capsys)("calendar", "export", "--calendar", "room-7", str(target), "--json")
    assert ran.value["events"] == 3
    again = taken(target.read_bytes())
    assert occurrences(again) == occurrences(taken(FILE))
    assert {b.event.details for b in again} == {b.event.details for b in taken(FILE)}
    empty = Cli(capsys)("calendar", "export", "--calendar", "nobody", str(target))
    assert (empty.code, "has no events" in empty.err) == (2, True)
    refused = Cli(capsys)("calendar", "export", "--calendar", "room-7", "--json")
    assert (refused.code, "--json needs FILE" in refused.err) == (2, True)
    assert json.loads(ran.out)["bytes"] == target.stat().st_size
