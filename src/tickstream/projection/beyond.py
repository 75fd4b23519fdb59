"""What recurring tasks have in a window beyond their rows: found by their frontiers, expanded exactly.

No HTTP and no clock may enter here. Forward, a rule is opened only when the rows have come as far as its
frontier: a page near the present costs nothing for tasks whose rows reach beyond it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from tickstream.projection import keys
from tickstream.projection.families import SERIES
from tickstream.projection.reader import View
from tickstream.projection.rows import Row
from tickstream.projection.series import expand, expand_back
from tickstream.projection.stored import decode_coming, encode_row

Pair = tuple[bytes, bytes]
_Entry = tuple[bytes, Row]


def rows_beyond(view: View, start: bytes, end: bytes) -> Iterator[_Entry]:
    """Key and row of each between two bounds of rows' keys, ascending."""
    end_ms = _above(end)
    waiting = view.scan(SERIES, b"", end)
    following = next(waiting, None)
    opened: list[tuple[bytes, int, Row, Iterator[Row]]] = []
    number = 0
    while following is not None or opened:
        # The first row of a rule that is still closed lies behind its frontier.
        if following is not None and (not opened or opened[0][0] >= following[0]):
            frontier, task_id = keys.read_frontier_key(following[0])
            rows = expand(task_id, frontier, decode_coming(following[1]), keys.read_instant(start), end_ms)
            following = next(waiting, None)
        else:
            key, _, row, rows = heapq.heappop(opened)
            if key >= end:
                return
            if key >= start:
                yield key, row
        if (upcoming := next(rows, None)) is not None:
            number += 1
            heapq.heappush(opened, (_key(upcoming), number, upcoming, rows))


def pairs_beyond(view: View, start: bytes, end: bytes, *, descending: bool) -> Iterator[Pair]:
    """Key and value of each, as the index would hold them, in one order."""
    if not descending:
        for key, row in rows_beyond(view, start, end):
            yield key, encode_row(row)
        return
    begin, end_ms = keys.read_instant(start), _above(end)
    rules = [
        (*keys.read_frontier_key(key), decode_coming(value)) for key, value in view.scan(SERIES, b"", end)
    ]
    series = [expand_back(task_id, frontier, coming, begin, end_ms) for frontier, task_id, coming in rules]
    for row in heapq.merge(*series, key=_key, reverse=True):
        if start <= (key := _key(row)) < end:
            yield key, encode_row(row)


def _above(end: bytes) -> int:
    """An instant above all rows below the bound."""
    return min(keys.read_instant(end), keys.LAST_INSTANT_MS) + 1


def _key(row: Row) -> bytes:
    return keys.row_key(row.task_id, row.occurrence_ts)
