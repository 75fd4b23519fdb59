"""The harness's client: every call is applied at once and answered with its verdict.

No broker, no wire; checks are those of the real client.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tickstream.ingest.queues import QueueCommands
from tickstream.ingest.request import (
    IfExistsLike,
    Requests,
    cancel_command,
    instant_ms,
    queue_command,
    schedule_command,
    task_command,
    terms_of,
)
from tickstream.model import BoundCall, Command, QueueLimits, Retry, Verb, Verdict

if TYPE_CHECKING:
    from tickstream.testing.harness import Harness


class HarnessClient:
    """Like Client, but every call is answered at once with its verdict."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._requests = Requests()
        self.queues = QueueCommands(self._everywhere)
        """As Client.queues."""

    def schedule(
        self,
        task_id: str,
        *,
        run_at: datetime | None = None,
        run_at_ts: int | None = None,
        payload: bytes | None = None,
        handler: str = "",
        call: BoundCall | None = None,
        queue: str | None = None,
        labels: Mapping[str, str] | None = None,
        if_exists: IfExistsLike = "replace",
        allow_past: bool = False,
        lease: timedelta | None = None,
        timeout: timedelta | None = None,
        retry: Retry | None = None,
    ) -> Verdict:
        """As Client.schedule with wait. Raises InvalidInput and its kinds."""
        terms = terms_of(task_id, call, lease, timeout, retry)
        checked = self._requests.checked(
            task_id, run_at, run_at_ts, payload, handler, call, queue, labels, if_exists, allow_past, terms
        )
        command = schedule_command(self._harness.new_id(), checked)
        return self._send(command)

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
