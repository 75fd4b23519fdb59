"""Asks the broker, every few seconds, who is in which group and where the topics end. Reads only.

No row and no index may enter here. A thread of its own: a broker that does not answer holds up
nothing but its own answers, and those say so.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from tickstream.clock import Clock
from tickstream.errors import BrokerUnavailable, LayoutMismatch
from tickstream.kafka import Admin, GroupMember
from tickstream.projection.snapshot import Member, Snapshot
from tickstream.topics import TopicNames

PERIOD_S: Final = 5.0
_LEAVE_S: Final = 1.0
"""How long an end waits for a broker that does not answer; the thread holds nothing."""


class Watch:
    """A context manager; `take` gives each new snapshot once."""

    def __init__(self, admin: Admin, names: TopicNames, clock: Clock) -> None:
        self._admin = admin
        self._names = names
        self._clock = clock
        self._lock = threading.Lock()
        self._latest: Snapshot | None = None
        self._fresh = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="projection-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(_LEAVE_S)

    def take(self) -> Snapshot | None:
        """The last snapshot, if it was not taken yet."""
        with self._lock:
            fresh, self._fresh = self._fresh, False
            return self._latest if fresh else None

    def _run(self) -> None:
        while True:
            snapshot = self._ask()
            with self._lock:
                self._latest, self._fresh = snapshot, True
            if self._stop.wait(PERIOD_S):
                return

    def _ask(self) -> Snapshot:
        """What is so now; what could not be asked, as it was, with the reason."""
        try:
            return ask(self._admin, self._names, self._clock)
        except (BrokerUnavailable, LayoutMismatch) as error:
            before = self._latest or Snapshot(0, "", 0, 0, (), (), {}, {}, {})
            return before._replace(problem=str(error))


def ask(admin: Admin, names: TopicNames, clock: Clock) -> Snapshot:
    """One snapshot. Raises BrokerUnavailable, LayoutMismatch."""
    asked_ms = clock.wall_ms()
    layout = admin.layout()
    queues = tuple(sorted(layout.queues))
    logs = {
        "commands": names.commands,
        "reports": names.reports,
        "timers": names.timers,
        "history": names.history,
    }
    topics = [*logs.values(), *(names.work(queue) for queue in queues)]
    partitions = [(topic, bucket) for topic in topics for bucket in range(layout.buckets)]
    ends = admin.ends(partitions)
    dispatchers = names.dispatcher_group(layout.generation)
    members = admin.members([dispatchers, *(names.worker_group(queue) for queue in queues)])
    waiting = {}
    for queue in queues:
        done = admin.committed(names.worker_group(queue))
        work = [(names.work(queue), bucket) for bucket in range(layout.buckets)]
        behind = [p for p in work if p not in done]
        begun = done | (admin.starts(behind) if behind else {})
        waiting[queue] = sum(max(0, ends[p] - begun[p]) for p in work)
    return Snapshot(
        asked_ms,
        "",
        layout.lanes,
        layout.generation,
        queues,
        _members(members[dispatchers]),
        {queue: _members(members[names.worker_group(queue)]) for queue in queues},
        waiting,
        {log: [ends[topic, b] for b in range(layout.buckets)] for log, topic in logs.items()},
    )


def _members(found: Sequence[GroupMember]) -> tuple[Member, ...]:
    return tuple(
        Member(member.client_id, member.host, tuple(sorted(p for _, p in member.assigned)))
        for member in sorted(found)
    )
