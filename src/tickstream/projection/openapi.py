"""The description of the HTTP API (OpenAPI 3.1), written by hand beside it.

Nothing is computed here but the document.
"""

from __future__ import annotations

from typing import Any, Final

from tickstream.projection import calendar_schemas
from tickstream.projection.calendars import MAX_CALENDARS, MAX_EVENTS, MAX_MEETINGS, MAX_SLOTS, MAX_SPAN_MS
from tickstream.projection.charts import MAX_PERIODS, Horizon, Step
from tickstream.projection.failures import MAX_GROUPS
from tickstream.projection.parameters import MAX_CHANGES, MAX_RECEIPTS, MAX_WAIT_MS
from tickstream.projection.query import DEFAULT_LIMIT, MAX_LIMIT
from tickstream.projection.schema_parts import ref
from tickstream.projection.schemas import SCHEMAS, STATE

_TEXT: Final = {"type": "string"}
_INSTANT: Final = {
    "anyOf": [
        {"type": "integer", "minimum": 0, "maximum": 253_402_300_799_999},
        {"type": "string", "format": "date-time"},
    ],
    "description": "ms since the epoch, or ISO 8601 with an offset",
}


def _query(name: str, schema: dict[str, Any], description: str, *, repeated: bool = False) -> dict[str, Any]:
    """One query parameter; a repeated one is given several times (`a=1&a=2`)."""
    return {
        "name": name,
        "in": "query",
        "schema": {"type": "array", "items": schema} if repeated else schema,
        "description": description,
    }


_RECEIPT: Final = {"type": "string", "pattern": "^[0-9]{1,5}:[0-9]{1,18}:[0-9]{1,9}$"}
_AFTER: Final = [
    _query(
        "after",
        _RECEIPT,
        "receipts bucket:offset:item of commands that the answer must contain",
        repeated=True,
    )
    | {"schema": {"type": "array", "items": _RECEIPT, "maxItems": MAX_RECEIPTS}},
    _query(
        "wait_ms",
        {"type": "integer", "minimum": 0, "maximum": MAX_WAIT_MS, "default": 0},
        "how long to wait for them; then 504",
    ),
]


def _limit(default: int, most: int, what: str) -> dict[str, Any]:
    return _query("limit", {"type": "integer", "minimum": 1, "maximum": most, "default": default}, what)


def _choice(name: str, choices: list[str], default: str, description: str) -> dict[str, Any]:
    return _query(name, {"type": "string", "enum": choices, "default": default}, description)


_LABEL: Final = {"type": "string", "pattern": "^[^:]+:"}
_CURSOR: Final = _query("cursor", {"type": "string", "pattern": "^[A-Za-z0-9_-]*$"}, "of the page before")
_FILTERS: Final = [
    _query("queue", _TEXT, "exactly this queue"),
    _query("handler", _TEXT, "exactly this handler"),
    _query("label", _LABEL, "name:value; all of them", repeated=True),
    _query("id_prefix", _TEXT, "ids that begin so"),
    _query("calendar", _TEXT, "events of this calendar: ids that begin with its name in braces"),
    _limit(DEFAULT_LIMIT, MAX_LIMIT, "rows"),
    _CURSOR,
    _choice("order", ["asc", "desc"], "asc", "by occurrence_ts, then id"),
]


def _span(steps: list[Step], *, required: bool) -> list[dict[str, Any]]:
    limits = ", ".join(f"{MAX_PERIODS[step]} of {step.value}" for step in steps)
    default = "" if required else "; default: "
    bounds = [
        _query(
            "start", _INSTANT, f"rounded down to a whole period{default and default + 'an hour before end'}"
        ),
        _query("end", _INSTANT, f"rounded up; at most {limits}{default and default + 'now'}"),
    ]
    return [
        *(bound | {"required": required} for bound in bounds),
        _choice("by", [step.value for step in steps], Step.MINUTE.value, "width of a period"),
    ]


_PROBLEMS: Final = {
    code: {"description": said, "content": {"application/problem+json": {"schema": ref("Problem")}}}
    for code, said in {
        "400": "a parameter is wrong",
        "401": "a token is asked for, and was not sent",
        "404": "there is none",
        "501": "the server lacks the extra `calendar`",
        "503": "no index yet",
        "504": "`after` not reached; carries position",
    }.items()
}


def _get(
    summary: str, schema: str, parameters: list[dict[str, Any]], *, fresh: bool = True
) -> dict[str, Any]:
    """One path. `fresh`: it understands `after=`."""
    errors = ("400", "401", "503", "504") if fresh else ("401", "503")
    return {
        "get": {
            "summary": summary,
            "parameters": [*parameters, *(_AFTER if fresh else ())],
            "responses": {
                "200": {
                    "description": "the answer",
                    "content": {"application/json": {"schema": ref(schema)}},
                },
                **{code: _PROBLEMS[code] for code in errors},
            },
        }
    }


def _paths() -> dict[str, Any]:
    window = [
        _query("start", _INSTANT, "first occurrence_ts; default: the beginning"),
        _query("end", _INSTANT, "occurrence_ts before this; default: no end"),
        _query("state", STATE, "any of these", repeated=True),
        _query("error", _TEXT, "contained in the error, whatever its case"),
        _query("error_like", _TEXT, "an error that differs from this one in numbers and ids only"),
    ]
    held = {"type": "string", "enum": ["dispatched", "running", "retrying"]}
    task_id = {"name": "task_id", "in": "path", "required": True, "schema": {**_TEXT, "minLength": 1}}
    recent = [
        _query("start", _INSTANT, "recorded at or after this; default: a day ago"),
        _query("end", _INSTANT, "recorded before this; default: no end"),
    ]
    stream = _get(
        "Server-sent events: status (the object of /api/status), minutes, problem", "Status", [], fresh=False
    )
    stream["get"]["responses"]["200"]["content"] = {"text/event-stream": {"schema": _TEXT}}
    return {
        "/api/tasks": _get("Rows in a window of occurrence_ts", "Page", [*window, *_FILTERS]),
        "/api/tasks/{task_id}": _get("One task, its occurrences and every attempt", "TaskAnswer", [task_id]),
        "/api/counts": _get(
            "Rows per second, minute or hour, and state",
            "Counts",
            [*_span(list(Step), required=True), _query("queue", _TEXT, "only this queue")],
        ),
        "/api/forecast": _get(
            "The load to come: tasks per period, and the worst seconds",
            "Forecast",
            [_choice("horizon", [h.value for h in Horizon], Horizon.HOUR.value, "how far it looks")],
        ),
        "/api/lateness": _get(
            "Percentiles of lateness over time, split by stage",
            "Lateness",
            _span([Step.MINUTE, Step.HOUR], required=False),
        ),
        "/api/running": _get(
            "What is out, and who holds it",
            "Runs",
            [_query("state", held, "any of these; default: running", repeated=True), *_FILTERS],
        ),
        "/api/failures": _get(
            "What was given up on, by handler and error",
            "Failures",
            [
                *recent,
                _query("queue", _TEXT, "exactly this queue"),
                _query("handler", _TEXT, "exactly this handler"),
                _limit(20, MAX_GROUPS, "groups"),
            ],
        ),
        "/api/queues": _get("Each queue: what waits, what is late, who works on it", "Queues", []),
        "/api/cluster": _get("Buckets, lanes, their owners, and the members of groups", "Cluster", []),
        "/api/changes": _get(
            "Take-overs, new zone data, new layouts, rebuilds; latest first",
            "Changes",
            [*recent, _limit(50, MAX_CHANGES, "changes"), _CURSOR],
        ),
        "/api/status": _get("Everything at a glance", "Status", [], fresh=False),
        "/api/stream": stream,
    }


def _calendar_paths() -> dict[str, Any]:
    days = MAX_SPAN_MS // 86_400_000
    one = _query("calendar", {**_TEXT, "minLength": 1}, "its id") | {"required": True}
    several = {"type": "array", "items": {**_TEXT, "minLength": 1}, "minItems": 1, "maxItems": MAX_CALENDARS}
    all_of = _query("calendar", several, "ids") | {"required": True}
    span = [
        _query("start", _INSTANT, "default: now"),
        _query("end", _INSTANT, f"at most {days} days later; default: a week"),
    ]
    length = {"type": "integer", "minimum": 1, "maximum": MAX_SPAN_MS}
    feed = _get("Where a calendar's feed lies, to subscribe to it", "Feed", [one], fresh=False)
    feed["get"]["responses"]["400"] = _PROBLEMS["400"]
    path = {"name": "calendar", "in": "path", "required": True, "schema": {**_TEXT, "minLength": 1}}
    key = _query("key", _TEXT, "the feed's own key, in place of the token")
    file = _get(
        "A calendar as an iCalendar file; 304 where it has not changed", "Feed", [path, key], fresh=False
    )
    file["get"]["responses"] |= {
        "200": {"description": "the file", "content": {"text/calendar": {"schema": _TEXT}}},
        "304": {"description": "If-None-Match or If-Modified-Since says that it is known"},
        **{code: _PROBLEMS[code] for code in ("400", "404", "501")},
    }
    return {
        "/api/calendars": _get(
            "The calendars that have events",
            "Calendars",
            [_limit(DEFAULT_LIMIT, MAX_LIMIT, "calendars"), _CURSOR],
        ),
        "/api/events": _get(
            "What takes place in a calendar, by start, and what meets what",
            "CalendarEvents",
            [
                one,
                *span,
                _query("uid", _TEXT, "only this event"),
                _limit(MAX_EVENTS, MAX_EVENTS, "occurrences"),
                _CURSOR,
            ],
        ),
        "/api/conflicts": _get(
            "Every two occurrences of a calendar that want the same time",
            "CalendarConflicts",
            [one, *span, _limit(100, MAX_MEETINGS, "conflicts")],
        ),
        "/api/free-busy": _get("What is taken, by calendar", "FreeBusy", [all_of, *span]),
        "/api/free": _get(
            "The first gaps that calendars have in common",
            "FreeSlots",
            [
                all_of,
                *span,
                _query("duration_ms", length, "how long it shall be free") | {"required": True},
                _limit(10, MAX_SLOTS, "gaps"),
            ],
        ),
        "/api/feed": feed,
        "/calendars/{calendar}.ics": file,
        "/api/bookings": _get(
            "A calendar's events as they are kept, by uid",
            "Bookings",
            [one, _limit(DEFAULT_LIMIT, MAX_LIMIT, "events"), _CURSOR],
        ),
    }


def document() -> dict[str, Any]:
    """The OpenAPI document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tickstream dashboard",
            "version": "1",
            "description": "Read-only. Every answer carries its own staleness and can wait for a command (`after=`).",
        },
        "paths": _paths() | _calendar_paths(),
        "components": {
            "schemas": SCHEMAS | calendar_schemas.SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }
