"""The shapes of the answers about calendars, for the API's description: by hand, beside calendars.py.

Nothing is computed here but the schemas.
"""

from __future__ import annotations

from typing import Any, Final

from tickstream.projection.schema_parts import CURSOR, FRESH, MS, TEXT, WHOLE, array, record, ref

_BUSY: Final[dict[str, Any]] = {
    "start_ms": MS,
    "end_ms": MS,
    "uid": TEXT,
    "recurrence_ms": {**MS, "description": "where its rule puts the occurrence: its identity; ms, UTC"},
    "tentative": {"type": "boolean"},
}
_UNREADABLE: Final = {
    **array(record(uid=TEXT, reason=TEXT)),
    "description": "events that cannot be expanded here; they are missing in the answer",
}
SCHEMAS: Final = {
    "Busy": record(**_BUSY),
    "CalendarOccurrence": record(
        uid=TEXT,
        task_id=TEXT,
        start_ms=MS,
        end_ms=MS,
        recurrence_ms=_BUSY["recurrence_ms"],
        all_day={"type": "boolean"},
        zone={"type": ["string", "null"], "description": "null: the calendar's (floating, or a day)"},
        rule={**TEXT, "description": "the value of RRULE; empty: none"},
        recurring={"type": "boolean"},
        changed={"type": "boolean", "description": "this occurrence was changed by hand (RECURRENCE-ID)"},
        tentative={"type": "boolean"},
        blocks={"type": "boolean", "description": "whether it takes up its time"},
        clock_change={
            "type": ["string", "null"],
            "enum": ["gap", "fold", None],
            "description": "its wall clock time does not exist that day, or comes twice",
        },
        summary=TEXT,
        location=TEXT,
        description=TEXT,
        attendees=array(TEXT),
        conflicts={**array(ref("Busy")), "description": "the first of those that want the same time"},
        conflict_count={**WHOLE, "description": "how many there are"},
    ),
    "CalendarEvents": record(
        calendar=TEXT,
        zone={"type": ["string", "null"], "description": "the calendar's; null: it never had an event"},
        events=array(ref("CalendarOccurrence")),
        unreadable=_UNREADABLE,
        cursor=CURSOR,
        **FRESH,
    ),
    "CalendarConflicts": record(
        calendar=TEXT,
        conflicts=array(
            record(
                start_ms={**MS, "description": "where the time in common begins"},
                end_ms=MS,
                tentative={"type": "boolean"},
                one=record(**_BUSY, summary=TEXT),
                other=record(**_BUSY, summary=TEXT),
            )
        ),
        more={"type": "boolean", "description": "there are more than were asked for"},
        unreadable=_UNREADABLE,
        **FRESH,
    ),
    "FreeBusy": record(
        start_ms=MS,
        end_ms=MS,
        calendars={
            "type": "object",
            "additionalProperties": record(
                known={"type": "boolean", "description": "whether it ever had an event"},
                busy=array(
                    record(
                        start_ms=MS,
                        end_ms=MS,
                        tentative={"type": "boolean", "description": "only by what is not settled"},
                    )
                ),
            ),
        },
        **FRESH,
    ),
    "FreeSlots": record(
        slots={
            **array(record(start_ms=MS, end_ms=MS)),
            "description": "whole gaps, by start",
        },
        more={"type": "boolean"},
        **FRESH,
    ),
    "Calendars": record(
        calendars=array(
            record(
                calendar=TEXT,
                zone={**TEXT, "description": "IANA name, of its days and of floating times"},
                events=WHOLE,
                changed_ms={**MS, "description": "when an event was last added, changed or removed"},
            )
        ),
        cursor=CURSOR,
        **FRESH,
    ),
    "Feed": record(
        path={**TEXT, "description": "on this server; bears the feed's own key where a token is asked for"}
    ),
    "Bookings": record(
        calendar=TEXT,
        bookings=array(
            record(
                uid=TEXT,
                changed_ms=MS,
                event={**TEXT, "description": "CalendarEvent.avsc with its header, in base64"},
            )
        ),
        cursor=CURSOR,
        **FRESH,
    ),
}
