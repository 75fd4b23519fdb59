"""Work that a handler schedules in its turn, under an id that every attempt derives alike.

Only values may enter here; the producer core behind a `Client` does the sending.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypedDict

from tickstream.errors import InvalidInput
from tickstream.model import MAX_TASK_ID_BYTES, BoundCall, check_task_id, idempotency_key

if TYPE_CHECKING:
    from tickstream.ingest import Client

_ACK_S: Final = 20.0
"""Longer than the producer keeps a message it cannot deliver: by then its fate is known."""


class FollowUpRequest(TypedDict):
    """Arguments of `Client.schedule`."""

    run_at: datetime | None
    run_at_ts: int | None
    call: BoundCall
    queue: str | None
    labels: Mapping[str, str] | None
    if_exists: Literal["reject"]
    allow_past: bool


class Sent(Protocol):
    """A follow-up on its way into the log."""

    def receipt(self, timeout: float) -> object:
        """Returns once the broker has it. Raises SendFailed, at the latest after `timeout` seconds."""
        ...


class FollowUp(NamedTuple):
    """A task that a run asked for."""

    task_id: str
    run_at: datetime | None
    run_at_ts: int | None
    call: BoundCall
    queue: str | None
    labels: Mapping[str, str] | None
    submission: Sent | None = None
    """Its way into the log; None outside a worker."""

    def sent_by(self, client: Client) -> FollowUp:
        """Hand it to the client. Raises what `Client.schedule` raises."""
        return self._replace(submission=client.schedule(self.task_id, **self.request()))

    def request(self) -> FollowUpRequest:
        """What `Client.schedule` is given beside the id.

        What a former attempt asked for is kept as it is. An instant in the past is the rule here: a
        retried run stands for an instant that has long gone.
        """
        return {
            "run_at": self.run_at,
            "run_at_ts": self.run_at_ts,
            "call": self.call,
            "queue": self.queue,
            "labels": self.labels,
            "if_exists": "reject",
            "allow_past": True,
        }

    def settle(self) -> None:
        """Wait until the broker has it. Raises SendFailed."""
        if self.submission is not None:
            self.submission.receipt(_ACK_S)


def follow_up(
    task_id: str,
    occurrence_ts: int,
    name: str,
    call: BoundCall,
    delay: timedelta,
    run_at: datetime | None,
    queue: str | None,
    labels: Mapping[str, str] | None,
) -> FollowUp:
    """The task `name` that follows from an occurrence. Raises InvalidInput."""
    if run_at is not None:
        if delay:
            raise InvalidInput(f"follow-up {name!r}: give either delay=, or run_at=, not both")
        run_at_ts = None
    elif delay < timedelta(0):
        raise InvalidInput(f"follow-up {name!r}: delay={delay} is negative")
    else:
        run_at_ts = occurrence_ts - (-delay // timedelta(milliseconds=1))
    return FollowUp(follow_up_id(task_id, occurrence_ts, name), run_at, run_at_ts, call, queue, labels)


def follow_up_id(task_id: str, occurrence_ts: int, name: str) -> str:
    """`task_id@occurrence_ts/name`, or a digest of it where that is longer than an id may be.

    The readable form keeps the `{…}` of the task, and with it the bucket. Raises InvalidTaskId.
    """
    if not name:
        raise InvalidInput("a follow-up needs a name: it tells apart what one run schedules")
    readable = f"{idempotency_key(task_id, occurrence_ts)}/{name}"
    if len(readable.encode("utf-8", "replace")) <= MAX_TASK_ID_BYTES:
        return check_task_id(readable)
    return f"follow-up:{blake2b(readable.encode(), digest_size=16).hexdigest()}"
