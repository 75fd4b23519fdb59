"""The instants that a recurrence names, by arithmetic and dateutil: an oracle for the rules of a simulation.

Nothing of tickstream.recurrence may enter here. It knows the rules that asks.py makes, in zones whose clocks
do not change meanwhile, and refuses others.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from dateutil.rrule import rrulestr

from tickstream.model import NEVER, Recurrence, RecurrenceKind

_MOST = 1_000


@lru_cache
def instants(recurrence: Recurrence) -> tuple[int, ...]:
    """Every instant of a rule that ends, ms, ascending. Raises NotImplementedError for others."""
    match recurrence:
        case Recurrence(kind=RecurrenceKind.EVERY, interval_ms=step, start_ms=start, end_ms=end) if (
            end != NEVER
        ):
            return tuple(range(start, end, step))
        case Recurrence(kind=RecurrenceKind.CRON, rule=rule, start_ms=start, end_ms=end) if end != NEVER:
            seconds, *rest = rule.split()
            if rest != ["*"] * 5 or not seconds.startswith("*/"):
                raise NotImplementedError(rule)
            # Offsets of whole minutes leave seconds as they are.
            step = int(seconds[2:])
            return tuple(
                at for at in range(-(-start // 1_000) * 1_000, end, 1_000) if at // 1_000 % 60 % step == 0
            )
        case Recurrence(kind=RecurrenceKind.RRULE, rule=rule, zone=zone, start=start, exdate=dropped):
            begin = datetime.fromisoformat(start)
            named = [at for at, _ in zip(rrulestr(rule, dtstart=begin), range(_MOST), strict=False)]
            kept = [at for at in named if at.isoformat() not in dropped]
            offset = begin.replace(tzinfo=ZoneInfo(zone or "UTC")).utcoffset() or timedelta()
            epoch = datetime(1970, 1, 1) + offset
            return tuple((at - epoch) // timedelta(milliseconds=1) for at in kept)
    raise NotImplementedError(str(recurrence))


def between(recurrence: Recurrence, first_ms: int, last_ms: int) -> tuple[int, ...]:
    """Those with first_ms <= instant <= last_ms."""
    named = instants(recurrence)
    return named[bisect_left(named, first_ms) : bisect_right(named, last_ms)]
