"""Calendar events whose next occurrence other zone data placed: the series is asked where these have it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from tickstream.calendar import Event, Length, Override
from tickstream.calendar.expansion import expand
from tickstream.calendar.recurring import recurrence_of
from tickstream.calendar.stored import Booking, OnConflict, encode_booking
from tickstream.calendar.turns import Turns
from tickstream.codec import encode_command
from tickstream.dispatcher.decision import Rules, Task
from tickstream.dispatcher.moving import look_again, moves
from tickstream.dispatcher.series import EventSeries, Place, place_of, pointing
from tickstream.model import NEVER, Command, Extras, Options, Outcome, Rev, TaskSpec, TaskState, Verb
from tickstream.recurrence import Pointer
from tickstream.settings import EngineSettings

HOUR_MS: Final = 3_600_000
MONDAY: Final = datetime(2027, 6, 7, 9)
DAILY: Final = Event(
    "standup", MONDAY.isoformat(), "Europe/Berlin", Length(ms=HOUR_MS // 2), rule="FREQ=DAILY"
)


def series(event: Event) -> EventSeries:
    expansion = expand(event, "Europe/Berlin")
    return EventSeries(recurrence_of(expansion), Turns(expansion, None), ())


def berlin(day: int, hour: int = 9) -> int:
    """The instant of a summer's day in June; ms, UTC."""
    return round(datetime(2027, 6, day, hour - 2, tzinfo=UTC).timestamp() * 1_000)


def local(day: int, hour: int = 9) -> int:
    return (datetime(2027, 6, day, hour) - datetime(1970, 1, 1)) // timedelta(seconds=1)


def placed(day: int, off_ms: int) -> Place:
    """The occurrence of that day as data whose clock is that much off would have it."""
    return Place(Pointer(local(day), 0, berlin(day) + off_ms), berlin(day) + off_ms)


@pytest.mark.parametrize("off_ms", [-HOUR_MS, HOUR_MS])
def test_it_goes_to_where_the_clock_shows_it(off_ms: int) -> None:
    here = series(DAILY)
    found, passed = here.placed(placed(8, off_ms), berlin(7) + off_ms)
    assert (found, passed) == (placed(8, 0), 0)


def test_what_is_in_place_is_the_same_object() -> None:
    place = placed(8, 0)
    assert series(DAILY).placed(place, NEVER) == (place, 0)
    assert series(DAILY).placed(place, NEVER)[0] is place


@pytest.mark.parametrize("off_ms", [-HOUR_MS, HOUR_MS])
def test_what_ran_does_not_come_again(off_ms: int) -> None:
    assert series(DAILY).following(placed(8, off_ms)) == placed(9, 0)


def test_one_moved_by_hand_goes_with_its_identity() -> None:
    moved = Override("2027-06-08T09:00:00", start="2027-06-08T15:00:00")
    event = replace(DAILY, overrides=(moved,))
    stood = Place(Pointer(local(8), 0, berlin(8) - HOUR_MS), berlin(8, 15) - HOUR_MS)
    found, _ = series(event).placed(stood, berlin(7) - HOUR_MS)
    assert found == Place(Pointer(local(8), 0, berlin(8)), berlin(8, 15))


def test_steps_in_elapsed_time_stay() -> None:
    here = series(replace(DAILY, rule="FREQ=HOURLY"))
    place = here.after(berlin(8))
    assert place is not None
    stood = place._replace(pointer=place.pointer._replace(nominal_local=place.pointer.nominal_local + 3_600))
    found, _ = here.placed(stood, place.at_ms - HOUR_MS)
    assert found is not None
    assert (found.at_ms, found.fire_at_ms) == (place.at_ms, place.fire_at_ms)


@pytest.mark.parametrize("off_ms", [-HOUR_MS, HOUR_MS])
def test_a_task_that_is_an_event_is_looked_at_like_any_other(off_ms: int) -> None:
    booking = Booking("team", "Europe/Berlin", OnConflict.ALLOW, DAILY)
    options = Options(recurrence=recurrence_of(booking.expansion), event=encode_booking(booking))
    command = Command(bytes(16), Verb.SCHEDULE, booking.task_id, NEVER, "default", options, b"")
    stood = placed(8, off_ms)
    state = TaskState(
        Rev(0, 0), NEVER, berlin(7) + off_ms, (), None, NEVER, (), extras=Extras(busy_until_ms=berlin(30))
    )
    state = state._replace(next_occurrence_ts=stood.at_ms, extras=pointing(state.extras, stood))
    task = Task(TaskSpec(Rev(0, 0), encode_command(command)), state)
    rules = Rules(EngineSettings(), frozenset({"default"}), moving="2026a -> 2026b")
    assert moves(booking.task_id, task, rules)
    decision = look_again(booking.task_id, task, berlin(7, 12), rules)
    assert decision.task.state is not None
    assert place_of(decision.task.state) == placed(8, 0)
    assert decision.ended is not None
    assert (decision.ended.outcome, decision.ended.through_ts) == (Outcome.MOVED, berlin(8))
    assert not moves(booking.task_id, decision.task, rules)
