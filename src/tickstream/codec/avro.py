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

from tickstream.errors import InvalidInput, MalformedValue, NotInFormat, UnknownSchema

schemaless_reader: Final[Callable[[BytesIO, Any, Any], Any]] = _untyped_reader
"""fastavro's reader; what it returns depends on the schema, which no type says."""
_MARKER: Final = b"\xc3\x01"
HEADER_BYTES: Final = 10
"""Bytes before the datum: marker and fingerprint."""
UNREADABLE: Final = (EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, struct.error)
"""What fastavro raises on bytes that are no datum of the schema."""

_KNOWN: Final[dict[bytes, Schema]] = {}
"""Ten bytes of header → record, of every schema that this release knows."""


def _schema_root() -> Path:
    """The directory of the schemas: inside the installed package, or at the top of a checkout."""
    packaged = Path(str(resources.files("tickstream"))) / "schemas" / "avro"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "schemas" / "avro"


def formats(root: Path | None = None) -> list[int]:
    """The versions of the wire format that this release knows, oldest first."""
    return sorted(int(d.name[1:]) for d in (root or _schema_root()).glob("v*") if d.name[1:].isdigit())


def check_format(version: int) -> int:
    """`version` when it can be written. Raises InvalidInput."""
    known = formats()
    if version not in known:
        raise InvalidInput(
            f"format.write {version}: this release writes {', '.join(map(str, known))}; raise it only after every "
            "process is upgraded"
        )
    return version


def in_format(value: bytes, version: int) -> bytes:
    """A value of any record as that version wrote it; what is no record's is left alone. Raises NotInFormat."""
    schema = _KNOWN.get(value[:HEADER_BYTES])
    return value if schema is None else schema.in_format(value, version)


class Schema:
    """One record: its newest schema, the ten bytes that announce it, and the versions before it.

    Values of older versions are read as if the newest had written them.
    """

    def __init__(self, name: str, root: Path | None = None) -> None:
        """`root`: where `v1/`, `v2/`, … lie; a version without the record left it as it was."""
        self.name = name
        self._versions: dict[int, tuple[bytes, Any]] = {}
        """Number → header and parsed schema."""
        for version in formats(root):
            file = (root or _schema_root()) / f"v{version}" / f"tickstream.{name}.avsc"
            if file.is_file():
                parsed: Any = load_schema(str(file))
                crc = fingerprint(to_parsing_canonical_form(parsed), "CRC-64-AVRO")
                self._versions[version] = (_MARKER + bytes.fromhex(crc), parsed)
        self.header, self.parsed = self._versions[max(self._versions)]
        self._older = {header: parsed for header, parsed in self._versions.values() if header != self.header}
        for header, _ in self._versions.values():
            _KNOWN[header] = self

    def in_format(self, value: bytes, version: int) -> bytes:
        """A value of the newest schema as that version wrote it. Raises NotInFormat when it cannot be said."""
        header, parsed = self._versions[max(n for n in self._versions if n <= version)]
        if header == self.header:
            return value
        out = BytesIO()
        out.write(header)
        try:
            schemaless_writer(out, parsed, self.read(value))
        except (ValueError, TypeError) as error:
            raise NotInFormat(self.name, version) from error
        if self.checked(out.getvalue()) != value:
            raise NotInFormat(self.name, version)  # a field that the old schema lacks says something
        return out.getvalue()

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
        return self._read(self.checked(value), self.parsed)

    def _read(self, value: bytes, written: Any) -> dict[str, Any]:
        """The datum that was written under that schema, as the newest has it."""
        source = BytesIO(value)
        source.seek(HEADER_BYTES)
        try:
            datum: dict[str, Any] = schemaless_reader(
                source, written, None if written is self.parsed else self.parsed
            )
        except UNREADABLE as error:
            raise MalformedValue(f"not a readable datum: {error or type(error).__name__}") from error
        if source.tell() != len(value):
            raise MalformedValue(f"{len(value) - source.tell()} bytes follow the datum")
        return datum

    def checked(self, value: bytes | None) -> bytes:
        """`value` with the newest header, as it is or read from an older version.

        Raises UnknownSchema or MalformedValue.
        """
        if value is not None and value.startswith(self.header):
            return value
        if value is not None and (older := self._older.get(value[:HEADER_BYTES])) is not None:
            return self.write(self._read(value, older))
        if value is None or value[:2] != _MARKER or len(value) < HEADER_BYTES:
            raise MalformedValue("not in Avro single-object encoding (no C3 01 marker)")
        if (other := _KNOWN.get(value[:HEADER_BYTES])) is not None:
            raise MalformedValue(f"holds a {other.name}, which does not belong here")
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
