"""A recurring task's occurrences as decisions walk them: places, stretches that are skipped, where it begins.

Pure, like engine.py. Which instants a rule names is computed in recurrence/.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from tickstream.calendar.stored import decode_booking
from tickstream.calendar.turns import Turn, Turns
from tickstream.clock import iso_utc
from tickstream.codec import decode_command
from tickstream.dispatcher.decision import Ended, Task
from tickstream.errors import InvalidInput
from tickstream.model import (
    NEVER,
    Command,
    Extras,
    Outcome,
    Recurrence,
    RecurrenceKind,
    RunState,
    TaskState,
)
from tickstream.recurrence import Pointer
from tickstream.recurrence.stored import admitted, jitter_ms, occurrences_of
from tickstream.recurrence.zone_data import ZoneData

MOST_QUEUED: Final = 16
"""Occurrences that wait for the one in flight to end."""
MOST_STEPS: Final = 1_000
"""Occurrences looked at in one decision; what is left follows in the next."""


class Begin(NamedTuple):
    """Where a new definition starts."""

    next_occurrence_ts: int
    extras: Extras


class Place(NamedTuple):
    """An occurrence, and when it is dispatched."""

    pointer: Pointer
    fire_at_ms: int

    @property
    def at_ms(self) -> int:
        """The occurrence's own instant."""
        return self.pointer.next_occurrence_ts


class Skip(NamedTuple):
    """Occurrences that follow one another and are not dispatched, for one reason."""

    why: str
    first_ts: int
    last_ts: int
    occurrences: int


class Occurring(Protocol):
    """The occurrences of one task, in the order in which they are dispatched."""

    @property
    def recurrence(self) -> Recurrence: ...

    @property
    def in_order(self) -> bool:
        """Whether that is the order of their instants."""
        ...

    def following(self, place: Place) -> Place | None:
        """The one that follows another."""
        ...

    def placed(self, place: Place, floor_ms: int) -> tuple[Place | None, int]:
        """Where the zone data in use have an occurrence that others placed, and how many they passed over.

        The same object when it stays. `floor_ms`: the last instant that had its turn.
        """
        ...

    def jump(self, place: Place, until_ms: int) -> Place:
        """The last one that is surely dispatched by `until_ms`, as far as no walk is needed; else `place`."""
        ...

    def beyond(self, until_ms: int) -> tuple[int, Place | None]:
        """The last one dispatched by an instant, and the first one after it: where a walk was given up."""
        ...


def series_of(task_id: str, command: Command, extras: Extras, zones: ZoneData | None = None) -> Occurring:
    """The occurrences of a recurring task."""
    recurrence = command.options.recurrence
    assert recurrence is not None
    if command.options.event:
        return EventSeries(recurrence, decode_booking(command.options.event).turns, extras.done)
    return Series(task_id, recurrence, extras.last_local, zones)


class Series:
    """The occurrences that a schedule names."""

    in_order: Final = True

    def __init__(
        self, task_id: str, recurrence: Recurrence, last: int | None, zones: ZoneData | None = None
    ) -> None:
        """`zones` None: the data that the process uses. Raises UnknownZone where they lack its zone."""
        self.recurrence: Final = recurrence
        self._task_id: Final = task_id
        self._occurrences: Final = occurrences_of(recurrence, last, zones)

    def after(self, instant_ms: int) -> Place | None:
        """The first one later than an instant."""
        return self._placed(self._occurrences.next_after(instant_ms))

    def following(self, place: Place) -> Place | None:
        """The one that follows another."""
        return self._placed(self._occurrences.following(place.pointer))

    def placed(self, place: Place, floor_ms: int) -> tuple[Place | None, int]:
        """As Occurring."""
        pointer, passed = self._occurrences.placed(place.pointer, floor_ms)
        return (place if pointer == place.pointer else self._placed(pointer)), passed

    def jump(self, place: Place, until_ms: int) -> Place:
        """With an interval: the last one that is surely dispatched by `until_ms`, else `place`. No walk."""
        recurrence = self.recurrence
        step = recurrence.interval_ms
        if recurrence.kind is not RecurrenceKind.EVERY:
            return place
        if recurrence.end_ms != NEVER:
            until_ms = min(until_ms, recurrence.end_ms - 1)
        steps = (until_ms - min(recurrence.jitter_ms, step) - place.at_ms) // step
        found = self.after(place.at_ms + steps * step - 1) if steps > 0 else None
        return found or place

    def beyond(self, until_ms: int) -> tuple[int, Place | None]:
        """The last one at or before an instant, and the first one after it."""
        found = self._occurrences.previous(until_ms + 1)
        through = NEVER if found is None else found.next_occurrence_ts
        return through, self.after(max(through, until_ms))

    def _placed(self, pointer: Pointer | None) -> Place | None:
        if pointer is None:
            return None
        at_ms = pointer.next_occurrence_ts
        if self.recurrence.jitter_ms == 0:
            return Place(pointer, at_ms)
        following = self._occurrences.following(pointer)
        following_ts = None if following is None else following.next_occurrence_ts
        return Place(pointer, at_ms + jitter_ms(self.recurrence, self._task_id, at_ms, following_ts))


class EventSeries:
    """The occurrences of a calendar's event, each dispatched where it was moved to; or those of a reminder."""

    def __init__(self, recurrence: Recurrence, turns: Turns, done: tuple[int, ...]) -> None:
        """`done`: those that had their turn, wherever it is now."""
        self.recurrence: Final = recurrence
        self.in_order: Final = turns.in_order
        self._turns: Final = turns
        self._done: Final = done

    def after(self, instant_ms: int) -> Place | None:
        """The first one dispatched later than an instant."""
        return self._placed(self._turns.after(instant_ms))

    def following(self, place: Place) -> Place | None:
        """The one dispatched after another.

        Where other zone data placed that, what its clock shows comes again: it has had its turn.
        """
        turn = self._turns.after(place.fire_at_ms, place.at_ms)
        found = self._placed(turn)
        while found is not None and self._turns.of(place.at_ms) is None and _shows_alike(found, place):
            found = self._placed(self._turns.after(found.fire_at_ms, found.at_ms))
        return found

    def placed(self, place: Place, floor_ms: int) -> tuple[Place | None, int]:
        """As Occurring. Its clock's time is that of its identity; one that was moved by hand goes with it."""
        shown = (place.pointer.nominal_local, place.pointer.fold)
        turn = self._turns.of(place.at_ms)
        if turn is None or self._turns.shown(place.at_ms) != shown:
            turn = self._turns.named(place.pointer.nominal_local) or turn
        if turn is None or (turn.recurrence_ms <= floor_ms and turn.recurrence_ms != place.at_ms):
            turn = self._turns.after(place.fire_at_ms, place.at_ms)
        found = self._placed(turn)
        return (place if found == place else found), 0

    def of(self, occurrence_ts: int) -> Place | None:
        """One occurrence; None: it has no turn."""
        turn = self._turns.of(occurrence_ts)
        return None if turn is None else self._place(turn)

    def jump(self, place: Place, until_ms: int) -> Place:
        """`place`: only an interval can be jumped."""
        del until_ms
        return place

    def beyond(self, until_ms: int) -> tuple[int, Place | None]:
        """Which was the last one is not known without a walk."""
        return NEVER, self.after(until_ms)

    def _placed(self, turn: Turn | None) -> Place | None:
        while turn is not None and turn.recurrence_ms in self._done:
            turn = self._turns.after(*turn)
        return None if turn is None else self._place(turn)

    def _place(self, turn: Turn) -> Place:
        return Place(Pointer(*self._turns.shown(turn.recurrence_ms), turn.recurrence_ms), turn.fire_ms)


def _shows_alike(place: Place, other: Place) -> bool:
    return place.pointer.nominal_local == other.pointer.nominal_local


def begin(
    task_id: str,
    recurrence: Recurrence,
    appended_ms: int,
    old: TaskState | None,
    zones: ZoneData | None = None,
) -> Begin:
    """The first occurrence of a new definition: none from before it was accepted, none that had its turn.

    Raises InvalidInput.
    """
    last = admitted(recurrence, zones)
    floor = appended_ms - 1 if old is None else max(appended_ms - 1, old.last_occurrence_ts)
    place = Series(task_id, recurrence, last, zones).after(floor)
    if place is None:
        raise InvalidInput(f"the schedule has ended: no occurrence lies at or after {iso_utc(floor + 1)}")
    paused = old is not None and old.extras.paused
    return Begin(place.at_ms, pointing(Extras(last_local=last, paused=paused), place))


def recurs_alike(task: Task, recurrence: Recurrence) -> bool:
    """Whether the task recurs in this very way already: then it goes on where it stands.

    So a definition that is sent again, as at every deployment, loses nothing that fell due a moment ago.
    """
    spec, state = task
    if spec is None or state is None or state.next_occurrence_ts == NEVER:
        return False
    return decode_command(spec.command).options.recurrence == recurrence


def without_waiting(task: Task) -> tuple[tuple[RunState, ...], tuple[Ended, ...]]:
    """The runs that are out with workers, and the ends of those that waited for an attempt not to be made."""
    runs = () if task.state is None else task.state.runs
    waiting = [run for run in runs if run.retry_at_ms != NEVER]
    if not waiting:
        return runs, ()
    queue = decode_command(task.spec.command).queue if task.spec else ""
    out = tuple(run for run in runs if run.retry_at_ms == NEVER)
    return out, tuple(given_up(run, queue) for run in waiting)


def fallen_due(
    task_id: str, task: Task, until_ms: int, why: str, zones: ZoneData | None = None
) -> tuple[tuple[Ended, ...], int]:
    """What a new definition, or none, makes of occurrences that are not dispatched yet, and the one to come.

    Of a recurring task, those that fell due until `until_ms` are recorded as skipped, at most MOST_STEPS of
    them counted. The one to come: its instant, NEVER without one.
    """
    spec, state = task
    if state is None:
        return (), NEVER
    following = state.next_occurrence_ts
    command = None if spec is None else decode_command(spec.command)
    if command is None or command.options.recurrence is None:
        return (), following
    skips = _of_queue(state.extras.queued, why)
    if following != NEVER:
        series = series_of(task_id, command, state.extras, zones)
        due, to_come = _fallen_due(series, place_of(state), until_ms, why)
        skips += due
        following = NEVER if to_come is None else to_come.at_ms
    return tuple(skipped(skip, state, command.queue) for skip in skips), following


def given_up(run: RunState, queue: str) -> Ended:
    """The end of an occurrence whose next attempt will not be made."""
    return Ended(
        run.occurrence_ts,
        run.attempt,  # the one that is called off
        run.rev,
        Outcome.CANCELLED,
        queue,
        run.decided_ms,
        None,
        run.worker,
        "",
        b"",
    )


def _of_queue(queued: tuple[int, ...], why: str) -> list[Skip]:
    """More than a few wait only after one stretch of missed ones: those follow one another."""
    if len(queued) > MOST_QUEUED:
        return [Skip(why, queued[0], queued[-1], len(queued))]
    return [Skip(why, at_ms, at_ms, 1) for at_ms in queued]


def _fallen_due(series: Occurring, place: Place, until_ms: int, why: str) -> tuple[list[Skip], Place | None]:
    """Those from `place` on that are dispatched by `until_ms`, and the first one that is not."""
    if place.fire_at_ms > until_ms:
        return [], place
    if not series.in_order:
        return _fallen_due_singly(series, place, until_ms, why)
    last = series.jump(place, until_ms)
    count = 1 + (last.at_ms - place.at_ms) // max(1, series.recurrence.interval_ms)
    for _ in range(MOST_STEPS):
        following = series.following(last)
        if following is None or following.fire_at_ms > until_ms:
            return [Skip(why, place.at_ms, last.at_ms, count)], following
        last, count = following, count + 1
    through, to_come = series.beyond(until_ms)
    return [Skip(f"{why}; more than were counted", place.at_ms, max(last.at_ms, through), count)], to_come


def _fallen_due_singly(
    series: Occurring, place: Place, until_ms: int, why: str
) -> tuple[list[Skip], Place | None]:
    """Where occurrences were moved, no stretch of instants says which had their turn."""
    found: list[Skip] = []
    following: Place | None = place
    while following is not None and following.fire_at_ms <= until_ms and len(found) < MOST_STEPS:
        found.append(Skip(why, following.at_ms, following.at_ms, 1))
        following = series.following(following)
    if following is not None and following.fire_at_ms <= until_ms:
        found[-1] = found[-1]._replace(why=f"{why}; more than were counted")
        following = series.beyond(until_ms)[1]
    return found, following


def skipped(skip: Skip, state: TaskState, queue: str) -> Ended:
    return Ended(
        skip.first_ts,
        0,
        state.rev,
        Outcome.SKIPPED,
        queue,
        NEVER,
        None,
        "",
        skip.why,
        b"",
        through_ts=NEVER if skip.occurrences == 1 else skip.last_ts,
        occurrences=skip.occurrences,
    )


def place_of(state: TaskState) -> Place:
    extras, at_ms = state.extras, state.next_occurrence_ts
    fire_at_ms = at_ms if extras.fire_at_ms == NEVER else extras.fire_at_ms
    return Place(Pointer(extras.nominal_local, extras.fold, at_ms), fire_at_ms)


def pointing(extras: Extras, place: Place | None) -> Extras:
    if place is None:
        return extras._replace(nominal_local=0, fold=0, fire_at_ms=NEVER)
    pointer = place.pointer
    return extras._replace(
        nominal_local=pointer.nominal_local,
        fold=pointer.fold,
        fire_at_ms=NEVER if place.fire_at_ms == place.at_ms else place.fire_at_ms,
    )
