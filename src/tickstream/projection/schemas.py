"""The shapes of the HTTP API's answers, for its description (openapi.py): by hand, beside answers.py.

Nothing is computed here but the schemas.
"""

from __future__ import annotations

from typing import Any, Final

from tickstream.model import Misfire, Outcome, Overlap, Phase, RecurrenceKind
from tickstream.projection.charts import Horizon, Step
from tickstream.projection.lateness import Stage
from tickstream.projection.rows import ChangeKind

_MS: Final = {"type": "integer", "description": "ms since the epoch, UTC"}
_MS_OR_NULL: Final = {
    "type": ["integer", "null"],
    "description": "ms since the epoch, UTC; null: not (yet) known",
}
_TEXT: Final = {"type": "string"}
_WHOLE: Final = {"type": "integer", "minimum": 0}
STATE: Final = {"type": "string", "enum": [phase.value for phase in Phase]}
_ATTEMPT_STATE: Final = {
    "type": "string",
    "enum": sorted({"dispatched", "running"} | {outcome.value.lower() for outcome in Outcome}),
}
_LABELS: Final = {"type": "object", "additionalProperties": _TEXT}
_PER_STATE: Final = {phase.value: _WHOLE for phase in Phase}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def ref(name: str) -> dict[str, Any]:
    """A reference to one of SCHEMAS."""
    return {"$ref": f"#/components/schemas/{name}"}


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
    "of_buckets": {
        **_WHOLE,
        "description": "how many buckets there are; position names those that are in this answer",
    },
    "position": {
        "type": "object",
        "description": "by bucket, the next offsets of timers and history to be folded",
        "additionalProperties": _object(timers=_WHOLE, history=_WHOLE),
    },
}
_WHOLE_OR_NULL: Final = {"type": ["integer", "null"], "minimum": 0}
_CURSOR: Final = {
    "type": ["string", "null"],
    "description": "pass it to get the next page; null: that was the last",
}
_SAID: Final = {
    "heartbeat_ms": {**_MS_OR_NULL, "description": "of one that runs: its last heartbeat that was heard of"},
    "progress": {"type": ["number", "null"], "description": "0 to 1, as the handler says with it"},
    "note": {**_TEXT, "description": "what the handler says that it is doing"},
}
_COUNTED: Final = _object(start_ms=_MS, count=_WHOLE)
_STAGE: Final = _object(
    count=_WHOLE,
    p50_ms=_WHOLE_OR_NULL,
    p90_ms=_WHOLE_OR_NULL,
    p99_ms=_WHOLE_OR_NULL,
    max_ms=_WHOLE_OR_NULL,
    histogram={
        "type": "array",
        "description": "[upper bound in ms, how many]; good to 6.25 %",
        "items": {"type": "array", "items": _WHOLE, "minItems": 2, "maxItems": 2},
    },
)
_STAGES: Final = _object(**{stage.label: ref("Stage") for stage in Stage})
_FAILURE: Final = _object(
    at_ms=_MS,
    task_id=_TEXT,
    occurrence_ts=_MS,
    queue=_TEXT,
    handler=_TEXT,
    attempt=_WHOLE,
    worker=_TEXT,
    error=_TEXT,
)
_BROKER: Final = _object(
    asked_ms={**_MS_OR_NULL, "description": "when the broker was asked for groups and ends; null: never"},
    problem={**_TEXT, "description": "why that is not known, or not recent; empty: it is"},
)
_ROW: Final[dict[str, Any]] = {
    "task_id": _TEXT,
    "occurrence_ts": _MS,
    "state": STATE,
    "queue": _TEXT,
    "handler": _TEXT,
    "labels": _LABELS,
    "attempt": _WHOLE,
    "worker": _TEXT,
    "decided_ms": _MS_OR_NULL,
    "fetched_ms": _MS_OR_NULL,
    "started_ms": _MS_OR_NULL,
    "ended_ms": _MS_OR_NULL,
    "retry_at_ms": {
        "type": ["integer", "null"],
        "description": "of `retrying`: when the attempt is dispatched, ms since the epoch, UTC",
    },
    "error": _TEXT,
    "rev": {"type": "string", "description": "offset:item of the Schedule command behind the row"},
}
SCHEMAS: Final = {
    "Row": _object(**_ROW),
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
        **_SAID,
    ),
    "Task": _object(
        task_id=_TEXT,
        state={**STATE, "type": ["string", "null"]} | {"enum": [*STATE["enum"], None]},
        queue=_TEXT,
        handler=_TEXT,
        labels=_LABELS,
        rev={"type": ["string", "null"]},
        next_occurrence_ts=_MS_OR_NULL,
        last_occurrence_ts=_MS_OR_NULL,
        ended_ms=_MS_OR_NULL,
        reason={
            **_TEXT,
            "description": "of `held`: the gate that it waits at; of `faulted`: why nothing is decided",
        },
        schedule={"oneOf": [ref("Schedule"), {"type": "null"}], "description": "null: it does not recur"},
    ),
    "Schedule": _object(
        kind={"type": "string", "enum": [kind.value.lower() for kind in RecurrenceKind]},
        rule={**_TEXT, "description": "the cron expression, or the value of RRULE"},
        interval_ms={"type": ["integer", "null"], "description": "of `every`"},
        zone={**_TEXT, "description": "IANA name, on whose clock the rule is reckoned"},
        misfire={"type": "string", "enum": [misfire.value.lower() for misfire in Misfire]},
        overlap={"type": "string", "enum": [overlap.value.lower() for overlap in Overlap]},
    ),
    "Minute": _object(minute_ms=_MS, **_PER_STATE),
    "Page": _object(
        rows=_list(ref("Row")),
        cursor=_CURSOR,
        visited={**_WHOLE, "description": "rows looked at for this page"},
        **_FRESH,
    ),
    "TaskAnswer": _object(
        task={"oneOf": [ref("Task"), {"type": "null"}]},
        occurrences=_list(ref("Row")),
        attempts=_list(ref("Attempt")),
        **_FRESH,
    ),
    "Counts": _object(
        by={"type": "string", "enum": [step.value for step in Step]},
        periods=_list(_object(start_ms=_MS, **_PER_STATE)),
        totals=_object(**_PER_STATE),
        next_start={**_MS_OR_NULL, "description": "rows were too many to count one by one: go on from here"},
        exact={
            "type": "boolean",
            "description": "false: of recurring tasks there are more than are expanded",
        },
        **_FRESH,
    ),
    "Forecast": _object(
        horizon={"type": "string", "enum": [horizon.value for horizon in Horizon]},
        start_ms=_MS,
        end_ms=_MS,
        step_ms={**_WHOLE, "description": "width of a period; the first begins before start_ms"},
        total={**_WHOLE, "description": "due between start_ms and end_ms"},
        queues={"type": "object", "additionalProperties": _WHOLE},
        periods=_list(_COUNTED),
        worst_seconds={**_list(_COUNTED), "description": "the seconds with the most tasks, worst first"},
        exact={
            "type": "boolean",
            "description": "false: more tasks than are counted one by one; the counts of seconds are lower bounds",
        },
        **_FRESH,
    ),
    "Stage": _STAGE,
    "Lateness": _object(
        by={"type": "string", "enum": ["minute", "hour"]},
        periods={
            **_list(_object(start_ms=_MS, stages=_STAGES)),
            "description": "by the minute or hour in which the outcome was recorded",
        },
        stages={**_STAGES, "description": "of the whole span"},
        **_FRESH,
    ),
    "Run": _object(
        **_ROW,
        run_id={"type": ["string", "null"], "description": "hexadecimal; null: nobody holds it"},
        lease_ms={
            "type": ["integer", "null"],
            "description": "without a heartbeat for that long it is lost; null: not held, or not known",
        },
        lease_age_ms={
            "type": ["integer", "null"],
            "description": "since it was claimed, or since its last heartbeat that was heard of",
        },
        lease_left_ms={
            "type": ["integer", "null"],
            "description": "may be negative: the dispatcher decides",
        },
        **_SAID,
    ),
    "Runs": _object(rows=_list(ref("Run")), cursor=_CURSOR, visited=_WHOLE, **_FRESH),
    "Failure": _FAILURE,
    "Failures": _object(
        groups={
            **_list(
                _object(
                    handler=_TEXT,
                    error={**_TEXT, "description": "its first line, numbers and ids as #"},
                    count=_WHOLE,
                    first_ms=_MS,
                    last_ms=_MS,
                    oldest_ts={**_MS, "description": "the least occurrence_ts"},
                    newest_ts={**_MS, "description": "the greatest"},
                    queues=_list(_TEXT),
                    examples={**_list(ref("Failure")), "description": "the latest ones"},
                    command={**_TEXT, "description": "the shell line that lists them"},
                )
            ),
            "description": "largest first",
        },
        group_count={**_WHOLE, "description": "of all groups, also those beyond the limit"},
        count={**_WHOLE, "description": "of all failures looked at that pass the filters"},
        visited=_WHOLE,
        whole_from_ms={
            **_MS_OR_NULL,
            "description": "failures recorded before this were too many to look at; null: all are in",
        },
        **_FRESH,
    ),
    "Queues": _object(
        queues=_list(
            _object(
                queue=_TEXT,
                exists={
                    "type": ["boolean", "null"],
                    "description": "whether its topic does; null: not known",
                },
                **_PER_STATE,
                paused_buckets={**_WHOLE, "description": "in how many buckets it is paused; 0: it is not"},
                overdue={**_WHOLE, "description": "due and not handed out"},
                oldest_ts={**_MS_OR_NULL, "description": "since when the oldest of these waits"},
                work_waiting={
                    "type": ["integer", "null"],
                    "description": "records handed out that no worker has committed yet; null: not known",
                },
                workers={"type": ["integer", "null"], "description": "members of its group; null: not known"},
            )
        ),
        exact={"type": "boolean", "description": "false: more are overdue than are counted one by one"},
        broker=_BROKER,
        **_FRESH,
    ),
    "Cluster": _object(
        buckets=_list(
            _object(
                bucket=_WHOLE,
                lane=_WHOLE_OR_NULL,
                owner={
                    "type": ["string", "null"],
                    "description": "the dispatcher that took it last, by its Claim",
                },
                claimed_ms=_MS_OR_NULL,
                applied_before_ms={**_MS, "description": "T of the bucket; 0: no Progress seen yet"},
                lag_ms=_WHOLE,
                restoring={"type": "boolean"},
                timers={**_WHOLE, "description": "next offset to be folded"},
                timers_end={
                    **_WHOLE_OR_NULL,
                    "description": "what is between is what the projection still has to read",
                },
                history=_WHOLE,
                history_end=_WHOLE_OR_NULL,
                commands={**_WHOLE, "description": "the dispatcher's next offset in `commands`"},
                commands_waiting={
                    **_WHOLE_OR_NULL,
                    "description": "messages that it has not applied, when the broker was asked",
                },
                tzdata={**_TEXT, "description": "release of the zone data that it reckons with"},
                layout=_WHOLE,
            )
        ),
        lanes=_list(
            _object(
                lane=_WHOLE,
                owner={"type": ["string", "null"]},
                claimed_ms=_MS_OR_NULL,
                member={
                    "type": ["boolean", "null"],
                    "description": "whether the group of dispatchers still knows the owner; null: not known",
                },
                buckets=_list(_WHOLE),
                lag_ms=_WHOLE_OR_NULL,
                commands_waiting=_WHOLE_OR_NULL,
            )
        ),
        dispatchers=_list(_object(instance=_TEXT, host=_TEXT, lanes=_list(_WHOLE))),
        workers={
            "type": "object",
            "description": "by queue",
            "additionalProperties": _list(_object(worker=_TEXT, host=_TEXT, partitions=_WHOLE)),
        },
        broker=_BROKER,
        **_FRESH,
    ),
    "Changes": _object(
        changes=_list(
            _object(
                at_ms=_MS,
                kind={"type": "string", "enum": [kind.name.lower() for kind in ChangeKind]},
                buckets={**_list(_WHOLE), "description": "empty: of the whole"},
                instance={"type": ["string", "null"], "description": "of a take-over: who took them"},
                lane=_WHOLE_OR_NULL,
                queue={"type": ["string", "null"], "description": "that was paused or resumed; empty: all"},
                before={"type": ["string", "null"]},
                after={"type": ["string", "null"]},
                reason=_TEXT,
            )
        ),
        cursor=_CURSOR,
        **_FRESH,
    ),
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
                    _object(task_id=_TEXT, occurrence_ts=_MS, state=STATE, worker=_TEXT, decided_ms=_MS),
                    {"type": "null"},
                ]
            },
        ),
        lateness=_object(
            minutes=_WHOLE,
            stages=_STAGES,
        ),
        minutes=_list(ref("Minute")),
        failures=_list(ref("Failure")),
        **_FRESH,
    ),
    "Problem": {
        "type": "object",
        "properties": {"type": _TEXT, "title": _TEXT, "status": _WHOLE, "detail": _TEXT},
        "required": ["type", "title", "status", "detail"],
    },
}
