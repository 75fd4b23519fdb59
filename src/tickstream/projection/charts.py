"""Answers over time: rows per second, minute or hour, the load to come, and lateness.

No HTTP and no clock may enter here. Minutes and hours come from counters that the fold keeps;
seconds are counted from the rows themselves, a bounded number of them.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping
from enum import Enum
from itertools import islice
from typing import Any, Final, NamedTuple

from tickstream.model import Phase
from tickstream.projection import keys, lateness, query
from tickstream.projection.beyond import rows_beyond
from tickstream.projection.families import FAMILY_OF, LATENESS, UPCOMING
from tickstream.projection.freshness import Freshness
from tickstream.projection.keys import MINUTE_MS
from tickstream.projection.lateness import Stage
from tickstream.projection.reader import View
from tickstream.projection.stored import decode_histogram, decode_row, state_of

MAX_COUNTED: Final = 50_000
"""Rows that one answer counts one by one."""
WORST_SECONDS: Final = 10
_HOUR_MS: Final = 60 * MINUTE_MS
_CHUNK: Final = 1_000


class Step(Enum):
    """The width of a period."""

    SECOND = "second"
    MINUTE = "minute"
    HOUR = "hour"

    @property
    def ms(self) -> int:
        """In milliseconds."""
        return {Step.SECOND: 1_000, Step.MINUTE: MINUTE_MS, Step.HOUR: _HOUR_MS}[self]


MAX_PERIODS: Final = {Step.SECOND: 3_600, Step.MINUTE: 7 * 24 * 60, Step.HOUR: 31 * 24}
"""Of one answer."""


class Span(NamedTuple):
    """[start_ms, end_ms) in whole periods."""

    start_ms: int
    end_ms: int
    step: Step
    queue: str = ""
    """Only this one's rows; empty: of all."""


# --------------------------------------------------------------------------- counts


def counts(view: View, span: Span, fresh: Freshness) -> dict[str, Any]:
    """The answer of /api/counts: rows per period and state, and their sum.

    `next_start`: where to go on, when there were more rows than are counted one by one.
    """
    if span.step is Step.SECOND:
        found, next_start = _by_second(view, span)
    else:
        found, next_start = _by_counters(view, span), None
    exact = _add_beyond(view, span, found)
    totals: Counter[Phase] = Counter()
    for by_state in found.values():
        totals.update(by_state)
    return {
        "by": span.step.value,
        "periods": [
            {"start_ms": at} | {state.value: by_state.get(state, 0) for state in Phase}
            for at, by_state in sorted(found.items())
        ],
        "totals": {state.value: totals[state] for state in Phase},
        "next_start": next_start,
        "exact": exact,
        **fresh.fields(),
    }


def _add_beyond(view: View, span: Span, found: dict[int, Counter[Phase]]) -> bool:
    """Count what recurring tasks have beyond their rows; whether that was all of it."""
    rows = rows_beyond(view, keys.instant(span.start_ms), keys.instant(span.end_ms))
    for number, (_, row) in enumerate(rows):
        if number == MAX_COUNTED:
            return False
        if not span.queue or row.queue == span.queue:
            found.setdefault(row.occurrence_ts // span.step.ms * span.step.ms, Counter())[row.state] += 1
    return True


def _by_counters(view: View, span: Span) -> dict[int, Counter[Phase]]:
    found: dict[int, Counter[Phase]] = {}
    first, end = keys.minute_of(span.start_ms), span.end_ms // MINUTE_MS
    for state, minute, queue, rows in query.counts(view, first, end):
        if not span.queue or queue == span.queue:
            at = minute * MINUTE_MS // span.step.ms * span.step.ms
            found.setdefault(at, Counter())[state] += rows
    return found


def _by_second(view: View, span: Span) -> tuple[dict[int, Counter[Phase]], int | None]:
    found: dict[int, Counter[Phase]] = {}
    scans = [
        view.scan(family, keys.instant(span.start_ms), keys.instant(span.end_ms))
        for family in sorted(set(FAMILY_OF.values()))
    ]
    counted = 0
    rows = heapq.merge(*scans)
    while chunk := list(islice(rows, _CHUNK)):
        for _, value in chunk:
            row = decode_row(value)
            second = row.occurrence_ts // 1_000 * 1_000
            if counted >= MAX_COUNTED and second not in found:
                return found, second
            counted += 1
            if not row.superseded and (not span.queue or row.queue == span.queue):
                found.setdefault(second, Counter())[row.state] += 1
    return found, None


# --------------------------------------------------------------------------- the load to come


class Horizon(Enum):
    """How far a forecast looks."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"

    @property
    def ms(self) -> int:
        """In milliseconds."""
        return {Horizon.HOUR: 1, Horizon.DAY: 24, Horizon.WEEK: 7 * 24}[self] * _HOUR_MS

    @property
    def step_ms(self) -> int:
        """Width of its periods: 60 of an hour, 96 of a day, 168 of a week."""
        return {Horizon.HOUR: MINUTE_MS, Horizon.DAY: 15 * MINUTE_MS, Horizon.WEEK: _HOUR_MS}[self]


def forecast(view: View, horizon: Horizon, fresh: Freshness) -> dict[str, Any]:
    """The answer of /api/forecast: what is due between now and the horizon, and its worst seconds.

    The first period is the one under way, counted from now on.
    """
    now_ms, end_ms = fresh.as_of, fresh.as_of + horizon.ms
    periods: Counter[int] = Counter()
    queues: Counter[str] = Counter()
    minutes: Counter[int] = Counter()
    exact = True
    for begin, end in _edges(now_ms, end_ms):
        rows = list(islice(view.scan(UPCOMING, keys.instant(begin), keys.instant(end)), MAX_COUNTED))
        exact = exact and len(rows) < MAX_COUNTED
        for row in (decode_row(value) for _, value in rows if state_of(value) is Phase.SCHEDULED):
            periods[row.occurrence_ts // horizon.step_ms * horizon.step_ms] += 1
            queues[row.queue] += 1
            minutes[keys.minute_of(row.occurrence_ts)] += 1
    whole = keys.minute_of(now_ms) + 1, keys.minute_of(end_ms)
    for _, minute, queue, count in query.counts(view, *whole, (Phase.SCHEDULED,)):
        periods[minute * MINUTE_MS // horizon.step_ms * horizon.step_ms] += count
        queues[queue] += count
        minutes[minute] += count
    beyond: dict[int, Counter[int]] = {}
    for number, (_, row) in enumerate(rows_beyond(view, keys.instant(now_ms), keys.instant(end_ms))):
        exact = exact and number < MAX_COUNTED
        if not exact:
            break
        if row.state is Phase.SCHEDULED:
            at, minute = row.occurrence_ts, keys.minute_of(row.occurrence_ts)
            periods[at // horizon.step_ms * horizon.step_ms] += 1
            queues[row.queue] += 1
            minutes[minute] += 1
            beyond.setdefault(minute, Counter())[at // 1_000 * 1_000] += 1
    worst, all_seen = _worst_seconds(view, minutes, beyond, now_ms, end_ms)
    return {
        "horizon": horizon.value,
        "start_ms": now_ms,
        "end_ms": end_ms,
        "step_ms": horizon.step_ms,
        "total": sum(periods.values()),
        "queues": dict(sorted(queues.items())),
        "periods": [{"start_ms": at, "count": count} for at, count in sorted(periods.items())],
        "worst_seconds": [{"start_ms": at, "count": count} for at, count in worst],
        "exact": exact and all_seen,
        **fresh.fields(),
    }


def _edges(now_ms: int, end_ms: int) -> Iterator[tuple[int, int]]:
    """The rest of the minute under way, and the beginning of the last one: no counter fits them."""
    yield now_ms, min(end_ms, (now_ms // MINUTE_MS + 1) * MINUTE_MS)
    if end_ms // MINUTE_MS > now_ms // MINUTE_MS:
        yield end_ms // MINUTE_MS * MINUTE_MS, end_ms


def _worst_seconds(
    view: View, minutes: Mapping[int, int], beyond: Mapping[int, Counter[int]], now_ms: int, end_ms: int
) -> tuple[list[tuple[int, int]], bool]:
    """The seconds with the most rows, and whether none can be missing.

    Minutes are opened from the fullest on, until the next one has fewer rows than the least of
    the worst seconds: no second of it can be worse.
    """
    seconds: Counter[int] = Counter()
    left = MAX_COUNTED
    for minute, count in sorted(minutes.items(), key=lambda entry: (-entry[1], entry[0])):
        worst = seconds.most_common(WORST_SECONDS)
        if len(worst) == WORST_SECONDS and count <= worst[-1][1]:
            break
        begin, end = max(now_ms, minute * MINUTE_MS), min(end_ms, (minute + 1) * MINUTE_MS)
        seconds.update(beyond.get(minute, {}))
        for key, value in islice(view.scan(UPCOMING, keys.instant(begin), keys.instant(end)), left):
            if state_of(value) is Phase.SCHEDULED:
                seconds[keys.read_instant(key) // 1_000 * 1_000] += 1
            left -= 1
        if not left:
            return seconds.most_common(WORST_SECONDS), False
    return seconds.most_common(WORST_SECONDS), True


# --------------------------------------------------------------------------- lateness


def late(view: View, span: Span, fresh: Freshness) -> dict[str, Any]:
    """The answer of /api/lateness: of what ended in each period, how late each stage made it."""
    periods: dict[int, dict[int, list[dict[int, int]]]] = {}
    start = keys.lateness_key(keys.minute_of(span.start_ms), 0)
    end = keys.lateness_key(keys.minute_of(span.end_ms), 0)
    for key, value in view.scan(LATENESS, start, end):
        minute, stage = keys.read_lateness_key(key)
        at = minute * MINUTE_MS // span.step.ms * span.step.ms
        periods.setdefault(at, {}).setdefault(stage, []).append(decode_histogram(value))
    merged = {
        at: {stage: lateness.merge(parts) for stage, parts in by_stage.items()}
        for at, by_stage in periods.items()
    }
    whole: dict[int, dict[int, int]] = {
        stage: lateness.merge(by.get(stage, {}) for by in merged.values()) for stage in Stage
    }
    return {
        "by": span.step.value,
        "periods": [
            {"start_ms": at, "stages": lateness.summary(by_stage)} for at, by_stage in sorted(merged.items())
        ],
        "stages": lateness.summary(whole),
        **fresh.fields(),
    }
