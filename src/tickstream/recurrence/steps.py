"""HOURLY, MINUTELY and SECONDLY rules: a lattice of equal steps, and what the BY parts let through of it.

On one clock that does not change; the caller cuts time where a zone's offset does. No zone may enter here.
"""

from __future__ import annotations

from math import gcd
from typing import Final

from tickstream.recurrence.civil import DAY, LAST_DAY
from tickstream.recurrence.days import DayFilter
from tickstream.recurrence.grammar import Freq, Rule
from tickstream.recurrence.times import TimesOfDay

STEP: Final = {Freq.HOURLY: 3_600, Freq.MINUTELY: 60, Freq.SECONDLY: 1}
"""Seconds."""
_PATIENCE: Final = 150_000
"""Tries for one answer (a day each at least, so over 400 years) until a rule counts as one that never occurs."""


class StepRule:
    """A rule of one of the three frequencies, for a DTSTART at whatever place the caller gives."""

    def __init__(self, rule: Rule, start_second: int, days: DayFilter) -> None:
        """`start_second` is DTSTART's, which expands where the rule has BYMINUTE and no BYSECOND."""
        self._filter: Final = days
        self._step: Final = rule.interval * STEP[rule.freq]
        self._grain, within = _expansion(rule, start_second)
        self._within: Final = _at_setpos(within, rule.bysetpos)
        self._never: Final = not self._within or days.never()
        limited = [
            rule.byhour or range(24),
            (rule.freq > Freq.HOURLY and rule.byminute) or range(60),
            (rule.freq > Freq.MINUTELY and rule.bysecond) or range(60),
        ]
        self._times: Final = (
            TimesOfDay(*(tuple(part) for part in limited))
            if rule.byhour
            or (rule.freq > Freq.HOURLY and rule.byminute)
            or (rule.freq > Freq.MINUTELY and rule.bysecond)
            else None
        )
        plain = self._times is None and days.all_days and len(self._within) == 1
        self.simple_step: Final = self._step if plain else None
        """The distance between occurrences, in seconds, where it is always the same; else None."""
        self._meeting: dict[int, bool] = {}

    def next_local(self, start: int, after: int, until: int) -> int | None:
        """The first occurrence later than `after`, of a rule that starts at `start`.

        `until` or more when there is none before it; None when there is none at all, wherever the start.
        """
        if self._never:
            return None
        origin = start - start % self._grain
        if not self._meets(origin):
            return until
        step, within = self._step, self._within
        after = max(after, start - 1)
        # The last step at or before `after` may still have something behind it.
        at = self._valid(origin, max(origin, origin + (after - origin) // step * step), until)
        if at is not None and at + within[-1] <= after:
            at = self._valid(origin, at + step, until)
        return at if at is None or at >= until else next(at + s for s in within if at + s > after)

    def _valid(self, origin: int, at: int, until: int) -> int | None:
        """The first step at or after `at` that every limit lets through; `until` or more when none comes before.

        None when no day lets anything through, wherever the lattice lies.
        """
        for _ in range(_PATIENCE):
            if at >= until:
                break
            day, time = divmod(at, DAY)
            if not self._filter.all_days:
                passing = self._filter.next_day(day) if day <= LAST_DAY else None
                if passing is None:
                    return None
                if passing > day:
                    at = self._on_lattice(origin, passing * DAY)
                    continue
            if self._times is None:
                return at
            allowed = self._times.from_(time)
            if allowed == time:
                return at
            at = self._on_lattice(origin, (day + 1) * DAY if allowed is None else day * DAY + allowed)
        return until

    def _on_lattice(self, origin: int, at: int) -> int:
        return at + (origin - at) % self._step

    def _meets(self, origin: int) -> bool:
        """Whether any step falls on a time of day that the limits let through, on whatever day."""
        if self._times is None:
            return True
        modulus = gcd(self._step, DAY)
        residue = origin % modulus
        if residue not in self._meeting:
            self._meeting[residue] = self._times.meets(residue, modulus)
        return self._meeting[residue]


def _expansion(rule: Rule, start_second: int) -> tuple[int, tuple[int, ...]]:
    """What a step is rounded down to, and the seconds behind it at which the rule has occurrences."""
    if rule.freq is Freq.HOURLY and rule.byminute:
        seconds = rule.bysecond or (start_second,)
        return 3_600, tuple(minute * 60 + second for minute in rule.byminute for second in seconds)
    if rule.freq < Freq.SECONDLY and rule.bysecond:
        return 60, rule.bysecond
    return 1, (0,)


def _at_setpos(within: tuple[int, ...], setpos: tuple[int, ...]) -> tuple[int, ...]:
    if not setpos:
        return within
    places = {place - 1 if place > 0 else len(within) + place for place in setpos}
    return tuple(within[place] for place in sorted(places) if 0 <= place < len(within))
