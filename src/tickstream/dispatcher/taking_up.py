"""Where a calendar's event goes on when it is defined anew: what had its turn has none again, what is due stays due.

Pure, like engine.py. Occurrences are told apart by their identity, and ordered by when they are dispatched.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tickstream.calendar.stored import Booking, decode_booking
from tickstream.clock import iso_utc
from tickstream.codec import decode_command
from tickstream.dispatcher.decision import Ended, Task
from tickstream.dispatcher.series import (
    MOST_STEPS,
    Begin,
    EventSeries,
    Place,
    Skip,
    place_of,
    pointing,
    skipped,
)
from tickstream.errors import InvalidInput
from tickstream.model import NEVER, Command, Extras, TaskState

_REMEMBERED_MS: Final = 31 * 86_400_000
"""So long it is known of an occurrence that ran and was taken out, in case it is put in again elsewhere."""


class TakenUp(NamedTuple):
    """Where the new definition starts, and what had fallen due and is not dispatched any more."""

    begin: Begin
    skips: tuple[Ended, ...]


class Before:
    """What was: which occurrences had their turn, and which are due."""

    def __init__(self, task: Task) -> None:
        spec, self.state = task
        self.booking: Final = _booking(task)
        self._pointer: Place | None = None
        self._series: EventSeries | None = None
        self.queue = ""
        if self.booking is not None and spec is not None and self.state is not None:
            command = decode_command(spec.command)
            assert command.options.recurrence is not None
            self.queue = command.queue
            self._series = EventSeries(command.options.recurrence, self.booking.turns, self.state.extras.done)
            if self.state.next_occurrence_ts != NEVER:
                self._pointer = place_of(self.state)

    @property
    def done(self) -> tuple[int, ...]:
        """Those that had their turn, wherever it would be now."""
        return () if self.state is None else self.state.extras.done

    def place(self, occurrence_ts: int) -> Place | None:
        """Of an occurrence; None: it had none."""
        return None if self._series is None else self._series.of(occurrence_ts)

    def had_its_turn(self, occurrence_ts: int) -> bool:
        """Whether an occurrence was dispatched, or recorded as skipped: it never is again."""
        state, pointer = self.state, self._pointer
        if state is None:
            return False
        if occurrence_ts in state.extras.done or any(r.occurrence_ts == occurrence_ts for r in state.runs):
            return True
        place = self.place(occurrence_ts)
        if place is not None:
            return pointer is None or _order(place) < _order(pointer)
        # An event tells what it names from what it does not; of anything else only the last one is known.
        return self.booking is None and occurrence_ts <= state.last_occurrence_ts

    def due(self, until_ms: int) -> list[Place]:
        """Those that fell due until an instant and are not dispatched yet, at most MOST_STEPS."""
        found: list[Place] = []
        place = self._pointer
        while self._series is not None and place is not None and place.fire_at_ms <= until_ms:
            if len(found) == MOST_STEPS:
                break
            found.append(place)
            place = self._series.following(place)
        return found


def take_up(before: Before, command: Command, appended_ms: int, *, may_end: bool) -> TakenUp:
    """Where the event that the command carries starts; nothing from before it was accepted, unless it was due already.

    `may_end`: whether it may be left without any occurrence to come. Raises InvalidInput.
    """
    booking = decode_booking(command.options.event)
    recurrence, old = command.options.recurrence, before.state
    assert recurrence is not None
    series = EventSeries(recurrence, booking.turns, ())
    floor_ms = appended_ms - 1
    due = before.due(floor_ms)
    goes_on = before.booking is not None and _same_dates(before.booking, booking)
    place = next((place for place in due if goes_on and series.of(place.at_ms) == place), None)
    if place is None:
        place = series.after(floor_ms)
        while place is not None and before.had_its_turn(place.at_ms):
            place = series.following(place)
    if place is None and not may_end:
        raise InvalidInput(f"the schedule has ended: no occurrence lies at or after {iso_utc(floor_ms + 1)}")
    touched = changed_by_hand(booking) | set(before.done)
    if before.booking is not None:
        touched |= changed_by_hand(before.booking)
    since_ms = floor_ms + 1 if place is None else min(floor_ms + 1, place.fire_at_ms)
    done = _done(before, series, since_ms, touched)
    skips = _skips(before, series, place, due, touched)
    extras = Extras(
        last_local=booking.event.last, done=tuple(done), paused=old is not None and old.extras.paused
    )
    ends = tuple(skipped(skip, old, before.queue) for skip in skips) if old is not None else ()
    return TakenUp(Begin(NEVER if place is None else place.at_ms, pointing(extras, place)), ends)


def _skips(
    before: Before, series: EventSeries, place: Place | None, due: list[Place], touched: set[int]
) -> list[Skip]:
    """What was still to come, and has no turn any more although its instant is there."""
    found = {
        was.at_ms: "replaced: the task was, before its turn"
        for was in due
        if (now := series.of(was.at_ms)) is None or _is_behind(now, place)
    }
    for at in touched - found.keys():
        still_to_come = before.place(at) is not None and not before.had_its_turn(at)
        if still_to_come and _is_behind(series.of(at), place):
            found[at] = "moved: to an instant that had passed"
    return [Skip(why, at, at, 1) for at, why in sorted(found.items())]


def _done(before: Before, series: EventSeries, since_ms: int, touched: set[int]) -> list[int]:
    """Those that had their turn, and by their place would have it again from an instant on, or after another change."""
    found = []
    for at in sorted(touched):
        now = series.of(at)
        again = at > since_ms - _REMEMBERED_MS if now is None else now.fire_at_ms >= since_ms
        if again and before.had_its_turn(at):
            found.append(at)
    return found


def _is_behind(now: Place | None, place: Place | None) -> bool:
    """Whether an occurrence's turn lies before `place`."""
    return now is not None and (place is None or _order(now) < _order(place))


def _order(place: Place) -> tuple[int, int]:
    return place.fire_at_ms, place.at_ms


def changed_by_hand(booking: Booking) -> set[int]:
    """The identities of the occurrences that overrides and EXDATE are about."""
    event, identity = booking.event, booking.expansion.identity
    return {
        identity(text) for text in (*event.exdate, *(override.recurrence_id for override in event.overrides))
    }


def _same_dates(old: Booking, new: Booking) -> bool:
    """Whether both name the same occurrences, changes by hand and EXDATE apart."""
    was, now = old.event, new.event
    return (was.start, was.zone, was.rule, was.rdate, old.calendar_zone, old.reminder) == (
        now.start,
        now.zone,
        now.rule,
        now.rdate,
        new.calendar_zone,
        new.reminder,
    )


def _booking(task: Task) -> Booking | None:
    spec, state = task
    if spec is None or state is None or spec.rev != state.rev:
        return None
    event = decode_command(spec.command).options.event
    return decode_booking(event) if event else None


def is_event(state: TaskState | None) -> bool:
    """Whether the task is a calendar's event. Cheap: nothing is decoded."""
    return state is not None and state.extras.busy_until_ms != NEVER
