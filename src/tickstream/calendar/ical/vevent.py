"""The VEVENTs of one UID as one Event: the series, and an override for each RECURRENCE-ID.

What can be put right is put right and noted; what cannot rejects the whole event, with the line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, NamedTuple

from tickstream.calendar.expansion import admit, expand
from tickstream.calendar.ical.lines import Component, Property
from tickstream.calendar.ical.properties import When, added, beside, length_between, reminder, rule, when
from tickstream.calendar.ical.report import Entry, Fate
from tickstream.calendar.ical.zones import Zones
from tickstream.calendar.values import (
    NO_LENGTH,
    Added,
    Details,
    Event,
    Length,
    Override,
    Reminder,
    Status,
    Transparency,
    parse_length,
)
from tickstream.errors import InvalidEvent, InvalidInput

_SAYING_WHEN: Final = frozenset(
    {"", "BEGIN", "END", "UID", "SEQUENCE", "DTSTART", "DTEND", "DURATION", "RECURRENCE-ID"}
    | {"RRULE", "EXRULE", "RDATE", "EXDATE", "STATUS", "TRANSP"}
)
_STATUSES: Final = {status.value: status for status in Status}


class Found(NamedTuple):
    """One event of a file."""

    line: int
    event: Event
    partial: bool
    """Only changed occurrences stand in the file, not their series."""


class Version:
    """One VEVENT: a series, or one occurrence of it."""

    def __init__(self, component: Component) -> None:
        self.component: Final = component
        self.line: Final = component.line
        self.recurrence_id: Final = component.first("RECURRENCE-ID")
        uid = component.first("UID")
        self.named: Final = uid is not None and bool(uid.value.strip())
        self.uid: Final = uid.value.strip() if uid is not None and self.named else _made_uid(component)
        self.sequence: Final = _sequence(component)


def _made_uid(component: Component) -> str:
    """The same for the same text, so that a file read twice gives one event."""
    return "without-uid-" + hashlib.sha256("\n".join(component.raw).encode()).hexdigest()[:20]


def _sequence(component: Component) -> int:
    found = component.first("SEQUENCE")
    text = "" if found is None else found.value.strip()
    return int(text) if text.isascii() and text.isdigit() else 0


class _Broken(InvalidInput):
    """What rejects an event, and the line where it stands."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


@contextmanager
def _at(line: int) -> Iterator[None]:
    """What is refused inside is refused at that line, unless a nearer one is known."""
    try:
        yield
    except _Broken:
        raise
    except InvalidInput as error:
        raise _Broken(line, str(error)) from error


class Reader:
    """Makes one event of all versions of a UID; `entries` tells what it did otherwise than it is written."""

    def __init__(self, uid: str, zones: Zones, calendar_zone: str | None) -> None:
        self._uid: Final = uid
        self._zones: Final = zones
        self._calendar_zone: Final = calendar_zone
        self.entries: Final[list[Entry]] = []

    def event(self, versions: list[Version]) -> Found | None:
        """The event, or None when it is rejected: then an entry says why and where."""
        series = self._latest([version for version in versions if version.recurrence_id is None])
        parts = [version for version in versions if version.recurrence_id is not None]
        line = (series or parts[0]).line
        try:
            with _at(line):
                for version in versions:
                    self._check(version)
                event = self._orphans(parts) if series is None else self._series(series, parts)
                admitted = admit(event, self._calendar_zone)
        except _Broken as broken:
            self._say(broken.line, Fate.REJECTED, str(broken))
            return None
        if not versions[0].named:
            self._say(line, Fate.NOTED, "it has no UID; the one given is made from its text")
        if series is not None:
            for stray in expand(admitted, self._calendar_zone).orphans():
                self._say(
                    line,
                    Fate.NOTED,
                    f"RECURRENCE-ID {stray.recurrence_id} is no occurrence of its series; kept",
                )
        return Found(line, admitted, partial=series is None)

    def _say(self, line: int, fate: Fate, reason: str) -> None:
        self.entries.append(Entry(line, self._uid, fate, reason))

    def _latest(self, versions: list[Version]) -> Version | None:
        """The one of the highest SEQUENCE, the last one of several."""
        if not versions:
            return None
        latest = max(enumerate(versions), key=lambda numbered: (numbered[1].sequence, numbered[0]))[1]
        for version in versions:
            if version is not latest:
                reason = f"the same stands in line {latest.line}, with SEQUENCE {latest.sequence}"
                self._say(version.line, Fate.IGNORED, reason)
        return latest

    def _check(self, version: Version) -> None:
        """A line that cannot be read rejects the event when it may say when that takes place."""
        for component in (version.component, *version.component.components):
            for line, reason, name in component.problems:
                if name in _SAYING_WHEN:
                    raise _Broken(line, reason)
                self._say(line, Fate.NOTED, reason)
        exrule = version.component.first("EXRULE")
        if exrule is not None:
            raise _Broken(exrule.line, "EXRULE is no longer part of iCalendar (RFC 5545, A.3); write EXDATE")

    # ------------------------------------------------------------------ the series

    def _series(self, version: Version, parts: list[Version]) -> Event:
        component = version.component
        start = self._when(component, "DTSTART")
        if start is None:
            raise _Broken(version.line, "DTSTART is missing")
        event = Event(
            uid=self._uid,
            start=start.text,
            zone=start.zone,
            length=self._length(component, start),
            rule=self._rule(component, start),
            rdate=tuple(self._rdates(component, start)),
            exdate=tuple(dict.fromkeys(self._exdates(component, start))),
            status=self._status(component),
            transparency=_transparency(component),
            sequence=version.sequence,
            details=_details(component),
        )
        return replace(
            event,
            reminders=self._reminders(component, event),
            overrides=self._overrides(parts, start),
        )

    def _when(self, component: Component, name: str) -> When | None:
        prop = component.first(name)
        if prop is None:
            return None
        with _at(prop.line):
            return when(prop.value, prop, self._zones)

    def _length(self, component: Component, start: When) -> Length:
        duration, end = component.first("DURATION"), component.first("DTEND")
        # Of both, which RFC 5545 does not allow, the end counts.
        if end is not None:
            with _at(end.line):
                return length_between(start, when(end.value, end, self._zones), self._calendar_zone)
        if duration is None:
            return NO_LENGTH
        with _at(duration.line):
            return parse_length(duration.value.strip().upper())

    def _rule(self, component: Component, start: When) -> str | None:
        rules = [prop for prop in component.all("RRULE") if prop.value.strip()]
        if not rules:
            return None
        if len({prop.value for prop in rules}) > 1:
            raise _Broken(
                rules[1].line, "RRULE stands there more than once (RFC 5545, 3.8.5.3); make it two events"
            )
        with _at(rules[0].line):
            text, note = rule(rules[0], start, self._calendar_zone)
        if note:
            self._say(rules[0].line, Fate.NOTED, note)
        return text

    def _rdates(self, component: Component, start: When) -> Iterator[Added]:
        for prop, value in _values(component.all("RDATE")):
            with _at(prop.line):
                yield added(value, prop, start, self._zones, self._calendar_zone)

    def _exdates(self, component: Component, start: When) -> Iterator[str]:
        for prop, value in _values(component.all("EXDATE")):
            with _at(prop.line):
                yield beside(start, when(value, prop, self._zones), self._calendar_zone)

    def _status(self, component: Component) -> Status:
        prop = component.first("STATUS")
        text = "confirmed" if prop is None else prop.value.strip().lower()
        if text in _STATUSES:
            return _STATUSES[text]
        assert prop is not None
        self._say(prop.line, Fate.NOTED, f"STATUS {prop.value!r} is none of an event's; read as CONFIRMED")
        return Status.CONFIRMED

    def _reminders(self, component: Component, event: Event) -> tuple[Reminder, ...]:
        alarms = [
            trigger
            for alarm in component.components
            if alarm.name == "VALARM"
            for trigger in alarm.all("TRIGGER")
        ]
        if not alarms:
            return ()
        first = expand(replace(event, exdate=()), self._calendar_zone).starting(0)
        begun = next(first, None)
        found: list[Reminder] = []
        for trigger in alarms:
            try:
                start_ms, end_ms = (begun.start_ms, begun.end_ms) if begun else (0, 0)
                found.append(reminder(trigger, start_ms, end_ms, self._zones, event.recurring))
            except InvalidInput as error:
                self._say(trigger.line, Fate.NOTED, f"an alarm is left out: {error}")
        return tuple(dict.fromkeys(found))

    # ------------------------------------------------------------------ changed occurrences

    def _overrides(self, parts: list[Version], start: When) -> tuple[Override, ...]:
        by_identity: dict[str, list[Version]] = {}
        for part in parts:
            by_identity.setdefault(self._identity(part, start), []).append(part)
        found = []
        for identity, versions in by_identity.items():
            latest = self._latest(versions)
            assert latest is not None
            found.append(self._override(identity, latest))
        return tuple(found)

    def _identity(self, part: Version, start: When) -> str:
        prop = part.recurrence_id
        assert prop is not None
        with _at(prop.line):
            if prop.parameters.get("RANGE"):
                raise InvalidEvent(
                    "RECURRENCE-ID",
                    prop.value,
                    "RANGE=THISANDFUTURE is not known here; split the series in two",
                )
            return beside(start, when(prop.value, prop, self._zones), self._calendar_zone)

    def _override(self, identity: str, part: Version) -> Override:
        component = part.component
        start = self._when(component, "DTSTART")
        if start is None:
            raise _Broken(part.line, "DTSTART is missing")
        single = Event(self._uid, start.text, start.zone, self._length(component, start))
        return Override(
            recurrence_id=identity,
            start=start.text,
            zone=start.zone,
            length=single.length,
            status=self._status(component),
            transparency=_transparency(component),
            details=_details(component),
            reminders=self._reminders(component, single),
        )

    def _orphans(self, parts: list[Version]) -> Event:
        """Changed occurrences without their series: an event that has these and no others."""
        first = parts[0].recurrence_id
        assert first is not None
        with _at(first.line):
            start = when(first.value, first, self._zones)
        overrides = self._overrides(parts, start)
        others = tuple(Added(o.recurrence_id) for o in overrides if o.recurrence_id != start.text)
        sequence = max(part.sequence for part in parts)
        return Event(
            self._uid, start.text, start.zone, overrides[0].length or NO_LENGTH, rdate=others, overrides=overrides,
            sequence=sequence,
        )  # fmt: skip


def _values(properties: Iterable[Property]) -> Iterator[tuple[Property, str]]:
    """Each of the values that stand in one property, separated by commas."""
    for prop in properties:
        for value in prop.value.split(","):
            if value.strip():
                yield prop, value.strip()


def _transparency(component: Component) -> Transparency:
    prop = component.first("TRANSP")
    transparent = prop is not None and prop.value.strip().upper() == "TRANSPARENT"
    return Transparency.TRANSPARENT if transparent else Transparency.OPAQUE


def _details(component: Component) -> Details:
    def text(name: str) -> str:
        prop = component.first(name)
        return "" if prop is None else prop.value

    attendees = tuple(prop.value for name in ("ORGANIZER", "ATTENDEE") for prop in component.all(name))
    return Details(text("SUMMARY"), text("LOCATION"), text("DESCRIPTION"), tuple(dict.fromkeys(attendees)))
