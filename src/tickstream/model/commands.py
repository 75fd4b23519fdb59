"""What producers ask: commands, their options and bodies, and where they lie."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from tickstream.model.queues import QueueLimits
from tickstream.model.recurring import Recurrence
from tickstream.model.terms import Term
from tickstream.model.times import NEVER

DEFAULT_QUEUE: Final = "default"
VERSION_HEADER: Final = "v"
"""The header of a Body that says in which version of the handler its payload was made; none: 1."""
OWNER_LABEL: Final = "tickstream.owner"
"""The label of a task that is declared: in whose name it was applied."""
BACKFILL_LABEL: Final = "tickstream.backfill"
"""The label of a task that makes up for one occurrence of another: the other's id, and so its idempotency key."""
AGAIN_LABEL: Final = "tickstream.again"
"""The label of a task that repeats one occurrence of another: the other's id; its idempotency key is its own."""


class Rev(NamedTuple):
    """Place of a command in its bucket's log: offset, and place in the message's array."""

    offset: int
    item: int


class Receipt(NamedTuple):
    """Where an accepted command lies. As text: `bucket:offset:item`."""

    bucket: int
    offset: int
    item: int

    def __str__(self) -> str:
        return f"{self.bucket}:{self.offset}:{self.item}"

    @classmethod
    def parse(cls, text: str) -> Receipt:
        """The receipt that `str()` wrote. Raises ValueError on anything else."""
        parts = text.split(":")
        if len(parts) != 3 or not all(p.isdigit() for p in parts):
            raise ValueError(f"{text!r} is no receipt; one reads bucket:offset:item, such as 3:1207:0")
        return cls(*map(int, parts))


class Verb(Term):
    """What a command asks for."""

    SCHEDULE = "SCHEDULE"
    CANCEL = "CANCEL"
    PAUSE = "PAUSE"
    RESUME = "RESUME"
    TRIGGER = "TRIGGER"
    """One run now, beside what is scheduled."""
    RESCHEDULE = "RESCHEDULE"
    """Another run_at; handler, payload and options stay."""
    PAUSE_QUEUE = "PAUSE_QUEUE"
    RESUME_QUEUE = "RESUME_QUEUE"
    LIMIT_QUEUE = "LIMIT_QUEUE"
    CHANGE_EVENT = "CHANGE_EVENT"
    """A calendar's event in part: one occurrence, one and those that follow it, or all."""
    CHECK_EVENT = "CHECK_EVENT"
    """What an event would meet in its calendar; nothing is changed."""

    @property
    def of_queue(self) -> bool:
        """Whether it speaks of a queue, in every bucket, and not of a task."""
        return self in (Verb.PAUSE_QUEUE, Verb.RESUME_QUEUE, Verb.LIMIT_QUEUE)


class IfExists(Enum):
    """What a Schedule does to a task of the same id that has not been dispatched yet."""

    REPLACE = "REPLACE"
    REJECT = "REJECT"


class RunTerms(NamedTuple):
    """How the runs of a task are leased and retried. Times in ms."""

    lease_ms: int = 10_000
    """A claimed run without a heartbeat for that long is lost."""
    timeout_ms: int = 3_600_000
    """The longest execution of one attempt."""
    attempts: int = 5
    """Failures and expiries until the work is given up."""
    backoff_ms: int = 1_000
    """Before the second attempt; doubles with every further failure."""
    backoff_cap_ms: int = 600_000


DEFAULT_TERMS: Final = RunTerms()
MOST_LEAD_MS: Final = 60_000
"""How far ahead of its instant work may be sent, at most: so long it cannot be cancelled any more."""


class Options(NamedTuple):
    """The rare parts of a command."""

    if_exists: IfExists = IfExists.REPLACE
    allow_past: bool = False
    """Accept a run_at further back than the past limit."""
    not_after: int = NEVER
    """On a re-send: offset of the first send; a definition made after it is left alone."""
    running: bool = False
    """A Cancel also asks work that runs already to stop."""
    terms: RunTerms | None = None
    """None: DEFAULT_TERMS."""
    limit_key: str = ""
    """Of tasks with the same key one is in flight at a time, within a bucket; empty: no limit."""
    lead_ms: int = 0
    """Work is sent up to that much ahead, and held by the worker."""
    if_rev: Rev | None = None
    """Replace or cancel only this definition."""
    limits: QueueLimits | None = None
    """Of LIMIT_QUEUE."""
    recurrence: Recurrence | None = None
    """None: once, at `when`."""
    event: bytes = b""
    """The calendar event that the task is, or of CHANGE_EVENT the change to it, encoded; empty: it is none."""


DEFAULT_OPTIONS: Final = Options()


class Command(NamedTuple):
    """One request of a producer."""

    command_id: bytes
    """16 bytes, UUIDv7: the same for every send of one command."""
    verb: Verb
    task_id: str
    """Empty where the command speaks of a queue."""
    when: int
    """run_at of SCHEDULE and RESCHEDULE, NEVER when it recurs and of every other verb."""
    queue: str
    options: Options
    body: bytes
    """An encoded Body, opaque to the dispatcher."""


class Body(NamedTuple):
    """What the handler gets. The dispatcher passes it on unread."""

    handler: str
    payload: bytes
    headers: dict[str, str]
    """Trace context and the like."""
    labels: dict[str, str]
    """For filters of the dashboard."""


class BoundCall(NamedTuple):
    """A handler with its arguments, ready to be scheduled: what `handler.bind(…)` returns."""

    handler: str
    queue: str
    payload: bytes
    terms: RunTerms | None = None
    """The handler's, None: DEFAULT_TERMS."""
    version: int = 1
    """Of the payload's form; above 1 it travels in the header VERSION_HEADER."""
