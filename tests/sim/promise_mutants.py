"""Faults of recurring tasks, gates, work that is sent ahead, and standby stores (mutation.py)."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from typing import Any

from tests.sim.mutation import instead, mutant
from tickstream.dispatcher import engine
from tickstream.dispatcher.answers import answer_of
from tickstream.dispatcher.decision import Decision, Task
from tickstream.dispatcher.gates import Gates, GateTurn
from tickstream.dispatcher.recurring import Firing
from tickstream.dispatcher.series import Place, Series
from tickstream.model import NEVER, VerdictKind
from tickstream.testing.sim.dispatcher import SimDispatcher
from tickstream.testing.sim.store import MemoryStore
from tickstream.worker.early import Early

# --------------------------------------------------------------------------- recurring tasks


@mutant("G4", "what is skipped is not recorded")
def _silent_skips() -> AbstractContextManager[object]:
    return instead(Firing, "_skip", lambda self, why, first_ts, last_ts, count: None)


@mutant("G4", "an occurrence that meets another is dispatched all the same")
def _no_overlap() -> AbstractContextManager[object]:
    return instead(Firing, "meets", lambda self, place: False)


@mutant("G4", "what is missed is dispatched, however late")
def _no_grace() -> AbstractContextManager[object]:
    return instead(Firing, "_is_on_time", lambda self, place: True)


@mutant("G4", "the pointer drifts by three milliseconds")
def _drift() -> AbstractContextManager[object]:
    real = Series.following

    def following(self: Series, place: Place) -> Place | None:
        found = real(self, place)
        if found is None:
            return None
        pointer = found.pointer._replace(next_occurrence_ts=found.at_ms + 3)
        return Place(pointer, found.fire_at_ms + 3)

    return instead(Series, "following", following)


@mutant("G4", "an occurrence is passed over where the dispatcher is late")
def _passed_over() -> AbstractContextManager[object]:
    real = Series.following

    def following(self: Series, place: Place) -> Place | None:
        found = real(self, place)
        late = place.at_ms % 7 == 3 or place.at_ms // 1_000 % 7 == 3
        return real(self, found) if found is not None and late else found

    return instead(Series, "following", following)


# --------------------------------------------------------------------------- pauses, limits, keys


@mutant("G2", "a pause of the queue is answered and ignored")
def _open_queue() -> AbstractContextManager[object]:
    return instead(GateTurn, "_paused", lambda self, queue: False)


@mutant("G2", "a pause of a task is answered and ignored")
def _no_pause() -> AbstractContextManager[object]:
    real = engine.pause

    def pause(task: Task, command: Any) -> Decision:
        decision = real(task, command)
        if decision.answer is None or decision.answer.kind is not VerdictKind.PAUSED:
            return decision
        return Decision(task, answer=answer_of(task, VerdictKind.PAUSED))

    return instead(engine, "pause", pause)


@mutant("G2", "a limit_key is not looked at")
def _no_key() -> AbstractContextManager[object]:
    real = GateTurn.closed
    return instead(GateTurn, "closed", lambda self, queue, limit_key, held="": real(self, queue, "", held))


@mutant("G2", "an attempt that failed leaves the places of its occurrence")
def _left_places() -> AbstractContextManager[object]:
    real = GateTurn.moved

    def moved(self: GateTurn, before: Any, after: Any) -> None:
        if after is not None:
            runs = tuple(r if r.retry_at_ms == NEVER else r._replace(places=()) for r in after.runs)
            after = after._replace(runs=runs)
        real(self, before, after)

    return instead(GateTurn, "moved", moved)


@mutant("G2", "places under limits are forgotten at a take-over")
def _forgotten_places() -> AbstractContextManager[object]:
    return instead(Gates, "enter", lambda self, state: None)


# --------------------------------------------------------------------------- sent ahead


@mutant("G3", "work that is sent ahead does not say until when it is to be held")
def _not_marked() -> AbstractContextManager[object]:
    return instead(engine, "ahead", lambda occurrence_ts, now_ms, lead_ms: NEVER)


@mutant("G3", "a worker starts at once what it is to hold")
def _not_held() -> AbstractContextManager[object]:
    return instead(Early, "hold", lambda self, run, wall_ms, now: False)


# --------------------------------------------------------------------------- the store


@mutant("G4", "a standby goes on writing what a lane has taken over, and the store lets it")
def _two_writers() -> AbstractContextManager[object]:
    def keep_warm(self: SimDispatcher) -> None:
        if self._standby is not None:
            self._standby.keep(range(self.plant.lanes))

    stack = ExitStack()
    stack.enter_context(instead(SimDispatcher, "_keep_warm", keep_warm))
    stack.enter_context(instead(MemoryStore, "_check", lambda self, bucket, token, decided_on: None))
    return stack
