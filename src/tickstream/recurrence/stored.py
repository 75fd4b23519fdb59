"""From the recurrence that a task carries to the schedule that this package computes with, and what is refused.

Pure. What becomes of an occurrence (misfire, overlap) may not enter here.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import Final, TypeVar
from zlib import crc32

from tickstream.errors import InvalidSchedule
from tickstream.model import NEVER, Recurrence, RecurrenceKind, idempotency_key
from tickstream.recurrence.compiled import Occurrences, admit, compile_schedule
from tickstream.recurrence.preview import Previewed, preview
from tickstream.recurrence.values import Cron, Every, Fold, Gap, Policy, Rrule, Schedule, Subday
from tickstream.recurrence.zone_data import ZoneData

MOST_COUNTED: Final = 10_000
"""The largest COUNT of a task's rule whose end has to be found by counting: a dispatcher decides it between others."""
SHORTEST_MS: Final = 1_000
"""Between two occurrences of a task with an interval."""
LONGEST_GRACE_MS: Final = 366 * 86_400_000
_E = TypeVar("_E", bound=StrEnum)


def schedule_of(recurrence: Recurrence, last: int | None = None) -> Schedule:
    """The schedule. `last`: what `admitted` found for it. Raises InvalidSchedule for an unknown policy."""
    policy = Policy(
        _choice(Gap, "gap", recurrence.gap),
        _choice(Fold, "fold", recurrence.fold),
        _choice(Subday, "subday", recurrence.subday),
    )
    zone = recurrence.zone or None
    end = None if recurrence.end_ms == NEVER else recurrence.end_ms
    match recurrence.kind:
        case RecurrenceKind.EVERY:
            return Every(recurrence.interval_ms, recurrence.start_ms, end, zone)
        case RecurrenceKind.CRON:
            return Cron(recurrence.rule, zone, recurrence.start_ms, end, policy)
        case RecurrenceKind.RRULE:
            rule = recurrence.rule or None
            # A task has a zone, be it UTC: then UNTIL reads the same for all of them.
            return Rrule(
                recurrence.start,
                rule,
                zone or "UTC",
                recurrence.rdate,
                recurrence.exdate,
                policy,
                last,
                end,
            )


def admitted(recurrence: Recurrence, data: ZoneData | None = None) -> int | None:
    """Check a recurrence; the last occurrence that COUNT leaves, None without COUNT.

    `data`, here and below: None is what the process uses.
    Raises InvalidSchedule, UnknownZone, NeverOccurs.
    """
    if recurrence.kind is RecurrenceKind.EVERY and recurrence.interval_ms < SHORTEST_MS:
        raise InvalidSchedule("every", recurrence.interval_ms, f"the interval is at least {SHORTEST_MS} ms")
    if recurrence.jitter_ms < 0:
        raise InvalidSchedule("jitter", recurrence.jitter_ms, "a time of zero or more ms")
    if not 0 <= recurrence.grace_ms <= LONGEST_GRACE_MS:
        raise InvalidSchedule("grace", recurrence.grace_ms, f"a time of 0 to {LONGEST_GRACE_MS} ms, a year")
    schedule = admit(schedule_of(recurrence), MOST_COUNTED, data)
    return schedule.last if isinstance(schedule, Rrule) else None


@lru_cache(maxsize=16_384)
def occurrences_of(recurrence: Recurrence, last: int | None, data: ZoneData | None = None) -> Occurrences:
    """The occurrences of an admitted recurrence; equal ones share them. Raises as `admitted`."""
    return compile_schedule(schedule_of(recurrence, last), data)


def preview_of(recurrence: Recurrence, count: int, after_ms: int) -> tuple[Previewed, ...]:
    """The first `count` occurrences later than `after_ms` (ms, UTC), and what a gap takes out among them."""
    return preview(schedule_of(recurrence), count, after_ms)


def jitter_ms(recurrence: Recurrence, task_id: str, occurrence_ts: int, following_ts: int | None) -> int:
    """By how much an occurrence is dispatched later: its own share of the jitter, the same every time.

    Less than the distance to the one that follows, so that occurrences stay in order.
    """
    widest = recurrence.jitter_ms
    if following_ts is not None:
        widest = min(widest, following_ts - occurrence_ts)
    return crc32(idempotency_key(task_id, occurrence_ts).encode()) * widest >> 32


def _choice(choices: type[_E], name: str, value: str) -> _E:
    try:
        return choices(value)
    except ValueError:
        known = ", ".join(choices)
        raise InvalidSchedule(name, value, f"is one of {known}") from None
