"""The bytes of every record: fixed for ever, read back as the same value, and rubbish refused in one way."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
from fastavro import schemaless_writer
from fastavro.schema import fingerprint, load_schema, to_parsing_canonical_form
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.any_record import RECORDS, commands, ints, reports, texts, verdicts
from tests.golden_values import CANCEL, ENCODERS, GOLDEN, PLAIN, VALUES
from tickstream.codec import (
    CLAIM,
    DECODERS,
    PROGRESS,
    SPEC,
    STATE,
    decode_batch,
    encode_batch,
    encode_command,
    split_timers_key,
    timers_key,
)
from tickstream.errors import CodecError, MalformedValue, UnknownSchema
from tickstream.model import (
    DEFAULT_OPTIONS,
    NEVER,
    Command,
    Report,
    Verb,
    Verdict,
)

SCHEMAS = Path(__file__).parents[2] / "schemas" / "avro" / "v1"
NAMES = sorted(DECODERS)
CASES = [pytest.param(name, i, id=f"{name}-{i}") for name in NAMES for i in range(len(VALUES[name]))]


def golden(name: str) -> list[bytes]:
    return [bytes.fromhex(line) for line in (GOLDEN / f"{name}.hex").read_text().splitlines()]


# --------------------------------------------------------------------------- golden bytes


def test_every_record_has_golden_bytes() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.hex")) == NAMES
    assert {name: len(golden(name)) for name in NAMES} == {name: len(VALUES[name]) for name in NAMES}


@pytest.mark.parametrize(("name", "i"), CASES)
def test_a_value_has_the_bytes_it_always_had(name: str, i: int) -> None:
    assert ENCODERS[name](VALUES[name][i]).hex() == golden(name)[i].hex()


@pytest.mark.parametrize(("name", "i"), CASES)
def test_golden_bytes_are_read_back_as_the_value(name: str, i: int) -> None:
    assert DECODERS[name](golden(name)[i]) == VALUES[name][i]


@pytest.mark.parametrize("name", NAMES)
def test_the_header_is_the_marker_and_the_schema_s_fingerprint(name: str) -> None:
    schema = load_schema(str(SCHEMAS / f"tickstream.{name}.avsc"))
    rabin = fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO")
    assert {value[:10].hex() for value in golden(name)} == {f"c301{rabin}"}


def test_no_two_records_share_a_fingerprint() -> None:
    assert len({golden(name)[0][:10] for name in NAMES}) == len(NAMES)


def test_commands_written_by_any_avro_library_are_read() -> None:
    """Another client's library may cut the array into blocks, with or without their sizes in bytes."""
    items = [encode_command(command)[10:] for command in (PLAIN, CANCEL)]
    whole = encode_batch("client-1", 2, [encode_command(PLAIN), encode_command(CANCEL)])
    head = encode_batch("client-1", 2, [])[:-1]
    one, minus_one = b"\x02", b"\x01"
    in_blocks = head + one + items[0] + one + items[1] + b"\x00"
    sized = head + b"".join(minus_one + _zigzag(len(item)) + item for item in items) + b"\x00"
    assert decode_batch(in_blocks) == decode_batch(sized) == decode_batch(whole)


def test_what_is_written_by_hand_is_what_fastavro_writes(tmp_path: Path) -> None:
    for name, datum in (("Command", _command_datum(PLAIN)), ("Body", VALUES["Body"][0]._asdict())):
        path = tmp_path / name
        with path.open("wb") as out:
            schemaless_writer(out, load_schema(str(SCHEMAS / f"tickstream.{name}.avsc")), datum)
        assert path.read_bytes() == golden(name)[0][10:]


def _command_datum(command: Command) -> dict[str, Any]:
    return command._asdict() | {"verb": command.verb.value, "options": None}


def _zigzag(n: int) -> bytes:
    n <<= 1
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*out, n])


# --------------------------------------------------------------------------- rubbish


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [None, b"", b"\xc3", b"\xc3\x01", b"\xc3\x01short", b"{}" * 8])
def test_what_is_no_single_object_encoding_is_malformed(name: str, value: bytes | None) -> None:
    with pytest.raises(MalformedValue, match="C3 01"):
        DECODERS[name](value)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_of_a_newer_release_is_unknown(name: str) -> None:
    with pytest.raises(UnknownSchema, match=r"0102030405060708 is unknown: .* upgrade this process"):
        DECODERS[name](b"\xc3\x01" + bytes(range(1, 9)) + b"datum")


@pytest.mark.parametrize("name", NAMES)
def test_another_record_is_named(name: str) -> None:
    other = "Work" if name != "Work" else "Claim"
    with pytest.raises(MalformedValue, match=f"holds a {other}"):
        DECODERS[name](golden(other)[0])


@pytest.mark.parametrize(("name", "i"), CASES)
def test_a_value_cut_short_or_with_bytes_behind_it_is_malformed(name: str, i: int) -> None:
    value = golden(name)[i]
    for end in range(10, len(value)):
        with pytest.raises(MalformedValue):
            DECODERS[name](value[:end])
    with pytest.raises(MalformedValue, match="2 bytes follow"):
        DECODERS[name](value + b"\x00\x00")


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_rubbish_behind_a_known_header_raises_nothing_but_codec_errors(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(NAMES))
    value = golden(name)[0][:10] + data.draw(st.binary(max_size=80))
    _decodes_or_refuses(name, value)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_a_damaged_value_raises_nothing_but_codec_errors(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(NAMES))
    value = bytearray(golden(name)[0])
    at = data.draw(st.integers(0, len(value) - 1))
    value[at] ^= data.draw(st.integers(1, 255))
    _decodes_or_refuses(name, bytes(value))


@given(st.sampled_from(NAMES), st.binary(max_size=80))
def test_any_bytes_raise_nothing_but_codec_errors(name: str, value: bytes) -> None:
    _decodes_or_refuses(name, value)


def _decodes_or_refuses(name: str, value: bytes) -> None:
    with contextlib.suppress(CodecError):
        DECODERS[name](value)


# --------------------------------------------------------------------------- round trips


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_any_record_is_read_back_as_it_was(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(RECORDS)))
    record = data.draw(RECORDS[name])
    assert DECODERS[name](ENCODERS[name](record)) == record


@given(texts, ints, st.lists(commands, max_size=5))
@settings(deadline=None)
def test_a_batch_of_commands_is_read_back_with_each_one_s_own_bytes(
    client_id: str, reply: int, batch: list[Command]
) -> None:
    encoded = [encode_command(command) for command in batch]
    decoded = decode_batch(encode_batch(client_id, reply, encoded))
    assert decoded == (client_id, reply, tuple(batch), tuple(encoded))


@given(texts, st.lists(reports, max_size=3), st.lists(verdicts, max_size=3))
@settings(deadline=None)
def test_arrays_of_reports_and_verdicts_are_read_back(
    name: str, some_reports: list[Report], some_verdicts: list[Verdict]
) -> None:
    for record, items in (("ReportBatch", some_reports), ("VerdictBatch", some_verdicts)):
        batch = type(VALUES[record][0])(name, tuple(items))
        assert DECODERS[record](ENCODERS[record](batch)) == batch


# --------------------------------------------------------------------------- keys of `timers`


@pytest.mark.parametrize(
    ("kind", "task_id", "key"),
    [
        (SPEC, "mail:42", b"smail:42"),
        (STATE, "übung", b"t\xc3\xbcbung"),
        (PROGRESS, "", b"p"),
        (CLAIM, "", b"c"),
    ],
)
def test_keys_of_the_changelog(kind: bytes, task_id: str, key: bytes) -> None:
    assert timers_key(kind, task_id) == key
    assert split_timers_key(key) == (kind, task_id)


@pytest.mark.parametrize("key", [None, b"", b"xmail:42", b"s\xff\xff"])
def test_a_key_of_no_known_kind_is_malformed(key: bytes | None) -> None:
    with pytest.raises(MalformedValue, match="key"):
        split_timers_key(key)


def test_an_id_of_the_wrong_size_is_refused_when_written() -> None:
    with pytest.raises(MalformedValue, match="16 bytes"):
        encode_command(Command(b"short", Verb.CANCEL, "mail:42", NEVER, "", DEFAULT_OPTIONS, b""))
