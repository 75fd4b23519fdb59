"""What dispatchers write: the changelog and its keys, work, history, signals, verdicts.

Commands are in commands.py, reports in reports.py; no other room may slice these bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tickstream.codec.avro import Schema
from tickstream.errors import MalformedValue
from tickstream.model import (
    NO_EXTRAS,
    Claim,
    Extras,
    History,
    InputPosition,
    Outcome,
    Progress,
    QueueLimits,
    QueueState,
    Receipt,
    RecentCommand,
    Rev,
    RunState,
    Signal,
    SignalKind,
    TaskSpec,
    TaskState,
    Verdict,
    VerdictKind,
    Work,
)

_SPEC: Final = Schema("TaskSpec")
_STATE: Final = Schema("TaskState")
_QUEUE: Final = Schema("QueueState")
_PROGRESS: Final = Schema("Progress")
_CLAIM: Final = Schema("Claim")
_WORK: Final = Schema("Work")
_HISTORY: Final = Schema("History")
_VERDICT_BATCH: Final = Schema("VerdictBatch")
_SIGNAL: Final = Schema("Signal")
# Looking a symbol up is cheaper than the Enum's constructor, and these are read per record.
_VERDICT_KINDS: Final = {k.value: k for k in VerdictKind}
_OUTCOMES: Final = {o.value: o for o in Outcome}


# --------------------------------------------------------------------------- keys of `timers`

SPEC: Final = b"s"
STATE: Final = b"t"
QUEUE: Final = b"q"
PROGRESS: Final = b"p"
CLAIM: Final = b"c"


def timers_key(kind: bytes, name: str = "") -> bytes:
    """Key of a record in `timers`: one ASCII byte for the kind, then the task_id or queue in UTF-8."""
    return kind + name.encode()


def split_timers_key(key: bytes | None) -> tuple[bytes, str]:
    """`(kind, task_id or queue)` of a key of `timers`. Raises MalformedValue."""
    if not key or key[:1] not in (SPEC, STATE, QUEUE, PROGRESS, CLAIM):
        raise MalformedValue(f"key {key!r} is of no kind known here")
    try:
        return key[:1], key[1:].decode()
    except UnicodeDecodeError as error:
        raise MalformedValue(f"key {key!r} is not UTF-8") from error


# --------------------------------------------------------------------------- the changelog


def encode_spec(spec: TaskSpec) -> bytes:
    """A TaskSpec in single-object encoding."""
    return _SPEC.write(
        {
            "rev_offset": spec.rev.offset,
            "rev_item": spec.rev.item,
            "command": spec.command,
            "answer": spec.answer.value,
        }
    )


def decode_spec(value: bytes) -> TaskSpec:
    """What `encode_spec` wrote. Raises UnknownSchema or MalformedValue."""
    d = _SPEC.read(value)
    return TaskSpec(Rev(d["rev_offset"], d["rev_item"]), d["command"], _VERDICT_KINDS[d["answer"]])


def encode_state(state: TaskState) -> bytes:
    """A TaskState in single-object encoding."""
    return _STATE.write(
        {
            "rev_offset": state.rev.offset,
            "rev_item": state.rev.item,
            "next_occurrence_ts": state.next_occurrence_ts,
            "last_occurrence_ts": state.last_occurrence_ts,
            "runs": [
                {
                    "occurrence_ts": run.occurrence_ts,
                    "attempt": run.attempt,
                    "rev_offset": run.rev.offset,
                    "rev_item": run.rev.item,
                    "decided_ms": run.decided_ms,
                    "holder": run.holder,
                    "worker": run.worker,
                    "failures": run.failures,
                    "releases": run.releases,
                    "retry_at_ms": run.retry_at_ms,
                    "started_ms": run.started_ms,
                    "places": run.places,
                }
                for run in state.runs
            ],
            "outcome": state.outcome and state.outcome.value,
            "ended_ms": state.ended_ms,
            "recent": _recent(state.recent),
            "forget_ms": state.forget_ms,
            "extras": None if state.extras is NO_EXTRAS else state.extras._asdict(),
        }
    )


def _recent(recent: Sequence[RecentCommand]) -> list[dict[str, Any]]:
    return [{"command_id": r.command_id, "kind": r.kind.value, "detail": r.detail} for r in recent]


def _read_recent(data: list[dict[str, Any]]) -> tuple[RecentCommand, ...]:
    return tuple(RecentCommand(r["command_id"], _VERDICT_KINDS[r["kind"]], r["detail"]) for r in data)


def _read_extras(datum: dict[str, Any] | None) -> Extras:
    return NO_EXTRAS if datum is None else Extras(**{**datum, "queued": tuple(datum["queued"])})


def decode_state(value: bytes) -> TaskState:
    """What `encode_state` wrote. Raises UnknownSchema or MalformedValue."""
    d = _STATE.read(value)
    return TaskState(
        Rev(d["rev_offset"], d["rev_item"]),
        d["next_occurrence_ts"],
        d["last_occurrence_ts"],
        tuple(
            RunState(
                r["occurrence_ts"],
                r["attempt"],
                Rev(r["rev_offset"], r["rev_item"]),
                r["decided_ms"],
                r["holder"],
                r["worker"],
                r["failures"],
                r["releases"],
                r["retry_at_ms"],
                r["started_ms"],
                tuple(r["places"]),
            )
            for r in d["runs"]
        ),
        _OUTCOMES[d["outcome"]] if d["outcome"] else None,
        d["ended_ms"],
        _read_recent(d["recent"]),
        d["forget_ms"],
        _read_extras(d["extras"]),
    )


def encode_queue(state: QueueState) -> bytes:
    """A QueueState in single-object encoding."""
    limits = state.limits
    datum = state._asdict() | {
        "limits": None if limits is None else limits._asdict(),
        "recent": _recent(state.recent),
    }
    return _QUEUE.write(datum)


def decode_queue(value: bytes) -> QueueState:
    """What `encode_queue` wrote. Raises UnknownSchema or MalformedValue."""
    d = _QUEUE.read(value)
    limits = None if d["limits"] is None else QueueLimits(**d["limits"])
    return QueueState(d["queue"], d["paused"], limits, _read_recent(d["recent"]))


def encode_progress(progress: Progress) -> bytes:
    """A Progress in single-object encoding."""
    return _PROGRESS.write(
        progress._asdict() | {"commands": progress.commands._asdict(), "reports": progress.reports._asdict()}
    )


def decode_progress(value: bytes) -> Progress:
    """What `encode_progress` wrote. Raises UnknownSchema or MalformedValue."""
    datum = _PROGRESS.read(value)
    datum["commands"] = InputPosition(**datum["commands"])
    datum["reports"] = InputPosition(**datum["reports"])
    return Progress(**datum)


def encode_claim(claim: Claim) -> bytes:
    """A Claim in single-object encoding."""
    return _CLAIM.write(claim._asdict())


def decode_claim(value: bytes) -> Claim:
    """What `encode_claim` wrote. Raises UnknownSchema or MalformedValue."""
    return Claim(**_CLAIM.read(value))


# --------------------------------------------------------------------------- work, history


def _flat(record: Work | History) -> dict[str, Any]:
    """The record with its rev as two fields."""
    datum = record._asdict()
    datum["rev_offset"], datum["rev_item"] = datum.pop("rev")
    return datum


def _unflat(datum: dict[str, Any]) -> dict[str, Any]:
    datum["rev"] = Rev(datum.pop("rev_offset"), datum.pop("rev_item"))
    return datum


def encode_work(work: Work) -> bytes:
    """A Work in single-object encoding."""
    return _WORK.write(_flat(work))


def decode_work(value: bytes | None) -> Work:
    """What `encode_work` wrote. Raises UnknownSchema or MalformedValue."""
    d = _WORK.read(value)
    # By place: a worker reads one of these a run, and names cost it as much as half the decoding.
    return Work(
        d["bucket"],
        d["work_number"],
        d["task_id"],
        d["occurrence_ts"],
        d["attempt"],
        Rev(d["rev_offset"], d["rev_item"]),
        d["decided_ms"],
        d["lease_ms"],
        d["timeout_ms"],
        d["body"],
        d["not_before_ms"],
        d["skipped"],
    )


def encode_history(history: History) -> bytes:
    """A History in single-object encoding."""
    return _HISTORY.write(_flat(history) | {"outcome": history.outcome.value})


def decode_history(value: bytes | None) -> History:
    """What `encode_history` wrote. Raises UnknownSchema or MalformedValue."""
    datum = _unflat(_HISTORY.read(value))
    datum["outcome"] = _OUTCOMES[datum["outcome"]]
    return History(**datum)


def encode_signal(signal: Signal) -> bytes:
    """A Signal in single-object encoding."""
    return _SIGNAL.write(signal._asdict() | {"kind": signal.kind.value})


def decode_signal(value: bytes | None) -> Signal:
    """What `encode_signal` wrote. Raises UnknownSchema or MalformedValue."""
    datum = _SIGNAL.read(value)
    datum["kind"] = SignalKind(datum["kind"])
    return Signal(**datum)


# --------------------------------------------------------------------------- verdicts


class VerdictBatch(NamedTuple):
    """A decoded message of `verdicts`: answers of one transaction to one client."""

    client_id: str
    verdicts: tuple[Verdict, ...]


def encode_verdicts(client_id: str, verdicts: Sequence[Verdict]) -> bytes:
    """A VerdictBatch in single-object encoding."""

    def datum(verdict: Verdict) -> dict[str, Any]:
        fields = verdict._asdict() | {"kind": verdict.kind.value}
        fields["bucket"], fields["offset"], fields["item"] = fields.pop("receipt")
        return fields

    return _VERDICT_BATCH.write({"client_id": client_id, "verdicts": [datum(v) for v in verdicts]})


def decode_verdicts(value: bytes | None) -> VerdictBatch:
    """What `encode_verdicts` wrote. Raises UnknownSchema or MalformedValue."""

    def verdict(d: dict[str, Any]) -> Verdict:
        d["receipt"] = Receipt(d.pop("bucket"), d.pop("offset"), d.pop("item"))
        d["kind"] = _VERDICT_KINDS[d["kind"]]
        d["in_flight"] = tuple(d["in_flight"])
        return Verdict(**d)

    datum = _VERDICT_BATCH.read(value)
    return VerdictBatch(datum["client_id"], tuple(verdict(d) for d in datum["verdicts"]))
