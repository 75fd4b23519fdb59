"""What the codec writes by hand is, byte for byte, what fastavro writes under the same schema."""

from enum import Enum
from io import BytesIO

import pytest
from fastavro import schemaless_writer
from hypothesis import given
from hypothesis import strategies as st

from tickstream import codec
from tickstream.codec.avro import Schema, avro_long
from tickstream.codec.commands import _BODY, _COMMAND
from tickstream.codec.reports import _REPORT_BATCH
from tickstream.errors import MalformedValue
from tickstream.model import (
    DEFAULT_OPTIONS,
    NEVER,
    Body,
    Command,
    IfExists,
    Misfire,
    Options,
    Overlap,
    QueueLimits,
    Recurrence,
    RecurrenceKind,
    Report,
    ReportKind,
    Rev,
    RunTerms,
    Verb,
)

INT64 = st.integers(min_value=-(2**63), max_value=2**63 - 1)
TEXT_MAP = st.dictionaries(st.text(), st.text(), max_size=70)
BODIES = st.builds(Body, st.text(), st.binary(max_size=1500), TEXT_MAP, TEXT_MAP)
INT32 = st.integers(min_value=-(2**31), max_value=2**31 - 1)
TERMS = st.none() | st.builds(RunTerms, INT32, INT32, INT32, INT32, INT32)
REVS = st.builds(Rev, st.integers(0, 2**63 - 1), INT32)
LIMITS = st.none() | st.builds(QueueLimits, INT32, INT32, INT32)
TEXTS = st.lists(st.text(), max_size=3).map(tuple)
RECURRENCES = st.none() | st.builds(
    Recurrence,
    st.sampled_from(RecurrenceKind),
    st.text(),
    st.text(),
    st.text(),
    INT64,
    INT64,
    INT64,
    TEXTS,
    TEXTS,
    st.text(),
    st.text(),
    st.text(),
    st.sampled_from(Misfire),
    INT64,
    st.sampled_from(Overlap),
    INT64,
)
OPTIONS = st.just(DEFAULT_OPTIONS) | st.builds(
    Options,
    st.sampled_from(IfExists),
    st.booleans(),
    INT64,
    st.booleans(),
    TERMS,
    st.text(),
    INT32,
    st.none() | REVS,
    LIMITS,
    RECURRENCES,
    st.binary(max_size=40),
)
COMMANDS = st.builds(
    Command,
    st.binary(min_size=16, max_size=16),
    st.sampled_from(Verb),
    st.text(),
    INT64,
    st.text(),
    OPTIONS,
    st.binary(max_size=1500),
)

REPORTS = st.builds(
    Report,
    st.sampled_from(ReportKind),
    st.text(),
    INT64,
    INT32,
    st.binary(min_size=16, max_size=16),
    st.text(),
    INT64,
    INT64,
    INT64,
    st.text(),
    INT64,
    st.binary(max_size=1500),
    INT32,
    st.text(),
)


def by_fastavro(schema: Schema, datum: object) -> bytes:
    out = BytesIO()
    schemaless_writer(out, schema.parsed, datum)
    return schema.header + out.getvalue()


def plain(record: RunTerms | QueueLimits | Recurrence | None) -> dict[str, object] | None:
    if record is None:
        return None
    return {n: v.value if isinstance(v, Enum) else v for n, v in record._asdict().items()}


@given(BODIES)
def test_a_body(body: Body) -> None:
    assert codec.encode_body(body) == by_fastavro(_BODY, body._asdict())
    assert codec.decode_body(codec.encode_body(body)) == body


@given(st.binary(max_size=200))
def test_what_is_no_body_is_read_by_hand_as_by_fastavro(rest: bytes) -> None:
    value = _BODY.header + rest
    try:
        expected: object = Body(**_BODY.read(value))
    except MalformedValue:
        with pytest.raises(MalformedValue):
            codec.decode_body(value)
    else:
        assert codec.decode_body(value) == expected


@given(BODIES, st.data())
def test_a_damaged_body_is_read_by_hand_as_by_fastavro(body: Body, data: st.DataObject) -> None:
    value = bytearray(codec.encode_body(body))
    at = data.draw(st.integers(len(_BODY.header), len(value) - 1))
    value[at] = data.draw(st.integers(0, 255))
    try:
        expected: object = Body(**_BODY.read(bytes(value)))
    except MalformedValue:
        with pytest.raises(MalformedValue):
            codec.decode_body(bytes(value))
    else:
        assert codec.decode_body(bytes(value)) == expected


@given(st.text(), st.lists(REPORTS, max_size=70))
def test_reports(worker: str, reports: list[Report]) -> None:
    data = [report._asdict() | {"kind": report.kind.value} for report in reports]
    encoded = codec.encode_reports(worker, reports)
    assert encoded == by_fastavro(_REPORT_BATCH, {"worker": worker, "reports": data})
    assert codec.decode_reports(encoded) == codec.ReportBatch(worker, tuple(reports))


def test_a_run_id_of_another_size_is_refused() -> None:
    report = Report(ReportKind.CLAIMED, "mail:1", 1, 1, b"", "mail", 1, 1, 1, "")
    with pytest.raises(MalformedValue, match="has not 16 bytes"):
        codec.encode_reports("worker", [report])


@given(COMMANDS)
def test_a_command(command: Command) -> None:
    options = command.options
    in_union = options._asdict() | {
        "if_exists": options.if_exists.value,
        "terms": plain(options.terms),
        "limits": plain(options.limits),
        "recurrence": plain(options.recurrence),
    }
    in_union["if_rev_offset"], in_union["if_rev_item"] = in_union.pop("if_rev") or (NEVER, 0)
    datum = command._asdict() | {
        "verb": command.verb.value,
        "options": None if options is DEFAULT_OPTIONS else in_union,
    }
    assert codec.encode_command(command) == by_fastavro(_COMMAND, datum)
    assert codec.decode_command(codec.encode_command(command)) == command


@given(st.text(), st.integers(-1, 2**31 - 1), st.lists(COMMANDS, max_size=70))
def test_a_batch(client_id: str, reply: int, commands: list[Command]) -> None:
    encoded = [codec.encode_command(command) for command in commands]
    batch = codec.decode_batch(codec.encode_batch(client_id, reply, encoded))
    assert batch == codec.CommandBatch(client_id, reply, tuple(commands), tuple(encoded))


@given(
    st.builds(codec.ScheduleFrame, st.text(), OPTIONS, st.text(), TEXT_MAP),
    st.binary(min_size=16, max_size=16),
    st.text(),
    INT64 | st.integers(0, 1 << 43),
    st.binary(max_size=1500),
)
def test_a_frame_makes_the_bytes_of_the_command(
    frame: codec.ScheduleFrame, command_id: bytes, task_id: str, when: int, payload: bytes
) -> None:
    element = frame.element(command_id, task_id.encode(), when, payload)
    assert element == codec.element_of(
        codec.encode_command(frame.command(command_id, task_id, when, payload))
    )


def test_a_command_id_of_another_size_is_refused() -> None:
    command = Command(b"short", Verb.CANCEL, "mail:1", -1, "default", DEFAULT_OPTIONS, b"")
    with pytest.raises(MalformedValue, match="not 16 bytes"):
        codec.encode_command(command)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**80])
def test_a_number_beyond_64_bits_is_refused(number: int) -> None:
    with pytest.raises(OverflowError, match="Avro long"):
        avro_long(number)
