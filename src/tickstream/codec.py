"""Every byte that tickstream puts into a topic: Avro in single-object encoding, and record keys.

No Kafka client, no store (its keys are in timer_store/keys.py), no decision may enter here.

Single-object encoding (Avro specification): the marker C3 01, the schema's 8-byte CRC-64-AVRO
fingerprint in little endian, the datum. Schemas are read from `schemas/avro/<version>/`; every
released version stays there and stays readable.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import resources
from io import BytesIO
from pathlib import Path
from typing import Any, Final, NamedTuple

from fastavro import schemaless_reader as _untyped_reader
from fastavro import schemaless_writer
from fastavro.schema import fingerprint, load_schema, to_parsing_canonical_form

from tickstream.errors import MalformedValue, UnknownSchema
from tickstream.model import (
    DEFAULT_OPTIONS,
    Body,
    Claim,
    Command,
    History,
    IfExists,
    InputPosition,
    Options,
    Outcome,
    Progress,
    Receipt,
    RecentCommand,
    Report,
    ReportKind,
    Rev,
    RunState,
    TaskSpec,
    TaskState,
    Verb,
    Verdict,
    VerdictKind,
    Work,
)

schemaless_reader: Final[Callable[[BytesIO, Any, None], Any]] = _untyped_reader
"""fastavro's reader; what it returns depends on the schema, which no type says."""
_MARKER: Final = b"\xc3\x01"
_HEADER: Final = 10
"""Bytes before the datum: marker and fingerprint."""
_UNREADABLE: Final = (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, struct.error)
"""What fastavro raises on bytes that are no datum of the schema."""


def _schema_root() -> Path:
    """The directory of the schemas: inside the installed package, or at the top of a checkout."""
    packaged = Path(str(resources.files("tickstream"))) / "schemas" / "avro"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "schemas" / "avro"


class _Schema:
    """One record of one version: its parsed schema and the ten bytes that announce it."""

    def __init__(self, name: str, version: str = "v1") -> None:
        self.parsed = load_schema(str(_schema_root() / version / f"tickstream.{name}.avsc"))
        canonical = to_parsing_canonical_form(self.parsed)
        self.header = _MARKER + bytes.fromhex(fingerprint(canonical, "CRC-64-AVRO"))

    def write(self, datum: dict[str, Any]) -> bytes:
        """`datum` in single-object encoding."""
        out = BytesIO()
        out.write(self.header)
        schemaless_writer(out, self.parsed, datum)
        return out.getvalue()

    def read(self, value: bytes | None) -> dict[str, Any]:
        """The datum of `value`. Raises UnknownSchema or MalformedValue."""
        source = self.open(value)
        try:
            datum: dict[str, Any] = schemaless_reader(source, self.parsed, None)
        except _UNREADABLE as error:
            raise MalformedValue(f"not a readable datum: {error or type(error).__name__}") from error
        if source.tell() != len(value or b""):
            raise MalformedValue(f"{len(value or b'') - source.tell()} bytes follow the datum")
        return datum

    def open(self, value: bytes | None) -> BytesIO:
        """A stream standing behind the header. Raises UnknownSchema or MalformedValue."""
        if value is None or value[:2] != _MARKER or len(value) < _HEADER:
            raise MalformedValue("not in Avro single-object encoding (no C3 01 marker)")
        if value[:_HEADER] != self.header:
            if value[:_HEADER] in _ALL_HEADERS:
                raise MalformedValue(f"holds a {_ALL_HEADERS[value[:_HEADER]]}, which does not belong here")
            raise UnknownSchema(value[2:_HEADER])
        source = BytesIO(value)
        source.seek(_HEADER)
        return source


_COMMAND: Final = _Schema("Command")
_COMMAND_BATCH: Final = _Schema("CommandBatch")
_BODY: Final = _Schema("Body")
_SPEC: Final = _Schema("TaskSpec")
_STATE: Final = _Schema("TaskState")
_PROGRESS: Final = _Schema("Progress")
_CLAIM: Final = _Schema("Claim")
_WORK: Final = _Schema("Work")
_REPORT_BATCH: Final = _Schema("ReportBatch")
_HISTORY: Final = _Schema("History")
_VERDICT_BATCH: Final = _Schema("VerdictBatch")
_ALL_HEADERS: Final = {
    schema.header: name
    for name, schema in (
        ("Command", _COMMAND),
        ("CommandBatch", _COMMAND_BATCH),
        ("Body", _BODY),
        ("TaskSpec", _SPEC),
        ("TaskState", _STATE),
        ("Progress", _PROGRESS),
        ("Claim", _CLAIM),
        ("Work", _WORK),
        ("ReportBatch", _REPORT_BATCH),
        ("History", _HISTORY),
        ("VerdictBatch", _VERDICT_BATCH),
    )
}
# An enum is the number of its symbol: as an Avro int, zero is 0 and one is 2.
_VERB_SCHEDULE: Final = b"\x00"
_VERB_CANCEL: Final = b"\x02"
# Looking a symbol up is cheaper than the Enum's constructor, and these are read per record.
_VERBS: Final = {v.value: v for v in Verb}
_REPORT_KINDS: Final = {k.value: k for k in ReportKind}
_VERDICT_KINDS: Final = {k.value: k for k in VerdictKind}
_OUTCOMES: Final = {o.value: o for o in Outcome}


# --------------------------------------------------------------------------- keys of `timers`

SPEC: Final = b"s"
STATE: Final = b"t"
PROGRESS: Final = b"p"
CLAIM: Final = b"c"


def timers_key(kind: bytes, task_id: str = "") -> bytes:
    """Key of a record in `timers`: one ASCII byte for the kind, then the task_id in UTF-8."""
    return kind + task_id.encode()


def split_timers_key(key: bytes | None) -> tuple[bytes, str]:
    """`(kind, task_id)` of a key of `timers`. Raises MalformedValue."""
    if not key or key[:1] not in (SPEC, STATE, PROGRESS, CLAIM):
        raise MalformedValue(f"key {key!r} is of no kind known here")
    try:
        return key[:1], key[1:].decode()
    except UnicodeDecodeError as error:
        raise MalformedValue(f"key {key!r} is not UTF-8") from error


# --------------------------------------------------------------------------- commands


class CommandBatch(NamedTuple):
    """A decoded message of `commands`."""

    client_id: str
    reply: int
    """Partition of `verdicts` to answer to, -1 when no answer is wanted."""
    commands: tuple[Command, ...]
    encoded: tuple[bytes, ...]
    """Of each command, its own bytes in single-object encoding: what a TaskSpec keeps."""


def encode_command(command: Command) -> bytes:
    """One command in single-object encoding; `encode_batch` and TaskSpec take it as it is.

    Written by hand, like the batch and the body around it: a client encodes one for every task,
    and this is a fifth of the price of fastavro's writer. A record is its fields one after another.
    Raises MalformedValue unless command_id has 16 bytes.
    """
    if len(command.command_id) != 16:
        raise MalformedValue(f"command_id {command.command_id!r} has not 16 bytes")
    return b"".join(
        (
            _COMMAND.header,
            command.command_id,
            _VERB_SCHEDULE if command.verb is Verb.SCHEDULE else _VERB_CANCEL,
            _text(command.task_id),
            _long(command.when),
            _text(command.queue),
            b"\x00" if command.options is DEFAULT_OPTIONS else _options(command.options),
            _bytes(command.body),
        )
    )


def _options(options: Options) -> bytes:
    """The second branch of the union, and its three fields."""
    if_exists = b"\x00" if options.if_exists is IfExists.REPLACE else b"\x02"
    return b"\x02" + if_exists + (b"\x01" if options.allow_past else b"\x00") + _long(options.not_after)


def _command(datum: dict[str, Any]) -> Command:
    options = datum["options"]
    return Command(
        datum["command_id"],
        _VERBS[datum["verb"]],
        datum["task_id"],
        datum["when"],
        datum["queue"],
        DEFAULT_OPTIONS
        if options is None
        else Options(IfExists(options["if_exists"]), options["allow_past"], options["not_after"]),
        datum["body"],
    )


def decode_command(value: bytes) -> Command:
    """What `encode_command` wrote. Raises UnknownSchema or MalformedValue."""
    return _command(_COMMAND.read(value))


class ScheduleFrame:
    """What many SCHEDULE commands have in common, encoded once: queue, options, handler, labels.

    `element` is encode_command for the hot path of a client, without a Command and a Body in between.
    """

    __slots__ = (
        "_after_payload",
        "_after_when",
        "_around_payload",
        "_before_payload",
        "handler",
        "labels",
        "options",
        "queue",
    )

    def __init__(self, queue: str, options: Options, handler: str, labels: Mapping[str, str]) -> None:
        self.queue = queue
        self.options = options
        self.handler = handler
        self.labels = labels
        encoded_options = b"\x00" if options is DEFAULT_OPTIONS else _options(options)
        self._after_when = _text(queue) + encoded_options
        self._before_payload = _BODY.header + _text(handler)
        self._after_payload = _map({}) + _map(labels)
        self._around_payload = len(self._before_payload) + len(self._after_payload)

    def element(self, command_id: bytes, task_id: bytes, when: int, payload: bytes) -> bytes:
        """One command as an element of a batch. `command_id`: 16 bytes; `task_id`: in UTF-8."""
        size = _LENGTHS[len(payload)]
        return b"".join(
            (
                command_id,
                _VERB_SCHEDULE,
                _LENGTHS[len(task_id)],
                task_id,
                _long(when),
                self._after_when,
                _LENGTHS[self._around_payload + len(size) + len(payload)],
                self._before_payload,
                size,
                payload,
                self._after_payload,
            )
        )

    def command(self, command_id: bytes, task_id: str, when: int, payload: bytes) -> Command:
        """The same command as a value."""
        body = encode_body(Body(self.handler, payload, {}, dict(self.labels)))
        return Command(command_id, Verb.SCHEDULE, task_id, when, self.queue, self.options, body)


def encode_batch(client_id: str, reply: int, encoded: Sequence[bytes]) -> bytes:
    """A CommandBatch around commands that are encoded already, so that nothing is encoded twice."""
    return batch_of_elements(client_id, reply, [command[_HEADER:] for command in encoded])


def batch_of_elements(client_id: str, reply: int, elements: Sequence[bytes]) -> bytes:
    """A CommandBatch around elements.

    An Avro array is a block count, the elements, and a closing zero.
    """
    if not elements:
        return _batch_head(client_id, reply) + b"\x00"
    return b"".join((_batch_head(client_id, reply), _LENGTHS[len(elements)], *elements, b"\x00"))


def element_of(encoded: bytes) -> bytes:
    """What `encode_command` wrote, as an element of a batch."""
    return encoded[_HEADER:]


@lru_cache(maxsize=64)
def _batch_head(client_id: str, reply: int) -> bytes:
    """The same for every message of one client."""
    return _COMMAND_BATCH.header + _text(client_id) + _long(reply)


def decode_batch(value: bytes | None) -> CommandBatch:
    """A message of `commands`. Raises UnknownSchema or MalformedValue: then none of it is known.

    Each element is read by its own call, so that its bytes can be kept as they are.
    """
    source = _COMMAND_BATCH.open(value)
    assert value is not None
    commands: list[Command] = []
    encoded: list[bytes] = []
    try:
        client_id = schemaless_reader(source, "string", None)
        reply = schemaless_reader(source, "int", None)
        while count := schemaless_reader(source, "long", None):
            if count < 0:  # a block that also says its length in bytes
                schemaless_reader(source, "long", None)
            for _ in range(abs(count)):
                start = source.tell()
                commands.append(_command(schemaless_reader(source, _COMMAND.parsed, None)))
                encoded.append(_COMMAND.header + value[start : source.tell()])
    except _UNREADABLE as error:
        raise MalformedValue(
            f"command {len(commands)} of the batch: {error or type(error).__name__}"
        ) from error
    if source.tell() != len(value):
        raise MalformedValue(f"{len(value) - source.tell()} bytes follow the batch")
    return CommandBatch(client_id, reply, tuple(commands), tuple(encoded))


def _long(n: int) -> bytes:
    """`n` as an Avro int or long: zigzag, then base 128 with the low bits first."""
    z = n << 1 ^ n >> 63
    if 1 << 35 <= z < 1 << 42:
        # Instants of the years 1970 to 2039: six bytes, at a third of the loop's price.
        a, b, c, d, e = z & 127, z >> 7 & 127, z >> 14 & 127, z >> 21 & 127, z >> 28 & 127
        return bytes((a | 128, b | 128, c | 128, d | 128, e | 128, z >> 35))
    return _varint(z)


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


class _Lengths(dict[int, bytes]):
    """Encoded lengths and counts: the small ones looked up, the others worked out."""

    def __missing__(self, n: int) -> bytes:
        return _long(n)


_LENGTHS: Final = _Lengths({n: _varint(n << 1) for n in range(1_024)})


def _bytes(data: bytes) -> bytes:
    return _LENGTHS[len(data)] + data


def _text(text: str) -> bytes:
    data = text.encode()
    return _LENGTHS[len(data)] + data


def _map(entries: Mapping[str, str]) -> bytes:
    """A map of strings: as an array, of keys and values in turn."""
    if not entries:
        return b"\x00"
    pairs = (_text(key) + _text(value) for key, value in entries.items())
    return b"".join((_LENGTHS[len(entries)], *pairs, b"\x00"))


def encode_body(body: Body) -> bytes:
    """A Body in single-object encoding, by hand like the command that carries it."""
    return b"".join(
        (_BODY.header, _text(body.handler), _bytes(body.payload), _map(body.headers), _map(body.labels))
    )


def decode_body(value: bytes) -> Body:
    """What `encode_body` wrote. Raises UnknownSchema or MalformedValue."""
    return Body(**_BODY.read(value))


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
                }
                for run in state.runs
            ],
            "outcome": state.outcome and state.outcome.value,
            "ended_ms": state.ended_ms,
            "recent": [
                {"command_id": r.command_id, "kind": r.kind.value, "detail": r.detail} for r in state.recent
            ],
            "forget_ms": state.forget_ms,
        }
    )


def decode_state(value: bytes) -> TaskState:
    """What `encode_state` wrote. Raises UnknownSchema or MalformedValue."""
    d = _STATE.read(value)
    return TaskState(
        Rev(d["rev_offset"], d["rev_item"]),
        d["next_occurrence_ts"],
        d["last_occurrence_ts"],
        tuple(
            RunState(r["occurrence_ts"], r["attempt"], Rev(r["rev_offset"], r["rev_item"]), r["decided_ms"])
            for r in d["runs"]
        ),
        _OUTCOMES[d["outcome"]] if d["outcome"] else None,
        d["ended_ms"],
        tuple(RecentCommand(r["command_id"], _VERDICT_KINDS[r["kind"]], r["detail"]) for r in d["recent"]),
        d["forget_ms"],
    )


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


# --------------------------------------------------------------------------- work, reports, history


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
    return Work(**_unflat(_WORK.read(value)))


class ReportBatch(NamedTuple):
    """A decoded message of `reports`: one worker, one bucket."""

    worker: str
    reports: tuple[Report, ...]


def encode_reports(worker: str, reports: Sequence[Report]) -> bytes:
    """A ReportBatch in single-object encoding."""
    return _REPORT_BATCH.write(
        {"worker": worker, "reports": [report._asdict() | {"kind": report.kind.value} for report in reports]}
    )


def decode_reports(value: bytes | None) -> ReportBatch:
    """What `encode_reports` wrote. Raises UnknownSchema or MalformedValue."""
    datum = _REPORT_BATCH.read(value)
    reports = (Report(**{**r, "kind": _REPORT_KINDS[r["kind"]]}) for r in datum["reports"])
    return ReportBatch(datum["worker"], tuple(reports))


def encode_history(history: History) -> bytes:
    """A History in single-object encoding."""
    return _HISTORY.write(_flat(history) | {"outcome": history.outcome.value})


def decode_history(value: bytes | None) -> History:
    """What `encode_history` wrote. Raises UnknownSchema or MalformedValue."""
    datum = _unflat(_HISTORY.read(value))
    datum["outcome"] = _OUTCOMES[datum["outcome"]]
    return History(**datum)


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


DECODERS: Final[dict[str, Callable[[bytes], Any]]] = {
    "Body": decode_body,
    "Claim": decode_claim,
    "Command": decode_command,
    "CommandBatch": decode_batch,
    "History": decode_history,
    "Progress": decode_progress,
    "ReportBatch": decode_reports,
    "TaskSpec": decode_spec,
    "TaskState": decode_state,
    "VerdictBatch": decode_verdicts,
    "Work": decode_work,
}
"""By record name, for tools that print a topic and for the golden-byte tests."""
