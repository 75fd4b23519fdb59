"""What an audit counts and does not blame: at-least-once at work. Only model may enter here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tickstream.model import Outcome
from tickstream.ops.audit.history import Case
from tickstream.ops.audit.report import Example


def redelivered(case: Case) -> Iterator[Example]:
    """Runs beyond the first of one attempt (G5)."""
    if len(case.history.ran) < 2:
        return
    groups: dict[tuple[int, int], dict[bytes, int]] = defaultdict(dict)
    for run in case.history.ran:
        groups[run.occurrence_ts, run.attempt].setdefault(run.run_id, run.offset)
    for (occurrence_ts, attempt), runs in groups.items():
        what = f"{len(runs)} runs of attempt {attempt}"
        records = tuple(map(case.report_at, runs.values()))
        yield from [Example(case.history.task_id, occurrence_ts, what, records)] * (len(runs) - 1)


def retried(case: Case) -> Iterator[Example]:
    """Attempts beyond the first, whatever ended the one before (failed, expired, handed back)."""
    for work in case.history.dispatched:
        if work.attempt > 1:
            what = f"attempt {work.attempt}"
            yield Example(case.history.task_id, work.occurrence_ts, what, (case.work_at(work),))


def expired(case: Case) -> Iterator[Example]:
    """Attempts whose lease expired and that were not the last: a worker died or hung."""
    for end in case.history.ended:
        if end.outcome is Outcome.LEASE_EXPIRED:
            what = f"the lease of attempt {end.attempt} expired"
            yield Example(case.history.task_id, end.occurrence_ts, what, (case.history_at(end),))
