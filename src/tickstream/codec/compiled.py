"""Readers and writers of hot records, made from their schemas: each one function of straight-line Python.

The source of a function is put together once, at import, as dataclasses do it. fastavro reads a record into a
dict, and a value is made of that; this makes the value at once, and small numbers are looked up. What it
reads and writes is fastavro's, byte for byte: a property test. No record of tickstream may enter here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, Final

from tickstream.codec.avro import AVRO_LENGTHS, HEADER_BYTES, UNREADABLE, Schema, avro_long
from tickstream.errors import MalformedValue

ReadAt = Callable[[bytes, int], tuple[Any, int]]
"""Data and a position → what stands there, and the position behind it.

Past the end it raises IndexError or leaves a position beyond the data: one of avro.UNREADABLE, or the caller's
to see.
"""

_SMALL: Final = tuple(z >> 1 ^ -(z & 1) if z < 128 else None for z in range(256))
"""First byte → an int or long of one byte."""
_SIZES: Final = tuple(z >> 1 if z < 128 and not z & 1 else None for z in range(256))
"""The same of a length, which is not negative."""
_NUMBERS: Final = {n: avro_long(n) for n in range(-2, 1_024)}
"""Small numbers; -1 and -2 stand for "none" in many fields."""


def wide_at(data: bytes, at: int) -> tuple[int, int]:
    """An int or long of any width. Raises ValueError when it has more than 64 bits."""
    # Unrolled up to the six bytes of an instant: an offset has three or four, and this is called for each.
    z = data[at]
    if z < 128:
        return z >> 1 ^ -(z & 1), at + 1
    if (byte := data[at + 1]) < 128:
        z = z & 127 | byte << 7
        return z >> 1 ^ -(z & 1), at + 2
    z = z & 127 | (byte & 127) << 7
    if (byte := data[at + 2]) < 128:
        z |= byte << 14
        return z >> 1 ^ -(z & 1), at + 3
    z |= (byte & 127) << 14
    if (byte := data[at + 3]) < 128:
        z |= byte << 21
        return z >> 1 ^ -(z & 1), at + 4
    z |= (byte & 127) << 21 | (data[at + 4] & 127) << 28
    if data[at + 4] > 127 and (byte := data[at + 5]) < 128:
        z |= byte << 35
        return z >> 1 ^ -(z & 1), at + 6
    return _any_width_at(data, at)


def _any_width_at(data: bytes, at: int) -> tuple[int, int]:
    z = shift = 0
    while True:
        byte = data[at]
        at += 1
        z |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
    if z >> 64:
        raise ValueError("a number of more than 64 bits")
    return z >> 1 ^ -(z & 1), at


def _size_at(data: bytes, at: int) -> tuple[int, int]:
    size, at = wide_at(data, at)
    if size < 0:
        raise ValueError(f"a length of {size}")
    return size, at


def array_at(data: bytes, at: int, item_at: ReadAt) -> tuple[tuple[Any, ...], int]:
    """An array: blocks of a count and as many items, the last one empty."""
    items: list[Any] = []
    count, at = wide_at(data, at)
    while count:
        if count < 0:  # a block that also says its length in bytes
            count = -count
            _, at = wide_at(data, at)
        for _ in range(count):
            item, at = item_at(data, at)
            items.append(item)
        count, at = wide_at(data, at)
    return tuple(items), at


def _flag_at(data: bytes, at: int) -> tuple[bool, int]:
    return (False, True)[data[at]], at + 1


def _array(items: Sequence[Any], write: Callable[[Any], bytes]) -> bytes:
    return b"".join((AVRO_LENGTHS[len(items)], *map(write, items), b"\x00"))


def _text(text: str) -> bytes:
    data = text.encode()
    return AVRO_LENGTHS[len(data)] + data


def _number(n: int) -> bytes:
    return _NUMBERS.get(n) or _wide(n)


def _sized(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise ValueError(f"{data!r} has not {size} bytes")
    return data


_wide: Final = lru_cache(4_096)(avro_long)
"""The records of one batch share most of their instants."""


def reader(schema: Schema, value: str, names: Mapping[str, Any]) -> ReadAt:
    """A function that reads a datum of the schema.

    `value`: the expression, over the fields' names, of what is made of it. `names`: what that expression
    needs; and for every enum and record within the schema, by its name, the Enum or the reader.
    """
    source = _Source(schema, {**_READING, **names})
    for field in schema.parsed["fields"]:
        source.read(field["type"], field["name"])
    return source.function("read(data, at)", [*source.lines, f"return {value}, at"])


def writer(
    schema: Schema, names: Mapping[str, Any], fields: Mapping[str, str], *, header: bool = True
) -> Callable[[Any], bytes]:
    """A function that writes a datum of the schema, by itself with its header.

    A field is the attribute of that name; `fields` has the expressions, over `r`, of those that are not.
    `names`: what those need; and for every enum and record within the schema, the Enum or the writer.
    Raises what the interpreter does when a value is none of the schema, OverflowError beyond 64 bits.
    """
    source = _Source(schema, {**_WRITING, **names, "header": schema.header})
    parts = [
        source.written(field["type"], fields.get(field["name"], f"r.{field['name']}"))
        for field in schema.parsed["fields"]
    ]
    head = ["header"] if header else []
    return source.function("write(r)", [f"return b''.join(({', '.join(head + parts)},))"])


def read_whole(schema: Schema, read_at: ReadAt, value: bytes | None) -> Any:
    """The datum that is all of `value`. Raises UnknownSchema or MalformedValue."""
    data = schema.checked(value)
    try:
        found, at = read_at(data, HEADER_BYTES)
    except UNREADABLE as error:
        raise MalformedValue(f"not a readable datum: {error or type(error).__name__}") from error
    if at != len(data):
        raise MalformedValue(
            f"{len(data) - at} bytes follow the datum" if at < len(data) else "it is cut short"
        )
    return found


_READING: Final = {
    "wide_at": wide_at,
    "size_at": _size_at,
    "array_at": array_at,
    "flag_at": _flag_at,
    "small": _SMALL,
    "sizes": _SIZES,
}
_WRITING: Final = {
    "numbers": _NUMBERS,
    "number": _number,
    "wide": _wide,
    "lengths": AVRO_LENGTHS,
    "array": _array,
    "text": _text,
    "sized": _sized,
}


class _Source:
    """The source of one function, and what it refers to."""

    def __init__(self, schema: Schema, names: Mapping[str, Any]) -> None:
        self.lines: list[str] = []
        self._names = dict(names)
        self._types: dict[str, Any] = {}
        self._schema = schema

    def function(self, signature: str, lines: Sequence[str]) -> Callable[..., Any]:
        """Compile it; a traceback names the record."""
        source = f"def {signature}:\n" + "".join(f"    {line}\n" for line in lines)
        exec(compile(source, f"<{self._schema.parsed['name']}>", "exec"), self._names)
        made: Callable[..., Any] = self._names[signature.partition("(")[0]]
        return made

    def _named(self, kind: Any) -> tuple[Any, str]:
        """A type's definition, and the name in it that the caller knows it by."""
        if isinstance(kind, str) and kind in self._types:
            kind = self._types[kind]
        if isinstance(kind, dict) and "name" in kind:
            self._types[kind["name"]] = kind
            return kind, kind["name"].rpartition(".")[2]
        return kind, ""

    # ------------------------------------------------------------------ reading

    def read(self, kind: Any, target: str, indent: str = "") -> None:
        """Lines that read a value of that type into `target`."""
        kind, name = self._named(kind)
        self.lines += [indent + line for line in self._read(kind, name, target)]

    def _read(self, kind: Any, name: str, target: str) -> list[str]:
        match kind:
            case "int" | "long":
                return [
                    f"{target} = small[data[at]]",
                    f"if {target} is None: {target}, at = wide_at(data, at)",
                    "else: at += 1",
                ]
            case "string" | "bytes":
                decoded = ".decode()" if kind == "string" else ""
                return [
                    "size = sizes[data[at]]",
                    "if size is None: size, at = size_at(data, at)",
                    "else: at += 1",
                    "end = at + size",
                    f"{target} = data[at:end]{decoded}",
                    "at = end",
                ]
            case "boolean":
                return [f"{target}, at = flag_at(data, at)"]
            case {"type": "fixed", "size": size}:
                return [f"{target} = data[at:at + {size}]", f"at += {size}"]
            case {"type": "enum", "symbols": symbols}:
                members = {z: self._names[name](symbol) for z, symbol in zip(range(0, 128, 2), symbols)}  # noqa: B905
                self._names[f"of_{name}"] = members
                return [f"{target} = of_{name}[data[at]]", "at += 1"]
            case {"type": "record"}:
                return [f"{target}, at = {name}(data, at)"]
            case {"type": "array", "items": items}:
                self._names[f"{target}_item"] = self._item_reader(items)
                return [
                    f"if not data[at]: {target}, at = (), at + 1",
                    f"else: {target}, at = array_at(data, at, {target}_item)",
                ]
            case ["null", present]:
                inner = self._named(present)
                return [
                    f"branch, {target}, at = data[at], None, at + 1",
                    "if branch == 2:",
                    *("    " + line for line in self._read(*inner, target)),
                    "elif branch: raise ValueError(f'branch {branch} of a union')",
                ]
        raise NotImplementedError(f"reading of {kind}")

    def _item_reader(self, kind: Any) -> ReadAt:
        source = _Source(self._schema, self._names)
        source.read(kind, "item")
        return source.function("read(data, at)", [*source.lines, "return item, at"])

    # ------------------------------------------------------------------ writing

    def written(self, kind: Any, value: str) -> str:
        """The expression of the bytes of `value`."""
        kind, name = self._named(kind)
        match kind:
            case "int" | "long":
                return f"numbers.get(x := {value}) or wide(x)"
            case "string":
                return f"lengths[len(x := {value}.encode())], x"
            case "bytes":
                return f"lengths[len(x := {value})], x"
            case "boolean":
                return f"(b'\\x01' if {value} else b'\\x00')"
            case {"type": "fixed", "size": size}:
                return f"sized({value}, {size})"
            case {"type": "enum", "symbols": symbols}:
                codes: dict[Enum, bytes] = {self._names[name](s): avro_long(n) for n, s in enumerate(symbols)}
                self._names[f"code_{name}"] = codes
                return f"code_{name}[{value}]"
            case {"type": "record"}:
                return f"{name}({value})"
            case {"type": "array", "items": items}:
                return f"(array(x, {self._item_writer(items)}) if (x := {value}) else b'\\x00')"
            case ["null", present]:
                one = self.written(present, "y")
                return f"(b'\\x00' if (y := {value}) is None else b'\\x02' + b''.join(({one},)))"
        raise NotImplementedError(f"writing of {kind}")

    def _item_writer(self, kind: Any) -> str:
        kind, name = self._named(kind)
        return (
            {"int": "number", "long": "number", "string": "text"}.get(kind) or name
            if isinstance(kind, str)
            else name
        )
