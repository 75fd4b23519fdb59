"""Deleting from `commands` and `reports` what is applied and older than a safety window.

What may go is a pure function; asking and deleting is behind a port, and may block.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tickstream.clock import Clock
from tickstream.dispatcher.lane import Events
from tickstream.dispatcher.ports import Input
from tickstream.errors import BrokerUnavailable, LayoutMismatch
from tickstream.model import Progress

Place = tuple[Input, int]
"""An input and its bucket."""


class InputLogs(Protocol):
    """The inputs as logs. All methods raise BrokerUnavailable or LayoutMismatch."""

    def topic_ids(self) -> Mapping[Input, bytes]: ...

    def starts(self) -> Mapping[Place, int]:
        """Where each log starts."""
        ...

    def first_since(self, wall_ms: int) -> Mapping[Place, int]:
        """The first record accepted at that time or later; missing where all are older."""
        ...

    def delete_before(self, offsets: Mapping[Place, int]) -> None: ...


def purgeable(
    progress: Mapping[int, Progress],
    topic_ids: Mapping[Input, bytes],
    starts: Mapping[Place, int],
    first_young: Mapping[Place, int],
) -> dict[Place, int]:
    """Below which offset each log can go: never above Progress, never into the window.

    A Progress may be old, an owner's that is fenced since: the true one only lies further on. It says
    nothing of a topic that was re-created meanwhile.
    """
    found = {}
    for bucket, own in progress.items():
        for source, position in ((Input.COMMANDS, own.commands), (Input.REPORTS, own.reports)):
            place = (source, bucket)
            limit = min(position.offset, first_young.get(place, position.offset))
            if position.topic_id == topic_ids[source] and limit > starts[place]:
                found[place] = limit
    return found


class Purge:
    """Purges what one process's active buckets have applied."""

    def __init__(self, logs: InputLogs, clock: Clock, window_ms: int, events: Events) -> None:
        self._logs = logs
        self._clock = clock
        self._window_ms = window_ms
        self._events = events

    @property
    def every_s(self) -> float:
        """How often is often enough, seconds: between one second and ten minutes."""
        return min(600.0, max(1.0, self._window_ms / 10_000))

    def run(self, progress: Mapping[int, Progress]) -> None:
        """Purge once, by the committed Progress of every active bucket."""
        if not progress:
            return
        try:
            starts = self._logs.starts()
            first_young = self._logs.first_since(self._clock.wall_ms() - self._window_ms)
            before = purgeable(progress, self._logs.topic_ids(), starts, first_young)
            if before:
                self._logs.delete_before(before)
        except (BrokerUnavailable, LayoutMismatch) as error:
            # Nothing is lost but room; it is tried again.
            self._events({"event": "purge_failed", "reason": str(error)})
            return
        if before:
            gone = sum(offset - starts[place] for place, offset in before.items())
            self._events({"event": "inputs_purged", "partitions": len(before), "records": gone})
