"""Recurring schedules and time zones: which instants a schedule names, next in constant time at any age.

Pure: values in, values out. No clock, no I/O and nothing of tasks may enter here.

A schedule is a value (`Rrule`, `Cron`, `Every`); `admit` checks it once, `next_after` and the others answer.
Instants are ms since the epoch, UTC; every answer lies strictly later in UTC than what was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, takewhile

from tickstream.recurrence.compiled import Occurrences, admit, compile_schedule
from tickstream.recurrence.preview import Previewed, preview
from tickstream.recurrence.values import Cron, Every, Fold, Gap, Pointer, Policy, Rrule, Schedule, Subday
from tickstream.recurrence.zone_data import tzdata_version, wall_clock_instant

__all__ = [
    "Cron",
    "Every",
    "Fold",
    "Gap",
    "Occurrences",
    "Pointer",
    "Policy",
    "Previewed",
    "Rrule",
    "Schedule",
    "Subday",
    "admit",
    "between",
    "compile_schedule",
    "first",
    "next_after",
    "preview",
    "previous",
    "take",
    "tzdata_version",
    "wall_clock_instant",
]


def first(schedule: Schedule) -> Pointer | None:
    """The first occurrence of all; None when there is none."""
    return compile_schedule(schedule).first()


def next_after(schedule: Schedule, instant_ms: int) -> Pointer | None:
    """The first occurrence later than `instant_ms`; None when none follows."""
    return compile_schedule(schedule).next_after(instant_ms)


def previous(schedule: Schedule, before_ms: int) -> Pointer | None:
    """The last occurrence earlier than `before_ms`; None when there is none."""
    return compile_schedule(schedule).previous(before_ms)


def between(schedule: Schedule, start_ms: int, end_ms: int) -> Iterator[Pointer]:
    """The occurrences in [start_ms, end_ms), in order."""
    return takewhile(
        lambda pointer: pointer.next_occurrence_ts < end_ms, compile_schedule(schedule).after(start_ms - 1)
    )


def take(schedule: Schedule, count: int, after_ms: int | None = None) -> tuple[Pointer, ...]:
    """The first `count` occurrences, of all or of those later than `after_ms`."""
    occurrences = compile_schedule(schedule)
    if after_ms is not None:
        return tuple(islice(occurrences.after(after_ms), count))
    begin = occurrences.first()
    if begin is None or count < 1:
        return ()
    return begin, *islice(occurrences.after(begin.next_occurrence_ts), count - 1)
