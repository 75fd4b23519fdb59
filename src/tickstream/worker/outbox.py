"""Which reports are sent in which message, and when.

Pure: no Kafka client, no thread, no clock may enter here. Owned by one thread.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tickstream.model import Report
from tickstream.worker.run import Run

MAX_REPORTS: Final = 256
"""In one message. With errors and names bounded, a full one stays below the record limit."""
RETRY_S: Final = 1.0


class Outcome(NamedTuple):
    """A finished run and what is to be said of it."""

    run: Run
    report: Report


class Batch(NamedTuple):
    """One message: reports of one bucket."""

    bucket: int
    outcomes: tuple[Outcome, ...]


class Outbox:
    """Outcomes waiting to be sent, by bucket.

    After a quiet spell an outcome goes at once; the following ones are gathered for `coalesce_s`,
    so that a busy worker sends one message a bucket and interval. What the broker refused comes
    again after a second.
    """

    def __init__(self, coalesce_s: float) -> None:
        self._coalesce_s = coalesce_s
        self._waiting: dict[int, list[Outcome]] = {}
        self._refused: list[tuple[float, Batch]] = []
        self._next_send = 0.0

    def add(self, outcome: Outcome) -> None:
        """An outcome to be sent."""
        self._waiting.setdefault(outcome.run.work.bucket, []).append(outcome)

    def refused(self, batch: Batch, now: float) -> None:
        """The batch was not acknowledged."""
        self._refused.append((now + RETRY_S, batch))

    @property
    def empty(self) -> bool:
        """Whether nothing waits, refused batches included."""
        return not self._waiting and not self._refused

    def wait_s(self, now: float) -> float | None:
        """Seconds until something is to be sent; None: nothing is."""
        times = [at for at, _ in self._refused]
        if self._waiting:
            times.append(self._next_send)
        return max(0.0, min(times) - now) if times else None

    def take(self, now: float) -> list[Batch]:
        """What is to be sent now."""
        batches = [batch for at, batch in self._refused if at <= now]
        self._refused = [(at, batch) for at, batch in self._refused if at > now]
        if self._waiting and now >= self._next_send:
            for bucket, outcomes in self._waiting.items():
                batches += [
                    Batch(bucket, tuple(outcomes[i : i + MAX_REPORTS]))
                    for i in range(0, len(outcomes), MAX_REPORTS)
                ]
            self._waiting = {}
            self._next_send = now + self._coalesce_s
        return batches
