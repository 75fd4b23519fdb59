"""From events to the bytes of an iCalendar file that gives the same occurrences when it is read.

Pure: the caller says what time it is (DTSTAMP).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from icalendar import Alarm, Calendar, vRecur, vUnknown
from icalendar import Event as VEvent

from tickstream.calendar.values import (
    NO_DETAILS,
    NO_LENGTH,
    Details,
    Event,
    Length,
    Override,
    Reminder,
    Status,
    Transparency,
)

PRODUCT: Final = "-//tickstream//calendar//EN"


def write_calendar(
    events: Iterable[Event], *, stamp_ms: int, name: str = "", zone: str | None = None, refresh_s: int = 0
) -> bytes:
    """A VCALENDAR of all these events, with the VTIMEZONEs that they need. `stamp_ms`: ms, UTC.

    `refresh_s`: it is a feed, and may be asked for again after so many seconds.
    """
    calendar = Calendar()
    calendar.add("PRODID", PRODUCT)
    calendar.add("VERSION", "2.0")
    if refresh_s:
        calendar.add("METHOD", "PUBLISH")
        # RFC 7986, 5.7, and what older programs read.
        calendar.add("REFRESH-INTERVAL", timedelta(seconds=refresh_s), parameters={"VALUE": "DURATION"})
        calendar.add("X-PUBLISHED-TTL", Length(ms=refresh_s * 1_000).iso())
    if name:
        calendar.add("X-WR-CALNAME", name)
    if zone:
        calendar.add("X-WR-TIMEZONE", zone)
    stamp = datetime.fromtimestamp(stamp_ms // 1_000, UTC)
    for event in events:
        calendar.add_component(_series(event, stamp))
        for override in event.overrides:
            calendar.add_component(_occurrence(event, override, stamp))
    calendar.add_missing_timezones()
    return bytes(calendar.to_ical())


def _series(event: Event, stamp: datetime) -> VEvent:
    written = _event(event.uid, event.sequence, stamp)
    written.add("DTSTART", _time(event.start, event.zone))
    _lasting(written, event.length)
    if event.rule is not None:
        written.add("RRULE", vRecur.from_ical(event.rule))
    for extra in event.rdate:
        if extra.length is None:
            written.add("RDATE", _time(extra.start, event.zone))
        else:
            period = f"{_compact(extra.start)}/{extra.length.iso()}"
            parameters = {"VALUE": "PERIOD"}
            if event.zone is not None and not extra.start.endswith("Z"):
                parameters["TZID"] = event.zone
            written.add("RDATE", vUnknown(period), parameters=parameters)
    for excluded in event.exdate:
        written.add("EXDATE", _time(excluded, event.zone))
    _saying(written, event.status, event.transparency, event.details, event.reminders)
    if event.continues:
        written.add("RELATED-TO", event.continues)
    return written


def _occurrence(event: Event, override: Override, stamp: datetime) -> VEvent:
    written = _event(event.uid, event.sequence, stamp)
    written.add("RECURRENCE-ID", _time(override.recurrence_id, event.zone))
    start = override.recurrence_id if override.start is None else override.start
    written.add("DTSTART", _time(start, override.zone or event.zone))
    _lasting(written, event.length if override.length is None else override.length)
    _saying(
        written,
        override.status or event.status,
        override.transparency or event.transparency,
        event.details if override.details is None else override.details,
        event.reminders if override.reminders is None else override.reminders,
    )
    return written


def _event(uid: str, sequence: int, stamp: datetime) -> VEvent:
    written = VEvent()
    written.add("UID", uid)
    written.add("DTSTAMP", stamp)
    if sequence:
        written.add("SEQUENCE", sequence)
    return written


def _time(text: str, zone: str | None) -> date | datetime:
    if "T" not in text:
        return date.fromisoformat(text)
    wall = datetime.fromisoformat(text.removesuffix("Z"))
    if text.endswith("Z"):
        return wall.replace(tzinfo=UTC)
    return wall if zone is None else wall.replace(tzinfo=UTC if zone == "UTC" else ZoneInfo(zone))


def _compact(text: str) -> str:
    """`20260301T090000` of `2026-03-01T09:00:00`."""
    return text.replace("-", "").replace(":", "")


def _lasting(written: VEvent, length: Length) -> None:
    if length != NO_LENGTH:
        # As it is written, not as a timedelta: that would make 24 hours of a day.
        written.add("DURATION", vUnknown(length.iso()))


def _saying(
    written: VEvent,
    status: Status,
    transparency: Transparency,
    details: Details,
    reminders: tuple[Reminder, ...],
) -> None:
    written.add("STATUS", status.value.upper())
    written.add("TRANSP", transparency.value.upper())
    if details is not NO_DETAILS:
        for name, text in (
            ("SUMMARY", details.summary),
            ("LOCATION", details.location),
            ("DESCRIPTION", details.description),
        ):
            if text:
                written.add(name, text)
        for attendee in details.attendees:
            written.add("ATTENDEE", attendee)
    for reminder in reminders:
        written.add_component(_alarm(reminder, details.summary))


def _alarm(reminder: Reminder, text: str) -> Alarm:
    alarm = Alarm()
    alarm.add("ACTION", "DISPLAY")
    alarm.add("DESCRIPTION", text or "Reminder")
    parameters: Any = {"RELATED": "END"} if reminder.from_end else {}
    alarm.add("TRIGGER", timedelta(milliseconds=reminder.offset_ms), parameters=parameters)
    return alarm
