"""A calendar's event as the recurrence that its task carries: the identities of the occurrences that take place.

Where an occurrence was moved to does not stand in it: that is turns.py's. Pure.
"""

from __future__ import annotations

from tickstream.calendar.expansion import Expansion
from tickstream.clock import iso_utc_seconds
from tickstream.model import Overlap, Recurrence, RecurrenceKind


def recurrence_of(expansion: Expansion) -> Recurrence:
    """The rule, less the occurrences called off, with those that the rule does not name."""
    schedule = expansion.schedule
    called_off = {o.recurrence_ms for o in expansion.changed if o.cancelled}
    orphans = {expansion.identity(o.recurrence_id) for o in expansion.orphans()} - called_off
    return Recurrence(
        RecurrenceKind.RRULE,
        rule=schedule.rule or "",
        zone="" if schedule.zone in (None, "UTC") else schedule.zone or "",
        start=schedule.start,
        rdate=(*schedule.rdate, *(_written(instant, expansion) for instant in sorted(orphans))),
        exdate=(*schedule.exdate, *(_written(instant, expansion) for instant in sorted(called_off))),
        overlap=Overlap.ALLOW,
    )


def _written(recurrence_ms: int, expansion: Expansion) -> str:
    """An identity as RDATE and EXDATE have it beside the event's start."""
    if not expansion.event.all_day:
        return iso_utc_seconds(recurrence_ms)
    offset = expansion.zone.offset(recurrence_ms // 1_000)
    return iso_utc_seconds(recurrence_ms + offset * 1_000)[:10]
