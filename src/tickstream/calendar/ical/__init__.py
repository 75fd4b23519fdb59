"""iCalendar files (RFC 5545): bytes to events with a report, events to bytes.

Pure. Needs the package `icalendar` (the extra `calendar`); the rest of calendar/ does not, so nothing there imports it.
"""

from tickstream.calendar.ical.merging import Planned, plan
from tickstream.calendar.ical.reading import ReadCalendar, read_calendar
from tickstream.calendar.ical.report import Entry, Fate
from tickstream.calendar.ical.vevent import Found
from tickstream.calendar.ical.writing import write_calendar

__all__ = [
    "Entry",
    "Fate",
    "Found",
    "Planned",
    "ReadCalendar",
    "plan",
    "read_calendar",
    "write_calendar",
]
