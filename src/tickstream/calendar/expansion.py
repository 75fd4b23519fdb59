"""From an event to its occurrences: instants in UTC, each resolved in its zone on its own day.

Pure: no clock, no I/O. What conflicts with what may not enter here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from heapq import merge
from itertools import takewhile
from typing import Final

from tickstream import recurrence
from tickstream.calendar.values import (
    NO_LENGTH,
    Event,
    Length,
    Occurrence,
    Override,
    Status,
    Transparency,
)
from tickstream.errors import InvalidEvent, NeverOccurs
from tickstream.model import check_task_id
from tickstream.recurrence.civil import DAY, seconds_of, utc_of
from tickstream.recurrence.grammar import parse_written
from tickstream.recurrence.moments import resolve
from tickstream.recurrence.values import Fold, Gap, Rrule
from tickstream.recurrence.zone_data import load_zone
from tickstream.recurrence.zones import Zone

MOST_OCCURRENCES: Final = 10_000
"""Of one event within the horizon: enough for an hourly one over the default 400 days."""
_ONE_DAY: Final = Length(days=1)
_LOCAL_UNTIL: Final = re.compile(
    r"(UNTIL=)(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(?=;|$)", re.ASCII | re.IGNORECASE
)


class Expansion:
    """The occurrences of one event in a calendar's zone. Get it from `expand`."""

    def __init__(self, event: Event, calendar_zone: str | None) -> None:
        """Raises InvalidSchedule, InvalidEvent, UnknownZone."""
        self.event: Final = event
        self.zone: Final = _zone_of(event.start, event.zone, calendar_zone)
        self._rrule: Final = _rrule(event, self.zone)
        self._times: Final = recurrence.compile_schedule(self._rrule)
        self._own_lengths: Final = {
            _instant("RDATE", added.start, self.zone): added.length for added in event.rdate if added.length
        }
        self._changed: Final = {
            _instant("RECURRENCE-ID", o.recurrence_id, self.zone): o for o in event.overrides
        }
        if len(self._changed) < len(event.overrides):
            raise InvalidEvent(
                "overrides", [o.recurrence_id for o in event.overrides], "name an occurrence twice"
            )
        excluded = {_instant("EXDATE", text, self.zone) for text in event.exdate}
        # EXDATE takes out what was changed, too: so do calendars that delete a changed occurrence.
        self._overridden: Final = sorted(
            self._override(instant, override, calendar_zone)
            for instant, override in self._changed.items()
            if instant not in excluded
        )
        lengths = [event.length, *self._own_lengths.values()]
        self._bound_ms: Final = max(_or_day(length, event.all_day).bound_ms() for length in lengths)

    @property
    def schedule(self) -> Rrule:
        """The rule without the overrides."""
        return self._rrule

    @property
    def elapsed(self) -> bool:
        """Whether the rule steps in elapsed time, past every gap and fold."""
        return self._times.clockwork.elapsed

    @property
    def changed(self) -> tuple[Occurrence, ...]:
        """Those changed by hand, by start; not what EXDATE takes out."""
        return tuple(self._overridden)

    @property
    def own_lengths(self) -> frozenset[int]:
        """The identities of those with a length of their own (RDATE;VALUE=PERIOD)."""
        return frozenset(self._own_lengths)

    @property
    def bound_ms(self) -> int:
        """None of those not changed by hand lasts longer."""
        return self._bound_ms

    def overlapping(self, start_ms: int, end_ms: int) -> Iterator[Occurrence]:
        """Every occurrence that has time in common with [start_ms, end_ms), or starts there; by start."""
        by_rule = takewhile(lambda o: o.start_ms < end_ms, self.by_rule(start_ms - self._bound_ms))
        changed = [o for o in self._overridden if o.start_ms < end_ms]
        for occurrence in merge(by_rule, changed) if changed else by_rule:
            if occurrence.end_ms > start_ms or occurrence.start_ms >= start_ms:
                yield occurrence

    def starting(self, start_ms: int) -> Iterator[Occurrence]:
        """Every occurrence that starts at or after `start_ms`, by start."""
        changed = [o for o in self._overridden if o.start_ms >= start_ms]
        return merge(self.by_rule(start_ms), changed) if changed else self.by_rule(start_ms)

    def first(self) -> Occurrence | None:
        """The first occurrence of all by the rule, else the first of the changed ones."""
        pointer = self._times.first()
        by_rule = None if pointer is None else next(self.by_rule(pointer.next_occurrence_ts), None)
        return by_rule or (self._overridden[0] if self._overridden else None)

    def next_after(self, instant_ms: int) -> Occurrence | None:
        """The first occurrence that takes place and starts later than `instant_ms`."""
        return next((o for o in self.starting(instant_ms + 1) if not o.cancelled), None)

    def identity(self, recurrence_id: str) -> int:
        """The instant (ms, UTC) that `Override.recurrence_id` names. Raises InvalidSchedule."""
        return _instant("RECURRENCE-ID", recurrence_id, self.zone)

    def occurrence(self, recurrence_id: str) -> Occurrence | None:
        """The occurrence of that identity, written as `Override.recurrence_id`. Raises InvalidSchedule."""
        return self.at(self.identity(recurrence_id))

    def at(self, recurrence_ms: int) -> Occurrence | None:
        """The occurrence whose identity is that instant."""
        if recurrence_ms in self._changed:
            return next((o for o in self._overridden if o.recurrence_ms == recurrence_ms), None)
        found = next(self.by_rule(recurrence_ms), None)
        return found if found is not None and found.recurrence_ms == recurrence_ms else None

    def ends(self) -> bool:
        """Whether the rule comes to an end."""
        rule = (self.event.rule or "").upper()
        return self.event.rule is None or "COUNT=" in rule or "UNTIL=" in rule

    def orphans(self) -> tuple[Override, ...]:
        """Overrides of what the rule does not name: they take place all the same."""
        named = {
            instant
            for instant in self._changed
            for pointer in recurrence.between(self._rrule, instant, instant + 1)
            if pointer.next_occurrence_ts == instant
        }
        return tuple(override for instant, override in self._changed.items() if instant not in named)

    def by_rule(self, start_ms: int) -> Iterator[Occurrence]:
        """Those that start at or after `start_ms` and were not changed by hand, by start."""
        event, changed, own_lengths = self.event, self._changed, self._own_lengths
        usual = _or_day(event.length, event.all_day)
        cancelled, tentative = event.status is Status.CANCELLED, event.status is Status.TENTATIVE
        opaque = event.transparency is Transparency.OPAQUE and not cancelled
        for nominal, _, instant in self._times.after(start_ms - 1):
            if instant in changed:
                continue
            length = own_lengths.get(instant) if own_lengths else None
            end = _end(self.zone, nominal, instant, length or usual, event.all_day)
            yield Occurrence(instant, end, instant, opaque and end > instant, tentative, cancelled, None)

    def _override(self, instant: int, override: Override, calendar_zone: str | None) -> Occurrence:
        event, zone = self.event, self.zone
        start = instant
        if override.start is not None:
            # A day in a series of hours, or the other way round, is the calendar's as any other.
            same_kind = event.all_day is ("T" not in override.start)
            zone = _zone_of(
                override.start, override.zone or (event.zone if same_kind else None), calendar_zone
            )
            start = _instant("start", override.start, zone)
        all_day = event.all_day if override.start is None else "T" not in override.start
        length = _or_day(event.length if override.length is None else override.length, all_day)
        end = _end(zone, start // 1_000 + zone.offset(start // 1_000), start, length, all_day)
        status = override.status or event.status
        if event.status is Status.CANCELLED:
            status = Status.CANCELLED
        opaque = (override.transparency or event.transparency) is Transparency.OPAQUE
        cancelled = status is Status.CANCELLED
        blocks = opaque and not cancelled and end > start
        return Occurrence(start, end, instant, blocks, status is Status.TENTATIVE, cancelled, override)


@lru_cache(maxsize=4_096)
def expand(event: Event, calendar_zone: str | None) -> Expansion:
    """The event's occurrences; floating and all-day times are of `calendar_zone` (None: UTC).

    Raises InvalidSchedule, InvalidEvent, UnknownZone.
    """
    return Expansion(event, calendar_zone)


def admit(event: Event, calendar_zone: str | None) -> Event:
    """The event as it is to be stored: checked, and COUNT turned into the last occurrence.

    Raises InvalidEvent, InvalidSchedule, InvalidTaskId, UnknownZone, and NeverOccurs for one without any occurrence.
    """
    check_task_id(event.uid)
    for part, length in (
        ("duration", event.length),
        *(("duration", o.length) for o in event.overrides if o.length),
    ):
        if length.days < 0 or length.ms < 0:
            raise InvalidEvent(part, length.iso(), "is negative: the end must not lie before the start")
    if event.all_day and event.length.ms:
        raise InvalidEvent(
            "duration", event.length.iso(), "an all-day event lasts whole days (RFC 5545, 3.6.1)"
        )
    if event.sequence < 0:
        raise InvalidEvent("sequence", event.sequence, "counts from 0")
    expansion = expand(event, calendar_zone)
    # The rule itself is asked first, so that the error says which of the two leaves nothing.
    ruled = recurrence.admit(replace(expansion.schedule, exdate=()))
    if expansion.first() is None:
        raise NeverOccurs(f"event {event.uid!r}", "every one of its occurrences is taken out by EXDATE")
    return replace(event, last=ruled.last) if isinstance(ruled, Rrule) else event


def within_horizon(expansion: Expansion, start_ms: int, end_ms: int) -> tuple[Occurrence, ...]:
    """The occurrences overlapping [start_ms, end_ms), all of them. Raises InvalidEvent beyond MOST_OCCURRENCES."""
    found: list[Occurrence] = []
    for occurrence in expansion.overlapping(start_ms, end_ms):
        if len(found) == MOST_OCCURRENCES:
            raise InvalidEvent(
                "rrule",
                expansion.event.rule,
                f"makes more than {MOST_OCCURRENCES:,} occurrences within the calendar's horizon; repeat it less often",
            )
        found.append(occurrence)
    return tuple(found)


def length_until(
    start: str, end: str, zone: str | None, end_zone: str | None, calendar_zone: str | None
) -> Length:
    """The length that an `end` gives: whole days for dates, else the exact time of the first occurrence.

    Raises InvalidEvent when the end lies before the start, or one is a date and the other is not.
    """
    all_day = "T" not in start
    if all_day is not ("T" not in end):
        raise InvalidEvent(
            "end", end, "must be a date where the start is one, else a date and time (RFC 5545, 3.8.2.2)"
        )
    if all_day:
        days = (parse_written("end", end).wall - parse_written("start", start).wall).days
        length = Length(days=days)
    else:
        begun = _instant("start", start, _zone_of(start, zone, calendar_zone))
        length = Length(ms=_instant("end", end, _zone_of(end, end_zone, calendar_zone)) - begun)
    if length.days < 0 or length.ms < 0:
        raise InvalidEvent("end", end, f"lies before the start {start}")
    return length


def _rrule(event: Event, zone: Zone) -> Rrule:
    rule = event.rule
    if rule is not None and event.zone is None and not event.all_day and not event.start.endswith("Z"):
        # A floating UNTIL is read where the start is; with a zone it has to be UTC (RFC 5545, 3.3.10).
        rule = _LOCAL_UNTIL.sub(lambda found: _until_in_utc(found, zone), rule)
    return Rrule(
        start=event.start.removesuffix("Z"),
        rule=rule,
        zone=zone.key,
        rdate=tuple(added.start for added in event.rdate),
        exdate=event.exdate,
        last=event.last,
    )


def _until_in_utc(found: re.Match[str], zone: Zone) -> str:
    _, year, month, day, hour, minute, second = found.groups()
    instant = _instant("UNTIL", f"{year}-{month}-{day}T{hour}:{minute}:{second}", zone)
    return f"{found[1]}{utc_of(instant // 1_000):%Y%m%dT%H%M%SZ}"


def _zone_of(start: str, zone: str | None, calendar_zone: str | None) -> Zone:
    """Of a start written so. Raises UnknownZone."""
    if start.endswith("Z"):
        return load_zone("UTC")
    return load_zone(zone or calendar_zone)


def _instant(part: str, text: str, zone: Zone) -> int:
    """ms, UTC, of what is written; a day begins when its local day does. Raises InvalidSchedule."""
    written = parse_written(part, text)
    local = seconds_of(written.wall)
    if written.is_utc:
        return local * 1_000
    gap = Gap.NEXT_VALID if written.is_date else Gap.SHIFT
    return resolve(zone, local, gap, Fold.FIRST)[0].instant * 1_000


def _end(zone: Zone, nominal_local: int, start_ms: int, length: Length, all_day: bool) -> int:
    if not length.days:
        return start_ms + length.ms
    gap = Gap.NEXT_VALID if all_day else Gap.SHIFT
    end = resolve(zone, nominal_local + length.days * DAY, gap, Fold.FIRST)[0].instant
    return max(start_ms, end * 1_000 + length.ms)


def _or_day(length: Length, all_day: bool) -> Length:
    """A date without an end lasts that day (RFC 5545, 3.6.1)."""
    return _ONE_DAY if all_day and length == NO_LENGTH else length
