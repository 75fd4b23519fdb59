"""The busy time of a calendar's event as a pure function of what its task is, like the due index. No store, no clock here."""

from __future__ import annotations

from typing import Final, NamedTuple

from tickstream.calendar import Busy, busy_time
from tickstream.calendar.occupancy import DAY_MS
from tickstream.calendar.stored import decode_booking
from tickstream.codec import decode_command
from tickstream.errors import UnknownZone
from tickstream.model import NEVER, TaskSpec, TaskState
from tickstream.timer_store.due import HORIZON_MS

PAST_MS: Final = 31 * DAY_MS
"""How far back busy time is kept."""


class BusyTime(NamedTuple):
    """What one event takes up."""

    calendar: str
    stretches: frozenset[Busy]


NO_TIME: Final = BusyTime("", frozenset())


def window(busy_until_ms: int) -> tuple[int, int]:
    """From where to where the time of an event is kept, in ms, UTC."""
    return busy_until_ms - HORIZON_MS - PAST_MS, busy_until_ms


def busy_time_of(spec: TaskSpec | None, state: TaskState | None) -> BusyTime:
    """What the task's event takes up within its window, by the zone data in use.

    Nothing when it is no event, or cancelled; nor when the data lack its zone, for then its task is faulted.
    """
    if spec is None or state is None or spec.rev != state.rev or state.extras.busy_until_ms == NEVER:
        return NO_TIME
    booking = decode_booking(decode_command(spec.command).options.event)
    try:
        expansion = booking.expansion
    except UnknownZone:
        return NO_TIME
    return BusyTime(booking.calendar, frozenset(busy_time(expansion, *window(state.extras.busy_until_ms))))


def takes_other_time(
    old_spec: TaskSpec | None,
    old_state: TaskState | None,
    new_spec: TaskSpec | None,
    new_state: TaskState | None,
) -> bool:
    """Whether the two may differ in their busy time. Cheap: most tasks are no events, most changes none of their time."""
    old = NEVER if old_state is None else old_state.extras.busy_until_ms
    new = NEVER if new_state is None else new_state.extras.busy_until_ms
    return old != new or (old != NEVER and old_spec is not new_spec)
