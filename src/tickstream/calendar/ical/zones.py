"""Which zone of the tz database a TZID means: by its name, by Windows' name for it, or by what its VTIMEZONE defines.

Nothing of events may enter here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from typing import Final

from icalendar import Timezone
from icalendar.timezone.windows_to_olson import WINDOWS_TO_OLSON

from tickstream.calendar.ical.lines import Component
from tickstream.errors import InvalidEvent
from tickstream.recurrence.zone_data import load_zone, zone_keys

_PROBES: Final = tuple(
    datetime(2020, 1, 1, 12, tzinfo=UTC) + timedelta(days=5 * step) for step in range(73 * 12)
)
"""Every five days of twelve years: there a definition and a zone have to show the same clock."""
_FAMILIAR: Final = [
    "UTC",
    "Europe/London",
    "Europe/Berlin",
    "Europe/Athens",
    "Europe/Moscow",
    "America/New_York",
    "America/Chicago",
    "America/Denver",
    "America/Phoenix",
    "America/Los_Angeles",
    "America/Anchorage",
    "America/Halifax",
    "America/St_Johns",
    "America/Sao_Paulo",
    "Asia/Kolkata",
    "Asia/Dubai",
    "Asia/Bangkok",
    "Asia/Shanghai",
    "Asia/Tokyo",
    "Australia/Sydney",
    "Australia/Brisbane",
    "Australia/Adelaide",
    "Pacific/Auckland",
]
"""Asked first: where several zones show the same clock, one that people know."""


class Zones:
    """The zones of one file."""

    def __init__(self, definitions: Mapping[str, Component]) -> None:
        """`definitions` are its VTIMEZONEs by TZID."""
        self._definitions: Final = definitions
        self._found: Final[dict[str, str]] = {}
        self.notes: Final[dict[str, tuple[int, str]]] = {}
        """TZID → where it is defined and how it was read, where its name is none of the tz database."""

    def key(self, tzid: str) -> str:
        """The tz database's name. Raises InvalidEvent that names the zone."""
        if tzid not in self._found:
            self._found[tzid] = self._look_up(tzid)
        return self._found[tzid]

    def _look_up(self, tzid: str) -> str:
        key = by_name(tzid)
        if key is None and tzid in self._definitions:
            location = self._definitions[tzid].first("X-LIC-LOCATION")
            key = by_name(location.value) if location is not None else None
            key = key or _by_definition(self._definitions[tzid])
        if key is None:
            defined = (
                "its VTIMEZONE shows the clock of none"
                if tzid in self._definitions
                else "it has no VTIMEZONE"
            )
            raise InvalidEvent(
                "TZID", tzid, f"is no zone of the tz database and no name of Windows', and {defined}"
            )
        if key != tzid:
            line = self._definitions[tzid].line if tzid in self._definitions else 1
            self.notes[tzid] = (line, f"zone {tzid!r} is read as {key}")
        return key


@cache
def by_name(tzid: str) -> str | None:
    """The zone of that name, of that Windows name, or of the end of a name like `/example.org/2024b/Europe/Berlin`."""
    name = tzid.strip().strip('"')
    if name in WINDOWS_TO_OLSON:
        name = WINDOWS_TO_OLSON[name]
    if name in ("Z", "Etc/UTC"):
        return "UTC"
    if name in zone_keys():
        return name
    parts = re.split("/", name)
    return next(
        ("/".join(parts[i:]) for i in range(1, len(parts)) if "/".join(parts[i:]) in zone_keys()), None
    )


def _by_definition(component: Component) -> str | None:
    """The zone whose clock shows the same as the definition's, at all probes; None when there is none."""
    try:
        definition = Timezone.from_ical("\r\n".join(component.raw) + "\r\n")
        if not isinstance(definition, Timezone):
            return None
        defined: tzinfo = definition.to_tz(lookup_tzid=False)  # else one of that name from another file
        offsets = [probe.astimezone(defined).utcoffset() for probe in _PROBES]
    except (ValueError, KeyError, IndexError, AttributeError, TypeError, OverflowError):
        return None  # a definition that cannot be read defines nothing: the caller names it
    seconds = [0 if offset is None else round(offset.total_seconds()) for offset in offsets]
    return next((key for key in (*_FAMILIAR, *sorted(zone_keys())) if _shows(key, seconds)), None)


def _shows(key: str, seconds: list[int]) -> bool:
    zone = load_zone(key)
    return all(
        zone.offset(int(probe.timestamp())) == offset for probe, offset in zip(_PROBES, seconds, strict=True)
    )
