"""From a schedule file's plain values to declarations, by the words of `Client.schedule`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from typing import Any, Final

from tickstream.errors import InvalidInput
from tickstream.model import DEFAULT_RETRY, Retry
from tickstream.ops.instants import parse_duration
from tickstream.ops.schedules.document import Document
from tickstream.worker.app import App
from tickstream.worker.declared import Declaration, declaration
from tickstream.worker.payload import encode_arguments


def read_entries(document: Document, app: App | None) -> tuple[list[Declaration], list[InvalidInput]]:
    """The declarations of a file, and what is wrong with the others; each error names file, line and task.

    `app`: then its handlers, their signatures, queues and terms count; None: what the file says is taken as it
    stands.
    """
    declared, wrong = [], []
    for task_id, entry in document.schedules.items():
        place = document.place(task_id)
        try:
            asked = _loose(_asked(entry)) if app is None else _bound(_asked(entry), app)
        except InvalidInput as error:
            wrong.append(InvalidInput(f"{place}: task {task_id!r}: {error}"))
            continue
        try:
            declared.append(declaration(task_id, asked, place, None if app is None else app.handlers))
        except InvalidInput as error:
            wrong.append(error)
    return declared, wrong


def _asked(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `Client.schedule` that an entry stands for. Raises InvalidInput."""
    asked: dict[str, Any] = {}
    for key, value in entry.items():
        read = _KEYS.get(key)
        if read is None:
            close = get_close_matches(str(key), _KEYS, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sorted(_KEYS))}"
            raise InvalidInput(f"unknown key {key!r}; {hint}")
        asked[key] = read(key, value)
    if "handler" not in asked:
        raise InvalidInput('handler is missing; write handler = "NAME"')
    if "args" in asked and "payload" in asked:
        raise InvalidInput("give either args, by name, or payload, a text; not both")
    if not {"every", "cron", "rrule"} & asked.keys():
        raise InvalidInput("when? Give one of every, cron and rrule")
    return asked


def _loose(asked: dict[str, Any]) -> dict[str, Any]:
    """What runs, as it stands. Raises InvalidInput."""
    arguments, payload = asked.pop("args", None), asked.pop("payload", b"")
    if arguments is not None:
        payload = encode_arguments(asked["handler"], arguments)
    return {**_with_retry(asked, DEFAULT_RETRY), "payload": payload}


def _bound(asked: dict[str, Any], app: App) -> dict[str, Any]:
    """What runs is the call of a handler that is there. Raises InvalidInput."""
    name = asked.pop("handler")
    handler = app.handlers.get(name)
    if handler is None:
        known = ", ".join(sorted(app.handlers)) or "none"
        raise InvalidInput(f"there is no handler {name!r} in the app; it has: {known}")
    arguments, payload = asked.pop("args", None), asked.pop("payload", None)
    if handler.raw:
        if arguments is not None:
            raise InvalidInput(f"handler {name!r} takes bytes: give payload, a text, in place of args")
        call = handler.bind(payload or b"")
    elif payload is not None:
        raise InvalidInput(f"handler {name!r} takes arguments: give args, by name, in place of payload")
    else:
        call = handler.bind(**(arguments or {}))
    return {**_with_retry(asked, handler.retry), "call": call}


def _with_retry(asked: dict[str, Any], base: Retry) -> dict[str, Any]:
    """`retry`, where one of its parts is given; the others are those of `base`."""
    attempts, backoff, cap = (asked.pop(key, None) for key in ("attempts", "backoff", "backoff_cap"))
    if attempts is None and backoff is None and cap is None:
        return asked
    # never= and when= are code: they stay with the handler.
    retry = Retry(
        attempts=base.attempts if attempts is None else attempts,
        backoff=base.backoff if backoff is None else backoff,
        cap=base.cap if cap is None else cap,
    )
    return {**asked, "retry": retry}


# --------------------------------------------------------------------------- values


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{key} is {value!r}; it is a text, in quotes")
    return value


def _duration(key: str, value: object) -> timedelta:
    try:
        return timedelta(milliseconds=parse_duration(_text(key, value)))
    except InvalidInput as error:
        raise InvalidInput(f'{key} is {value!r}; write a duration in quotes: "90s", "15m", "2h"') from error


def _number(key: str, value: object) -> int:
    if type(value) is not int:
        raise InvalidInput(f"{key} is {value!r}; it is a whole number")
    return value


def _moment(key: str, value: object) -> datetime | date | str:
    """With an offset an instant; without, what the clock of the zone shows."""
    if isinstance(value, str):
        try:
            read = datetime.fromisoformat(value)
        except ValueError:
            return value  # refused where all of them are read
        return value if read.tzinfo is None else read
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.isoformat()
    if isinstance(value, date):
        return value
    raise InvalidInput(f"{key} is {value!r}; write 2027-03-01T09:00:00, as the clock of the zone shows it")


def _moments(key: str, value: object) -> list[datetime | date | str]:
    if not isinstance(value, list):
        raise InvalidInput(f"{key} is {value!r}; it is a list of dates or local times")
    return [_moment(key, one) for one in value]


def _payload(key: str, value: object) -> bytes:
    return _text(key, value).encode()


def _args(key: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise InvalidInput(f"{key} is {value!r}; it has the handler's arguments by name")
    return value


def _labels(key: str, value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(x, str) for pair in value.items() for x in pair):
        raise InvalidInput(f"{key} is {value!r}; it has texts by name")
    return value


_KEYS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "handler": _text,
    "args": _args,
    "payload": _payload,
    "every": _duration,
    "cron": _text,
    "rrule": _text,
    "zone": _text,
    "start": _moment,
    "end": _moment,
    "rdate": _moments,
    "exdate": _moments,
    "gap": _text,
    "fold": _text,
    "subday": _text,
    "misfire": _text,
    "grace": _duration,
    "overlap": _text,
    "jitter": _duration,
    "queue": _text,
    "labels": _labels,
    "limit_key": _text,
    "lease": _duration,
    "timeout": _duration,
    "attempts": _number,
    "backoff": _duration,
    "backoff_cap": _duration,
}
"""The words of an entry, and what reads each: raises InvalidInput, which names the key."""
