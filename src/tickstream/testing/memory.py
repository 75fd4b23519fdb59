"""What a TimerStore holds, in memory: for the harness. No RocksDB, no file."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import islice

from tickstream.calendar import MemoryOccupancy
from tickstream.dispatcher.decision import NO_TASK, Task
from tickstream.dispatcher.outcome import BucketOutcome
from tickstream.model import DueEntry, TaskSpec, TaskState
from tickstream.timer_store import due_entries, held_entry
from tickstream.timer_store.busy_time import busy_time_of, takes_other_time


class MemoryTimers:
    """Tasks and due index of all buckets. Implements dispatcher.sweep.SweepView."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[int, str], Task] = {}
        self._due: list[tuple[int, int, DueEntry]] = []
        """(at_ms, bucket, entry), sorted."""
        self._held: dict[tuple[int, str], list[DueEntry]] = {}
        """(bucket, gate) → what waits there, sorted."""

        self._busy: dict[tuple[int, str], MemoryOccupancy] = {}
        """(bucket, calendar) → what is taken."""

    def spec(self, bucket: int, task_id: str) -> TaskSpec | None:
        """What was asked of the task."""
        return self._tasks.get((bucket, task_id), NO_TASK).spec

    def state(self, bucket: int, task_id: str) -> TaskState | None:
        """Where the task stands."""
        return self._tasks.get((bucket, task_id), NO_TASK).state

    def due(self, bucket: int, until_ms: int, limit: int, *, after: DueEntry | None = None) -> list[DueEntry]:
        """The first `limit` entries of a bucket up to `until_ms`, behind `after`, in order of instant."""
        begin = 0 if after is None else bisect_right(self._due, (after.at_ms, bucket, after))
        entries = (e for at_ms, number, e in self._due[begin:] if number == bucket and at_ms <= until_ms)
        return list(islice(entries, limit))

    def tasks(self, bucket: int, after: str = "") -> Iterator[tuple[str, TaskState]]:
        """Every task of a bucket that has a state, in order of id, from behind `after` on."""
        for number, task_id in sorted(self._tasks):
            state = self.state(number, task_id)
            if number == bucket and task_id > after and state is not None:
                yield task_id, state

    def due_everywhere(self, until_ms: int) -> dict[int, list[DueEntry]]:
        """Bucket → entries due, in order of instant."""
        found: dict[int, list[DueEntry]] = {}
        for at_ms, bucket, entry in self._due:
            if at_ms > until_ms:
                break
            found.setdefault(bucket, []).append(entry)
        return found

    def held(self, bucket: int, gate: str, limit: int) -> list[DueEntry]:
        """The first `limit` occurrences that wait at a gate, in order of instant."""
        return self._held.get((bucket, gate), [])[:limit]

    def next_due_ms(self) -> int | None:
        """The first instant at which something is due."""
        return self._due[0][0] if self._due else None

    def apply(self, outcome: BucketOutcome) -> None:
        """Take a bucket's outcome over."""
        for task_id, task in outcome.after.items():
            before = outcome.before[task_id]
            old, new = due_entries(task_id, *before), due_entries(task_id, *task)
            for entry in old:
                if entry not in new:
                    self._drop(outcome.bucket, entry)
            for entry in new:
                if entry not in old:
                    insort(self._due, (entry.at_ms, outcome.bucket, entry))
            was, waits = held_entry(task_id, *before), held_entry(task_id, *task)
            if was is not None:
                self._held[outcome.bucket, was.gate].remove(was.due)
            if waits is not None:
                insort(self._held.setdefault((outcome.bucket, waits.gate), []), waits.due)
            self._move_busy(outcome.bucket, before, task)
            if task == NO_TASK:
                self._tasks.pop((outcome.bucket, task_id), None)
            else:
                self._tasks[outcome.bucket, task_id] = task
        for entry in outcome.stale:
            self._drop(outcome.bucket, entry)

    def occupancy(self, bucket: int, calendar: str) -> MemoryOccupancy:
        """The busy time of one calendar."""
        return self._busy.setdefault((bucket, calendar), MemoryOccupancy())

    def reckon_busy(self) -> None:
        """Derive all busy time anew, by the zone data in use."""
        self._busy.clear()
        for (bucket, _), task in self._tasks.items():
            taken = busy_time_of(*task)
            self.occupancy(bucket, taken.calendar).add(taken.stretches)

    def _move_busy(self, bucket: int, before: Task, after: Task) -> None:
        if takes_other_time(*before, *after):
            old, new = busy_time_of(*before), busy_time_of(*after)
            self.occupancy(bucket, old.calendar).remove(old.stretches)
            self.occupancy(bucket, new.calendar).add(new.stretches)

    def _drop(self, bucket: int, entry: DueEntry) -> None:
        row = (entry.at_ms, bucket, entry)
        at = bisect_left(self._due, row)
        if at < len(self._due) and self._due[at] == row:
            del self._due[at]
