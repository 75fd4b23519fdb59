"""Query strings read into values, with an error that says what should have stood there.

No index may enter here. Times are milliseconds since the epoch, or ISO 8601 with an offset; where
a default lies near the present, `now_ms` is the server's clock.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import Enum
from typing import Final, TypeVar

from starlette.datastructures import QueryParams

from tickstream.calendar.stored import task_id_of
from tickstream.clock import EPOCH
from tickstream.errors import InvalidInput
from tickstream.model import Phase, Receipt
from tickstream.projection import keys
from tickstream.projection.calendars import (
    DAY_MS,
    MAX_CALENDARS,
    MAX_EVENTS,
    MAX_MEETINGS,
    MAX_SLOTS,
    MAX_SPAN_MS,
    Asked,
)
from tickstream.projection.charts import MAX_PERIODS, Horizon, Span, Step
from tickstream.projection.cursors import decode_cursor
from tickstream.projection.failures import MAX_GROUPS, Failures
from tickstream.projection.installation import Strip
from tickstream.projection.keys import LAST_INSTANT_MS
from tickstream.projection.problems import Problem, bad_parameter
from tickstream.projection.query import DEFAULT_LIMIT, MAX_LIMIT, Window

MAX_WAIT_MS: Final = 10_000
MAX_RECEIPTS: Final = 1_000
MAX_CHANGES: Final = 200
_HOUR_MS: Final = 3_600_000
_STATES: Final = {phase.value: phase for phase in Phase}
FRESH: Final = frozenset(("after", "wait_ms"))
"""Understood by every question."""
_FILTERS: Final = frozenset(("queue", "handler", "label", "id_prefix", "calendar"))
_PAGE: Final = frozenset(("limit", "cursor", "order"))
_WINDOW: Final = FRESH | _FILTERS | _PAGE | {"start", "end", "state", "error", "error_like"}
_RUNNING: Final = FRESH | _FILTERS | _PAGE | {"state"}
_COUNTS: Final = FRESH | {"start", "end", "by", "queue"}
_LATENESS: Final = FRESH | {"start", "end", "by"}
_FAILURES: Final = FRESH | {"start", "end", "queue", "handler", "limit"}
_CHANGES: Final = FRESH | {"start", "end", "limit", "cursor"}
_SPAN: Final = FRESH | {"calendar", "start", "end"}
_EVENTS: Final = _SPAN | {"uid", "limit", "cursor"}
_FREE: Final = _SPAN | {"duration_ms", "limit"}
_IN_FLIGHT: Final = ("dispatched", "running", "retrying")
_E = TypeVar("_E", bound=Enum)


def window(given: QueryParams) -> Window:
    """The window of /api/tasks. Raises Problem (400)."""
    _known(given, _WINDOW)
    start = instant(given, "start", 0)
    end = instant(given, "end", LAST_INSTANT_MS + 1)
    if end < start:
        raise bad_parameter("end", given["end"], "must not lie before start")
    return filters(given)._replace(
        start_ms=start,
        end_ms=end,
        states=_states(given, tuple(_STATES)),
        error=given.get("error", ""),
        error_like=given.get("error_like", ""),
    )


def running(given: QueryParams) -> Window:
    """The window of /api/running: what is held, unless other states in flight are asked for. Raises Problem."""
    _known(given, _RUNNING)
    states = _states(given, _IN_FLIGHT) or frozenset({Phase.RUNNING})
    return filters(given)._replace(states=states)


def filters(given: QueryParams) -> Window:
    """What listings share: filters, order, limit and cursor. Raises Problem (400)."""
    order = given.get("order", "") or "asc"
    if order not in ("asc", "desc"):
        raise bad_parameter("order", order, "asc or desc")
    return Window(
        queue=given.get("queue", ""),
        handler=given.get("handler", ""),
        labels=tuple(_label(text) for text in given.getlist("label") if text),
        id_prefix=given.get("id_prefix", ""),
        calendar=given.get("calendar", ""),
        limit=_number(given, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT),
        cursor=_key_cursor(given.get("cursor", ""), keys.read_row_key),
        descending=order == "desc",
    )


def counts(given: QueryParams) -> Span:
    """The span of /api/counts. Raises Problem (400)."""
    _known(given, _COUNTS)
    for name in ("start", "end"):
        if not given.get(name):
            raise Problem(400, "Bad parameter", f"{name} is missing: pass {_INSTANT}", parameter=name)
    step = _choice(given, "by", Step.MINUTE, tuple(Step))
    span = _span(given, step, instant(given, "start", 0), instant(given, "end", 0))
    return span._replace(queue=given.get("queue", ""))


def lateness(given: QueryParams, now_ms: int) -> Span:
    """The span of /api/lateness: the last hour unless asked otherwise. Raises Problem (400)."""
    _known(given, _LATENESS)
    step = _choice(given, "by", Step.MINUTE, (Step.MINUTE, Step.HOUR))
    end = instant(given, "end", now_ms)
    return _span(given, step, instant(given, "start", end - _HOUR_MS), end)


def _span(given: QueryParams, step: Step, start_ms: int, end_ms: int) -> Span:
    start = max(0, start_ms) // step.ms * step.ms
    end = -(-max(0, end_ms) // step.ms) * step.ms
    if not 0 <= end - start <= MAX_PERIODS[step] * step.ms:
        expected = f"must lie after start, by at most {MAX_PERIODS[step]} {step.value}s; ask in several parts"
        raise bad_parameter("end", given.get("end", str(end_ms)), expected)
    return Span(start, end, step)


def forecast(given: QueryParams) -> Horizon:
    """The horizon of /api/forecast. Raises Problem (400)."""
    _known(given, FRESH | {"horizon"})
    return _choice(given, "horizon", Horizon.HOUR, tuple(Horizon))


def failures(given: QueryParams, now_ms: int) -> Failures:
    """What /api/failures looks at: the last day unless asked otherwise. Raises Problem (400)."""
    _known(given, _FAILURES)
    start, end = _recent(given, now_ms)
    limit = _number(given, "limit", 20, 1, MAX_GROUPS)
    return Failures(start, end, given.get("queue", ""), given.get("handler", ""), limit)


def changes(given: QueryParams, now_ms: int) -> Strip:
    """What /api/changes looks at: the last day unless asked otherwise. Raises Problem (400)."""
    _known(given, _CHANGES)
    start, end = _recent(given, now_ms)
    limit = _number(given, "limit", 50, 1, MAX_CHANGES)
    return Strip(start, end, limit, _key_cursor(given.get("cursor", ""), keys.read_change_key))


def _recent(given: QueryParams, now_ms: int) -> tuple[int, int]:
    """The last day, and what clocks that are ahead of this one have written."""
    end = instant(given, "end", now_ms + _HOUR_MS)
    start = instant(given, "start", min(now_ms, end) - DAY_MS)
    if end < start:
        raise bad_parameter("end", given.get("end", str(end)), "must not lie before start")
    return start, end


# --------------------------------------------------------------------------- calendars


def events(given: QueryParams, now_ms: int) -> Asked:
    """What /api/events looks at: the next week unless asked otherwise. Raises Problem (400)."""
    _known(given, _EVENTS)
    cursor = _key_cursor(given.get("cursor", ""), keys.read_occurrence_key)
    limit = _number(given, "limit", MAX_EVENTS, 1, MAX_EVENTS)
    return _asked(given, now_ms, 1)._replace(uid=given.get("uid", ""), limit=limit, cursor=cursor)


def conflicts(given: QueryParams, now_ms: int) -> Asked:
    """What /api/conflicts looks at. Raises Problem (400)."""
    _known(given, _SPAN | {"limit"})
    return _asked(given, now_ms, 1)._replace(limit=_number(given, "limit", 100, 1, MAX_MEETINGS))


def free_busy(given: QueryParams, now_ms: int) -> Asked:
    """What /api/free-busy looks at. Raises Problem (400)."""
    _known(given, _SPAN)
    return _asked(given, now_ms, MAX_CALENDARS)


def free(given: QueryParams, now_ms: int) -> Asked:
    """What /api/free looks at. Raises Problem (400)."""
    _known(given, _FREE)
    least = _number(given, "duration_ms", 0, 1, MAX_SPAN_MS)
    if not least:
        raise Problem(
            400,
            "Bad parameter",
            "duration_ms is missing: how long shall it be free?",
            parameter="duration_ms",
        )
    asked = _asked(given, now_ms, MAX_CALENDARS)
    return asked._replace(least_ms=least, limit=_number(given, "limit", 10, 1, MAX_SLOTS))


def feed(given: QueryParams) -> str:
    """The calendar whose feed /api/feed names. Raises Problem (400)."""
    _known(given, frozenset({"calendar"}))
    return _calendars(given, 1)[0]


def bookings(given: QueryParams) -> Asked:
    """What /api/bookings looks at. Raises Problem (400)."""
    _known(given, FRESH | {"calendar", "limit", "cursor"})
    limit = _number(given, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
    return Asked(_calendars(given, 1), 0, 0, limit, _cursor(given.get("cursor", "")))


def calendars(given: QueryParams) -> tuple[int, bytes]:
    """Limit and cursor of /api/calendars. Raises Problem (400)."""
    _known(given, FRESH | {"limit", "cursor"})
    return _number(given, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT), _cursor(given.get("cursor", ""))


def _asked(given: QueryParams, now_ms: int, most: int) -> Asked:
    start = instant(given, "start", now_ms)
    end = instant(given, "end", start + 7 * DAY_MS)
    if not 0 <= end - start <= MAX_SPAN_MS:
        expected = f"must lie after start, by at most {MAX_SPAN_MS // DAY_MS} days; ask in several parts"
        raise bad_parameter("end", given.get("end", str(end)), expected)
    return Asked(_calendars(given, most), start, end)


def _calendars(given: QueryParams, most: int) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(given.getlist("calendar")))
    if not 1 <= len(names) <= most:
        expected = "name one calendar" if most == 1 else f"name 1 to {most} calendars"
        raise bad_parameter("calendar", ", ".join(names), expected)
    for name in names:
        try:
            task_id_of(name, "x")
        except InvalidInput as error:
            raise bad_parameter("calendar", name, str(error)) from error
    return names


def nothing(given: QueryParams) -> None:
    """Check that only what every question understands is given. Raises Problem (400)."""
    _known(given, FRESH)


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
    return (at - EPOCH) // timedelta(milliseconds=1)


def _known(given: QueryParams, names: frozenset[str]) -> None:
    for name in given:
        if name not in names:
            raise bad_parameter(name, given[name], f"no such parameter; there are {', '.join(sorted(names))}")


def _states(given: QueryParams, names: tuple[str, ...]) -> frozenset[Phase]:
    asked = [name for text in given.getlist("state") for name in text.split(",") if name]
    for name in asked:
        if name not in names:
            raise bad_parameter("state", name, f"one of {', '.join(names)}")
    return frozenset(_STATES[name] for name in asked)


def _choice(given: QueryParams, name: str, default: _E, choices: tuple[_E, ...]) -> _E:
    text = given.get(name, "") or default.value
    for choice in choices:
        if choice.value == text:
            return choice
    raise bad_parameter(name, text, f"one of {', '.join(str(choice.value) for choice in choices)}")


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


def _key_cursor(text: str, read: Callable[[bytes], object]) -> bytes:
    """The key in a cursor, of the kind that `read` understands."""
    key = _cursor(text)
    if key:
        try:
            read(key)
        except ValueError as error:
            raise _bad_cursor(text) from error
    return key


def _cursor(text: str) -> bytes:
    try:
        return decode_cursor(text)
    except ValueError as error:
        raise _bad_cursor(text) from error


def _bad_cursor(text: str) -> Problem:
    return bad_parameter("cursor", text, "pass the cursor of the page before, unchanged")
