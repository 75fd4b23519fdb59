"""Which recurring tasks and events of calendars another release of the tz database moves, before a dispatcher has it.

Pure, given the tasks as they stand or are declared; what a dispatcher then does is dispatcher/moving.py's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from tickstream.calendar.stored import decode_booking
from tickstream.calendar.values import Event, Status
from tickstream.clock import moment_of
from tickstream.codec import decode_command, decode_spec
from tickstream.errors import InvalidInput
from tickstream.ingest.changelog import Standing
from tickstream.model import NEVER, Recurrence
from tickstream.recurrence import Occurrences, Pointer
from tickstream.recurrence.stored import admitted, occurrences_of
from tickstream.recurrence.zone_changes import ZoneChange
from tickstream.recurrence.zone_data import ZoneData

_DAY_MS: Final = 86_400_000
_MOST_STEPS: Final = 2_000
"""Occurrences of one task that are compared: behind them a rule of short steps is not looked at any more."""


class Coming(NamedTuple):
    """A recurring task, or a calendar's event or reminder, from its next occurrence on."""

    task_id: str
    recurrence: Recurrence
    last: int | None
    """What `admitted` found."""
    pointer: Pointer
    """The next one by the older release."""
    floor_ms: int
    """The last instant that had its turn, ms, UTC; NEVER before the first."""


class TaskMove(NamedTuple):
    """The first occurrence of a task that comes at another instant. ms, UTC."""

    task_id: str
    zone: str
    local: str
    """The wall clock time that the rule names."""
    before_ms: int
    after_ms: int
    """NEVER: it does not occur any more, or its zone is gone."""
    is_next: bool
    """Whether it is the very next one, which moves as soon as a dispatcher has the data."""


class InZones:
    """Of `ingest.changelog.Wanted`: recurring tasks in some zones."""

    def __init__(self, zones: Iterable[str]) -> None:
        self._zones = frozenset(zones)
        self._marks = tuple(zone.encode() for zone in self._zones)
        self._found: set[str] = set()

    def spec(self, task_id: str, value: bytes) -> bool:
        """Most records are passed over without being decoded."""
        wanted = any(mark in value for mark in self._marks) and self._is_in(value)
        (self._found.add if wanted else self._found.discard)(task_id)
        return wanted

    def state(self, task_id: str) -> bool:
        """Of those whose spec is: it lies before every state of it."""
        return task_id in self._found

    def _is_in(self, value: bytes) -> bool:
        recurrence = decode_command(decode_spec(value).command).options.recurrence
        return recurrence is not None and recurrence.zone in self._zones


def standing(tasks: Mapping[str, Standing]) -> list[Coming]:
    """What is to come of tasks as the changelog has them, by id."""
    found = []
    for task_id, (spec, state) in sorted(tasks.items()):
        if spec is None or state is None or state.next_occurrence_ts == NEVER:
            continue
        options = decode_command(spec.command).options
        if options.recurrence is None:
            continue
        extras = state.extras
        pointer = Pointer(extras.nominal_local, extras.fold, state.next_occurrence_ts)
        if options.event:
            event = decode_booking(options.event).event
            # One that was moved by hand may come behind a later one: no floor says which had their turn.
            found.append(Coming(task_id, _by_rule(event, options.recurrence), event.last, pointer, NEVER))
        else:
            floor_ms = state.last_occurrence_ts
            found.append(Coming(task_id, options.recurrence, extras.last_local, pointer, floor_ms))
    return found


def _by_rule(event: Event, recurrence: Recurrence) -> Recurrence:
    """Where the event's rule has its occurrences: those changed by hand as they are named, not as older data had them."""
    changed = {o.recurrence_id: o.status is Status.CANCELLED for o in event.overrides}
    return recurrence._replace(
        rdate=(*(a.start for a in event.rdate), *(name for name, off in changed.items() if not off)),
        exdate=(*event.exdate, *(name for name, off in changed.items() if off)),
    )


def declared(tasks: Mapping[str, Recurrence], old: ZoneData, now_ms: int) -> list[Coming]:
    """The same of tasks as they are declared, from now on. Raises InvalidInput."""
    found = []
    for task_id, recurrence in sorted(tasks.items()):
        last = admitted(recurrence, old)
        pointer = occurrences_of(recurrence, last, old).next_after(now_ms - 1)
        if pointer is not None:
            found.append(Coming(task_id, recurrence, last, pointer, NEVER))
    return found


def task_moves(
    tasks: Sequence[Coming], changes: Sequence[ZoneChange], old: ZoneData, new: ZoneData, until_ms: int
) -> list[TaskMove]:
    """Of each task the first occurrence before `until_ms` that moves; what moves first stands first."""
    by_zone = {change.zone: change for change in changes}
    moves = []
    for task in tasks:
        change = by_zone.get(task.recurrence.zone)
        if change is not None and (found := _move(task, change, old, new, until_ms)) is not None:
            moves.append(found)
    return sorted(moves, key=lambda move: (move.before_ms, move.task_id))


def _move(task: Coming, change: ZoneChange, old: ZoneData, new: ZoneData, until_ms: int) -> TaskMove | None:
    if change.gone:
        return _told(task, task.pointer, None, is_next=True)
    by_new = occurrences_of(task.recurrence, task.last, new)
    placed, _ = by_new.placed(task.pointer, task.floor_ms)
    if placed != task.pointer:
        return _told(task, task.pointer, placed, is_next=True)
    try:
        by_old = occurrences_of(task.recurrence, task.last, old)
    except InvalidInput:
        return None  # by neither release is anything known of what follows
    return _later(task, change, by_old, by_new, until_ms)


def _later(
    task: Coming, change: ZoneChange, by_old: Occurrences, by_new: Occurrences, until_ms: int
) -> TaskMove | None:
    """Behind the next one: from a day before each stretch on, for both releases agree until then."""
    for stretch in change.stretches:
        begin_ms = max(task.pointer.next_occurrence_ts, stretch.start * 1_000 - _DAY_MS)
        end_ms = min(until_ms, stretch.end * 1_000 + _DAY_MS)
        pairs = zip(by_old.after(begin_ms), by_new.after(begin_ms), strict=False)
        for before, after in islice(pairs, _MOST_STEPS):
            if before.next_occurrence_ts >= end_ms:
                break
            if before.next_occurrence_ts != after.next_occurrence_ts:
                return _told(task, before, after, is_next=False)
    return None


def _told(task: Coming, before: Pointer, after: Pointer | None, *, is_next: bool) -> TaskMove:
    return TaskMove(
        task.task_id,
        task.recurrence.zone,
        f"{moment_of(before.nominal_local * 1_000):%Y-%m-%dT%H:%M:%S}",
        before.next_occurrence_ts,
        NEVER if after is None else after.next_occurrence_ts,
        is_next,
    )
