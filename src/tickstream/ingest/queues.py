"""Pauses and limits of queues: one command to every bucket, all of their verdicts awaited.

Nothing about tasks may enter here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final, Protocol

from tickstream.codec import element_of, encode_command
from tickstream.errors import QueueRefused, TickstreamError
from tickstream.ingest.ids import CommandIds
from tickstream.ingest.layout import LayoutWatch
from tickstream.ingest.request import queue_command, queue_limits
from tickstream.ingest.together import Together
from tickstream.model import EVERY_QUEUE, QueueLimits, Verb, Verdict, VerdictKind

QUEUE_TIMEOUT: Final = timedelta(seconds=10)
_SECOND: Final = timedelta(seconds=1)


class Everywhere(Protocol):
    """Sends a command about a queue to every bucket, and gives back the verdict of each."""

    def __call__(
        self, verb: Verb, queue: str, limits: QueueLimits | None, timeout: timedelta
    ) -> Iterable[Verdict]: ...


class QueueCommands:
    """What can be set for queues: `client.queues`. Each call returns when it is in force in every bucket.

    Each raises QueueRefused when a bucket says no, and BrokerUnavailable, SendFailed, VerdictTimeout.
    """

    def __init__(self, everywhere: Everywhere) -> None:
        self._everywhere = everywhere

    def pause(self, queue: str = EVERY_QUEUE, *, timeout: timedelta = QUEUE_TIMEOUT) -> None:
        """Dispatch nothing of a queue, or without a name of any: what falls due waits, in order.

        Runs in flight and their retries go on; a trigger is not held.
        """
        self._set(Verb.PAUSE_QUEUE, queue, None, timeout)

    def resume(self, queue: str = EVERY_QUEUE, *, timeout: timedelta = QUEUE_TIMEOUT) -> None:
        """Undo `pause` of the same name; what waits is dispatched."""
        self._set(Verb.RESUME_QUEUE, queue, None, timeout)

    def limit(
        self,
        queue: str,
        *,
        running: int | None = None,
        starts: int | None = None,
        per: timedelta = _SECOND,
        timeout: timedelta = QUEUE_TIMEOUT,
    ) -> None:
        """Limit a queue: `running` occurrences in flight, `starts` dispatches `per` span; None: no limit.

        Each bucket keeps to it by itself, so across B buckets it comes to up to B times as much: give tasks
        that share a scarce thing one `limit_key`, or ids with the same `{tag}`. An occurrence holds its place
        from its first dispatch to its end. Raises InvalidInput.
        """
        self._set(Verb.LIMIT_QUEUE, queue, queue_limits(running, starts, per), timeout)

    def _set(self, verb: Verb, queue: str, limits: QueueLimits | None, timeout: timedelta) -> None:
        for verdict in self._everywhere(verb, queue, limits, timeout):
            if verdict.kind is VerdictKind.REJECTED:
                raise QueueRefused(queue, verdict.detail)


class InEveryBucket:
    """Everywhere, on a broker: a command of its own to every bucket."""

    def __init__(self, ids: CommandIds, layout: LayoutWatch, together: Together) -> None:
        self._ids = ids
        self._layout = layout
        self._together = together

    def __call__(
        self, verb: Verb, queue: str, limits: QueueLimits | None, timeout: timedelta
    ) -> Iterator[Verdict]:
        """All are sent before the first verdict is waited for."""
        self._layout.check()
        located = []
        for bucket in range(self._layout.buckets):
            command = queue_command(self._ids.next(), verb, queue, limits)
            located.append((command, (bucket, queue.encode(), element_of(encode_command(command)))))
        for answer in self._together.located(located, timeout):
            if isinstance(answer, TickstreamError):
                raise answer
            yield answer
