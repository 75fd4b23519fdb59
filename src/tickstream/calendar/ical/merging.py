"""What a calendar makes of a file: which events are new, which change, which are older than what is known.

Pure: values in, a plan out; nothing is written here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from tickstream.calendar.expansion import admit, expand
from tickstream.calendar.ical.reading import ReadCalendar
from tickstream.calendar.ical.report import Entry, Fate
from tickstream.calendar.ical.vevent import Found
from tickstream.calendar.values import Event, Override, Status
from tickstream.errors import InvalidInput


class Planned(NamedTuple):
    """One event of the file and what is to be done about it."""

    entry: Entry
    event: Event | None
    """To be stored in place of what is known; None: nothing is to be done."""


def plan(
    read: ReadCalendar, known: Callable[[str], Event | None], calendar_zone: str | None
) -> tuple[Planned, ...]:
    """For each event of the file its fate, `known` being the calendar's event of that UID; in the order of the file."""
    return tuple(_plan(found, read.cancels, known(found.event.uid), calendar_zone) for found in read.events)


def _plan(found: Found, cancels: bool, known: Event | None, calendar_zone: str | None) -> Planned:
    line, event, partial = found
    if known is not None and event.sequence < known.sequence:
        reason = f"its SEQUENCE {event.sequence} is older than the calendar's {known.sequence}"
        return Planned(Entry(line, event.uid, Fate.IGNORED, reason), None)
    if cancels:
        return _cancel(found, known, calendar_zone)
    if partial and known is not None:
        return _merged(
            line, _with(known, event.overrides, event.sequence, calendar_zone), known, calendar_zone
        )
    return _merged(line, event, known, calendar_zone)


def _merged(line: int, event: Event, known: Event | None, calendar_zone: str | None) -> Planned:
    try:
        event = admit(event, calendar_zone)
    except InvalidInput as error:
        return Planned(Entry(line, event.uid, Fate.REJECTED, str(error)), None)
    if known is None:
        return Planned(Entry(line, event.uid, Fate.TAKEN), event)
    if event == known:
        return Planned(Entry(line, event.uid, Fate.UNCHANGED), None)
    return Planned(Entry(line, event.uid, Fate.CHANGED), event)


def _cancel(found: Found, known: Event | None, calendar_zone: str | None) -> Planned:
    line, event, partial = found
    if known is None:
        return Planned(Entry(line, event.uid, Fate.IGNORED, "the calendar has no such event to cancel"), None)
    if partial:
        gone = tuple(
            Override(override.recurrence_id, status=Status.CANCELLED) for override in event.overrides
        )
        changed = _with(known, gone, event.sequence, calendar_zone)
    else:
        changed = replace(known, status=Status.CANCELLED, sequence=event.sequence)
    planned = _merged(line, changed, known, calendar_zone)
    if planned.event is None:
        return planned
    return planned._replace(entry=planned.entry._replace(fate=Fate.CANCELLED))


def _with(known: Event, overrides: tuple[Override, ...], sequence: int, calendar_zone: str | None) -> Event:
    """`known` with these occurrences changed in place of what was changed about them before."""
    expansion = expand(known, calendar_zone)
    new = {expansion.identity(override.recurrence_id): override for override in overrides}
    kept = tuple(o for o in known.overrides if expansion.identity(o.recurrence_id) not in new)
    return replace(known, overrides=(*kept, *overrides), sequence=max(known.sequence, sequence))
