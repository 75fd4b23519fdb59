"""What a lane counts of its transactions, for whoever watches. Pure: no Prometheus, clock or thread here.

Written by the lane's thread alone, some microseconds a transaction; read by others as it stands.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from tickstream.dispatcher.batch import Batch
from tickstream.dispatcher.outcome import BucketOutcome
from tickstream.dispatcher.ports import Input
from tickstream.dispatcher.records import work_partition
from tickstream.model import NEVER

SECONDS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 600.0)
"""Upper bounds of what is timed, s."""
PARTITIONS: Final = (1, 2, 4, 8, 12, 16, 24, 32, 64, 128)


class Histogram:
    """Counts of values by their upper bounds, and the sum."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """Of each bound alone; the last one is what lies beyond."""
        self.sum = 0.0

    def add(self, value: float, times: int = 1) -> None:
        """A value, so many times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    def add_all(self, values: list[float]) -> None:
        """Many at once: one search a bound, not one a value."""
        values.sort()
        below = 0
        for place, bound in enumerate(self.bounds):
            upto = bisect_left(values, bound + 1e-9, below)
            self.counts[place] += upto - below
            below = upto
        self.counts[-1] += len(values) - below
        self.sum += sum(values)


class LaneTally:
    """The counts of one lane's number, over all its lives in this process."""

    def __init__(self) -> None:
        self.due_to_decided = Histogram(SECONDS)
        self.decided_to_committed = Histogram(SECONDS)
        self.commit = Histogram(SECONDS)
        """From the beginning of a transaction to its commit."""
        self.command_lag = Histogram(SECONDS)
        """From acceptance to commit, of the oldest command of a transaction."""
        self.partitions = Histogram(PARTITIONS)
        """Touched by a transaction."""
        self.dispatched = 0
        self.commands = 0
        """Messages of `commands`."""
        self.reports = 0
        """Messages of `reports`."""

    def committed(
        self, batch: Batch, outcomes: Sequence[BucketOutcome], buckets: int, commit_s: float, now_ms: int
    ) -> None:
        """A transaction was committed at `now_ms`; it was open for `commit_s`."""
        self.commit.add(commit_s)
        self.partitions.add(_partitions(outcomes, buckets))
        late = [
            # Sent ahead, nothing is late; and what was moved is due where it was moved to.
            max(
                0,
                work.decided_ms - (work.occurrence_ts if work.not_before_ms == NEVER else work.not_before_ms),
            )
            / 1_000
            for outcome in outcomes
            for _, work in outcome.work
            if work.attempt == 1
        ]
        dispatched = sum(len(outcome.work) for outcome in outcomes)
        if late:
            self.due_to_decided.add_all(late)
        if dispatched:
            self.dispatched += dispatched
            self.decided_to_committed.add(max(0, now_ms - batch.now_ms) / 1_000, dispatched)
        accepted = [r.appended_ms for r, _ in batch.inputs if r.source is Input.COMMANDS]
        if accepted:
            self.commands += len(accepted)
            self.command_lag.add(max(0, now_ms - min(accepted)) / 1_000)
        self.reports += len(batch.inputs) - len(accepted)


def _partitions(outcomes: Sequence[BucketOutcome], buckets: int) -> int:
    """How many partitions the records of a transaction lie in."""
    count = 0
    work: set[tuple[str, int]] = set()
    for outcome in outcomes:
        # Progress, history, dead letters: each bucket has its own partition of these.
        count += 1 + bool(outcome.history) + bool(outcome.dead_letters)
        attempts = {(queue, run.attempt) for queue, run in outcome.work}
        work |= {(queue, work_partition(outcome.bucket, attempt, buckets)) for queue, attempt in attempts}
    return count + len(work)
