"""What the store derives from its tasks, put into a batch as the difference of before and after. Reads nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from rocksdict import ColumnFamily, WriteBatch

from tickstream.model import NEVER, TaskSpec, TaskState
from tickstream.timer_store.busy import busy_key, busy_value, calendar_prefix
from tickstream.timer_store.busy_time import NO_TIME, BusyTime, busy_time_of
from tickstream.timer_store.due import HeldEntry
from tickstream.timer_store.keys import bucket_prefix, held_key

EVENTS: Final = "{"
"""How the ids of all events begin."""


def move_held(
    batch: WriteBatch, family: ColumnFamily, bucket: int, old: HeldEntry | None, new: HeldEntry | None
) -> None:
    """An occurrence comes to a gate, or leaves it."""
    if old == new:
        return
    if old is not None:
        batch.delete(held_key(bucket, old.gate, old.due), family)
    if new is not None:
        batch.put(held_key(bucket, new.gate, new.due), b"", family)


def move_busy(batch: WriteBatch, family: ColumnFamily, bucket: int, old: BusyTime, new: BusyTime) -> None:
    """Most of a series stays where it is when its horizon moves on."""
    alike = old.calendar == new.calendar
    prefix = calendar_prefix(bucket, old.calendar)
    for stretch in old.stretches - new.stretches if alike else old.stretches:
        batch.delete(busy_key(prefix, stretch), family)
    prefix = calendar_prefix(bucket, new.calendar)
    for stretch in new.stretches - old.stretches if alike else new.stretches:
        batch.put(busy_key(prefix, stretch), busy_value(stretch), family)


def busy_anew(
    batch: WriteBatch,
    family: ColumnFamily,
    bucket: int,
    tasks: Iterable[tuple[str, TaskState]],
    spec: Callable[[str], TaskSpec | None],
) -> None:
    """All of a bucket's busy time by the zone data in use, in place of what is there. `tasks`: from EVENTS on, by id.

    What other data placed cannot be named by these: so nothing of it is kept. Raises CodecError.
    """
    batch.delete_range(bucket_prefix(bucket), bucket_prefix(bucket + 1), family)
    for task_id, state in tasks:
        if not task_id.startswith(EVENTS):
            return
        if state.extras.busy_until_ms != NEVER:
            move_busy(batch, family, bucket, NO_TIME, busy_time_of(spec(task_id), state))
