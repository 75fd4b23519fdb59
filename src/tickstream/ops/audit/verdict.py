"""Runs every check over the evidence and puts the report together.

Pure: only codec, model and topics may enter here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import Final

from tickstream.ops.audit import checks
from tickstream.ops.audit.fates import Fate, Judge, Verdicts
from tickstream.ops.audit.fold import Evidence
from tickstream.ops.audit.journal import Journal
from tickstream.ops.audit.lateness import exclusion_windows, lateness_of, take_overs
from tickstream.ops.audit.report import Example, Report

EXAMPLES: Final = 10
"""Cases shown per finding."""


def judge(evidence: Evidence, journal: Journal, *, as_of_ms: int, grace_ms: int, session_ms: int) -> Report:
    """The report on `evidence`, which was read no earlier than `as_of_ms`.

    `grace_ms`: how long something may be due before its missing work is a loss. `session_ms`: of the
    dispatchers' group, for the exclusion windows of the kills in the journal.
    """
    court = Judge(evidence, Verdicts(evidence, journal), as_of_ms - grace_ms)
    fates: Counter[Fate] = Counter()
    lost: list[Example] = []
    for task_id, task in evidence.tasks.items():
        for command, fate in court.fates(task_id, task):
            fates[fate] += 1
            if fate is Fate.LOST:
                lost.append(checks.lost_schedule(court, task_id, task, command))
    counts, examples = _tally(
        lost=chain(
            lost,
            checks.missing_receipts(evidence, journal),
            checks.overdue_without_command(court),
            checks.overdue_retries(court),
        ),
        duplicates=chain(checks.surplus_work(evidence), checks.surplus_outcomes(evidence)),
        early=checks.early(evidence),
        cancelled_yet_ran=checks.cancelled_yet_ran(court),
        redelivered=checks.redelivered(evidence),
        retried=checks.retried(evidence),
        expired=checks.expired(evidence),
    )
    kills = journal.dispatcher_kills_ms
    moved = [t for killed_ms in kills for t in take_overs(evidence, killed_ms, session_ms)]
    late = lateness_of(evidence, exclusion_windows(kills, moved, session_ms))
    return Report(
        as_of_ms=as_of_ms,
        grace_ms=grace_ms,
        session_ms=session_ms,
        scheduled=fates.total() - fates[Fate.REFUSED],
        dispatched=fates[Fate.DISPATCHED],
        cancelled=fates[Fate.CANCELLED],
        superseded=fates[Fate.SUPERSEDED],
        waiting=fates[Fate.WAITING],
        refused=fates[Fate.REFUSED],
        unchecked=fates[Fate.UNCHECKED],
        ran=late.counted + late.excluded_count,
        lateness_p50_ms=late.p50_ms,
        lateness_p99_ms=late.p99_ms,
        lateness_max_ms=late.max_ms,
        excluded=late.excluded,
        excluded_count=late.excluded_count,
        takeover_max_ms=max((t.lasted_ms for t in moved), default=None),
        examples=examples,
        records=dict(evidence.records),
        unreadable=dict(evidence.unreadable),
        **counts,
    )


def _tally(**findings: Iterable[Example]) -> tuple[dict[str, int], dict[str, tuple[Example, ...]]]:
    """How many cases each finding has, and the first distinct ones."""
    counts: dict[str, int] = {}
    examples: dict[str, tuple[Example, ...]] = {}
    for finding, cases in findings.items():
        shown: dict[Example, None] = {}
        counts[finding] = 0
        for case in cases:
            counts[finding] += 1
            if len(shown) < EXAMPLES:
                shown[case] = None
        if shown:
            examples[finding] = tuple(shown)
    return counts, examples
