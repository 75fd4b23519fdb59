"""Query strings read into values, with an error that says what should have stood there.

No index may enter here. Times are milliseconds since the epoch, or ISO 8601 with an offset.
"""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime, timedelta
from typing import Final

from starlette.datastructures import QueryParams

from tickstream.model import Phase, Receipt
from tickstream.projection import keys
from tickstream.projection.keys import LAST_INSTANT_MS, MINUTE_MS
from tickstream.projection.problems import Problem, bad_parameter
from tickstream.projection.query import DEFAULT_LIMIT, MAX_LIMIT, MAX_MINUTES, Window

MAX_WAIT_MS: Final = 10_000
MAX_RECEIPTS: Final = 1_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_STATES: Final = {phase.value: phase for phase in Phase}
_WINDOW: Final = frozenset(
    ("start", "end", "state", "queue", "handler", "label", "id_prefix", "limit", "cursor", "after", "wait_ms")
)
_TASK: Final = frozenset(("after", "wait_ms"))
_COUNTS: Final = frozenset(("start", "end", "by"))


def window(given: QueryParams) -> Window:
    """The window of /api/tasks. Raises Problem (400)."""
    _known(given, _WINDOW)
    start = instant(given, "start", 0)
    end = instant(given, "end", LAST_INSTANT_MS + 1)
    if end < start:
        raise bad_parameter("end", given["end"], "must not lie before start")
    return Window(
        start,
        end,
        frozenset(_state(name) for text in given.getlist("state") for name in text.split(",") if name),
        given.get("queue", ""),
        given.get("handler", ""),
        tuple(_label(text) for text in given.getlist("label") if text),
        given.get("id_prefix", ""),
        _number(given, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT),
        _cursor(given.get("cursor", "")),
    )


def counts(given: QueryParams) -> tuple[int, int]:
    """First and end minute of /api/counts. Raises Problem (400)."""
    _known(given, _COUNTS)
    for name in ("start", "end"):
        if not given.get(name):
            raise Problem(400, "Bad parameter", f"{name} is missing: pass {_INSTANT}", parameter=name)
    if given.get("by", "minute") != "minute":
        raise bad_parameter("by", given["by"], "only minute is known")
    first = keys.minute_of(instant(given, "start", 0))
    end = -(-instant(given, "end", 0) // MINUTE_MS)
    if not 0 <= end - first <= MAX_MINUTES:
        raise bad_parameter(
            "end",
            given["end"],
            f"must lie after start, by at most {MAX_MINUTES} minutes; ask in several parts",
        )
    return first, end


def receipts(given: QueryParams) -> tuple[list[Receipt], int]:
    """The commands that the answer must contain, and for how many ms to wait for that. Raises Problem."""
    texts = [text for text in given.getlist("after") if text]
    if len(texts) > MAX_RECEIPTS:
        raise bad_parameter("after", f"({len(texts)} of them)", f"at most {MAX_RECEIPTS} at a time")
    found = []
    for text in texts:
        try:
            found.append(Receipt.parse(text))
        except ValueError as error:
            raise bad_parameter(
                "after", text, "a receipt reads bucket:offset:item, such as 3:1207:0"
            ) from error
    return found, _number(given, "wait_ms", 0, 0, MAX_WAIT_MS)


def task_parameters(given: QueryParams) -> None:
    """Check that only what /api/tasks/{task_id} knows is given. Raises Problem (400)."""
    _known(given, _TASK)


def encode_cursor(key: bytes | None) -> str | None:
    """A page's last key as text that goes into a query string unquoted."""
    return None if key is None else base64.urlsafe_b64encode(key).decode().rstrip("=")


_INSTANT: Final = "milliseconds since 1970 or ISO 8601 with an offset, such as 2026-11-30T17:00:00Z"


def instant(given: QueryParams, name: str, default: int) -> int:
    """A time in ms UTC. Raises Problem (400)."""
    text = given.get(name, "")
    if not text:
        return default
    if text.lstrip("-").isascii() and text.lstrip("-").isdigit() and len(text) < 18:
        return int(text)
    try:
        # A `+` that was not percent-encoded arrives as a blank.
        at = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
    except ValueError as error:
        raise bad_parameter(name, text, _INSTANT) from error
    if at.tzinfo is None:
        raise bad_parameter(name, text, f"has no time zone; pass {_INSTANT}")
    return (at - _EPOCH) // timedelta(milliseconds=1)


def _known(given: QueryParams, names: frozenset[str]) -> None:
    for name in given:
        if name not in names:
            raise bad_parameter(name, given[name], f"no such parameter; there are {', '.join(sorted(names))}")


def _state(name: str) -> Phase:
    if name not in _STATES:
        raise bad_parameter("state", name, f"one of {', '.join(_STATES)}")
    return _STATES[name]


def _label(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name:
        raise bad_parameter("label", text, "a label reads name:value")
    return name, value


def _number(given: QueryParams, name: str, default: int, least: int, most: int) -> int:
    text = given.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 12 and least <= int(text) <= most):
        raise bad_parameter(name, text, f"a whole number from {least} to {most}")
    return int(text)


def _cursor(text: str) -> bytes:
    if not text:
        return b""
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        keys.read_row_key(key)
    except (binascii.Error, ValueError) as error:
        raise bad_parameter("cursor", text, "pass the cursor of the page before, unchanged") from error
    return key
