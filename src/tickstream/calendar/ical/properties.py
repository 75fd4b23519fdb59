"""The values of an event's properties: times in their zones, rules, durations, alarms.

Each function reads one property and raises InvalidInput with the reason; which lines a file has may not enter here.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from tickstream.calendar.expansion import length_until
from tickstream.calendar.ical.lines import Property
from tickstream.calendar.ical.zones import Zones
from tickstream.calendar.values import Added, Length, Reminder, parse_length
from tickstream.clock import iso_utc_seconds
from tickstream.errors import InvalidEvent
from tickstream.recurrence import wall_clock_instant

_TIME: Final = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z?))?", re.ASCII)
_UNTIL: Final = re.compile(r"(?<=UNTIL=)(\d{8})(T\d{6}Z?)?", re.ASCII | re.IGNORECASE)


class When(NamedTuple):
    """A time as `Event.start` is written, and the zone that it is in."""

    text: str
    zone: str | None
    """None for a date, floating time and UTC."""

    @property
    def is_date(self) -> bool:
        """Whether it names a day."""
        return "T" not in self.text

    @property
    def is_utc(self) -> bool:
        """Whether it is written in UTC."""
        return self.text.endswith("Z")


def when(value: str, prop: Property, zones: Zones) -> When:
    """A DATE or DATE-TIME, in the zone of the property. Raises InvalidEvent."""
    found = _TIME.fullmatch(value.strip())
    if found is None:
        raise InvalidEvent(
            prop.name, value, "is no date or time as 20260301 or 20260301T090000 (RFC 5545, 3.3.5)"
        )
    year, month, day, hour, minute, second, utc = found.groups()
    if hour is None:
        return When(f"{year}-{month}-{day}", None)
    # A leap second is read as the one before it (RFC 5545, 3.3.12).
    text = f"{year}-{month}-{day}T{hour}:{minute}:{min(int(second), 59):02d}"
    if utc:
        return When(text + "Z", None)
    tzid = prop.parameters.get("TZID")
    return When(text, None if tzid is None else zones.key(tzid))


def beside(start: When, time: When, calendar_zone: str | None) -> str:
    """A RECURRENCE-ID, EXDATE or RDATE written so that it can stand beside `start`. Raises UnknownZone.

    Files have dates beside times and times beside dates, though RFC 5545 does not allow it: a date beside a time
    means the occurrence of that day, a time beside a date its day.
    """
    if start.is_date:
        return time.text[:10]
    if time.is_date:
        return time.text + start.text[10:]
    if time.is_utc or (time.zone == start.zone and not start.is_utc):
        return time.text
    instant = wall_clock_instant(time.zone or calendar_zone, datetime.fromisoformat(time.text))
    return iso_utc_seconds(instant * 1_000)


def length_between(start: When, end: When, calendar_zone: str | None) -> Length:
    """The length that DTEND gives. Raises InvalidEvent."""
    return length_until(start.text, end.text, start.zone, end.zone, calendar_zone)


def added(value: str, prop: Property, start: When, zones: Zones, calendar_zone: str | None) -> Added:
    """One entry of RDATE, a time or a period. Raises InvalidEvent."""
    begins, is_period, ends = value.partition("/")
    begun = when(begins, prop, zones)
    text = beside(start, begun, calendar_zone)
    if not is_period:
        return Added(text)
    if ends.upper().startswith(("P", "+P")):
        return Added(text, parse_length(ends.upper()))
    return Added(text, length_between(begun, when(ends, prop, zones), calendar_zone))


def rule(prop: Property, start: When, calendar_zone: str | None) -> tuple[str, str]:
    """The RRULE's value, and a note where its UNTIL had to be put right."""
    text = "".join(prop.value.split()).rstrip(";")
    found = _UNTIL.search(text)
    if found is None:
        return text, ""
    until = _until(found[0].upper(), start, calendar_zone)
    if until == found[0].upper():
        return text, ""
    return _UNTIL.sub(
        until, text
    ), f"UNTIL={found[0]} does not fit DTSTART (RFC 5545, 3.3.10); read as {until}"


def _until(until: str, start: When, calendar_zone: str | None) -> str:
    if start.is_date:
        return until[:8]
    floating = start.zone is None and not start.is_utc
    if until.endswith("Z"):
        if not floating:
            return until
        local = datetime.strptime(until, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        offset = _offset(calendar_zone, local)
        return f"{local + offset:%Y%m%dT%H%M%S}"
    # A date ends the rule with that day.
    local_text = until if "T" in until else until + "T235959"
    if floating:
        return local_text
    zone = "UTC" if start.is_utc else start.zone
    instant = wall_clock_instant(zone, datetime.strptime(local_text, "%Y%m%dT%H%M%S"))
    return f"{datetime.fromtimestamp(instant, UTC):%Y%m%dT%H%M%SZ}"


def reminder(trigger: Property, start_ms: int, end_ms: int, zones: Zones, recurring: bool) -> Reminder:
    """An alarm's TRIGGER as a distance from the occurrence. Raises InvalidEvent."""
    value = trigger.value.strip().upper()
    from_end = trigger.parameters.get("RELATED", "START").upper() == "END"
    if _TIME.fullmatch(value):
        if recurring:
            raise InvalidEvent("TRIGGER", value, "names one instant, and the event has several occurrences")
        at = when(value, trigger, zones)
        instant = wall_clock_instant("UTC", datetime.fromisoformat(at.text.removesuffix("Z"))) * 1_000
        return Reminder(instant - start_ms)
    before = value.startswith("-")
    length = parse_length(value.lstrip("+-"))
    distance = length.ms + length.days * 86_400_000
    return Reminder(-distance if before else distance, from_end and end_ms > start_ms)


def _offset(zone: str | None, at: datetime) -> timedelta:
    wall = at.replace(tzinfo=None)
    # Of the instant, not of the wall clock reading: exact but within an hour or so of a change.
    return at - datetime.fromtimestamp(wall_clock_instant(zone, wall), UTC)
