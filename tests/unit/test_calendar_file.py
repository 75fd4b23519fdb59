"""iCalendar files put into a calendar: a report by line, and a dry run that sends nothing."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.cli import Cli
from tickstream.calendar.ical import Fate
from tickstream.calendar.stored import OnConflict
from tickstream.errors import InvalidInput
from tickstream.ops.calendar_file import calendar_files, import_file
from tickstream.testing import Harness


def vevent(uid: str, start: str, *more: str) -> str:
    return "\n".join(["BEGIN:VEVENT", f"UID:{uid}", f"DTSTART:{start}", *more, "END:VEVENT", ""])


def file(*events: str, method: str = "PUBLISH") -> bytes:
    return f"BEGIN:VCALENDAR\nMETHOD:{method}\n{''.join(events)}END:VCALENDAR\n".encode()


def fates(tick: Harness, data: bytes) -> list[tuple[str, Fate]]:
    room = tick.client.calendar("room-7", zone="Europe/Berlin")
    return [(entry.uid, entry.fate) for entry in import_file(data, room, "meet", None, OnConflict.REJECT)]


def test_every_event_of_a_file_is_answered_for() -> None:
    tick = Harness()
    soon = f"{tick.now + timedelta(days=1):%Y%m%dT%H0000Z}"
    data = file(
        vevent("one", soon, "DURATION:PT1H"),
        vevent("two", soon, "DURATION:PT30M"),
        vevent("broken", soon, "RRULE:FREQ=DAYLY"),
        vevent("part", soon, f"RECURRENCE-ID:{soon}"),
        vevent("over", "20000101T000000Z"),
    )
    assert fates(tick, data) == [
        ("broken", Fate.REJECTED),
        ("one", Fate.TAKEN),
        ("two", Fate.REJECTED),
        ("part", Fate.REJECTED),
        ("over", Fate.REJECTED),
    ]
    assert fates(tick, file(vevent("one", soon, "DURATION:PT2H"))) == [("one", Fate.CHANGED)]
    cancelled = file(vevent("one", soon), vevent("nobody", soon), method="CANCEL")
    assert fates(tick, cancelled) == [("one", Fate.CANCELLED), ("nobody", Fate.IGNORED)]
    assert fates(tick, file(vevent("two", soon, "DURATION:PT30M"))) == [("two", Fate.TAKEN)]


def test_files_are_found_in_directories(tmp_path: Path) -> None:
    (tmp_path / "a.ics").write_bytes(b"")
    assert calendar_files([tmp_path]) == [tmp_path / "a.ics"]
    with pytest.raises(InvalidInput, match=r"no \.ics file"):
        calendar_files([])


def test_a_dry_run_needs_no_broker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "two.ics"
    series = "RRULE:FREQ=DAILY"
    path.write_bytes(
        file(
            vevent("one", "20260601T090000Z", "DURATION:PT1H", series),
            vevent("two", "20260601T093000Z", "DURATION:PT1H", series),
        )
    )
    ran = Cli(capsys)("calendar", "import", str(path), "--calendar", "room-7", "--dry-run")
    assert ran.code == 0
    assert f"{path}:3: taken one\n" in ran.out
    assert f"{path}:9: taken two it meets 'one' of this file\n" in ran.out
    assert "1 files: 2 taken" in ran.out
    path.write_bytes(b"nothing")
    ran = Cli(capsys, "--json")("calendar", "import", str(path), "--calendar", "room-7", "--dry-run")
    assert ran.code == 1
    assert ran.value["rejected"] == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(("--handler", "x", "--on-conflict", "maybe"), "--on-conflict")],
)
def test_what_is_missing_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    (tmp_path / "a.ics").write_bytes(file())
    ran = Cli(capsys)("calendar", "import", str(tmp_path), "--calendar", "room-7", *arguments)
    assert ran.code == 2
    assert says in ran.err
