"""Zones: the pinned data and no other, every change found, and the traps of single zones."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from datetime import UTC, datetime
from importlib import resources
from itertools import pairwise
from pathlib import Path

import pytest
import tzdata

from tests.rules import pinned
from tickstream.errors import UnknownZone
from tickstream.recurrence import Cron, Every, Fold, Gap, Policy, Rrule, Subday, take, tzdata_version
from tickstream.recurrence.zone_data import load_zone, zone_keys
from tickstream.recurrence.zones import PROBE

NEW_YORK = "America/New_York"


def changes(key: str) -> list[tuple[int, int]]:
    """The changes of UTC offset that the zone's file lists (RFC 8536): instant, offset from then on."""
    data = resources.files(tzdata).joinpath("zoneinfo", *key.split("/")).read_bytes()
    isut, isstd, leap, times, types, chars = struct.unpack(">6l", data[20:44])
    at = 44 + times * 5 + types * 6 + chars + leap * 8 + isstd + isut  # the second block has 64-bit times
    _, _, _, times, types, _ = struct.unpack(">6l", data[at + 20 : at + 44])
    at += 44
    instants = struct.unpack(f">{times}q", data[at : at + 8 * times])
    kinds = data[at + 8 * times : at + 9 * times]
    at += 9 * times
    offsets = [struct.unpack(">lbb", data[at + 6 * kind : at + 6 * kind + 6])[0] for kind in range(types)]
    listed = [(instant, offsets[kind]) for instant, kind in zip(instants, kinds, strict=True)]
    return [after for before, after in pairwise([(0, offsets[0]), *listed]) if before[1] != after[1]]


def test_no_zone_keeps_an_offset_for_less_than_the_distance_between_two_looks() -> None:
    shortest = min(after[0] - before[0] for key in zone_keys() for before, after in pairwise(changes(key)))
    assert shortest > PROBE


@pytest.mark.parametrize(
    "key", [NEW_YORK, "Europe/Dublin", "Africa/Casablanca", "Asia/Gaza", "Pacific/Apia", "Antarctica/Troll"]
)
def test_every_change_that_the_file_lists_is_found_to_the_second(key: str) -> None:
    zone = load_zone(key)
    for instant, offset in changes(key):
        if instant > -3_000_000_000:
            assert zone.offset(instant) == offset
            assert zone.offset(instant - 1) != offset


def test_only_names_of_the_tz_database_are_zones() -> None:
    for name in (
        "",
        "America/",
        "/etc/localtime",
        "../tzdata/zones",
        "UTC+25",
        "Pacific Standard Time",
        "tzdata.zi",
    ):
        with pytest.raises(UnknownZone, match="not in the tz database"):
            load_zone(name)


def test_the_systems_zone_data_are_ignored(tmp_path: Path) -> None:
    """A system whose New York is Tokyo changes nothing, though Python's own ZoneInfo believes it."""
    (tmp_path / "America").mkdir()
    tokyo = resources.files(tzdata).joinpath("zoneinfo", "Asia", "Tokyo").read_bytes()
    (tmp_path / "America" / "New_York").write_bytes(tokyo)
    source = (
        "from zoneinfo import ZoneInfo; from datetime import datetime\n"
        "from tickstream.recurrence import Cron, take\n"
        "print(datetime(2027, 1, 1, tzinfo=ZoneInfo('America/New_York')).utcoffset())\n"
        "print(take(Cron('0 2 * * *', 'America/New_York'), 1, 1_800_000_000_000)[0].next_occurrence_ts)\n"
    )
    environment = {**os.environ, "PYTHONTZPATH": str(tmp_path), "TZ": "Asia/Tokyo"}
    done = subprocess.run(
        [sys.executable, "-c", source], env=environment, check=True, capture_output=True, text=True
    )
    believed, found = done.stdout.split()
    assert believed == "9:00:00"
    assert datetime.fromtimestamp(int(found) / 1_000, UTC).astimezone(pinned(NEW_YORK)).hour == 2


def test_the_version_is_the_releases() -> None:
    assert tzdata_version() >= "2026a"


def local(schedule: Rrule | Cron | Every, count: int, after: str) -> list[str]:
    after_ms = round(datetime.fromisoformat(after).timestamp() * 1_000)
    zone = pinned(schedule.zone or "UTC")
    found = take(schedule, count, after_ms)
    return [f"{datetime.fromtimestamp(p.next_occurrence_ts / 1_000, zone):%d %H:%M %z}" for p in found]


def test_cron_follows_the_policies_as_rules_do() -> None:
    spring, autumn = "2027-03-14T00:00:00-05:00", "2027-11-07T00:00:00-04:00"
    assert local(Cron("30 2 * * *", NEW_YORK), 1, spring) == ["14 03:30 -0400"]
    assert local(Cron("30 2 * * *", NEW_YORK, policy=Policy(Gap.NEXT_VALID)), 1, spring) == ["14 03:00 -0400"]
    assert local(Cron("30 2 * * *", NEW_YORK, policy=Policy(Gap.SKIP)), 1, spring) == ["15 02:30 -0400"]
    assert local(Cron("30 1 * * *", NEW_YORK), 2, autumn) == ["07 01:30 -0400", "08 01:30 -0500"]
    both = Policy(fold=Fold.BOTH)
    assert local(Cron("30 1 * * *", NEW_YORK, policy=both), 2, autumn) == ["07 01:30 -0400", "07 01:30 -0500"]


def test_cron_that_runs_through_the_day_leaves_out_no_hour_of_it() -> None:
    every_half_hour = Cron("*/30 * * * *", NEW_YORK)
    assert local(every_half_hour, 6, "2027-11-07T00:59:00-04:00") == [
        "07 01:00 -0400", "07 01:30 -0400", "07 01:00 -0500", "07 01:30 -0500", "07 02:00 -0500", "07 02:30 -0500",
    ]  # fmt: skip
    on_the_wall = Cron("*/30 * * * *", NEW_YORK, policy=Policy(subday=Subday.WALL))
    assert local(on_the_wall, 3, "2027-11-07T00:59:00-04:00") == [
        "07 01:00 -0400",
        "07 01:30 -0400",
        "07 02:00 -0500",
    ]


def test_cron_has_names_seconds_and_its_own_rule_for_days() -> None:
    # With both day fields restricted, either may match.
    assert local(Cron("0 0 13 * FRI"), 3, "2027-08-01T00:00:00+00:00") == [
        "06 00:00 +0000", "13 00:00 +0000", "20 00:00 +0000",
    ]  # fmt: skip
    assert local(Cron("30 0 12 * JAN MON#1"), 1, "2027-01-01T00:00:00+00:00") == ["04 12:00 +0000"]


def test_an_interval_is_anchored_and_never_drifts() -> None:
    every = Every(45 * 60_000, anchor_ms=7)
    for after in (6, 7, 10**14):
        found = take(every, 2, after)
        assert [p.next_occurrence_ts % (45 * 60_000) for p in found] == [7, 7]
        assert found[0].next_occurrence_ts > after
