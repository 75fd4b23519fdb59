"""The shapes of the HTTP API's answers, for its description (openapi.py): by hand, beside answers.py.

Nothing is computed here but the schemas.
"""

from __future__ import annotations

from typing import Any, Final

from tickstream.model import Misfire, Outcome, Overlap, Phase, RecurrenceKind
from tickstream.projection.charts import Horizon, Step
from tickstream.projection.lateness import Stage
from tickstream.projection.rows import ChangeKind
from tickstream.projection.schema_parts import CURSOR, FRESH, MS, MS_OR_NULL, TEXT, WHOLE, array, record, ref

STATE: Final = {"type": "string", "enum": [phase.value for phase in Phase]}
_ATTEMPT_STATE: Final = {
    "type": "string",
    "enum": sorted({"dispatched", "running"} | {outcome.value.lower() for outcome in Outcome}),
}
_LABELS: Final = {"type": "object", "additionalProperties": TEXT}
_PER_STATE: Final = {phase.value: WHOLE for phase in Phase}


_WHOLE_OR_NULL: Final = {"type": ["integer", "null"], "minimum": 0}
_SAID: Final = {
    "heartbeat_ms": {**MS_OR_NULL, "description": "of one that runs: its last heartbeat that was heard of"},
    "progress": {"type": ["number", "null"], "description": "0 to 1, as the handler says with it"},
    "note": {**TEXT, "description": "what the handler says that it is doing"},
}
_COUNTED: Final = record(start_ms=MS, count=WHOLE)
_STAGE: Final = record(
    count=WHOLE,
    p50_ms=_WHOLE_OR_NULL,
    p90_ms=_WHOLE_OR_NULL,
    p99_ms=_WHOLE_OR_NULL,
    max_ms=_WHOLE_OR_NULL,
    histogram={
        "type": "array",
        "description": "[upper bound in ms, how many]; good to 6.25 %",
        "items": {"type": "array", "items": WHOLE, "minItems": 2, "maxItems": 2},
    },
)
_STAGES: Final = record(**{stage.label: ref("Stage") for stage in Stage})
_FAILURE: Final = record(
    at_ms=MS,
    task_id=TEXT,
    occurrence_ts=MS,
    queue=TEXT,
    handler=TEXT,
    attempt=WHOLE,
    worker=TEXT,
    error=TEXT,
)
_BROKER: Final = record(
    asked_ms={**MS_OR_NULL, "description": "when the broker was asked for groups and ends; null: never"},
    problem={**TEXT, "description": "why that is not known, or not recent; empty: it is"},
)
_ROW: Final[dict[str, Any]] = {
    "task_id": TEXT,
    "occurrence_ts": MS,
    "state": STATE,
    "queue": TEXT,
    "handler": TEXT,
    "labels": _LABELS,
    "attempt": WHOLE,
    "worker": TEXT,
    "decided_ms": MS_OR_NULL,
    "fetched_ms": MS_OR_NULL,
    "started_ms": MS_OR_NULL,
    "ended_ms": MS_OR_NULL,
    "retry_at_ms": {
        "type": ["integer", "null"],
        "description": "of `retrying`: when the attempt is dispatched, ms since the epoch, UTC",
    },
    "error": TEXT,
    "rev": {"type": "string", "description": "offset:item of the Schedule command behind the row"},
}
SCHEMAS: Final = {
    "Row": record(**_ROW),
    "Attempt": record(
        occurrence_ts=MS,
        attempt=WHOLE,
        state=_ATTEMPT_STATE,
        worker=TEXT,
        decided_ms=MS_OR_NULL,
        fetched_ms=MS_OR_NULL,
        started_ms=MS_OR_NULL,
        ended_ms={**MS_OR_NULL, "description": "of an expired lease: when that was recorded"},
        error=TEXT,
        result={"type": "string", "description": "what the handler returned, as JSON; empty: nothing"},
        **_SAID,
    ),
    "Task": record(
        task_id=TEXT,
        state={**STATE, "type": ["string", "null"]} | {"enum": [*STATE["enum"], None]},
        queue=TEXT,
        handler=TEXT,
        labels=_LABELS,
        rev={"type": ["string", "null"]},
        next_occurrence_ts=MS_OR_NULL,
        last_occurrence_ts=MS_OR_NULL,
        ended_ms=MS_OR_NULL,
        reason={
            **TEXT,
            "description": "of `held`: the gate that it waits at; of `faulted`: why nothing is decided",
        },
        payload={
            "oneOf": [ref("Payload"), {"type": "null"}],
            "description": "null: it is gone with the task's definition, or cannot be read",
        },
        schedule={"oneOf": [ref("Schedule"), {"type": "null"}], "description": "null: it does not recur"},
    ),
    "Payload": record(
        bytes=WHOLE,
        form={"type": "string", "enum": ["json", "text", "bytes"]},
        text={
            "type": ["string", "null"],
            "description": "its first 4,096 bytes, of bytes in hexadecimal; null: hidden (projection run --show-payloads)",
        },
    ),
    "Schedule": record(
        kind={"type": "string", "enum": [kind.value.lower() for kind in RecurrenceKind]},
        rule={**TEXT, "description": "the cron expression, or the value of RRULE"},
        interval_ms={"type": ["integer", "null"], "description": "of `every`"},
        zone={**TEXT, "description": "IANA name, on whose clock the rule is reckoned"},
        misfire={"type": "string", "enum": [misfire.value.lower() for misfire in Misfire]},
        overlap={"type": "string", "enum": [overlap.value.lower() for overlap in Overlap]},
    ),
    "Minute": record(minute_ms=MS, **_PER_STATE),
    "Page": record(
        rows=array(ref("Row")),
        cursor=CURSOR,
        visited={**WHOLE, "description": "rows looked at for this page"},
        **FRESH,
    ),
    "TaskAnswer": record(
        task={"oneOf": [ref("Task"), {"type": "null"}]},
        occurrences=array(ref("Row")),
        attempts=array(ref("Attempt")),
        **FRESH,
    ),
    "Counts": record(
        by={"type": "string", "enum": [step.value for step in Step]},
        periods=array(record(start_ms=MS, **_PER_STATE)),
        totals=record(**_PER_STATE),
        next_start={**MS_OR_NULL, "description": "rows were too many to count one by one: go on from here"},
        exact={
            "type": "boolean",
            "description": "false: of recurring tasks there are more than are expanded",
        },
        **FRESH,
    ),
    "Forecast": record(
        horizon={"type": "string", "enum": [horizon.value for horizon in Horizon]},
        start_ms=MS,
        end_ms=MS,
        step_ms={**WHOLE, "description": "width of a period; the first begins before start_ms"},
        total={**WHOLE, "description": "due between start_ms and end_ms"},
        queues={"type": "object", "additionalProperties": WHOLE},
        periods=array(_COUNTED),
        worst_seconds={**array(_COUNTED), "description": "the seconds with the most tasks, worst first"},
        exact={
            "type": "boolean",
            "description": "false: more tasks than are counted one by one; the counts of seconds are lower bounds",
        },
        **FRESH,
    ),
    "Stage": _STAGE,
    "Lateness": record(
        by={"type": "string", "enum": ["minute", "hour"]},
        periods={
            **array(record(start_ms=MS, stages=_STAGES)),
            "description": "by the minute or hour in which the outcome was recorded",
        },
        stages={**_STAGES, "description": "of the whole span"},
        **FRESH,
    ),
    "Run": record(
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
    "Runs": record(rows=array(ref("Run")), cursor=CURSOR, visited=WHOLE, **FRESH),
    "Failure": _FAILURE,
    "Failures": record(
        groups={
            **array(
                record(
                    handler=TEXT,
                    error={**TEXT, "description": "its first line, numbers and ids as #"},
                    count=WHOLE,
                    first_ms=MS,
                    last_ms=MS,
                    oldest_ts={**MS, "description": "the least occurrence_ts"},
                    newest_ts={**MS, "description": "the greatest"},
                    queues=array(TEXT),
                    examples={**array(ref("Failure")), "description": "the latest ones"},
                    command={**TEXT, "description": "the shell line that lists them"},
                    replay={**TEXT, "description": "the shell line that gives them another chance"},
                )
            ),
            "description": "largest first",
        },
        group_count={**WHOLE, "description": "of all groups, also those beyond the limit"},
        count={**WHOLE, "description": "of all failures looked at that pass the filters"},
        visited=WHOLE,
        whole_from_ms={
            **MS_OR_NULL,
            "description": "failures recorded before this were too many to look at; null: all are in",
        },
        **FRESH,
    ),
    "Queues": record(
        queues=array(
            record(
                queue=TEXT,
                exists={
                    "type": ["boolean", "null"],
                    "description": "whether its topic does; null: not known",
                },
                **_PER_STATE,
                paused_buckets={**WHOLE, "description": "in how many buckets it is paused; 0: it is not"},
                limits={
                    **array(
                        record(max_running=_WHOLE_OR_NULL, starts=_WHOLE_OR_NULL, per_ms=WHOLE, buckets=WHOLE)
                    ),
                    "description": "its gates, each with the number of buckets in which it holds; null: no limit",
                },
                overdue={**WHOLE, "description": "due and not handed out"},
                oldest_ts={**MS_OR_NULL, "description": "since when the oldest of these waits"},
                work_waiting={
                    "type": ["integer", "null"],
                    "description": "records handed out that no worker has committed yet; null: not known",
                },
                workers={"type": ["integer", "null"], "description": "members of its group; null: not known"},
            )
        ),
        exact={"type": "boolean", "description": "false: more are overdue than are counted one by one"},
        broker=_BROKER,
        **FRESH,
    ),
    "Cluster": record(
        buckets=array(
            record(
                bucket=WHOLE,
                lane=_WHOLE_OR_NULL,
                owner={
                    "type": ["string", "null"],
                    "description": "the dispatcher that took it last, by its Claim",
                },
                claimed_ms=MS_OR_NULL,
                applied_before_ms={**MS, "description": "T of the bucket; 0: no Progress seen yet"},
                lag_ms=WHOLE,
                restoring={"type": "boolean"},
                timers={**WHOLE, "description": "next offset to be folded"},
                timers_end={
                    **_WHOLE_OR_NULL,
                    "description": "what is between is what the projection still has to read",
                },
                history=WHOLE,
                history_end=_WHOLE_OR_NULL,
                commands={**WHOLE, "description": "the dispatcher's next offset in `commands`"},
                commands_waiting={
                    **_WHOLE_OR_NULL,
                    "description": "messages that it has not applied, when the broker was asked",
                },
                tzdata={**TEXT, "description": "release of the zone data that it reckons with"},
                layout=WHOLE,
            )
        ),
        lanes=array(
            record(
                lane=WHOLE,
                owner={"type": ["string", "null"]},
                claimed_ms=MS_OR_NULL,
                member={
                    "type": ["boolean", "null"],
                    "description": "whether the group of dispatchers still knows the owner; null: not known",
                },
                buckets=array(WHOLE),
                lag_ms=_WHOLE_OR_NULL,
                commands_waiting=_WHOLE_OR_NULL,
            )
        ),
        dispatchers=array(record(instance=TEXT, host=TEXT, lanes=array(WHOLE))),
        workers={
            "type": "object",
            "description": "by queue",
            "additionalProperties": array(record(worker=TEXT, host=TEXT, partitions=WHOLE)),
        },
        broker=_BROKER,
        **FRESH,
    ),
    "Changes": record(
        changes=array(
            record(
                at_ms=MS,
                kind={"type": "string", "enum": [kind.name.lower() for kind in ChangeKind]},
                buckets={**array(WHOLE), "description": "empty: of the whole"},
                instance={"type": ["string", "null"], "description": "of a take-over: who took them"},
                lane=_WHOLE_OR_NULL,
                queue={"type": ["string", "null"], "description": "that was paused or resumed; empty: all"},
                before={"type": ["string", "null"]},
                after={"type": ["string", "null"]},
                reason=TEXT,
            )
        ),
        cursor=CURSOR,
        **FRESH,
    ),
    "Status": record(
        buckets=array(
            record(
                bucket=WHOLE,
                applied_before_ms={**MS, "description": "T of the bucket; 0: no Progress seen yet"},
                lag_ms=WHOLE,
                restoring={"type": "boolean"},
                timers=WHOLE,
                history=WHOLE,
                commands={**WHOLE, "description": "the dispatcher's next offset in `commands`"},
            )
        ),
        totals=record(**_PER_STATE),
        overdue=record(
            count=WHOLE,
            oldest_ts=MS_OR_NULL,
            exact={"type": "boolean"},
            queues={"type": "object", "additionalProperties": record(count=WHOLE, oldest_ts=MS)},
        ),
        running=record(
            count={**WHOLE, "description": "in flight: dispatched, running or retrying"},
            oldest={
                "oneOf": [
                    record(task_id=TEXT, occurrence_ts=MS, state=STATE, worker=TEXT, decided_ms=MS),
                    {"type": "null"},
                ]
            },
        ),
        lateness=record(
            minutes=WHOLE,
            stages=_STAGES,
        ),
        minutes=array(ref("Minute")),
        failures=array(ref("Failure")),
        **FRESH,
    ),
    "Problem": {
        "type": "object",
        "properties": {"type": TEXT, "title": TEXT, "status": WHOLE, "detail": TEXT},
        "required": ["type", "title", "status", "detail"],
    },
}
