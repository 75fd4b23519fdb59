"""Zone data of two releases: made up of real zones under one name, or real wheels from the package index."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from io import BytesIO
from pathlib import Path
from zoneinfo import ZoneInfo

from tickstream.calendar import expansion
from tickstream.recurrence import compiled, zone_data
from tickstream.recurrence import stored as recurrence_stored
from tickstream.recurrence.zone_data import ZoneData, pinned

ZONE = "America/Mexico_City"
"""Whose data are another zone's in made-up releases."""


def release(name: str, like: str | None, zone: str = ZONE) -> ZoneData:
    """All that the pinned package has, but `zone` has the clock of `like`; None: it is not there at all."""
    data = pinned()
    keys = data.keys - {zone} if like is None else data.keys
    return ZoneData(name, keys, lambda key: data.bytes_of(like if key == zone and like else key))


@cache
def python_zone(like: str) -> ZoneInfo:
    """A zone of the pinned package as Python reads it."""
    return ZoneInfo.from_file(BytesIO(pinned().bytes_of(like)), key=like)


def instant(like: str, wall: datetime) -> int:
    """Where Python has a wall clock time (ms, UTC): in a gap by the offset before it, in a fold the first."""
    moment = wall.replace(tzinfo=python_zone(like)).astimezone(UTC)
    return round(moment.timestamp() * 1_000)


def download(version: str, into: Path) -> Path:
    """The wheel of tzdata of that version, from the package index that pip uses."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--only-binary=:all:", f"--dest={into}", f"tzdata=={version}"], check=True)
    (wheel,) = into.glob(f"tzdata-{version}-*.whl")
    return wheel


@contextmanager
def reckoning() -> Iterator[Callable[[ZoneData], None]]:
    """For tests of what asks for no zone data, but reckons with the process's: a way to have it reckon with others.

    A process never changes them. So what is remembered by them is forgotten at each change, and at the end.
    """
    stood = list(zone_data._used)

    def use(*data: ZoneData) -> None:
        zone_data._used[:] = data
        for module in (compiled, expansion, recurrence_stored):
            for remembered in vars(module).values():
                if hasattr(remembered, "cache_clear"):
                    remembered.cache_clear()

    try:
        yield use
    finally:
        use(*stood)
