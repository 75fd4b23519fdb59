"""What one bucket's share of a transaction comes to, as values; and the view of the store it is decided on.

No decision may enter here.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tickstream.dispatcher.calendar import CalendarView
from tickstream.dispatcher.decision import Lease, Task
from tickstream.dispatcher.gates import GateTurn
from tickstream.model import (
    DeadReason,
    DueEntry,
    History,
    Progress,
    Report,
    Signal,
    TaskSpec,
    TaskState,
    Verdict,
    Work,
)


class TaskView(CalendarView, Protocol):
    """The tasks of one bucket as the store has them."""

    def spec(self, bucket: int, task_id: str) -> TaskSpec | None: ...
    def state(self, bucket: int, task_id: str) -> TaskState | None: ...


class DeadLetter(NamedTuple):
    """A record for `dead-letter`. All but its key and value goes into its headers."""

    task_id: str
    value: bytes
    reason: DeadReason
    detail: str
    source: str
    """What `value` is: a message of `commands` or `reports`, or the body of `work`."""
    queue: str = ""
    """Of work."""


class Reply(NamedTuple):
    """A verdict and where it is wanted."""

    client_id: str
    partition: int
    verdict: Verdict


class BucketOutcome(NamedTuple):
    """What one bucket's share of a transaction comes to."""

    bucket: int
    before: dict[str, Task]
    """Every task touched, as the store has it."""
    after: dict[str, Task]
    work: list[tuple[str, Work]]
    """(queue, Work)."""
    history: list[History]
    dead_letters: list[DeadLetter]
    replies: list[Reply]
    stale: list[DueEntry]
    leases: list[Lease]
    """Of runs claimed."""
    heartbeats: list[Report]
    """They change no task: soft state of the lane."""
    signals: list[Signal]
    alarms: list[str]
    """What a person must hear of, once it is committed."""
    notices: list[dict[str, object]]
    """Events to be told once it is committed, by `event`, their name."""
    gates: GateTurn
    """To be committed with it; its settings are what was set for queues."""
    progress: Progress
