"""What the topics say of tasks that ran: their instants, and what was lost, early or done twice.

Counts by itself: neither the dispatcher's nor the audit's own reckoning may enter here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from bench.cluster import BUCKETS
from bench.raw import echo
from tickstream.codec import decode_history, decode_work
from tickstream.model import DEFAULT_QUEUE, History, Outcome
from tickstream.settings import Settings
from tickstream.topics import TopicNames


class Account(NamedTuple):
    """The outcomes of one run, and its sins."""

    ran: tuple[History, ...]
    """The first terminal outcome of each task that was scheduled."""
    lost: int
    """Scheduled and without a `succeeded`."""
    duplicates: int
    """Surplus work records for one (task, occurrence, attempt) plus surplus outcomes of one occurrence."""
    double_outcomes: int
    """The latter alone."""
    early: int
    """Started before their instant, or decided before it by more than their lead."""


def account(
    settings: Settings,
    scheduled: Mapping[str, int],
    *,
    until_s: float,
    queues: tuple[str, ...] = (DEFAULT_QUEUE,),
    records: int = 0,
    lead_ms: int = 0,
) -> Account:
    """The account of `scheduled` (task_id → run_at, ms), once all have ended or `until_s` (wall clock) has passed.

    `records`: History records to wait for, where attempts leave some of their own. `lead_ms`: how far ahead work
    is sent.
    """
    names = TopicNames(settings.prefix)
    ended = echo.read_all(
        settings, names.history, BUCKETS, at_least=max(records, len(scheduled)), until_s=until_s
    )
    works = [
        decode_work(message.value)
        for queue in queues
        for message in echo.read_all(settings, names.work(queue), BUCKETS)
    ]
    outcomes = [decode_history(message.value) for message in ended]
    counted = Counter((w.task_id, w.occurrence_ts, w.attempt) for w in works)
    return reckon(scheduled, outcomes, counted, lead_ms)


def reckon(
    scheduled: Mapping[str, int],
    outcomes: list[History],
    works: Mapping[tuple[str, int, int], int],
    lead_ms: int = 0,
) -> Account:
    """The account of what was read. Pure. `works`: how many records each attempt has."""
    first: dict[tuple[str, int], History] = {}
    ends = [outcome for outcome in outcomes if outcome.outcome.terminal]
    for outcome in ends:
        first.setdefault((outcome.task_id, outcome.occurrence_ts), outcome)
    ran = tuple(
        first[key] for key in scheduled.items() if key in first and first[key].outcome is Outcome.SUCCEEDED
    )
    double_outcomes = len(ends) - len(first)
    return Account(
        ran,
        lost=len(scheduled) - len(ran),
        duplicates=sum(count - 1 for count in works.values()) + double_outcomes,
        double_outcomes=double_outcomes,
        early=sum(min(h.decided_ms + lead_ms, h.started_ms) < h.occurrence_ts for h in ran),
    )
