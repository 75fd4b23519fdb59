"""The harness's client: every call is applied at once and answered with its verdict.

No broker, no wire; checks are those of the real client.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Unpack

from tickstream.ingest.calendar import Calendar
from tickstream.ingest.queues import QueueCommands
from tickstream.ingest.recurring import Recurring
from tickstream.ingest.request import (
    Requests,
    ScheduleRequest,
    cancel_command,
    instant_ms,
    item_of,
    queue_command,
    recurring,
    schedule_command,
    task_command,
)
from tickstream.model import Command, QueueLimits, Verb, Verdict

if TYPE_CHECKING:
    from tickstream.recurrence import Previewed
    from tickstream.testing.harness import Harness


class HarnessClient:
    """Like Client, but every call is answered at once with its verdict."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._requests = Requests()
        self.queues = QueueCommands(self._everywhere)
        """As Client.queues."""

    def schedule(self, task_id: str, **request: Unpack[ScheduleRequest]) -> Verdict:
        """As Client.schedule with wait. Raises InvalidInput and its kinds."""
        checked = self._requests.checked(*item_of(task_id, **request))
        return self._send(schedule_command(self._harness.new_id(), checked))

    def calendar(self, calendar: str, *, zone: str = "UTC") -> Calendar:
        """As Client.calendar."""
        return Calendar(calendar, zone, self._requests, self._harness.new_id, self._send)

    def preview(
        self, *, after: datetime | None = None, count: int = 10, **asked: Unpack[Recurring]
    ) -> tuple[Previewed, ...]:
        """As Client.preview."""
        from tickstream.recurrence.stored import preview_of

        after_ms = self._harness.clock.wall_ms() if after is None else instant_ms("after", after, None)
        return preview_of(recurring(**asked), count, after_ms)

    def cancel(self, task_id: str, *, running: bool = False) -> Verdict:
        """As Client.cancel."""
        return self._send(cancel_command(self._harness.new_id(), task_id, running))

    def pause(self, task_id: str) -> Verdict:
        """As Client.pause."""
        return self._send(task_command(self._harness.new_id(), Verb.PAUSE, task_id))

    def resume(self, task_id: str) -> Verdict:
        """As Client.resume."""
        return self._send(task_command(self._harness.new_id(), Verb.RESUME, task_id))

    def trigger(self, task_id: str) -> Verdict:
        """As Client.trigger."""
        return self._send(task_command(self._harness.new_id(), Verb.TRIGGER, task_id))

    def reschedule(
        self,
        task_id: str,
        *,
        run_at: datetime | None = None,
        run_at_ts: int | None = None,
        allow_past: bool = False,
    ) -> Verdict:
        """As Client.reschedule."""
        when = instant_ms("run_at", run_at, run_at_ts)
        command = task_command(self._harness.new_id(), Verb.RESCHEDULE, task_id, when, allow_past)
        return self._send(command)

    def _send(self, command: Command) -> Verdict:
        verdict = self._harness.send(command)
        self._harness.tick()
        return verdict

    def _everywhere(
        self, verb: Verb, queue: str, limits: QueueLimits | None, timeout: timedelta
    ) -> list[Verdict]:
        del timeout
        verdicts = self._harness.send_everywhere(queue_command(self._harness.new_id(), verb, queue, limits))
        self._harness.tick()
        return verdicts
