"""What comes of a recurring task's occurrence that is due: misfire, overlap, and the pointer that moves on.

Pure, like engine.py. The table of moves stands in docs/protocol.md, "Recurring tasks".
"""

from __future__ import annotations

from typing import Final

from tickstream.clock import iso_utc
from tickstream.dispatcher.decision import Decision, Dispatch, Ended, Rules, Task, settle, terms_of
from tickstream.dispatcher.moving import move
from tickstream.dispatcher.series import (
    MOST_QUEUED,
    MOST_STEPS,
    Occurring,
    Place,
    Skip,
    given_up,
    place_of,
    pointing,
    series_of,
    skipped,
)
from tickstream.dispatcher.standing import MOST_IN_FLIGHT
from tickstream.model import (
    NEVER,
    Command,
    Misfire,
    Outcome,
    Overlap,
    RunState,
    Signal,
    SignalKind,
    TaskState,
)

MOST_CAUGHT_UP: Final = 1_000
"""Missed occurrences that wait for their turn or are in flight, with misfire=all."""
_MOST_COUNTED: Final = 2**31 - 1


def fire(
    task: Task, state: TaskState, command: Command, occurrence_ts: int, now_ms: int, rules: Rules
) -> Decision:
    """An occurrence is due: dispatched, kept waiting, or recorded as skipped; and the pointer moves on."""
    series = series_of(command.task_id, command, state.extras, rules.zones)
    if rules.moving and occurrence_ts == state.next_occurrence_ts:
        moved = move(task, state, command, series, now_ms, rules)
        if moved.task is not task:
            return moved
    firing = Firing(series, state, now_ms)
    if state.extras.queued and occurrence_ts == state.extras.queued[0]:
        if state.runs:
            return Decision(task)  # something of this very batch is in flight since
        waits, left = firing.decision(task, command.queue, firing.place, rules), state.extras.queued[1:]
        out, held = state.with_extras(queued=left), state.extras.held
        return _dispatched(waits, out, command, occurrence_ts, occurrence_ts, held, now_ms, rules)
    place = firing.pass_over_missed()
    if place is None or place.fire_at_ms > now_ms or not firing.in_turn(place):
        return firing.decision(task, command.queue, place, rules)
    following = firing.series.following(place)
    if firing.meets(place):
        return firing.decision(task, command.queue, following, rules)
    waits = firing.decision(task, command.queue, place, rules)
    out, held = firing.state(following), state.extras.held
    return _dispatched(waits, out, command, place.at_ms, place.fire_at_ms, held, now_ms, rules)


class Firing:
    """What comes of the occurrences that are due, collected while they are gone through."""

    def __init__(self, series: Occurring, state: TaskState, now_ms: int) -> None:
        self.series: Final = series
        self.place: Final = place_of(state)
        """Where the pointer stood."""
        self._state: Final = state
        self._now_ms: Final = now_ms
        self._on_time_ms: Final = now_ms - series.recurrence.grace_ms
        self._skips: list[Skip] = []
        self._queued = list(state.extras.queued)
        self._catches_up = False
        self._late: Place | None = None
        """A missed one that is dispatched all the same."""

    def pass_over_missed(self) -> Place | None:
        """Deal with missed ones by the misfire policy; returns where the pointer stands then.

        That one is missed, too, when there are more of them than one decision deals with.
        """
        recurrence = self.series.recurrence
        place: Place | None = self.place
        for _ in range(MOST_STEPS):
            if place is None or self._is_on_time(place):
                break
            why = self._why(place)
            if recurrence.misfire is Misfire.ALL:
                pending = len(self._queued) + len(self._state.runs)
                if recurrence.overlap is not Overlap.ALLOW and pending < MOST_CAUGHT_UP:
                    self._catches_up = True
                    self._queued.append(place.at_ms)
                    place = self.series.following(place)
                    continue
                if recurrence.overlap is Overlap.ALLOW and len(self._state.runs) < MOST_IN_FLIGHT:
                    self._late = place
                    break
                why = f"limit: as many occurrences as may wait, or are in flight ({why})"
            place = self._jump(place, why)
            following = self.series.following(place)
            if recurrence.misfire is Misfire.LATEST and (
                following is None or following.fire_at_ms > self._now_ms
            ):
                self._late = place
                break
            self._skip(why, place.at_ms, place.at_ms, 1)
            place = following
        return place

    def in_turn(self, place: Place) -> bool:
        """Whether one that is due is to be dispatched: it is on time, or the misfire policy says so."""
        return place is self._late or self._is_on_time(place)

    def meets(self, place: Place) -> bool:
        """Whether a run in flight keeps an occurrence from being dispatched now: it waits, or is skipped."""
        overlap, in_flight = self.series.recurrence.overlap, len(self._state.runs)
        busy = bool(in_flight or self._queued)
        if self._catches_up or (overlap is Overlap.QUEUE and busy):
            most = MOST_CAUGHT_UP if self._catches_up else MOST_QUEUED
            if len(self._queued) < most:
                self._queued.append(place.at_ms)
                return True
            why = f"limit: {most} occurrences wait for the one in flight"
        elif overlap is Overlap.SKIP and busy:
            other = self._state.runs[0].occurrence_ts if in_flight else self._queued[0]
            why = f"overlap: that of {iso_utc(other)} has not ended"
        elif in_flight < MOST_IN_FLIGHT:
            return False
        else:
            why = f"limit: {in_flight} occurrences are in flight"
        self._skip(why, place.at_ms, place.at_ms, 1)
        return True

    def state(self, place: Place | None) -> TaskState:
        """The task's state with its pointer at `place`."""
        state = self._state
        handled = [state.last_occurrence_ts, *(s.last_ts for s in self._skips), *self._queued[-1:]]
        skipped = state.extras.skipped + sum(skip.occurrences for skip in self._skips)
        extras = state.extras._replace(
            queued=tuple(self._queued), skipped=min(skipped, _MOST_COUNTED), held=""
        )
        return state._replace(
            next_occurrence_ts=NEVER if place is None else place.at_ms,
            last_occurrence_ts=max(handled),
            extras=pointing(extras, place),
        )

    def decision(self, task: Task, queue: str, place: Place | None, rules: Rules) -> Decision:
        """Nothing is dispatched: the pointer stands at `place`, and what was skipped is recorded."""
        ends = tuple(skipped(skip, self._state, queue) for skip in self._skips)
        after = settle(task, self.state(place), Outcome.SKIPPED, self._now_ms, rules)
        return Decision(after, also_ended=ends)

    def _is_on_time(self, place: Place) -> bool:
        return place.fire_at_ms >= self._on_time_ms

    def _why(self, place: Place) -> str:
        extras = self._state.extras
        if place.fire_at_ms <= extras.resumed_ms:
            return "pause: it fell due while the task was paused"
        if extras.held:
            return f"gate: it waited for longer than its grace ({extras.held})"
        return "misfire: it could not be dispatched within its grace"

    def _jump(self, place: Place, why: str) -> Place:
        """With an interval, skip all but the last of those that are surely missed, for the same reason."""
        until_ms = self._on_time_ms - 1
        resumed_ms = self._state.extras.resumed_ms
        if place.fire_at_ms <= resumed_ms:
            until_ms = min(until_ms, resumed_ms)
        last = self.series.jump(place, until_ms)
        step = self.series.recurrence.interval_ms
        if last is not place:
            self._skip(why, place.at_ms, last.at_ms - step, (last.at_ms - place.at_ms) // step)
        return last

    def _skip(self, why: str, first_ts: int, last_ts: int, count: int) -> None:
        if self._skips and self._skips[-1].why == why and self.series.in_order:
            before = self._skips.pop()
            first_ts, count = before.first_ts, before.occurrences + count
        self._skips.append(Skip(why, first_ts, last_ts, count))


def _dispatched(
    waits: Decision,
    state: TaskState,
    command: Command,
    occurrence_ts: int,
    due_ms: int,
    held: str,
    now_ms: int,
    rules: Rules,
) -> Decision:
    """The occurrence, due at `due_ms`, goes out and leaves `state`. `waits`: what is decided while a gate is closed.

    `held`: the gate that it waited at so far.
    """
    spec = waits.task.spec
    if command.options.event and not command.queue:
        return _recorded(waits, state, occurrence_ts, due_ms, now_ms, rules)
    if command.queue not in rules.queues:
        error = f"UnknownQueue: {command.queue!r} was there when the task was scheduled, and is gone"
        ended = Ended(
            occurrence_ts, 0, state.rev, Outcome.DEAD, command.queue, now_ms, None, "", error, command.body
        )
        left = state._replace(last_occurrence_ts=max(state.last_occurrence_ts, occurrence_ts))
        return waits._replace(task=settle(Task(spec, state), left, Outcome.DEAD, now_ms, rules), ended=ended)
    limit_key = command.options.limit_key
    gate = rules.gates.closed(command.queue, limit_key, held)
    if gate:
        assert waits.task.state is not None
        return waits._replace(task=Task(spec, waits.task.state.with_extras(held=gate)))
    runs, ends = state.runs, waits.also_ended
    signals: tuple[Signal, ...] = ()
    recurrence = command.options.recurrence
    if recurrence is not None and recurrence.overlap is Overlap.CANCEL_RUNNING:
        runs, called_off, signals = _asked_to_stop(command, state)
        ends += called_off
    places = rules.gates.places(command.queue, limit_key)
    run = RunState(occurrence_ts, 1, state.rev, now_ms, places=places)
    out = state.with_extras(skipped=0, held="")._replace(
        runs=(*runs, run), last_occurrence_ts=max(state.last_occurrence_ts, occurrence_ts)
    )
    # An event's occurrence is due where it was moved to; jitter is no part of when an occurrence is due.
    moved = bool(command.options.event) and due_ms != occurrence_ts
    not_before_ms = due_ms if moved else NEVER
    dispatch = Dispatch(
        run, command.queue, terms_of(command), command.body, state.extras.skipped, not_before_ms
    )
    return Decision(Task(spec, out), dispatch=dispatch, also_ended=ends, signals=signals)


def _recorded(
    waits: Decision, state: TaskState, occurrence_ts: int, due_ms: int, now_ms: int, rules: Rules
) -> Decision:
    """Nothing is to run at this occurrence of an event: history says that it took place."""
    ended = Ended(occurrence_ts, 0, state.rev, Outcome.SUCCEEDED, "", due_ms, None, "", "", b"")
    left = state._replace(last_occurrence_ts=max(state.last_occurrence_ts, occurrence_ts))
    after = settle(Task(waits.task.spec, state), left, Outcome.SUCCEEDED, now_ms, rules)
    return waits._replace(task=after, ended=ended)


def _asked_to_stop(
    command: Command, state: TaskState
) -> tuple[tuple[RunState, ...], tuple[Ended, ...], tuple[Signal, ...]]:
    """Runs in flight as the next occurrence leaves them: none is tried again, who holds one is asked to stop."""
    waiting = [run for run in state.runs if run.retry_at_ms != NEVER]
    out = tuple(run._replace(stopping=True) for run in state.runs if run not in waiting)
    signals = tuple(
        Signal(run.holder, SignalKind.CANCELLED, command.task_id, run.occurrence_ts, run.attempt)
        for run in out
        if run.holder
    )
    return out, tuple(given_up(run, command.queue) for run in waiting), signals
