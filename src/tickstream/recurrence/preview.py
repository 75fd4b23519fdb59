"""What a schedule will do, before it does it: each occurrence, and what a change of clocks makes of it.

Pure: the caller says from when on; printing is the caller's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import Final

from tickstream.recurrence.civil import iso_local, utc_of, wall_of
from tickstream.recurrence.compiled import Clockwork, Occurrences, compile_schedule
from tickstream.recurrence.values import Every, Fold, Gap, Pointer, Schedule
from tickstream.recurrence.zones import Zone


@dataclass(frozen=True, slots=True)
class Previewed:
    """One occurrence, or one that does not take place because its wall clock time does not exist."""

    nominal: str
    """The wall clock time that the schedule names, as `2027-03-14T02:30:00`."""
    local: str | None
    """What the clock shows when it occurs, with the UTC offset; None when it is skipped."""
    utc: str | None
    change: str | None
    """`gap` or `fold` when a change of clocks touches it."""
    note: str
    """What the policy makes of the change; empty without one."""


def preview(schedule: Schedule, count: int, after_ms: int) -> tuple[Previewed, ...]:
    """The first `count` occurrences later than `after_ms` (ms, UTC), and those that a gap takes out among them.

    Raises InvalidSchedule, UnknownZone.
    """
    occurrences = compile_schedule(schedule)
    clockwork = occurrences.clockwork
    shown = list(islice(occurrences.after(after_ms), count))
    lines = [(p.next_occurrence_ts, _previewed(p, clockwork)) for p in shown]
    takes_out = clockwork.policy.gap is Gap.SKIP and not clockwork.elapsed
    if shown and takes_out and not isinstance(schedule, Every):
        kept = compile_schedule(replace(schedule, policy=replace(schedule.policy, gap=Gap.SHIFT)))
        lines += _skipped(kept, after_ms, shown[-1].next_occurrence_ts)
    return tuple(line for _, line in sorted(lines, key=lambda line: line[0]))


def _skipped(kept: Occurrences, after_ms: int, last_ms: int) -> list[tuple[int, Previewed]]:
    """What a gap takes out up to `last_ms`, of `kept`, the schedule that lets it take out nothing."""
    zone = kept.clockwork.zone
    return [
        (
            p.next_occurrence_ts,
            Previewed(iso_local(p.nominal_local), None, None, "gap", _gap(p, zone, Gap.SKIP)),
        )
        for p in takewhile(lambda pointer: pointer.next_occurrence_ts <= last_ms, kept.after(after_ms))
        if not zone.readings(p.nominal_local).instants
    ]


def _previewed(pointer: Pointer, clockwork: Clockwork) -> Previewed:
    zone, instant = clockwork.zone, pointer.next_occurrence_ts // 1_000
    offset = zone.offset(instant)
    instants = zone.readings(pointer.nominal_local).instants
    change, note = None, ""
    if not instants:
        change, note = "gap", _gap(pointer, zone, clockwork.policy.gap)
    elif len(instants) > 1:
        change, note = "fold", _fold(pointer, clockwork)
    millis = pointer.next_occurrence_ts % 1_000
    fraction = f".{millis:03d}" if millis else ""
    return Previewed(
        nominal=iso_local(pointer.nominal_local),
        local=f"{iso_local(instant + offset)}{fraction}{_signed(offset)}",
        utc=f"{utc_of(instant):%Y-%m-%dT%H:%M:%S}{fraction}Z",
        change=change,
        note=note,
    )


_GAPS: Final = {
    Gap.SHIFT: "read by the offset in force before",
    Gap.NEXT_VALID: "taken at the end of the gap",
    Gap.SKIP: "skipped",
}
_FOLDS: Final = {
    Fold.FIRST: "occurs the first time only",
    Fold.SECOND: "occurs the second time only",
}


def _gap(pointer: Pointer, zone: Zone, gap: Gap) -> str:
    readings = zone.readings(pointer.nominal_local)
    before = pointer.nominal_local - readings.shifted
    start, end = readings.gap_end + before, readings.gap_end + zone.offset(readings.gap_end)
    named = f"{_time(pointer.nominal_local, end)} does not exist"
    return (
        f"{named}, the clock jumps from {_time(start, end)} to {_time(end, start)}: {_GAPS[gap]} (gap={gap})"
    )


def _fold(pointer: Pointer, clockwork: Clockwork) -> str:
    fold = clockwork.policy.fold
    twice = f"{wall_of(pointer.nominal_local):%H:%M} comes twice"
    which = ("the first", "the second")[pointer.fold]
    if clockwork.elapsed:
        return f"{twice}, this is {which}: time goes on (subday=elapsed)"
    if fold is Fold.BOTH:
        return f"{twice}, this is {which} (fold=both)"
    return f"{twice}: {_FOLDS[fold]} (fold={fold})"


def _time(local: int, other: int) -> str:
    """`02:00`, with the date when the other one lies on another day."""
    same_day = wall_of(local).date() == wall_of(other).date()
    return f"{wall_of(local):%H:%M}" if same_day else f"{wall_of(local):%Y-%m-%d %H:%M}"


def _signed(offset: int) -> str:
    sign, size = "-" if offset < 0 else "+", abs(offset)
    seconds = f":{size % 60:02d}" if size % 60 else ""
    return f"{sign}{size // 3_600:02d}:{size // 60 % 60:02d}{seconds}"
