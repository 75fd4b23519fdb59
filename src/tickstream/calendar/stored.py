"""A calendar's event as a task carries it: the event, whose it is, and what a conflict is to come to; and its bytes.

Pure. The schema is schemas/avro/v1/tickstream.CalendarEvent.avsc.
"""

from __future__ import annotations

from dataclasses import fields as fields_of
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple

from tickstream.calendar.changes import Change, Scope
from tickstream.calendar.expansion import Expansion, expand
from tickstream.calendar.turns import Turns
from tickstream.calendar.values import (
    Added,
    Details,
    Event,
    Length,
    Override,
    Reminder,
    Status,
    Transparency,
)
from tickstream.codec.avro import Schema
from tickstream.errors import InvalidEvent, InvalidTaskId, MalformedValue
from tickstream.model import RunTerms, check_task_id, is_reminder_id, reminder_id

_SCHEMA: Final = Schema("CalendarEvent")
_CHANGE: Final = Schema("CalendarChange")
_CHANGED: Final = tuple(field.name for field in fields_of(Change) if field.name != "length")


class OnConflict(StrEnum):
    """What becomes of an event that meets another."""

    REJECT = "reject"
    REPORT = "report"
    """It is taken, and the answer lists what it meets."""
    ALLOW = "allow"
    """It is taken, and nobody looks."""


class Call(NamedTuple):
    """What runs at a reminder."""

    queue: str
    body: bytes
    """An encoded Body."""
    terms: RunTerms | None = None


class Booking(NamedTuple):
    """An event in its calendar, or one of its reminders."""

    calendar: str
    calendar_zone: str
    """IANA name, of floating times and of days."""
    on_conflict: OnConflict
    event: Event
    remind: Call | None = None
    """What runs at its reminders; None: they are recorded in history."""
    reminder: Reminder | None = None
    """None: the task is the event itself; else this reminder of its occurrences."""

    @property
    def task_id(self) -> str:
        """The id of the task that it is: one calendar lies in one bucket."""
        task_id = task_id_of(self.calendar, self.event.uid)
        return task_id if self.reminder is None else reminder_id(task_id, *self.reminder)

    @property
    def reminders(self) -> tuple[Booking, ...]:
        """The reminders of its occurrences, each a task of its own."""
        if self.reminder is not None:
            return ()
        event = self.event
        wanted = {*event.reminders, *(one for o in event.overrides for one in o.reminders or ())}
        return tuple(self._replace(reminder=reminder) for reminder in sorted(wanted))

    @property
    def turns(self) -> Turns:
        """When its occurrences are to be dispatched."""
        return Turns(self.expansion, self.reminder)

    @property
    def expansion(self) -> Expansion:
        """Its occurrences."""
        return expand(self.event, self.calendar_zone)


def task_id_of(calendar: str, uid: str) -> str:
    """`{room-7}standup`. Raises InvalidEvent for a calendar id with braces, InvalidTaskId for one that is too long."""
    if not calendar or "{" in calendar or "}" in calendar:
        raise InvalidEvent(
            "calendar", calendar, "is a text without braces, which stand around it in the ids of tasks"
        )
    if is_reminder_id(uid):
        raise InvalidEvent("uid", uid, "ends as the ids of reminders do")
    return check_task_id(f"{{{calendar}}}{uid}")


def encode_booking(booking: Booking) -> bytes:
    """The value of `Options.event`."""
    event = booking.event
    return _SCHEMA.write(
        {
            "calendar": booking.calendar,
            "calendar_zone": booking.calendar_zone,
            "on_conflict": booking.on_conflict.value,
            "uid": event.uid,
            "start": event.start,
            "zone": event.zone or "",
            "length": event.length._asdict(),
            "rule": event.rule or "",
            "last": event.last,
            "rdate": [{"start": a.start, "length": a.length and a.length._asdict()} for a in event.rdate],
            "exdate": event.exdate,
            "overrides": [_override(override) for override in event.overrides],
            "status": event.status.value,
            "transparency": event.transparency.value,
            "sequence": event.sequence,
            "details": _details(event.details),
            "reminders": [reminder._asdict() for reminder in event.reminders],
            "continues": event.continues,
            "remind": None if booking.remind is None else _call(booking.remind),
            "reminder": booking.reminder and booking.reminder._asdict(),
        }
    )


@lru_cache(maxsize=4_096)
def decode_booking(value: bytes) -> Booking:
    """What `encode_booking` wrote. Raises MalformedValue, UnknownSchema."""
    d = _SCHEMA.read(value)
    try:
        event = Event(
            uid=d["uid"],
            start=d["start"],
            zone=d["zone"] or None,
            length=Length(**d["length"]),
            rule=d["rule"] or None,
            rdate=tuple(Added(a["start"], _length(a["length"])) for a in d["rdate"]),
            exdate=tuple(d["exdate"]),
            overrides=tuple(_read_override(override) for override in d["overrides"]),
            status=Status(d["status"]),
            transparency=Transparency(d["transparency"]),
            sequence=d["sequence"],
            details=_read_details(d["details"]),
            reminders=tuple(Reminder(**reminder) for reminder in d["reminders"]),
            continues=d["continues"],
            last=d["last"],
        )
        booking = Booking(
            d["calendar"],
            d["calendar_zone"],
            OnConflict(d["on_conflict"]),
            event,
            None if d["remind"] is None else _read_call(d["remind"]),
            None if d["reminder"] is None else Reminder(**d["reminder"]),
        )
        _ = booking.task_id, [reminder.task_id for reminder in booking.reminders]
    except (ValueError, InvalidEvent, InvalidTaskId) as error:
        raise MalformedValue(f"no calendar event: {error}") from error
    return booking


def encode_change(change: Change, on_conflict: OnConflict) -> bytes:
    """The value of `Options.event` of a CHANGE_EVENT."""
    fields = {name: getattr(change, name) for name in _CHANGED}
    length = change.length
    fields |= {
        "on_conflict": on_conflict.value,
        "days": None if length is None else length.days,
        "ms": None if length is None else length.ms,
    }
    if change.attendees is not None:
        fields["attendees"] = list(change.attendees)  # of a union a tuple would mean: this branch
    if change.reminders is not None:
        fields["reminders"] = [reminder._asdict() for reminder in change.reminders]
    return _CHANGE.write(fields)


def decode_change(value: bytes) -> tuple[Change, OnConflict]:
    """What `encode_change` wrote. Raises MalformedValue, UnknownSchema."""
    d = _CHANGE.read(value)
    try:
        on_conflict = OnConflict(d.pop("on_conflict"))
        days, ms = d.pop("days"), d.pop("ms")
        change = Change(
            **d
            | {
                "scope": Scope(d["scope"]),
                "status": d["status"] and Status(d["status"]),
                "transparency": d["transparency"] and Transparency(d["transparency"]),
                "length": None if days is None else Length(days, ms),
                "attendees": None if d["attendees"] is None else tuple(d["attendees"]),
                "reminders": None
                if d["reminders"] is None
                else tuple(Reminder(**reminder) for reminder in d["reminders"]),
            }
        )
    except (TypeError, ValueError) as error:
        raise MalformedValue(f"no change of a calendar event: {error}") from error
    return change, on_conflict


def _call(call: Call) -> dict[str, Any]:
    return call._asdict() | {"terms": call.terms and call.terms._asdict()}


def _read_call(d: dict[str, Any]) -> Call:
    return Call(d["queue"], d["body"], None if d["terms"] is None else RunTerms(**d["terms"]))


def _details(details: Details) -> dict[str, Any]:
    return {
        "summary": details.summary,
        "location": details.location,
        "description": details.description,
        "attendees": details.attendees,
    }


def _read_details(d: dict[str, Any]) -> Details:
    return Details(d["summary"], d["location"], d["description"], tuple(d["attendees"]))


def _override(override: Override) -> dict[str, Any]:
    reminders = override.reminders
    return {
        "recurrence_id": override.recurrence_id,
        "start": override.start,
        "zone": override.zone,
        "length": override.length and override.length._asdict(),
        "status": override.status and override.status.value,
        "transparency": override.transparency and override.transparency.value,
        "details": override.details and _details(override.details),
        "reminders": None if reminders is None else [reminder._asdict() for reminder in reminders],
    }


def _read_override(d: dict[str, Any]) -> Override:
    return Override(
        d["recurrence_id"],
        d["start"],
        d["zone"],
        _length(d["length"]),
        d["status"] and Status(d["status"]),
        d["transparency"] and Transparency(d["transparency"]),
        d["details"] and _read_details(d["details"]),
        None if d["reminders"] is None else tuple(Reminder(**reminder) for reminder in d["reminders"]),
    )


def _length(d: dict[str, int] | None) -> Length | None:
    return None if d is None else Length(**d)
