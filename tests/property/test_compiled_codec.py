"""Compiled readers and writers: the bytes are fastavro's, and every value, good or damaged, is read as by fastavro."""

from io import BytesIO
from typing import Any

import pytest
from fastavro import schemaless_writer
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.any_record import RECORDS, longs
from tests.golden_values import ENCODERS
from tickstream import codec
from tickstream.codec import DECODERS
from tickstream.codec.avro import Schema, avro_long
from tickstream.codec.compiled import wide_at
from tickstream.errors import MalformedValue
from tickstream.model import (
    NO_EXTRAS,
    History,
    RunState,
    TaskSpec,
    TaskState,
    Work,
)

COMPILED = ("History", "Progress", "TaskSpec", "TaskState", "Work")
A_RECORD = st.sampled_from(COMPILED).flatmap(lambda name: st.tuples(st.just(name), RECORDS[name]))


def plain(value: Any) -> Any:
    """As fastavro wants it: dicts, symbols, and a rev as two fields."""
    if value is NO_EXTRAS:
        return None
    if hasattr(value, "_asdict"):
        fields = {name: plain(field) for name, field in value._asdict().items()}
        if isinstance(value, RunState | TaskSpec | TaskState | Work | History):
            fields["rev_offset"], fields["rev_item"] = value.rev
        return fields
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return getattr(value, "value", value)


@settings(deadline=None)
@given(A_RECORD)
def test_the_bytes_are_those_of_fastavro_and_are_read_back(named: tuple[str, Any]) -> None:
    name, value = named
    encode, decode = ENCODERS[name], DECODERS[name]
    schema, out = Schema(name), BytesIO()
    schemaless_writer(out, schema.parsed, plain(value))
    encoded = encode(value)
    assert encoded == schema.header + out.getvalue()
    assert decode(encoded) == value


@settings(deadline=None)
@given(A_RECORD, st.data())
def test_what_is_damaged_is_refused_or_read_as_by_fastavro(
    named: tuple[str, Any], data: st.DataObject
) -> None:
    name, value = named
    encode, decode = ENCODERS[name], DECODERS[name]
    schema = Schema(name)
    damaged = bytearray(encode(value))
    at = data.draw(st.integers(len(schema.header), len(damaged) - 1))
    damaged[at] = data.draw(st.integers(0, 255))
    damaged = damaged[: data.draw(st.integers(at, len(damaged)))]
    try:
        found = decode(bytes(damaged))
    except MalformedValue:
        return  # it may be stricter than fastavro; bytes that nobody wrote
    assert comparable(schema.read(bytes(damaged))) == comparable(plain(found) | {"rev": None})


def comparable(datum: dict[str, Any]) -> dict[str, Any]:
    """Without what only one of the two has; extras that are all defaults are none."""
    if datum.get("extras") == NO_EXTRAS._asdict() | {"queued": []}:
        datum = {**datum, "extras": None}
    if "runs" in datum:
        datum = {**datum, "runs": [{k: v for k, v in run.items() if k != "rev"} for run in datum["runs"]]}
    return {name: field for name, field in datum.items() if name != "rev"}


@settings(deadline=None)
@given(longs)
def test_a_number_of_any_width(number: int) -> None:
    encoded = avro_long(number)
    assert wide_at(encoded + b"\x7f", 0) == (number, len(encoded))


def test_a_number_of_more_than_64_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="64 bits"):
        wide_at(b"\xff" * 10 + b"\x01", 0)


@settings(deadline=None)
@given(st.binary(max_size=120))
def test_a_batch_of_commands_is_refused_or_read_whatever_it_holds(rest: bytes) -> None:
    value = codec.batch_head("client", 0) + rest
    try:
        batch = codec.decode_batch(value)
    except MalformedValue:
        return
    assert len(batch.commands) == len(batch.encoded)
