"""How late occurrences started, and how long lanes stood still after a dispatcher was killed.

**Lateness** of an occurrence: started_ms of its first reported run, whatever the attempt, minus
occurrence_ts. An instant that lay in the past when it was asked for counts from that instant too.

**A lane moved** because of a kill when its first Claim after the kill comes before any commit of
its last owner: a live owner commits a Progress per bucket at least once a second, a dead one none.
Commits up to `STRAGGLER_MS` after the kill are the dead one's last. Times are those of the records
(CreateTime: set by the dispatcher when it produced them, a few ms before the commit), the kill's is
the journal's: all clocks have to agree. **Its take-over** lasts from the kill to the first Progress
after that Claim, in whichever of the lane's buckets it comes first. A lane that nobody claimed
although the log goes on beyond kill + session + 2 s counts as moved, up to the end of the log.

**The exclusion window** of a kill: from the kill to the end of the longest of its take-overs, at
most kill + session + 2 s, both ends included. It leaves out the occurrences of every lane due in
it, moved or not. No lane moved: nothing is left out.

Compaction drops old Progress and Claim records: a kill that lies further back than the changelog's
head (an hour, or 64 MiB a bucket) is read from what is left, and its take-over looks longer.
Only codec, model and topics may enter here.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final, NamedTuple

from tickstream.model import NEVER, lane_of
from tickstream.ops.audit.fold import BucketTimeline, Evidence

STRAGGLER_MS: Final = 250
TAKEOVER_ALLOWANCE_MS: Final = 2_000
"""Promised: a dead dispatcher's lanes commit again within its session plus this."""


class TakeOver(NamedTuple):
    """A lane that stood still from a kill on, until `ended_ms`."""

    lane: int
    killed_ms: int
    ended_ms: int

    @property
    def lasted_ms(self) -> int:
        """From the kill to the first commit."""
        return self.ended_ms - self.killed_ms


class Lateness(NamedTuple):
    """Percentiles by nearest rank, in ms; None where nothing counts."""

    p50_ms: int | None
    p99_ms: int | None
    max_ms: int | None
    counted: int
    excluded_count: int

    @property
    def excluded(self) -> float:
        """Share that the percentiles leave out."""
        total = self.counted + self.excluded_count
        return self.excluded_count / total if total else 0.0


def take_overs(evidence: Evidence, killed_ms: int, session_ms: int) -> list[TakeOver]:
    """The lanes that moved because of the kill at `killed_ms`."""
    timelines = evidence.timelines
    log_end_ms = max((t.progress_ms[-1] for t in timelines.values() if t.progress_ms), default=killed_ms)
    first_commit: dict[int, int] = {}
    for bucket, timeline in timelines.items():
        ended_ms = _first_commit_of_heir(timeline, killed_ms)
        if ended_ms is None and not _commits_after(timeline, killed_ms + STRAGGLER_MS):
            stuck = log_end_ms > killed_ms + session_ms + TAKEOVER_ALLOWANCE_MS
            ended_ms = log_end_ms if stuck else None
        if ended_ms is not None:
            lane = lane_of(bucket, evidence.layout.lanes)
            first_commit[lane] = min(ended_ms, first_commit.get(lane, ended_ms))
    return [TakeOver(lane, killed_ms, ended_ms) for lane, ended_ms in sorted(first_commit.items())]


def _first_commit_of_heir(timeline: BucketTimeline, killed_ms: int) -> int | None:
    claim = next((c for c in timeline.claims if c[1] > killed_ms), None)
    if claim is None:
        return None
    commits_before, _ = claim
    owner_lived_on = commits_before and timeline.progress_ms[commits_before - 1] > killed_ms + STRAGGLER_MS
    if owner_lived_on or commits_before == len(timeline.progress_ms):
        return None
    return timeline.progress_ms[commits_before]


def _commits_after(timeline: BucketTimeline, at_ms: int) -> bool:
    return bool(timeline.progress_ms) and timeline.progress_ms[-1] > at_ms


def exclusion_windows(
    kills_ms: Iterable[int], moved: Sequence[TakeOver], session_ms: int
) -> list[tuple[int, int]]:
    """Per kill that moved a lane: first and last ms of its window."""
    windows: list[tuple[int, int]] = []
    for killed_ms in kills_ms:
        ends = [t.ended_ms for t in moved if t.killed_ms == killed_ms]
        if ends:
            windows.append((killed_ms, min(max(ends), killed_ms + session_ms + TAKEOVER_ALLOWANCE_MS)))
    return windows


def lateness_of(evidence: Evidence, windows: Sequence[tuple[int, int]]) -> Lateness:
    """Lateness over every occurrence that ran."""
    counted, excluded = array("q"), array("q")
    for task in evidence.tasks.values():
        started: dict[int, int] = {}
        for run in task.ran:
            if run.started_ms == NEVER:
                continue
            started[run.occurrence_ts] = min(run.started_ms, started.get(run.occurrence_ts, run.started_ms))
        for occurrence_ts, started_ms in started.items():
            inside = any(first <= occurrence_ts <= last for first, last in windows)
            (excluded if inside else counted).append(started_ms - occurrence_ts)
    ranked = sorted(counted)
    return Lateness(
        nearest_rank(ranked, 50),
        nearest_rank(ranked, 99),
        max(chain(counted, excluded), default=None),
        len(counted),
        len(excluded),
    )


def nearest_rank(ranked: Sequence[int], percent: int) -> int | None:
    """The smallest value that `percent` % of the sorted values do not exceed; None of none."""
    return ranked[(len(ranked) * percent + 99) // 100 - 1] if ranked else None
