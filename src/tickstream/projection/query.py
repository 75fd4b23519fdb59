"""Questions to the index and their answers: a window of rows, one task, counts per minute.

No HTTP, no Kafka, no clock may enter here. Every answer costs what it returns: `visited` counts the
rows looked at, and a page ends after MAX_VISITED of them with a cursor, however few matched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from tickstream.model import Phase, TaskState
from tickstream.projection import keys
from tickstream.projection.error_shape import shape
from tickstream.projection.families import COUNTS, FAMILY_OF, Family
from tickstream.projection.reader import View
from tickstream.projection.rows import Attempt, Pulse, Row, TaskRecord, decode_rows

DEFAULT_LIMIT: Final = 100
MAX_LIMIT: Final = 1_000
MAX_VISITED: Final = 20_000
_CHUNK: Final = 512
"""Rows decoded at a time once the first, as many as were asked for, did not suffice."""
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

    rows: list[Row]
    cursor: bytes | None
    visited: int


def rows_in(view: View, window: Window) -> Page:
    """The next page of `window`."""
    start = keys.instant(window.start_ms)
    end = keys.END if window.end_ms > keys.LAST_INSTANT_MS else keys.instant(window.end_ms)
    if window.cursor and window.descending:
        end = min(end, window.cursor)
    elif window.cursor:
        start = max(start, keys.after(window.cursor))
    matches = _matcher(window)
    families = sorted({FAMILY_OF[state] for state in window.states or FAMILY_OF})
    found: list[tuple[bytes, Row]] = []
    visited = 0
    scan = view.scan_back if window.descending else view.scan
    scans = {family: scan(family, start, end) for family in families}
    rows = _merged(scans, window.limit, window.descending)
    last = b""
    for chunk in rows:
        for key, row in chunk:
            visited += 1
            last = key
            if matches(row):
                found.append((key, row))
                if len(found) > window.limit:
                    # One more than asked for: there is a next page, and it begins with this row.
                    return Page([r for _, r in found[:-1]], found[-2][0], visited)
        if visited >= MAX_VISITED:
            return Page([r for _, r in found], last, visited)
    return Page([r for _, r in found], None, visited)


def _merged(
    scans: dict[Family, Iterator[tuple[bytes, bytes]]], limit: int, descending: bool
) -> Iterator[list[tuple[bytes, Row]]]:
    """The rows of several families in one order, by chunks, each decoded by one call."""
    size = limit + 1
    waiting: dict[Family, list[tuple[bytes, bytes]]] = {family: [] for family in scans}
    nearest = max if descending else min
    while scans or any(waiting.values()):
        for family in list(scans):
            if not waiting[family]:
                waiting[family] = list(islice(scans[family], size))
                if len(waiting[family]) < size:
                    del scans[family]
        # Up to the nearest last key of what is not read to its end, nothing can be missing.
        bound = nearest((waiting[family][-1][0] for family in scans), default=None)
        chunk: list[tuple[bytes, bytes]] = []
        for family, pairs in waiting.items():
            cut = len(pairs) if bound is None else _first_beyond(pairs, bound, descending)
            chunk += pairs[:cut]
            waiting[family] = pairs[cut:]
        size = max(size, _CHUNK)
        chunk.sort(reverse=descending)
        yield list(
            zip(
                (key for key, _ in chunk),
                decode_rows([keys.read_row_key(key) for key, _ in chunk], [value for _, value in chunk]),
                strict=True,
            )
        )


def _first_beyond(pairs: list[tuple[bytes, bytes]], bound: bytes, descending: bool) -> int:
    low, high = 0, len(pairs)
    while low < high:
        middle = (low + high) // 2
        key = pairs[middle][0]
        if key >= bound if descending else key <= bound:
            low = middle + 1
        else:
            high = middle
    return low


def _matcher(window: Window) -> Callable[[Row], bool]:
    """The filters that are set, as one question; most windows have none or one."""
    tests: list[Callable[[Row], bool]] = []
    families = {FAMILY_OF[state] for state in window.states}
    if any(FAMILY_OF[state] in families and state not in window.states for state in Phase):
        tests.append(lambda row: row.state in window.states)
    if window.queue:
        tests.append(lambda row: row.queue == window.queue)
    if window.handler:
        tests.append(lambda row: row.handler == window.handler)
    if window.labels:
        wanted = window.labels
        tests.append(lambda row: all(row.labels.get(k) == v for k, v in wanted))
    if window.id_prefix:
        tests.append(lambda row: row.task_id.startswith(window.id_prefix))
    if window.calendar:
        tests.append(lambda row: row.task_id.startswith(f"{{{window.calendar}}}"))
    if window.error:
        text = window.error.casefold()
        tests.append(lambda row: text in row.error.casefold())
    if window.error_like:
        like = shape(window.error_like)
        tests.append(lambda row: shape(row.error) == like)
    if not tests:
        return lambda row: not row.superseded
    return lambda row: not row.superseded and all(test(row) for test in tests)


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

    At most MAX_OCCURRENCES finished rows, and MAX_ATTEMPTS of each, the first ones.
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


def minutes(view: View, first_minute: int, end_minute: int) -> dict[int, dict[Phase, int]]:
    """Rows by minute and state, for the minutes in [first_minute, end_minute) that have any."""
    found: dict[int, dict[Phase, int]] = {}
    for state, minute, _, rows in counts(view, first_minute, end_minute):
        by_state = found.setdefault(minute, {})
        by_state[state] = by_state.get(state, 0) + rows
    return dict(sorted(found.items()))
