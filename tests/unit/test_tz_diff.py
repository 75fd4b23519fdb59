"""tz diff: which zones two releases have at different times, and which tasks that moves."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli import Cli
from tests.zone_releases import ZONE, instant, python_zone, reckoning, release
from tickstream import recurring
from tickstream.calendar import Event, Length, Override, Status, admit
from tickstream.calendar.recurring import recurrence_of
from tickstream.calendar.stored import Booking, OnConflict, encode_booking
from tickstream.calendar.turns import Turns
from tickstream.codec import encode_command, encode_spec
from tickstream.errors import InvalidInput
from tickstream.ingest.changelog import Standing
from tickstream.model import (
    NEVER,
    Command,
    Extras,
    Options,
    Recurrence,
    Rev,
    TaskSpec,
    TaskState,
    Verb,
)
from tickstream.ops.processes import tickstream_command
from tickstream.ops.tz_diff import Coming, InZones, TaskMove, declared, standing, task_moves
from tickstream.recurrence.stored import occurrences_of
from tickstream.recurrence.zone_changes import Stretch, differences, zone_changes
from tickstream.recurrence.zone_data import ZoneData, pinned, zone_data

OLD: Final = release("2026a", "America/New_York")
NEW: Final = release("2026b", "America/Bogota")
"""Never on summer time: the same clock in winter."""
GONE: Final = release("2026c", None)
JUNE: Final = round(datetime(2027, 6, 1, tzinfo=UTC).timestamp())
YEAR: Final = round(datetime(2028, 1, 1, tzinfo=UTC).timestamp())
JANUARY: Final = round(datetime(2027, 1, 1, tzinfo=UTC).timestamp())
SUMMER: Final = Stretch(
    round(datetime(2027, 3, 14, 7, tzinfo=UTC).timestamp()),
    round(datetime(2027, 11, 7, 6, tzinfo=UTC).timestamp()),
    -4 * 3_600,
    -5 * 3_600,
)


def test_a_zone_that_loses_its_summer_time_differs_from_one_change_to_the_other() -> None:
    (change,) = zone_changes(OLD, NEW, JANUARY, YEAR)
    assert (change.zone, change.stretches, change.gone) == (ZONE, (SUMMER,), False)
    assert zone_changes(OLD, NEW, JANUARY, SUMMER.start) == ()


def test_a_zone_that_is_gone() -> None:
    (change,) = zone_changes(OLD, GONE, JANUARY, YEAR)
    assert change.gone


@settings(deadline=None, max_examples=30)
@given(
    old=st.sampled_from(("Europe/Berlin", "Africa/Casablanca", "America/Bogota", "Pacific/Apia", "UTC")),
    new=st.sampled_from(("Europe/London", "Africa/Cairo", "America/Havana", "Pacific/Kiritimati", "UTC")),
    start=st.integers(0, 2_000_000_000),
    days=st.integers(1, 900),
)
def test_the_differences_are_those_that_python_sees(old: str, new: str, start: int, days: int) -> None:
    end = start + days * 86_400
    found = differences(pinned().zone(old), pinned().zone(new), start, end)
    assert all(before.end <= after.start for before, after in pairwise(found))
    for at in {*range(start, end, 43_217), *(s.start for s in found), *(s.end - 1 for s in found)}:
        moment = datetime.fromtimestamp(at, UTC)
        offsets = [moment.astimezone(python_zone(zone)).utcoffset() for zone in (old, new)]
        told = [(s.before, s.after) for s in found if s.start <= at < s.end]
        seconds = tuple(round(offset.total_seconds()) for offset in offsets if offset is not None)
        assert told == ([seconds] if seconds[0] != seconds[1] else [])


# --------------------------------------------------------------------------- tasks


def coming(rule: Recurrence, now: int) -> Coming:
    (found,) = declared({"t": rule}, OLD, now * 1_000)
    return found


def move_of(rule: Recurrence, now: int) -> TaskMove | None:
    changes = zone_changes(OLD, NEW, now, YEAR)
    return next(iter(task_moves([coming(rule, now)], changes, OLD, NEW, YEAR * 1_000)), None)


def test_the_next_occurrence_moves() -> None:
    found = move_of(recurring(cron="30 2 * * *", zone=ZONE), JUNE)
    wall = datetime(2027, 6, 1, 2, 30)
    assert found == TaskMove(
        "t",
        ZONE,
        "2027-06-01T02:30:00",
        instant("America/New_York", wall),
        instant("America/Bogota", wall),
        True,
    )


def test_one_that_moves_later_is_found_where_it_does() -> None:
    found = move_of(recurring(cron="30 4 * * MON", zone=ZONE), JANUARY)
    wall = datetime(2027, 3, 15, 4, 30)
    assert found == TaskMove(
        "t",
        ZONE,
        "2027-03-15T04:30:00",
        instant("America/New_York", wall),
        instant("America/Bogota", wall),
        False,
    )


@pytest.mark.parametrize(
    "rule",
    [
        recurring(cron="*/15 * * * *", zone=ZONE),
        recurring(cron="0 9 * * *", zone="Europe/Berlin"),
        recurring(cron="0 9 * 1,2,12 *", zone=ZONE),
    ],
)
def test_what_does_not_move_is_not_told(rule: Recurrence) -> None:
    assert move_of(rule, JANUARY) is None


def test_tasks_of_a_zone_that_is_gone_move_nowhere() -> None:
    changes = zone_changes(OLD, GONE, JUNE, YEAR)
    task = coming(recurring(cron="0 9 * * *", zone=ZONE), JUNE)
    (found,) = task_moves([task], changes, OLD, GONE, YEAR * 1_000)
    assert (found.after_ms, found.is_next) == (NEVER, True)


def test_tasks_are_picked_from_the_changelog_by_their_zone() -> None:
    rule = recurring(cron="30 2 * * *", zone=ZONE)
    specs = {
        "moves": _spec(Options(recurrence=rule)),
        "stays": _spec(Options(recurrence=recurring(cron="30 2 * * *", zone="Asia/Tokyo"))),
        "speaks of it": _spec(Options(), body=ZONE.encode()),
    }
    wanted = InZones([ZONE])
    assert [wanted.spec(task_id, encode_spec(spec)) for task_id, spec in specs.items()] == [
        True,
        False,
        False,
    ]
    assert [wanted.state(task_id) for task_id in specs] == [True, False, False]
    pointer = occurrences_of(rule, None, OLD).next_after(JUNE * 1_000)
    assert pointer is not None
    extras = Extras(nominal_local=pointer.nominal_local, fold=pointer.fold)
    state = TaskState(Rev(0, 0), pointer.next_occurrence_ts, NEVER, (), None, NEVER, (), extras=extras)
    (found,) = standing({"moves": Standing(specs["moves"], state), "ended": Standing(None, state)})
    assert found == Coming("moves", rule, None, pointer, NEVER)


def event_of(**more: Any) -> tuple[str, Standing]:
    """A weekly event at nine, whose next occurrence is that of the seventh of June by the older data."""
    with reckoning() as use:
        use(OLD)
        length = Length(ms=3_600_000)
        event = Event("standup", "2027-06-07T09:00:00", ZONE, length, "FREQ=WEEKLY;COUNT=4")
        booking = Booking("room-7", ZONE, OnConflict.REJECT, admit(replace(event, **more), ZONE))
        recurrence = recurrence_of(booking.expansion)
        place = Turns(booking.expansion, None).after(JUNE * 1_000)
        assert place is not None
        local, fold = Turns(booking.expansion, None).shown(place.recurrence_ms)
    extras = Extras(nominal_local=local, fold=fold, busy_until_ms=YEAR * 1_000)
    state = TaskState(Rev(0, 0), place.recurrence_ms, NEVER, (), None, NEVER, (), extras=extras)
    spec = _spec(Options(recurrence=recurrence, event=encode_booking(booking)))
    return booking.task_id, Standing(spec, state)


def moves_of(old: ZoneData, new: ZoneData, **more: Any) -> list[TaskMove]:
    task_id, stands = event_of(**more)
    assert stands.spec is not None
    assert InZones([ZONE]).spec(task_id, encode_spec(stands.spec))
    return task_moves(standing({task_id: stands}), zone_changes(old, new, JUNE, YEAR), old, new, YEAR * 1_000)


def nine(like: str, day: int) -> int:
    return instant(like, datetime(2027, 6, day, 9))


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"rule": None},
        {"overrides": (Override("2027-06-07T09:00:00", start="2027-06-07T15:00:00"),)},
        {"overrides": (Override("2027-06-14T09:00:00", status=Status.CANCELLED),)},
    ],
)
def test_a_calendars_event_moves(more: dict[str, Any]) -> None:
    wall = "2027-06-07T09:00:00"
    assert moves_of(OLD, NEW, **more) == [
        TaskMove("{room-7}standup", ZONE, wall, nine("America/New_York", 7), nine("America/Bogota", 7), True)
    ]


def test_an_event_whose_zone_is_gone() -> None:
    (found,) = moves_of(OLD, GONE)
    assert (found.task_id, found.after_ms) == ("{room-7}standup", NEVER)


def test_occurrences_called_off_are_not_told_where_later_ones_move() -> None:
    """By the newer data there is no summer time: of the first Sundays April's would be the first that moves."""
    more = {
        "start": "2027-01-03T09:00:00",
        "rule": "FREQ=MONTHLY;BYDAY=1SU;COUNT=8",
        "overrides": (Override("2027-04-04T09:00:00", status=Status.CANCELLED),),
    }
    task_id, stands = event_of(**more)
    tasks = standing({task_id: stands})
    begin = JANUARY * 1_000
    first = occurrences_of(tasks[0].recurrence, tasks[0].last, OLD).next_after(begin)
    assert first is not None
    changes = zone_changes(OLD, NEW, JANUARY, YEAR)
    (found,) = task_moves([tasks[0]._replace(pointer=first)], changes, OLD, NEW, YEAR * 1_000)
    assert (found.local, found.is_next) == ("2027-05-02T09:00:00", False)


def _spec(options: Options, body: bytes = b"") -> TaskSpec:
    command = Command(bytes(16), Verb.SCHEDULE, "t", NEVER, "default", options, body)
    return TaskSpec(Rev(0, 0), encode_command(command))


# --------------------------------------------------------------------------- sources, and the command line


def directory(path: Path, name: str, like: str) -> Path:
    """Zone data as zic installs them, with two zones."""
    (path / "America").mkdir(parents=True)
    (path / "tzdata.zi").write_text(f"# version {name}\n# the rest of it\n")
    (path / "Etc").mkdir()
    (path / "Etc" / "GMT").write_bytes(pinned().bytes_of("Etc/GMT"))
    (path / ZONE).write_bytes(pinned().bytes_of(like))
    return path


def wheel(path: Path, name: str, like: str) -> Path:
    with ZipFile(path, "w") as file:
        file.writestr("tzdata/__init__.py", f'__version__ = "1"\nIANA_VERSION = "{name}"\n')
        file.writestr("tzdata/zones", f"Etc/GMT\n{ZONE}\n")
        file.writestr("tzdata/zoneinfo/Etc/GMT", pinned().bytes_of("Etc/GMT"))
        file.writestr(f"tzdata/zoneinfo/{ZONE}", pinned().bytes_of(like))
    return path


def test_a_wheel_one_unpacked_and_a_directory_say_the_same(tmp_path: Path) -> None:
    packed = wheel(tmp_path / "one.whl", "2026a", "America/New_York")
    with ZipFile(packed) as file:
        file.extractall(tmp_path / "unpacked")
    installed = directory(tmp_path / "installed", "2026a", "America/New_York")
    for source in (packed, tmp_path / "unpacked", tmp_path / "unpacked" / "tzdata", installed):
        data = zone_data(source)
        assert (data.release, data.keys) == ("2026a", {"Etc/GMT", ZONE})
        assert data.zone(ZONE).offset(JUNE) == -4 * 3_600


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda path: path, "is neither a tzdata wheel nor a directory of zone data"),
        (lambda path: path.write_bytes(b"no zip") and path, "is neither a tzdata wheel nor a directory"),
        (lambda path: path.mkdir() or path, "does not say which release it is"),
    ],
)
def test_what_is_no_zone_data(tmp_path: Path, made: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        zone_data(made(tmp_path / "it"))


def test_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TICKSTREAM_BOOTSTRAP", raising=False)
    old = wheel(tmp_path / "old.whl", "2026a", "America/New_York")
    new = directory(tmp_path / "new", "2026b", "America/Bogota")
    schedules = tmp_path / "schedules.toml"
    schedules.write_text(
        f'[schedules.nightly]\nhandler = "backup"\ncron = "30 2 * * *"\nzone = "{ZONE}"\n\n'
        '[schedules.weekly]\nhandler = "backup"\ncron = "30 2 * * MON"\nzone = "Europe/Berlin"\n'
    )
    window = ("--from", "2027-06-01T00:00:00Z", "--until", "2028-01-01T00:00:00Z")
    ran = Cli(capsys)("tz", "diff", str(old), str(new), *window, "--file", str(schedules))
    assert not ran.err
    assert ran.out.splitlines() == [
        "tzdata 2026a -> 2026b: 1 zones differ",
        f"{ZONE}  2027-06-01T00:00:00Z to 2027-11-07T06:00:00Z  -04:00 -> -05:00",
        "1 tasks and events move",
        f"nightly  {ZONE}  2027-06-01T02:30:00  2027-06-01T06:30:00Z -> 2027-06-01T07:30:00Z  next",
    ]
    value = json.loads(Cli(capsys)("tz", "diff", str(old), str(new), *window, "--json").out)
    assert (value["old"], value["new"], value["tasks"]) == ("2026a", "2026b", None)
    assert value["zones"] == [
        {
            "zone": ZONE,
            "gone": False,
            "differs": [
                {
                    "from": "2027-06-01T00:00:00Z",
                    "until": "2027-11-07T06:00:00Z",
                    "before": "-04:00",
                    "after": "-05:00",
                }
            ],
        }
    ]


@pytest.mark.parametrize("by_environment", [False, True])
def test_a_process_reckons_with_the_release_that_it_is_given(tmp_path: Path, *, by_environment: bool) -> None:
    given = wheel(tmp_path / "given.whl", "2026a", "America/New_York")
    option = () if by_environment else (f"--tzdata={given}",)
    asked = ("schedule", "preview", "30 2 * * *", f"--zone={ZONE}", "--around=2027-06-01", "-n1", "--json")
    ran = subprocess.run(
        tickstream_command(*option, *asked),
        env={**os.environ, **({"TICKSTREAM_TZDATA": str(given)} if by_environment else {})},
        capture_output=True,
        check=True,
        timeout=60,
    )
    value = json.loads(ran.stdout)
    assert (value["tzdata"], value["occurrences"][0]["local"]) == ("2026a", "2027-05-31T02:30:00-04:00")
