"""Sets of zone data: the pinned tzdata package, or another release of it as a wheel or a directory.

The system's zone files are never read unless a directory of them is named; nothing of schedules may enter here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from functools import cache
from importlib import resources
from io import BytesIO
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias
from zipfile import BadZipFile, ZipFile
from zoneinfo import ZoneInfo

import tzdata

from tickstream.errors import InvalidInput, UnknownZone
from tickstream.recurrence.civil import seconds_of
from tickstream.recurrence.zones import UTC_ZONE, Zone

INSTALLED: Final = "installed"
"""How the pinned package is named on a command line."""
_RELEASE: Final = re.compile(r"(\d{4})([a-z]+)")
_Read: TypeAlias = Callable[[str], bytes]
"""A path within the package `tzdata` → the file. Raises KeyError or FileNotFoundError."""


class Release(NamedTuple):
    """A release of the tz database in the order of releases: 2022a, 2022b, … 2022z, 2022za."""

    year: int
    length: int
    letters: str

    @classmethod
    def of(cls, text: str) -> Release:
        """`2026f`. Raises InvalidInput."""
        found = _RELEASE.fullmatch(text)
        if found is None:
            raise InvalidInput(f"{text!r} is no release of the tz database, such as 2026f")
        return cls(int(found[1]), len(found[2]), found[2])


class ZoneData:
    """One release's zones. What is read is kept."""

    def __init__(self, release: str, keys: frozenset[str], read: _Read) -> None:
        """`read`: a zone's name → its TZif file, of those in `keys`."""
        self.release: Final = release
        """As `2026f`."""
        self.keys: Final = keys
        self._read: Final = read
        self._zones: Final[dict[str, Zone]] = {}

    def zone(self, key: str | None) -> Zone:
        """The zone of that name; None is UTC. Raises UnknownZone."""
        if key is None or key in ("UTC", "Etc/UTC"):
            return UTC_ZONE
        zone = self._zones.get(key)
        if zone is None:
            zone = self._zones[key] = Zone(key, self._info(key))
        return zone

    def bytes_of(self, key: str) -> bytes:
        """The zone's TZif file. Raises UnknownZone."""
        if key not in self.keys:
            raise UnknownZone(key, self.release)
        return self._read(key)

    def _info(self, key: str) -> ZoneInfo:
        return ZoneInfo.from_file(BytesIO(self.bytes_of(key)), key=key)


def zone_data(source: str | Path) -> ZoneData:
    """What lies at a path: a tzdata wheel, one unpacked, or a directory of TZif files that names its release.

    `installed` is the pinned package. Raises InvalidInput.
    """
    if str(source) == INSTALLED:
        return pinned()
    path = Path(source)
    if path.is_dir():
        return _of_directory(path)
    try:
        with ZipFile(path) as wheel:
            files = {name: wheel.read(name) for name in wheel.namelist() if name.startswith("tzdata/")}
    except (OSError, BadZipFile) as error:
        raise InvalidInput(
            f"{path} is neither a tzdata wheel nor a directory of zone data ({error}); get one with: pip download --no-deps tzdata==2025.2"
        ) from error
    return _of_package(lambda name: files[f"tzdata/{name}"], str(path))


@cache
def pinned() -> ZoneData:
    """The package that this release of tickstream is pinned to."""
    root = resources.files(tzdata)
    return _of_package(
        lambda name: root.joinpath(*name.split("/")).read_bytes(), "the installed package tzdata"
    )


_used: Final[list[ZoneData]] = []


def use(data: ZoneData) -> None:
    """Reckon with these in all of the process. To be called at its start: raises RuntimeError after a first use."""
    if _used and _used[0] is not data:
        raise RuntimeError(f"this process has reckoned with tzdata {_used[0].release} already")
    _used[:] = [data]


def in_use() -> ZoneData:
    """What the process reckons with where it is not told otherwise: the pinned package, unless `use` was called."""
    if not _used:
        _used.append(pinned())
    return _used[0]


def tzdata_version() -> str:
    """The tz database's release in use, as `2026f`."""
    return in_use().release


def zone_keys() -> frozenset[str]:
    """Every name that the data in use know."""
    return in_use().keys


def load_zone(key: str | None) -> Zone:
    """The zone of that name by the data in use; None is UTC. Raises UnknownZone."""
    return in_use().zone(key)


def wall_clock_instant(key: str | None, wall: datetime) -> int:
    """The instant (seconds, UTC) at which the clock of the zone shows `wall`; RFC 5545's choice in gap and fold.

    Raises UnknownZone.
    """
    readings = load_zone(key).readings(seconds_of(wall))
    return readings.instants[0] if readings.instants else readings.shifted


def _of_package(read: _Read, where: str) -> ZoneData:
    """By the layout of the package `tzdata`."""
    try:
        head, names = read("__init__.py").decode(), read("zones").decode()
    except (KeyError, OSError) as error:
        raise InvalidInput(f"{where} holds no package tzdata: {error}") from error
    found = re.search(r'IANA_VERSION = "([^"]+)"', head)
    if found is None:
        raise InvalidInput(f"{where} does not say which release of the tz database it is")
    release = found[1]
    Release.of(release)
    return ZoneData(release, frozenset(names.split()), lambda key: read(f"zoneinfo/{key}"))


def _of_directory(path: Path) -> ZoneData:
    root = path / "tzdata" if (path / "tzdata" / "zones").is_file() else path
    if (root / "zones").is_file() and (root / "__init__.py").is_file():
        return _of_package(lambda name: (root / name).read_bytes(), str(path))
    release = _release_of(path)
    if release is None:
        raise InvalidInput(
            f"{path} does not say which release it is: a directory of zone data has a file tzdata.zi or +VERSION"
        )
    Release.of(release)
    files = (file for file in path.rglob("*") if file.is_file())
    keys = frozenset(str(file.relative_to(path)) for file in files if file.read_bytes()[:4] == b"TZif")
    return ZoneData(release, keys, lambda key: (path / key).read_bytes())


def _release_of(path: Path) -> str | None:
    """As zic's installation leaves it: `# version 2024a` heads tzdata.zi, and +VERSION holds it alone."""
    if (path / "tzdata.zi").is_file():
        with (path / "tzdata.zi").open() as file:
            return file.readline().rpartition(" ")[2].strip()
    if (path / "+VERSION").is_file():
        return (path / "+VERSION").read_text().strip()
    return None
