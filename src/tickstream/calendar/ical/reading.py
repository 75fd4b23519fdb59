"""From the bytes of an iCalendar file to events: pure, and never half of one without saying so.

What a VEVENT says is read in vevent.py; what a calendar does with the events is in merging.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tickstream.calendar.ical.lines import Component, Problem, read_components
from tickstream.calendar.ical.report import Entry, Fate
from tickstream.calendar.ical.vevent import Found, Reader, Version
from tickstream.calendar.ical.zones import Zones

_NOT_READ: Final = ("VTODO", "VJOURNAL", "VFREEBUSY", "VAVAILABILITY")


@dataclass(frozen=True, slots=True)
class ReadCalendar:
    """What a file says: its events in their order, and what could not be taken as it is written."""

    events: tuple[Found, ...]
    entries: tuple[Entry, ...]
    cancels: bool
    """METHOD:CANCEL: what stands in it is called off."""


def read_calendar(data: bytes, calendar_zone: str | None) -> ReadCalendar:
    """Every event of the file that can be taken, and an entry for all that cannot. Raises nothing for any bytes."""
    root = read_components(data)
    calendars = list(root.every("VCALENDAR"))
    entries = [Entry(problem.line, "", Fate.NOTED, problem.reason) for problem in _problems(root)]
    # Files with bare events are about, too, and events in components that nobody knows.
    if not calendars and next(root.every("VEVENT"), None) is None:
        entries.append(Entry(1, "", Fate.REJECTED, "there is no BEGIN:VCALENDAR: this is no iCalendar file"))
    zones = Zones({tzid.value: zone for zone in root.every("VTIMEZONE") for tzid in zone.all("TZID")})
    versions: dict[str, list[Version]] = defaultdict(list)
    for component in root.every("VEVENT"):
        version = Version(component)
        versions[version.uid].append(version)
    for name in _NOT_READ:
        reason = f"{name} is not read, only events are"
        entries += [Entry(component.line, "", Fate.NOTED, reason) for component in root.every(name)]
    found: list[Found] = []
    for uid, all_of_it in versions.items():
        reader = Reader(uid, zones, calendar_zone)
        event = reader.event(all_of_it)
        entries += reader.entries
        if event is not None:
            found.append(event)
    entries += [Entry(line, "", Fate.NOTED, note) for line, note in zones.notes.values()]
    methods = [method.value.strip().upper() for calendar in calendars for method in calendar.all("METHOD")]
    return ReadCalendar(tuple(found), tuple(sorted(entries)), "CANCEL" in methods)


def _problems(component: Component) -> Iterator[Problem]:
    """What cannot be read outside of events, whose own is their readers'."""
    if component.name == "VEVENT":
        return
    yield from component.problems
    for inner in component.components:
        yield from _problems(inner)
