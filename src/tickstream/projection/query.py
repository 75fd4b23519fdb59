"""Questions to the index and their answers: a window of rows, one task, counts per minute.

No HTTP, no Kafka, no clock may enter here. Every answer costs what it returns: `visited` counts the
rows looked at, and a page ends after MAX_VISITED of them with a cursor, however few matched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

import orjson

from tickstream.model import Phase, TaskState
from tickstream.projection import keys
from tickstream.projection.beyond import pairs_beyond, rows_beyond
from tickstream.projection.error_shape import shape
from tickstream.projection.families import COUNTS, FAMILY_OF, SERIES, UPCOMING, Family
from tickstream.projection.reader import View
from tickstream.projection.rows import Attempt, Pulse, Row, TaskRecord
from tickstream.projection.stored import SUPERSEDED, decode_row

DEFAULT_LIMIT: Final = 100
MAX_LIMIT: Final = 1_000
MAX_VISITED: Final = 20_000
_CHUNK: Final = 512
"""Rows taken at a time once the first, as many as were asked for, did not suffice."""
_SUPERSEDED_BYTE: Final = SUPERSEDED[0]
_EXPANDED: Final = 16
"""Rows taken at a time of those that no index holds: each is computed."""
MAX_OCCURRENCES: Final = 100
"""Of one task's answer."""
MAX_ATTEMPTS: Final = 100
"""Of one occurrence in it."""


class Window(NamedTuple):
    """Which rows are asked for. Empty filters let everything through."""

    start_ms: int = 0
    end_ms: int = keys.LAST_INSTANT_MS
    """Exclusive."""
    states: frozenset[Phase] = frozenset()
    queue: str = ""
    handler: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    """All of them must be there."""
    id_prefix: str = ""
    calendar: str = ""
    """Ids of a calendar's events begin with its name in braces."""
    error: str = ""
    """Contained in the row's error, whatever its case."""
    error_like: str = ""
    """An error that differs from the row's only in numbers and ids (error_shape.py)."""
    limit: int = DEFAULT_LIMIT
    cursor: bytes = b""
    """Key of the last row of the page before."""
    descending: bool = False


class Page(NamedTuple):
    """Rows by occurrence, then id, or the other way round. `cursor` is None when there is no more."""

    values: list[bytes]
    """Of the rows, as they are stored: JSON objects as the API shows them."""
    cursor: bytes | None
    visited: int

    @property
    def rows(self) -> list[Row]:
        """The rows, decoded."""
        return [decode_row(value) for value in self.values]


Pair = tuple[bytes, bytes]
"""A row's key and value."""


def rows_in(view: View, window: Window) -> Page:
    """The next page of `window`."""
    start = keys.instant(window.start_ms)
    end = keys.END if window.end_ms > keys.LAST_INSTANT_MS else keys.instant(window.end_ms)
    if window.cursor and window.descending:
        end = min(end, window.cursor)
    elif window.cursor:
        start = max(start, keys.after(window.cursor))
    passing = sieve(window)
    families = sorted({FAMILY_OF[state] for state in window.states or FAMILY_OF})
    scan = view.scan_back if window.descending else view.scan
    scans = {family: scan(family, start, end) for family in families}
    if UPCOMING in scans:
        scans[SERIES] = pairs_beyond(view, start, end, descending=window.descending)
    found: list[Pair] = []
    visited = 0
    for chunk in _merged(scans, window.limit, window.descending):
        visited += len(chunk)
        found += passing(chunk)
        if len(found) > window.limit:
            # More than asked for: there is a next page, and it begins behind this row.
            return Page([value for _, value in found[: window.limit]], found[window.limit - 1][0], visited)
        if visited >= MAX_VISITED:
            return Page([value for _, value in found], chunk[-1][0], visited)
    return Page([value for _, value in found], None, visited)


def _merged(scans: dict[Family, Iterator[Pair]], limit: int, descending: bool) -> Iterator[list[Pair]]:
    """The rows of several families in one order, by chunks."""
    size = limit + 1
    waiting: dict[Family, list[Pair]] = {family: [] for family in scans}
    nearest = max if descending else min
    while scans or any(waiting.values()):
        for family in list(scans):
            if not waiting[family]:
                few = size if family != SERIES else min(size, _EXPANDED)
                waiting[family] = list(islice(scans[family], few))
                if len(waiting[family]) < few:
                    del scans[family]
        # Up to the nearest last key of what is not read to its end, nothing can be missing.
        bound = nearest((waiting[family][-1][0] for family in scans), default=None)
        chunk: list[Pair] = []
        for family, pairs in waiting.items():
            cut = len(pairs) if bound is None else _first_beyond(pairs, bound, descending)
            chunk += pairs[:cut]
            waiting[family] = pairs[cut:]
        size = max(size, _CHUNK)
        chunk.sort(reverse=descending)
        yield chunk


def _first_beyond(pairs: list[Pair], bound: bytes, descending: bool) -> int:
    low, high = 0, len(pairs)
    while low < high:
        middle = (low + high) // 2
        key = pairs[middle][0]
        if key >= bound if descending else key <= bound:
            low = middle + 1
        else:
            high = middle
    return low


# --------------------------------------------------------------------------- filters


def sieve(window: Window) -> Callable[[list[Pair]], list[Pair]]:
    """What lets those rows through that pass all filters, in one go.

    What stands in the key is asked of the key. Most other rows are turned away by the bytes that a
    match must contain; only what contains them is read, since a label may look like a column.
    """
    families = {FAMILY_OF[state] for state in window.states}
    some = any(FAMILY_OF[state] in families and state not in window.states for state in Phase)
    states = {state.value for state in window.states}
    needles = [_field(name, value) for name, value in window.labels]
    needles += [
        _field(name, value) for name, value in (("queue", window.queue), ("handler", window.handler)) if value
    ]
    if some and len(states) == 1:
        needles += [_field("state", state) for state in states]
    prefixes = [prefix.encode() for prefix in (window.id_prefix, _events_of(window.calendar)) if prefix]
    text, like = window.error.casefold(), shape(window.error_like)

    def passes(row: Mapping[str, Any]) -> bool:
        return (
            (not some or row["state"] in states)
            and (not window.queue or row["queue"] == window.queue)
            and (not window.handler or row["handler"] == window.handler)
            and all(row["labels"].get(name) == value for name, value in window.labels)
            and (not text or text in row["error"].casefold())
            and (not like or shape(row["error"]) == like)
        )

    reads = some or bool(needles or text or like)

    def let_through(pairs: list[Pair]) -> list[Pair]:
        pairs = [pair for pair in pairs if pair[1][0] != _SUPERSEDED_BYTE]
        for prefix in prefixes:
            pairs = [pair for pair in pairs if keys.row_is_of(pair[0], prefix)]
        for needle in needles:
            pairs = [pair for pair in pairs if needle in pair[1]]
        return [pair for pair in pairs if passes(orjson.loads(pair[1]))] if reads else pairs

    return let_through


def _field(name: str, value: str) -> bytes:
    """How a field that holds this text is written."""
    return orjson.dumps(name) + b":" + orjson.dumps(value)


def _events_of(calendar: str) -> str:
    """What the ids of a calendar's events begin with."""
    return f"{{{calendar}}}" if calendar else ""


# --------------------------------------------------------------------------- one task


class Task(NamedTuple):
    """A task's record, its rows by occurrence, and the attempts of those."""

    record: TaskRecord
    occurrences: list[Row]
    attempts: list[Attempt]
    """That ended and did not end their occurrence, or returned something; in the order of the log."""
    pulses: list[Pulse]
    """Of the runs that are held."""


def task(view: View, task_id: str) -> Task | None:
    """All that is known of a task; None when nothing is.

    At most MAX_OCCURRENCES finished rows, the last ones, and MAX_ATTEMPTS of each, the first ones.
    """
    record = view.task(task_id)
    finished = view.finished_of(task_id, MAX_OCCURRENCES)
    if record is None and not finished:
        return None
    known = record or TaskRecord(None, None, ())
    live = [entry.row for entry in known.live if entry.shown]
    occurrences = sorted((*finished, *live), key=lambda row: row.occurrence_ts)
    attempts = [a for row in occurrences for a in view.attempts(task_id, row.occurrence_ts, MAX_ATTEMPTS)]
    return Task(known, occurrences, attempts, list(_pulses(view, task_id, known.state)))


def _pulses(view: View, task_id: str, state: TaskState | None) -> Iterator[Pulse]:
    for run in state.runs if state is not None else ():
        pulse = view.pulse(task_id, run.occurrence_ts)
        # That of a run that lost the attempt, or of an attempt before, says nothing of this one.
        if pulse is not None and run.holder.hex() == pulse.run_id:
            yield pulse


# --------------------------------------------------------------------------- counts


def counts(
    view: View, first_minute: int, end_minute: int, states: Iterable[Phase] = tuple(Phase)
) -> Iterator[tuple[Phase, int, str, int]]:
    """(state, minute, queue, rows) of every counter in [first_minute, end_minute), by state."""
    for state in states:
        start = keys.count_bound(state, first_minute)
        end = keys.count_bound(state, end_minute) if end_minute <= keys.LAST_MINUTE else keys.count_end(state)
        for key, value in view.scan(COUNTS, start, end):
            yield *keys.read_count_key(key), int(value)


def minutes(view: View, first_minute: int, end_minute: int, beyond: int = 0) -> dict[int, dict[Phase, int]]:
    """Rows by minute and state, for the minutes in [first_minute, end_minute) that have any.

    `beyond`: so many occurrences of recurring tasks that have no rows are counted with them.
    """
    found: dict[int, dict[Phase, int]] = {}
    for state, minute, _, rows in counts(view, first_minute, end_minute):
        by_state = found.setdefault(minute, {})
        by_state[state] = by_state.get(state, 0) + rows
    bounds = (keys.instant(minute * keys.MINUTE_MS) for minute in (first_minute, end_minute))
    for _, row in islice(rows_beyond(view, *bounds), beyond):
        by_state = found.setdefault(keys.minute_of(row.occurrence_ts), {})
        by_state[row.state] = by_state.get(row.state, 0) + 1
    return dict(sorted(found.items()))
