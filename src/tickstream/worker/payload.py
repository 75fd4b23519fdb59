"""Arguments and results as bytes: one JSON object by parameter name, and what older versions become.

No I/O may enter here.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from tickstream.errors import InvalidInput, PayloadUnreadable
from tickstream.model import VERSION_HEADER

MAX_RESULT_BYTES: Final = 4_096
"""Of a result that history keeps."""

Upcaster = Callable[[Any], Any]
"""From the payload of one version to that of the next: arguments by name, or a raw handler's bytes."""


def encode_arguments(name: str, arguments: dict[str, Any]) -> bytes:
    """The payload of a call of handler `name`. Raises InvalidInput when it would not survive JSON."""
    for parameter, value in arguments.items():
        try:
            # A tuple that comes back as a list, or an int key as text, would lie to the handler.
            same = json.loads(dumps(value).encode()) == value
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInput(
                f"{name}.bind: argument {parameter!r} cannot be written as JSON ({error}); "
                "pass plain values, or use raw=True"
            ) from error
        if not same:
            raise InvalidInput(
                f"{name}.bind: argument {parameter!r} does not survive JSON unchanged "
                "(a tuple, or a key that is no text?); pass lists and text keys, or use raw=True"
            )
    return dumps(arguments).encode()


def decode_arguments(payload: bytes) -> dict[str, Any]:
    """Name → value. Raises PayloadUnreadable when the payload is no JSON object."""
    if not payload:
        # An absent payload is a call without arguments.
        return {}
    try:
        arguments = json.loads(payload)
    except ValueError as error:
        raise PayloadUnreadable(f"the payload is no JSON: {error}") from error
    return checked_arguments("the payload", arguments)


def checked_arguments(what: str, arguments: Any) -> dict[str, Any]:
    """Raises PayloadUnreadable unless it is an object."""
    if not isinstance(arguments, dict):
        raise PayloadUnreadable(
            f"{what} is a JSON {type(arguments).__name__}, not an object of arguments by name"
        )
    return arguments


def by_name(bound: inspect.BoundArguments) -> dict[str, Any]:
    """Name → value, with what `**kwargs` took beside the rest."""
    arguments: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            arguments |= value
        else:
            arguments[name] = value
    return arguments


def encode_result(value: Any) -> bytes:
    """What a handler returned, for history. Raises InvalidInput when it is no JSON or over 4 KiB."""
    if value is None:
        return b""
    try:
        encoded = dumps(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"the result cannot be written as JSON: {error}") from error
    if len(encoded) > MAX_RESULT_BYTES:
        raise InvalidInput(
            f"the result has {len(encoded)} bytes as JSON, the limit is {MAX_RESULT_BYTES}; "
            "store it elsewhere and return a reference"
        )
    return encoded


def dumps(value: Any) -> str:
    """JSON without spaces, in UTF-8, and only what JSON has. Raises TypeError, ValueError, RecursionError."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


class Versions:
    """The version that a handler's payloads have now, and the way from older ones to it."""

    def __init__(self, name: str, version: int, upcast: Mapping[int, Upcaster]) -> None:
        """`upcast`: from the payload of version n to that of n + 1, without a gap up to `version`.

        Raises InvalidInput.
        """
        if type(version) is not int or version < 1:
            raise InvalidInput(f"handler {name!r}: version={version!r}; versions count from 1")
        oldest = min(upcast, default=version)
        if sorted(upcast) != list(range(oldest, version)) or oldest < 1:
            raise InvalidInput(
                f"handler {name!r}: upcast has {sorted(upcast)}; to version {version} it takes one function for "
                "every version from the oldest that may still be on its way"
            )
        self.name = name
        self.current = version
        self._oldest = oldest
        self._upcast = dict(upcast)

    def of(self, headers: Mapping[str, str]) -> int:
        """The version of a payload whose headers name one. Raises PayloadUnreadable on nonsense."""
        text = headers[VERSION_HEADER]
        if not (text.isascii() and text.isdigit()):
            raise PayloadUnreadable(f"header {VERSION_HEADER}={text!r}: the payload's version is a number")
        return int(text)

    def upcast(self, payload: Any, version: int) -> Any:
        """The payload in the current version. Raises PayloadUnreadable when there is no way."""
        if version > self.current:
            raise PayloadUnreadable(
                f"the payload is of version {version}, handler {self.name!r} here of {self.current}: "
                "upgrade this worker"
            )
        if version < self._oldest:
            raise PayloadUnreadable(
                f"the payload is of version {version}, and handler {self.name!r} takes those from {self._oldest} on: "
                f"register upcast={{{version}: …}}"
            )
        for step in range(version, self.current):
            payload = self._upcast[step](payload)
        return payload
