"""The bytes of what the projection keeps (rows.py): made and read here, nowhere else. Keys: keys.py.

No I/O and no rule may enter here. Values are JSON, and a row's is the very object that the API shows: a
page of a thousand is put together without reading one of them, and what lies in the database can be read
by a person.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from tickstream.model import NEVER, Outcome, Phase, Rev, RunState, TaskState
from tickstream.projection.rows import (
    Attempt,
    Change,
    ChangeKind,
    Columns,
    Definition,
    Failure,
    LiveRow,
    Owner,
    Position,
    Pulse,
    QueueSetting,
    Row,
    TaskRecord,
)

FORMAT_VERSION: Final = 4
"""Of keys and values together; a database of another version is built anew."""
SUPERSEDED: Final = b"!"
"""What the value of a superseded row begins with."""
_STATE_FIELD: Final = b',"state":"'
_TIMES: Final = ("decided_ms", "fetched_ms", "started_ms", "ended_ms", "retry_at_ms")
_PHASES: Final = {phase.value: phase for phase in Phase}


def row_object(row: Row) -> dict[str, Any]:
    """A listing row as the API shows it. Times ms UTC, None when unknown or not yet."""
    return {
        "task_id": row.task_id,
        "occurrence_ts": row.occurrence_ts,
        "state": row.state.value,
        "queue": row.queue,
        "handler": row.handler,
        "labels": row.labels,
        "attempt": row.attempt,
        "worker": row.worker,
        "decided_ms": time_or_none(row.decided_ms),
        "fetched_ms": time_or_none(row.fetched_ms),
        "started_ms": time_or_none(row.started_ms),
        "ended_ms": time_or_none(row.ended_ms),
        "retry_at_ms": time_or_none(row.retry_at_ms),
        "error": row.error,
        "rev": f"{row.rev_offset}:{row.rev_item}",
    }


def time_or_none(ms: int) -> int | None:
    """A time as the API shows it."""
    return None if ms == NEVER else ms


def encode_row(row: Row) -> bytes:
    """The value of a row: as the API shows it, so that a page of them is put together unread.

    One that is superseded begins with SUPERSEDED, which no JSON does.
    """
    value = orjson.dumps(row_object(row))
    return SUPERSEDED + value if row.superseded else value


def decode_row(value: bytes) -> Row:
    """What `encode_row` wrote."""
    superseded = value.startswith(SUPERSEDED)
    d = orjson.loads(value[len(SUPERSEDED) :] if superseded else value)
    offset, _, item = d["rev"].partition(":")
    decided, fetched, started, ended, retry_at = (NEVER if (ms := d[name]) is None else ms for name in _TIMES)
    return Row(
        d["task_id"],
        d["occurrence_ts"],
        _PHASES[d["state"]],
        d["queue"],
        d["handler"],
        d["labels"],
        d["attempt"],
        d["worker"],
        decided,
        fetched,
        started,
        ended,
        retry_at,
        d["error"],
        int(offset),
        int(item),
        superseded,
    )


def _row_list(row: Row) -> list[Any]:
    return [row.state.value, *row[3:-1]]


def _row(task_id: str, occurrence_ts: int, v: list[Any]) -> Row:
    return Row(task_id, occurrence_ts, _PHASES[v[0]], *v[1:])


def state_of(value: bytes) -> Phase:
    """The state in the value of a row, without reading the rest."""
    # No string holds an unescaped quote, so the first such bytes are the field.
    start = value.index(_STATE_FIELD) + len(_STATE_FIELD)
    return _PHASES[value[start : value.index(b'"', start)].decode()]


def encode_task(record: TaskRecord) -> bytes:
    """The value of a task's record."""
    definition, state = record.definition, record.state
    return orjson.dumps(
        [
            definition and [*definition.rev, *definition.columns, definition.lease_ms],
            state
            and [
                *state.rev,
                state.next_occurrence_ts,
                state.last_occurrence_ts,
                [_run_list(run) for run in state.runs],
                state.outcome and state.outcome.value,
                state.ended_ms,
            ],
            [[live.row.occurrence_ts, int(live.shown), _row_list(live.row)] for live in record.live],
        ]
    )


def decode_task(task_id: str, value: bytes) -> TaskRecord:
    """What `encode_task` wrote."""
    d, s, live = orjson.loads(value)
    return TaskRecord(
        d and Definition(Rev(d[0], d[1]), Columns(d[2], d[3], d[4]), d[5]),
        s
        and TaskState(
            Rev(s[0], s[1]),
            s[2],
            s[3],
            tuple(_run(run) for run in s[4]),
            s[5] and Outcome(s[5]),
            s[6],
            (),
        ),
        tuple(LiveRow(_row(task_id, occurrence, row), bool(shown)) for occurrence, shown, row in live),
    )


def _run_list(run: RunState) -> list[Any]:
    return [*run._replace(rev=list(run.rev), holder=run.holder.hex())]  # type: ignore[arg-type]


def _run(v: list[Any]) -> RunState:
    return RunState(*v)._replace(rev=Rev(*v[2]), holder=bytes.fromhex(v[4]))


def encode_attempt(attempt: Attempt) -> bytes:
    """The value of an attempt; its task, occurrence and number stand in the key."""
    return orjson.dumps([*attempt[3:4], attempt.outcome.value, *attempt[5:]])


def decode_attempt(task_id: str, occurrence_ts: int, number: int, value: bytes) -> Attempt:
    """What `encode_attempt` wrote."""
    attempt, outcome, *rest = orjson.loads(value)
    return Attempt(task_id, occurrence_ts, number, attempt, Outcome(outcome), *rest)


def encode_pulse(pulse: Pulse) -> bytes:
    """The value of a pulse; its task and occurrence stand in the key."""
    return orjson.dumps(list(pulse[2:]))


def decode_pulse(task_id: str, occurrence_ts: int, value: bytes) -> Pulse:
    """What `encode_pulse` wrote."""
    return Pulse(task_id, occurrence_ts, *orjson.loads(value))


def encode_position(position: Position) -> bytes:
    """The value of a bucket's position."""
    return orjson.dumps(list(position))


def decode_position(value: bytes) -> Position:
    """What `encode_position` wrote."""
    return Position(*orjson.loads(value))


def encode_owner(owner: Owner) -> bytes:
    """The value of a bucket's owner."""
    return orjson.dumps(list(owner))


def decode_owner(value: bytes) -> Owner:
    """What `encode_owner` wrote."""
    return Owner(*orjson.loads(value))


def encode_setting(setting: QueueSetting) -> bytes:
    """The value of what is set for a queue."""
    return orjson.dumps(list(setting))


def decode_setting(value: bytes) -> QueueSetting:
    """What `encode_setting` wrote."""
    return QueueSetting(*orjson.loads(value))


def encode_change(change: Change) -> bytes:
    """The value of a change; when, what and which bucket stand in the key."""
    return orjson.dumps(change.fields)


def decode_change(at_ms: int, kind: int, bucket: int, value: bytes) -> Change:
    """What `encode_change` wrote."""
    return Change(at_ms, ChangeKind(kind), bucket, orjson.loads(value))


def encode_failure(failure: Failure) -> bytes:
    """The value of a failure; when, which task and occurrence stand in the key."""
    return orjson.dumps(list(failure[3:]))


def decode_failure(at_ms: int, task_id: str, occurrence_ts: int, value: bytes) -> Failure:
    """What `encode_failure` wrote."""
    return Failure(at_ms, task_id, occurrence_ts, *orjson.loads(value))


def encode_histogram(counts: dict[int, int]) -> bytes:
    """The value of a lateness histogram: bucket → how many."""
    return orjson.dumps([*counts.items()])


def decode_histogram(value: bytes) -> dict[int, int]:
    """What `encode_histogram` wrote."""
    return dict(orjson.loads(value))
