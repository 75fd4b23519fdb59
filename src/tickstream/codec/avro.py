"""Avro: schemas, single-object encoding, and the few primitives that are written by hand.

No record of tickstream may enter here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from importlib import resources
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from fastavro import schemaless_reader as _untyped_reader
from fastavro import schemaless_writer
from fastavro.schema import fingerprint, load_schema, to_parsing_canonical_form

from tickstream.errors import MalformedValue, UnknownSchema

schemaless_reader: Final[Callable[[BytesIO, Any, None], Any]] = _untyped_reader
"""fastavro's reader; what it returns depends on the schema, which no type says."""
_MARKER: Final = b"\xc3\x01"
HEADER_BYTES: Final = 10
"""Bytes before the datum: marker and fingerprint."""
UNREADABLE: Final = (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, struct.error)
"""What fastavro raises on bytes that are no datum of the schema."""

_NAMES: Final[dict[bytes, str]] = {}
"""Ten bytes of header → record, of every schema that this release knows."""


def _schema_root() -> Path:
    """The directory of the schemas: inside the installed package, or at the top of a checkout."""
    packaged = Path(str(resources.files("tickstream"))) / "schemas" / "avro"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "schemas" / "avro"


class Schema:
    """One record of one version: its parsed schema and the ten bytes that announce it."""

    def __init__(self, name: str, version: str = "v1") -> None:
        self.parsed: Any = load_schema(str(_schema_root() / version / f"tickstream.{name}.avsc"))
        canonical = to_parsing_canonical_form(self.parsed)
        self.header = _MARKER + bytes.fromhex(fingerprint(canonical, "CRC-64-AVRO"))
        _NAMES[self.header] = name

    def write(self, datum: dict[str, Any]) -> bytes:
        """`datum` in single-object encoding."""
        out = BytesIO()
        out.write(self.header)
        schemaless_writer(out, self.parsed, datum)
        return out.getvalue()

    def datum(self, datum: dict[str, Any]) -> bytes:
        """`datum` without the header: as a field of another record."""
        out = BytesIO()
        schemaless_writer(out, self.parsed, datum)
        return out.getvalue()

    def read(self, value: bytes | None) -> dict[str, Any]:
        """The datum of `value`. Raises UnknownSchema or MalformedValue."""
        source = self.open(value)
        try:
            datum: dict[str, Any] = schemaless_reader(source, self.parsed, None)
        except UNREADABLE as error:
            raise MalformedValue(f"not a readable datum: {error or type(error).__name__}") from error
        if source.tell() != len(value or b""):
            raise MalformedValue(f"{len(value or b'') - source.tell()} bytes follow the datum")
        return datum

    def open(self, value: bytes | None) -> BytesIO:
        """A stream standing behind the header. Raises UnknownSchema or MalformedValue."""
        source = BytesIO(self.checked(value))
        source.seek(HEADER_BYTES)
        return source

    def checked(self, value: bytes | None) -> bytes:
        """`value`, which has the header. Raises UnknownSchema or MalformedValue."""
        if value is not None and value.startswith(self.header):
            return value
        if value is None or value[:2] != _MARKER or len(value) < HEADER_BYTES:
            raise MalformedValue("not in Avro single-object encoding (no C3 01 marker)")
        if value[:HEADER_BYTES] in _NAMES:
            raise MalformedValue(f"holds a {_NAMES[value[:HEADER_BYTES]]}, which does not belong here")
        raise UnknownSchema(value[2:HEADER_BYTES])


def avro_long(n: int) -> bytes:
    """`n` as an Avro int or long: zigzag, then base 128 with the low bits first.

    Raises OverflowError beyond 64 bits.
    """
    z = n << 1 ^ n >> 63
    if 1 << 35 <= z < 1 << 42:
        # Instants of the years 1970 to 2039: six bytes, at a third of the loop's price.
        a, b, c, d, e = z & 127, z >> 7 & 127, z >> 14 & 127, z >> 21 & 127, z >> 28 & 127
        return bytes((a | 128, b | 128, c | 128, d | 128, e | 128, z >> 35))
    return _varint(z)


def read_long(value: bytes, at: int) -> tuple[int, int]:
    """The Avro int or long at `at`, and where the next field begins. Raises IndexError at the end of `value`."""
    z = shift = 0
    while True:
        byte = value[at]
        at += 1
        z |= (byte & 0x7F) << shift
        if byte < 0x80:
            return z >> 1 ^ -(z & 1), at
        shift += 7


def _varint(n: int) -> bytes:
    if n >> 64:
        raise OverflowError(f"{n} does not fit into an Avro long")
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


class _Lengths(dict[int, bytes]):
    """Encoded lengths and counts: the small ones looked up, the others worked out."""

    def __missing__(self, n: int) -> bytes:
        return avro_long(n)


AVRO_LENGTHS: Final = _Lengths({n: _varint(n << 1) for n in range(1_024)})


def avro_bytes(data: bytes) -> bytes:
    """Bytes: their number, then they themselves."""
    return AVRO_LENGTHS[len(data)] + data


def avro_text(text: str) -> bytes:
    """A string: the number of bytes of its UTF-8, then these."""
    data = text.encode()
    return AVRO_LENGTHS[len(data)] + data


def avro_map(entries: Mapping[str, str]) -> bytes:
    """A map of strings: as an array, of keys and values in turn."""
    if not entries:
        return b"\x00"
    pairs = (avro_text(key) + avro_text(value) for key, value in entries.items())
    return b"".join((AVRO_LENGTHS[len(entries)], *pairs, b"\x00"))
