"""Task files: one JSON object a line, each a one-shot task. Read and checked, not sent.

Only text comes in, only values and reasons go out: no file is opened and no broker is asked here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from tickstream.errors import InvalidInput, PayloadTooLarge, UnknownQueue
from tickstream.model import DEFAULT_QUEUE, check_task_id
from tickstream.ops.instants import parse_iso
from tickstream.settings import MAX_PAYLOAD_BYTES

FIELDS: Final = ("task_id", "run_at", "offset_s", "handler", "payload", "queue", "labels")


class TaskLine(NamedTuple):
    """A line that can be scheduled."""

    number: int
    """Of the line, from 1."""
    task_id: str
    run_at_ms: int
    handler: str
    payload: bytes
    queue: str
    labels: dict[str, str]


class BadLine(NamedTuple):
    """A line that cannot, and why."""

    number: int
    reason: str

    def __str__(self) -> str:
        return f"line {self.number}: {self.reason}"


def read_tasks(
    lines: Iterable[str], *, start_ms: int, queues: Collection[str]
) -> Iterator[TaskLine | BadLine]:
    """Every line that is not empty, checked.

    `start_ms`: the instant from which `offset_s` counts, ms since the epoch. `queues`: those that exist.
    """
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _read(number, line, start_ms, queues)


def _read(number: int, line: str, start_ms: int, queues: Collection[str]) -> TaskLine | BadLine:
    try:
        task = json.loads(line)
    except json.JSONDecodeError as error:
        return BadLine(number, f"no JSON: {error}")
    try:
        return _checked(number, task, start_ms, queues)
    except InvalidInput as error:
        return BadLine(number, str(error))


def _checked(number: int, task: object, start_ms: int, queues: Collection[str]) -> TaskLine:
    if not isinstance(task, dict):
        raise InvalidInput(
            "not a JSON object; one reads " + '{"task_id": "mail:1", "offset_s": 5, "handler": "mail"}'
        )
    if unknown := sorted(task.keys() - set(FIELDS)):
        raise InvalidInput(f"unknown field {', '.join(unknown)}; there are {', '.join(FIELDS)}")
    return TaskLine(
        number,
        check_task_id(_text(task, "task_id")),
        _instant(task, start_ms),
        _text(task, "handler"),
        _payload(task.get("payload")),
        _queue(task, queues),
        _labels(task.get("labels", {})),
    )


def _text(task: Mapping[str, Any], field: str) -> str:
    value = task.get(field)
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{field} is {'missing' if value is None else f'{value!r}'}; it must be a text")
    _utf8(field, value)
    return value


def _instant(task: Mapping[str, Any], start_ms: int) -> int:
    """`run_at`, or `offset_s` after the start. What is finer than a millisecond rounds up."""
    if ("run_at" in task) == ("offset_s" in task):
        raise InvalidInput('say when by exactly one of "run_at" (ISO 8601 with a zone) and "offset_s"')
    if "offset_s" in task:
        offset = task["offset_s"]
        if isinstance(offset, bool) or not isinstance(offset, int | float) or not math.isfinite(offset):
            raise InvalidInput(f"offset_s is {offset!r}; it must be a number of seconds")
        return start_ms + math.ceil(round(offset * 1_000, 6))
    return parse_iso(_text(task, "run_at"))


def _payload(value: object) -> bytes:
    """A text goes as it is, anything else as JSON, nothing as no bytes."""
    if value is None:
        return b""
    content = (
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    )
    encoded = _utf8("payload", content)
    if len(encoded) > MAX_PAYLOAD_BYTES:
        raise PayloadTooLarge("payload", len(encoded), MAX_PAYLOAD_BYTES)
    return encoded


def _queue(task: Mapping[str, Any], queues: Collection[str]) -> str:
    queue = _text(task, "queue") if "queue" in task else DEFAULT_QUEUE
    if queue not in queues:
        raise UnknownQueue(queue, sorted(queues))
    return queue


def _labels(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise InvalidInput(f"labels are {value!r}; they must be an object of texts")
    for text in (*value, *value.values()):
        _utf8("labels", text)
    return value


def _utf8(field: str, text: str) -> bytes:
    # JSON can write half a surrogate pair ("\ud800"), which no UTF-8 can.
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"{field} is no valid Unicode: {error.reason} at character {error.start}"
        ) from None
