"""The leases of a lane's claimed runs: soft state, in memory, rebuilt with full leases at a take-over.

Pure: told of claims, heartbeats, ends and licences; says what has expired. Times are seconds of one
monotonic clock, so that a step of the wall clock expires nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tickstream.dispatcher.decision import Lease, Task
from tickstream.model import NEVER, Report, TaskState


class Expired(NamedTuple):
    """A claimed run that was not heard of in time."""

    bucket: int
    task_id: str
    occurrence_ts: int
    attempt: int
    holder: bytes


class _Held(NamedTuple):
    attempt: int
    holder: bytes
    lease_s: float
    deadline: float


_Task = tuple[int, str]
"""(bucket, task_id)"""


class LeaseBook:
    """Who holds what until when."""

    def __init__(self) -> None:
        self._held: dict[_Task, dict[int, _Held]] = {}
        """By task, then by occurrence_ts."""
        self._heap: list[tuple[float, _Task, int]] = []
        """(deadline as it was when pushed, task, occurrence_ts); one renewed since is pushed again when met."""

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def follow(
        self,
        bucket: int,
        tasks: Mapping[str, Task],
        claims: Iterable[Lease],
        heartbeats: Iterable[Report],
        now: float,
    ) -> None:
        """Take over what one bucket's share of a committed transaction came to.

        `tasks`: every task changed, as it is now.
        """
        for lease in claims:
            self.begin(bucket, lease, now)
        for task_id, task in tasks.items():
            # Also what was claimed and has ended in this very transaction.
            self.keep_only(bucket, task_id, task.state)
        for report in heartbeats:
            self.renew(bucket, report, now)

    def begin(self, bucket: int, lease: Lease, now: float) -> None:
        """A Claimed was applied: the lease starts, for this holder alone."""
        lease_s = lease.lease_ms / 1000
        held = _Held(lease.attempt, lease.holder, lease_s, now + lease_s)
        self._held.setdefault((bucket, lease.task_id), {})[lease.occurrence_ts] = held
        heapq.heappush(self._heap, (held.deadline, (bucket, lease.task_id), lease.occurrence_ts))

    def renew(self, bucket: int, report: Report, now: float) -> None:
        """A Heartbeat was applied; it counts only from the holder of the attempt."""
        runs = self._held.get((bucket, report.task_id), {})
        held = runs.get(report.occurrence_ts)
        if held is not None and (held.attempt, held.holder) == (report.attempt, report.run_id):
            runs[report.occurrence_ts] = held._replace(deadline=now + held.lease_s)

    def keep_only(self, bucket: int, task_id: str, state: TaskState | None) -> None:
        """Forget what the task no longer has out with that holder, and what nothing is decided for."""
        runs = self._held.get((bucket, task_id))
        if runs is None:
            return
        alive = state is not None and not state.extras.faulted
        out = {
            run.occurrence_ts: (run.attempt, run.holder)
            for run in (state.runs if state and alive else ())
            if run.holder and run.retry_at_ms == NEVER
        }
        left = {at: held for at, held in runs.items() if out.get(at) == (held.attempt, held.holder)}
        if left:
            self._held[bucket, task_id] = left
        else:
            del self._held[bucket, task_id]

    def expired(self, licensed: Mapping[int, float]) -> list[Expired]:
        """Leases whose deadline lies before their bucket's licence, the instant of its last end probe.

        Everything accepted before that instant is applied, so no heartbeat of theirs is under way.
        """
        found: list[Expired] = []
        again: list[tuple[float, _Task, int]] = []
        latest = max(licensed.values(), default=0.0)
        while self._heap and self._heap[0][0] < latest:
            _, task, occurrence_ts = heapq.heappop(self._heap)
            held = self._held.get(task, {}).get(occurrence_ts)
            if held is None:
                continue
            if held.deadline < licensed.get(task[0], 0.0):
                found.append(Expired(*task, occurrence_ts, held.attempt, held.holder))
            # What expired stays until its expiry is committed: after an abort it is asked for again.
            again.append((held.deadline, task, occurrence_ts))
        for entry in again:
            heapq.heappush(self._heap, entry)
        return found

    def next_deadline(self) -> float | None:
        """A lower bound of the first deadline, None when nothing is held."""
        while self._heap and self._heap[0][2] not in self._held.get(self._heap[0][1], {}):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
