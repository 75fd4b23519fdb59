"""When the occurrences of an event, or a reminder of them, are to be dispatched, and in which order.

An occurrence has its turn where it was moved to, and keeps its identity: the start that the rule gives it.

Pure. What becomes of a turn (misfire, a command that comes between) may not enter here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tickstream.calendar.expansion import Expansion
from tickstream.calendar.values import Occurrence, Reminder
from tickstream.recurrence.moments import resolve
from tickstream.recurrence.values import Fold, Gap

_BEHIND_ALL: Final = 2**63


class Turn(NamedTuple):
    """One occurrence's turn; they are ordered as they stand here. Instants in ms, UTC."""

    fire_ms: int
    """When it is to be dispatched."""
    recurrence_ms: int
    """The occurrence's identity."""


class Turns:
    """The turns of one event, or of one reminder of its occurrences. Cancelled occurrences have none."""

    def __init__(self, expansion: Expansion, reminder: Reminder | None) -> None:
        self._expansion: Final = expansion
        self._reminder: Final = reminder
        self._ruled: Final = reminder is None or reminder in expansion.event.reminders
        """Whether occurrences that were not changed have a turn."""
        self._apart: frozenset[int] = frozenset()
        """Identities, not changed by hand, whose turns are not in the order of their starts."""
        if reminder is not None and reminder.from_end and self._ruled:
            self._apart = expansion.own_lengths - {o.recurrence_ms for o in expansion.changed}
        apart = (found for instant in self._apart if (found := expansion.at(instant)) is not None)
        self._singles: Final = sorted(turn for o in (*expansion.changed, *apart) if (turn := self._turn(o)))

    @property
    def in_order(self) -> bool:
        """Whether turns come in the order of their identities, none left out."""
        return not self._singles and not any(o.cancelled for o in self._expansion.changed)

    def shown(self, recurrence_ms: int) -> tuple[int, int]:
        """What the event's clock shows at an identity, seconds since 1970 on it; and 1 where it has shown that before."""
        instant = recurrence_ms // 1_000
        segment = self._expansion.zone.segment(instant)
        return instant + segment.offset, segment.fold(instant)

    def named(self, local: int) -> Turn | None:
        """The turn of the occurrence at which the event's clock shows `local`; None where the clock does not name it."""
        if self._expansion.elapsed:
            return None
        gap = Gap.NEXT_VALID if self._expansion.event.all_day else Gap.SHIFT
        moment = resolve(self._expansion.zone, local, gap, Fold.FIRST)[0]
        return self.of(moment.instant * 1_000)

    def after(self, fire_ms: int, recurrence_ms: int = _BEHIND_ALL) -> Turn | None:
        """The first turn behind that one, or later than an instant."""
        last = Turn(fire_ms, recurrence_ms)
        single = next((turn for turn in self._singles if turn > last), None)
        by_rule = self._by_rule(last) if self._ruled else None
        if single is None or by_rule is None:
            return single or by_rule
        return min(single, by_rule)

    def of(self, recurrence_ms: int) -> Turn | None:
        """The turn of the occurrence of that identity; None: it has none."""
        found = self._expansion.at(recurrence_ms)
        return None if found is None else self._turn(found)

    def _by_rule(self, last: Turn) -> Turn | None:
        reminder = self._reminder
        begin = last.fire_ms
        if reminder is not None:
            begin -= reminder.offset_ms + (self._expansion.bound_ms if reminder.from_end else 0)
        for occurrence in self._expansion.by_rule(begin):
            turn = self._turn(occurrence)
            if turn is None:
                return None  # the whole event is cancelled
            if turn > last and turn.recurrence_ms not in self._apart:
                return turn
        return None

    def _turn(self, occurrence: Occurrence) -> Turn | None:
        reminder, override = self._reminder, occurrence.override
        if occurrence.cancelled:
            return None
        if reminder is None:
            return Turn(occurrence.start_ms, occurrence.recurrence_ms)
        own = None if override is None else override.reminders
        if reminder not in (self._expansion.event.reminders if own is None else own):
            return None
        since = occurrence.end_ms if reminder.from_end else occurrence.start_ms
        return Turn(since + reminder.offset_ms, occurrence.recurrence_ms)
