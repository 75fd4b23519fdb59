"""Runs every check over each task and puts the report together. Pure: only model may enter here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tickstream.ops.audit import checks, counts, recurring
from tickstream.ops.audit.facts import Asked
from tickstream.ops.audit.fates import Fate, Fates
from tickstream.ops.audit.fold import Evidence, Fold
from tickstream.ops.audit.history import Bounds, BucketTimeline, Case, TaskHistory
from tickstream.ops.audit.journal import Journal
from tickstream.ops.audit.lateness import Lateness, TakeOver, exclusion_windows, standstills, take_overs
from tickstream.ops.audit.report import FAULTS, Example, Report

EXAMPLES: Final = 10
"""Cases shown per finding."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What an audit is told. Times in ms."""

    as_of_ms: int
    """The logs were read no earlier; what they say of later is not judged."""
    grace_ms: int
    """How long something may be due before its missing work is a loss."""
    session_ms: int
    """Of the dispatchers' group, for the exclusion windows of the kills in the journal."""
    late_ms: int | None = None
    """What is dispatched or started later than that is late; None: nothing is."""

    @property
    def cutoff_ms(self) -> int:
        """What was due at or before this instant must have been dispatched."""
        return self.as_of_ms - self.grace_ms


def findings(case: Case) -> Iterable[tuple[str, Example]]:
    """Every case of every finding in one task's history, faults and what is none."""
    fates = Fates(case)
    yield from _findings(case, fates, fates.of_schedules())


def _findings(
    case: Case, fates: Fates, of_schedules: Iterable[tuple[Asked, Fate]]
) -> Iterable[tuple[str, Example]]:
    lost = (checks.lost_schedule(case, command) for command, fate in of_schedules if fate is Fate.LOST)
    for finding, cases in (
        ("lost", lost),
        ("lost", checks.missing_receipts(case)),
        ("lost", checks.overdue(case)),
        ("duplicates", checks.surplus_work(case)),
        ("unasked", checks.unasked_work(case)),
        ("early", checks.early(case)),
        ("late", checks.late(case)),
        ("out_of_order", checks.out_of_order(case)),
        ("cancelled_yet_ran", checks.cancelled_yet_ran(case, fates)),
        ("double_outcomes", checks.surplus_outcomes(case)),
        ("missing_outcomes", checks.missing_outcomes(case)),
        ("after_the_end", checks.attempts_after_the_end(case)),
        ("unreasoned_skips", checks.unreasoned_skips(case)),
        ("off_rule", recurring.off_rule(case)),
        ("redelivered", counts.redelivered(case)),
        ("retried", counts.retried(case)),
        ("expired", counts.expired(case)),
    ):
        for example in cases:
            yield finding, example


class Court:
    """Hears one task after another and keeps only counts and first examples."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._fates: Counter[Fate] = Counter()
        self._counts: Counter[str] = Counter()
        self._examples: dict[str, dict[Example, None]] = {}
        self._lateness = Lateness()

    def hear(self, history: TaskHistory, timeline: BucketTimeline) -> None:
        """Check one task."""
        case = Case(history, timeline, self._bounds)
        fates = Fates(case)
        of_schedules = list(fates.of_schedules())
        self._fates.update(fate for _, fate in of_schedules)
        for finding, example in _findings(case, fates, of_schedules):
            self._counts[finding] += 1
            shown = self._examples.setdefault(finding, {})
            if len(shown) < EXAMPLES:
                shown[example] = None
        self._lateness.add(history, self._bounds.windows)

    def report(self, terms: Terms, fold: Fold, moved: Sequence[TakeOver]) -> Report:
        """What was found; `fold` has counted what was read."""
        late = self._lateness
        fates = self._fates
        aside = fates[Fate.REFUSED] + fates[Fate.SET_ASIDE]
        found: dict[str, int] = {name: self._counts[name] for name in (*FAULTS, *_NO_FAULTS)}
        return Report(
            as_of_ms=terms.as_of_ms,
            grace_ms=terms.grace_ms,
            session_ms=terms.session_ms,
            late_ms=terms.late_ms,
            scheduled=fates.total() - aside,
            dispatched=fates[Fate.DISPATCHED],
            cancelled=fates[Fate.CANCELLED],
            superseded=fates[Fate.SUPERSEDED],
            waiting=fates[Fate.WAITING],
            refused=fates[Fate.REFUSED],
            set_aside=fates[Fate.SET_ASIDE],
            parked=fates[Fate.PARKED],
            unchecked=fates[Fate.UNCHECKED],
            ran=late.ran,
            lateness_p50_ms=late.counted.nearest_rank(50),
            lateness_p99_ms=late.counted.nearest_rank(99),
            lateness_max_ms=late.max_ms,
            excluded=late.excluded.count / late.ran if late.ran else 0.0,
            excluded_count=late.excluded.count,
            takeover_max_ms=max((t.lasted_ms for t in moved), default=None),
            examples={name: tuple(self._examples[name]) for name in found if name in self._examples},
            records=dict(fold.records),
            unreadable=dict(fold.unreadable),
            **found,
        )


_NO_FAULTS: Final = ("redelivered", "retried", "expired")


def windows_of(
    timelines: Iterable[tuple[int, BucketTimeline]], kills_ms: Sequence[int], *, lanes: int, session_ms: int
) -> tuple[list[TakeOver], tuple[tuple[int, int], ...]]:
    """The lanes that moved because of kills, and the windows in which lateness does not count."""
    found = {}
    log_end_ms: int | None = None
    for bucket, timeline in timelines:
        found[bucket] = standstills(timeline, kills_ms)
        if timeline.progress_ms:
            last_ms = timeline.progress_ms[-1]
            log_end_ms = last_ms if log_end_ms is None else max(last_ms, log_end_ms)
    moved = take_overs(found, kills_ms, lanes=lanes, session_ms=session_ms, log_end_ms=log_end_ms)
    return moved, tuple(exclusion_windows(kills_ms, moved, session_ms))


def judge(
    evidence: Evidence,
    journal: Journal,
    *,
    as_of_ms: int,
    grace_ms: int,
    session_ms: int,
    late_ms: int | None = None,
) -> Report:
    """The report on evidence that is in memory."""
    terms = Terms(as_of_ms, grace_ms, session_ms, late_ms)
    timelines: Mapping[int, BucketTimeline] = evidence.timelines
    moved, windows = windows_of(
        timelines.items(), journal.dispatcher_kills_ms, lanes=evidence.layout.lanes, session_ms=session_ms
    )
    court = Court(
        Bounds(
            evidence.names,
            evidence.layout,
            evidence.starts,
            terms.cutoff_ms,
            late_ms,
            windows,
            evidence.first_decided_ms,
        )
    )
    none = BucketTimeline()
    for entry in journal.acked:
        evidence.task(evidence.home(entry.task_id), entry.task_id, entry)
    for history in evidence.tasks.values():
        court.hear(history, timelines.get(history.bucket, none))
    return court.report(terms, evidence, moved)
