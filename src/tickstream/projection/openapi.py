"""The description of the HTTP API (OpenAPI 3.1), written by hand beside it.

Nothing is computed here but the document.
"""

from __future__ import annotations

from typing import Any, Final

from tickstream.model import Outcome, Phase
from tickstream.projection.parameters import MAX_WAIT_MS
from tickstream.projection.query import DEFAULT_LIMIT, MAX_LIMIT, MAX_MINUTES

_MS: Final = {"type": "integer", "description": "ms since the epoch, UTC"}
_MS_OR_NULL: Final = {
    "type": ["integer", "null"],
    "description": "ms since the epoch, UTC; null: not (yet) known",
}
_TEXT: Final = {"type": "string"}
_WHOLE: Final = {"type": "integer", "minimum": 0}
_INSTANT: Final = {"type": "string", "description": "ms since the epoch, or ISO 8601 with an offset"}
_STATE: Final = {"type": "string", "enum": [phase.value for phase in Phase]}
_ATTEMPT_STATE: Final = {
    "type": "string",
    "enum": sorted({"dispatched", "running"} | {outcome.value.lower() for outcome in Outcome}),
}
_LABELS: Final = {"type": "object", "additionalProperties": _TEXT}
_PER_STATE: Final = {phase.value: _WHOLE for phase in Phase}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _query(name: str, schema: dict[str, Any], description: str, *, repeated: bool = False) -> dict[str, Any]:
    """One query parameter; a repeated one is given several times (`a=1&a=2`)."""
    return {
        "name": name,
        "in": "query",
        "schema": _list(schema) if repeated else schema,
        "description": description,
    }


_FRESH: Final = {
    "as_of": _MS,
    "staleness_ms": {
        **_WHOLE,
        "description": "as_of less the least T over all buckets: commands accepted longer ago are in the answer",
    },
    "slowest_bucket": {**_WHOLE, "description": "the bucket with the least T"},
    "restoring": {
        **_list(_WHOLE),
        "description": "buckets being rebuilt; their rows may be ahead of each other",
    },
    "position": {
        "type": "object",
        "description": "by bucket, the next offsets of timers and history to be folded",
        "additionalProperties": _object(timers=_WHOLE, history=_WHOLE),
    },
}
_AFTER: Final = [
    _query(
        "after",
        {"type": "string", "pattern": r"^\d+:\d+:\d+$"},
        "receipts bucket:offset:item of commands that the answer must contain",
        repeated=True,
    ),
    _query(
        "wait_ms",
        {"type": "integer", "minimum": 0, "maximum": MAX_WAIT_MS, "default": 0},
        "how long to wait for them; then 504",
    ),
]
_SCHEMAS: Final = {
    "Row": _object(
        task_id=_TEXT,
        occurrence_ts=_MS,
        state=_STATE,
        queue=_TEXT,
        handler=_TEXT,
        labels=_LABELS,
        attempt=_WHOLE,
        worker=_TEXT,
        decided_ms=_MS_OR_NULL,
        fetched_ms=_MS_OR_NULL,
        started_ms=_MS_OR_NULL,
        ended_ms=_MS_OR_NULL,
        retry_at_ms={
            "type": ["integer", "null"],
            "description": "of `retrying`: when the attempt is dispatched, ms since the epoch, UTC",
        },
        error=_TEXT,
        rev={"type": "string", "description": "offset:item of the Schedule command behind the row"},
    ),
    "Attempt": _object(
        occurrence_ts=_MS,
        attempt=_WHOLE,
        state=_ATTEMPT_STATE,
        worker=_TEXT,
        decided_ms=_MS_OR_NULL,
        fetched_ms=_MS_OR_NULL,
        started_ms=_MS_OR_NULL,
        ended_ms={**_MS_OR_NULL, "description": "of an expired lease: when that was recorded"},
        error=_TEXT,
        result={"type": "string", "description": "what the handler returned, as JSON; empty: nothing"},
        heartbeat_ms={**_MS_OR_NULL, "description": "of one that runs: its last heartbeat that was heard of"},
        progress={"type": ["number", "null"], "description": "0 to 1, as the handler says with it"},
        note={**_TEXT, "description": "what the handler says that it is doing"},
    ),
    "Task": _object(
        task_id=_TEXT,
        state={**_STATE, "type": ["string", "null"]} | {"enum": [*_STATE["enum"], None]},
        queue=_TEXT,
        handler=_TEXT,
        labels=_LABELS,
        rev={"type": ["string", "null"]},
        next_occurrence_ts=_MS_OR_NULL,
        last_occurrence_ts=_MS_OR_NULL,
        ended_ms=_MS_OR_NULL,
    ),
    "Minute": _object(minute_ms=_MS, **_PER_STATE),
    "Page": _object(
        rows=_list(_ref("Row")),
        cursor={
            "type": ["string", "null"],
            "description": "pass it to get the next page; null: that was the last",
        },
        visited={**_WHOLE, "description": "rows looked at for this page"},
        **_FRESH,
    ),
    "TaskAnswer": _object(
        task={"oneOf": [_ref("Task"), {"type": "null"}]},
        occurrences=_list(_ref("Row")),
        attempts=_list(_ref("Attempt")),
        **_FRESH,
    ),
    "Counts": _object(minutes=_list(_ref("Minute")), totals=_object(**_PER_STATE), **_FRESH),
    "Status": _object(
        buckets=_list(
            _object(
                bucket=_WHOLE,
                applied_before_ms={**_MS, "description": "T of the bucket; 0: no Progress seen yet"},
                lag_ms=_WHOLE,
                restoring={"type": "boolean"},
                timers=_WHOLE,
                history=_WHOLE,
                commands={**_WHOLE, "description": "the dispatcher's next offset in `commands`"},
            )
        ),
        totals=_object(**_PER_STATE),
        overdue=_object(
            count=_WHOLE,
            oldest_ts=_MS_OR_NULL,
            exact={"type": "boolean"},
            queues={"type": "object", "additionalProperties": _object(count=_WHOLE, oldest_ts=_MS)},
        ),
        running=_object(
            count={**_WHOLE, "description": "in flight: dispatched, running or retrying"},
            oldest={
                "oneOf": [
                    _object(task_id=_TEXT, occurrence_ts=_MS, state=_STATE, worker=_TEXT, decided_ms=_MS),
                    {"type": "null"},
                ]
            },
        ),
        lateness=_object(
            minutes=_WHOLE,
            stages=_object(
                **{
                    stage: _object(
                        p50_ms={"type": ["integer", "null"]},
                        p99_ms={"type": ["integer", "null"]},
                        count=_WHOLE,
                    )
                    for stage in (
                        "due_to_started",
                        "due_to_decided",
                        "decided_to_fetched",
                        "fetched_to_started",
                    )
                }
            ),
        ),
        minutes=_list(_ref("Minute")),
        failures=_list(
            _object(
                at_ms=_MS,
                task_id=_TEXT,
                occurrence_ts=_MS,
                queue=_TEXT,
                handler=_TEXT,
                attempt=_WHOLE,
                worker=_TEXT,
                error=_TEXT,
            )
        ),
        **_FRESH,
    ),
    "Problem": {
        "type": "object",
        "properties": {"type": _TEXT, "title": _TEXT, "status": _WHOLE, "detail": _TEXT},
        "required": ["type", "title", "status", "detail"],
    },
}


def _get(summary: str, schema: str, parameters: list[dict[str, Any]], *errors: str) -> dict[str, Any]:
    said = {
        "400": "a parameter is wrong",
        "503": "no index yet",
        "504": "`after` not reached; carries position",
    }
    problem = {"application/problem+json": {"schema": _ref("Problem")}}
    return {
        "get": {
            "summary": summary,
            "parameters": parameters,
            "responses": {
                "200": {
                    "description": "the answer",
                    "content": {"application/json": {"schema": _ref(schema)}},
                },
                **{code: {"description": said[code], "content": problem} for code in errors},
            },
        }
    }


def _paths() -> dict[str, Any]:
    window = [
        _query("start", _INSTANT, "first occurrence_ts; default: the beginning"),
        _query("end", _INSTANT, "occurrence_ts before this; default: no end"),
        _query("state", _STATE, "any of these", repeated=True),
        _query("queue", _TEXT, "exactly this queue"),
        _query("handler", _TEXT, "exactly this handler"),
        _query("label", _TEXT, "name:value; all of them", repeated=True),
        _query("id_prefix", _TEXT, "ids that begin so"),
        _query(
            "limit", {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT}, "rows"
        ),
        _query("cursor", _TEXT, "of the page before"),
    ]
    task_id = {"name": "task_id", "in": "path", "required": True, "schema": _TEXT}
    minutes = [
        _query("start", _INSTANT, "rounded down to a minute") | {"required": True},
        _query("end", _INSTANT, f"rounded up to a minute; at most {MAX_MINUTES} minutes on")
        | {"required": True},
        _query("by", {"type": "string", "enum": ["minute"], "default": "minute"}, "granularity"),
    ]
    stream = _get(
        "Server-sent events: status (the object of /api/status), minutes, problem", "Status", [], "503"
    )
    stream["get"]["responses"]["200"]["content"] = {"text/event-stream": {"schema": _TEXT}}
    return {
        "/api/tasks": _get(
            "Rows in a window of occurrence_ts", "Page", [*window, *_AFTER], "400", "503", "504"
        ),
        "/api/tasks/{task_id}": _get("One task", "TaskAnswer", [task_id, *_AFTER], "400", "503", "504"),
        "/api/counts": _get("Rows per minute and state", "Counts", minutes, "400", "503"),
        "/api/status": _get("Everything at a glance", "Status", [], "503"),
        "/api/stream": stream,
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
        "paths": _paths(),
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }
