"""The bytes of what the projection keeps (rows.py): made and read here, nowhere else. Keys: keys.py.

No I/O and no rule may enter here. Values are JSON (but those of events, which begin with 8 bytes of time), and a row's is the very object that the API shows: a
page of a thousand is put together without reading one of them, and what lies in the database can be read
by a person.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

import orjson

from tickstream.model import (
    NEVER,
    NO_EXTRAS,
    Extras,
    Misfire,
    Outcome,
    Overlap,
    Phase,
    QueueLimits,
    Recurrence,
    RecurrenceKind,
    Rev,
    RunState,
    TaskState,
)
from tickstream.projection.rows import (
    Attempt,
    CalendarRecord,
    Change,
    ChangeKind,
    Columns,
    Coming,
    Definition,
    Failure,
    Kept,
    LiveRow,
    Owner,
    Payload,
    Position,
    Pulse,
    QueueSetting,
    Row,
    TaskRecord,
    waiting,
)

FORMAT_VERSION: Final = 8
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
            definition and _definition_list(definition),
            state
            and [
                *state.rev,
                state.next_occurrence_ts,
                state.last_occurrence_ts,
                [_run_list(run) for run in state.runs],
                state.outcome and state.outcome.value,
                state.ended_ms,
                None if state.extras == NO_EXTRAS else state.extras._asdict(),
            ],
            [
                [live.row.occurrence_ts, int(live.shown), _live_list(live.row, definition)]
                for live in record.live
            ],
            record.frontier,
        ]
    )


def decode_task(task_id: str, value: bytes) -> TaskRecord:
    """What `encode_task` wrote."""
    d, s, live, frontier = orjson.loads(value)
    definition = None if d is None else _definition(d)
    return TaskRecord(
        definition,
        s
        and TaskState(
            Rev(s[0], s[1]),
            s[2],
            s[3],
            tuple(_run(run) for run in s[4]),
            s[5] and Outcome(s[5]),
            s[6],
            (),
            extras=NO_EXTRAS if s[7] is None else _extras(s[7]),
        ),
        tuple(LiveRow(_live(task_id, at, row, definition), bool(shown)) for at, shown, row in live),
        frontier,
    )


def _definition_list(definition: Definition) -> list[Any]:
    recurrence, payload = definition.recurrence, definition.payload
    plain = recurrence and [
        part.value if isinstance(part, Enum) else list(part) if isinstance(part, tuple) else part
        for part in recurrence
    ]
    return [*definition.rev, *definition.columns, definition.lease_ms, plain, payload and list(payload)]


def _definition(v: list[Any]) -> Definition:
    r = v[6] and Recurrence(*v[6])
    recurrence = r and r._replace(
        kind=RecurrenceKind(r.kind),
        rdate=tuple(r.rdate),
        exdate=tuple(r.exdate),
        misfire=Misfire(r.misfire),
        overlap=Overlap(r.overlap),
    )
    return Definition(Rev(v[0], v[1]), Columns(v[2], v[3], v[4]), v[5], recurrence, v[7] and Payload(*v[7]))


def _live_list(row: Row, definition: Definition | None) -> Any:
    """A row that waits follows from the definition beside it: a recurring task has many of them."""
    if definition is not None and row == waiting(row.task_id, row.occurrence_ts, row.state, definition):
        return row.state.value
    return _row_list(row)


def _live(task_id: str, occurrence_ts: int, v: Any, definition: Definition | None) -> Row:
    if definition is not None and isinstance(v, str):
        return waiting(task_id, occurrence_ts, _PHASES[v], definition)
    return _row(task_id, occurrence_ts, v)


def encode_coming(coming: Coming) -> bytes:
    """The value of a frontier."""
    return orjson.dumps([_definition_list(coming.definition), coming.last_local, coming.paused])


def decode_coming(value: bytes) -> Coming:
    """What `encode_coming` wrote."""
    definition, last_local, paused = orjson.loads(value)
    return Coming(_definition(definition), last_local, paused)


def _extras(fields: dict[str, Any]) -> Extras:
    return Extras(**fields | {name: tuple(v) for name, v in fields.items() if isinstance(v, list)})


def _run_list(run: RunState) -> list[Any]:
    return [*run._replace(rev=list(run.rev), holder=run.holder.hex())]  # type: ignore[arg-type]


def _run(v: list[Any]) -> RunState:
    run = RunState(*v)
    return run._replace(rev=Rev(*v[2]), holder=bytes.fromhex(v[4]), places=tuple(run.places))


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
    paused, at_ms, limits = setting
    return orjson.dumps([paused, at_ms, None if limits is None else list(limits)])


def decode_setting(value: bytes) -> QueueSetting:
    """What `encode_setting` wrote."""
    paused, at_ms, limits = orjson.loads(value)
    return QueueSetting(paused, at_ms, None if limits is None else QueueLimits(*limits))


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


def encode_kept(kept: Kept) -> bytes:
    """The value of an event: when it was changed, then the event as its task carries it."""
    return kept.changed_ms.to_bytes(8, "big", signed=True) + kept.value


def decode_kept(value: bytes) -> Kept:
    """What `encode_kept` wrote."""
    return Kept(int.from_bytes(value[:8], "big", signed=True), value[8:])


def encode_calendar(record: CalendarRecord) -> bytes:
    """The value of a calendar."""
    return orjson.dumps(list(record))


def decode_calendar(value: bytes) -> CalendarRecord:
    """What `encode_calendar` wrote."""
    return CalendarRecord(*orjson.loads(value))


def encode_histogram(counts: dict[int, int]) -> bytes:
    """The value of a lateness histogram: bucket → how many."""
    return orjson.dumps([*counts.items()])


def decode_histogram(value: bytes) -> dict[int, int]:
    """What `encode_histogram` wrote."""
    return dict(orjson.loads(value))
