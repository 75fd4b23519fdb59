"""Keys of the changelog, and records that are not written for every task: queues, claims, signals, verdicts.

What tasks leave is in hot.py, commands in commands.py, reports in reports.py; no other room may slice these bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from tickstream.codec.avro import Schema
from tickstream.errors import CodecError, MalformedValue
from tickstream.model import (
    CalendarAnswer,
    Claim,
    QueueLimits,
    QueueState,
    Receipt,
    RecentCommand,
    Signal,
    SignalKind,
    Verdict,
    VerdictConflict,
    VerdictKind,
)

_QUEUE: Final = Schema("QueueState")
_CLAIM: Final = Schema("Claim")
_VERDICT_BATCH: Final = Schema("VerdictBatch")
_SIGNAL: Final = Schema("Signal")
_ANSWER: Final = Schema("CalendarAnswer")
_CHANGE: Final = Schema("CalendarChange")
# Looking a symbol up is cheaper than the Enum's constructor.
_VERDICT_KINDS: Final = {k.value: k for k in VerdictKind}


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


# --------------------------------------------------------------------------- queues, claims, signals


def encode_queue(state: QueueState) -> bytes:
    """A QueueState in single-object encoding."""
    limits = state.limits
    datum = state._asdict() | {
        "limits": None if limits is None else limits._asdict(),
        "recent": [
            {"command_id": r.command_id, "kind": r.kind.value, "detail": r.detail, "found": r.found}
            for r in state.recent
        ],
    }
    return _QUEUE.write(datum)


def decode_queue(value: bytes) -> QueueState:
    """What `encode_queue` wrote. Raises UnknownSchema or MalformedValue."""
    d = _QUEUE.read(value)
    limits = None if d["limits"] is None else QueueLimits(**d["limits"])
    recent = (
        RecentCommand(r["command_id"], _VERDICT_KINDS[r["kind"]], r["detail"], r["found"])
        for r in d["recent"]
    )
    return QueueState(d["queue"], d["paused"], limits, tuple(recent))


def encode_claim(claim: Claim) -> bytes:
    """A Claim in single-object encoding."""
    return _CLAIM.write(claim._asdict())


def decode_claim(value: bytes) -> Claim:
    """What `encode_claim` wrote. Raises UnknownSchema or MalformedValue."""
    return Claim(**_CLAIM.read(value))


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
        if verdict.calendar is not None:
            fields["calendar"] = _answer_datum(verdict.calendar)
        return fields

    return _VERDICT_BATCH.write({"client_id": client_id, "verdicts": [datum(v) for v in verdicts]})


def decode_verdicts(value: bytes | None) -> VerdictBatch:
    """What `encode_verdicts` wrote. Raises UnknownSchema or MalformedValue."""

    def verdict(d: dict[str, Any]) -> Verdict:
        d["receipt"] = Receipt(d.pop("bucket"), d.pop("offset"), d.pop("item"))
        d["kind"] = _VERDICT_KINDS[d["kind"]]
        d["in_flight"] = tuple(d["in_flight"])
        if d["calendar"] is not None:
            d["calendar"] = _answer(d["calendar"])
        return Verdict(**d)

    datum = _VERDICT_BATCH.read(value)
    return VerdictBatch(datum["client_id"], tuple(verdict(d) for d in datum["verdicts"]))


def encode_answer(answer: CalendarAnswer) -> bytes:
    """A CalendarAnswer in single-object encoding, as RecentCommand keeps it."""
    return _ANSWER.write(_answer_datum(answer))


def decode_answer(value: bytes) -> CalendarAnswer:
    """What `encode_answer` wrote. Raises UnknownSchema or MalformedValue."""
    return _answer(_ANSWER.read(value))


def split_off_by(value: bytes) -> str:
    """The uid of the series that a change of a calendar's event splits off; empty: none, or the change is unreadable."""
    try:
        uid: str = _CHANGE.read(value)["new_uid"]
    except CodecError:
        return ""
    return uid


def _answer_datum(answer: CalendarAnswer) -> dict[str, Any]:
    return answer._asdict() | {"conflicts": [conflict._asdict() for conflict in answer.conflicts]}


def _answer(d: dict[str, Any]) -> CalendarAnswer:
    return CalendarAnswer(**d | {"conflicts": tuple(VerdictConflict(**c) for c in d["conflicts"])})
