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
Only model may enter here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tickstream.model import NEVER, lane_of
from tickstream.ops.audit.history import BucketTimeline, TaskHistory

STRAGGLER_MS: Final = 250
TAKEOVER_ALLOWANCE_MS: Final = 2_000
"""Promised: a dead dispatcher's lanes commit again within its session plus this."""
_EXACT_BITS: Final = 12


class TakeOver(NamedTuple):
    """A lane that stood still from a kill on, until `ended_ms`."""

    lane: int
    killed_ms: int
    ended_ms: int

    @property
    def lasted_ms(self) -> int:
        """From the kill to the first commit."""
        return self.ended_ms - self.killed_ms


class Standstill(NamedTuple):
    """What one bucket's timeline says of a kill."""

    resumed_ms: int | None
    """First commit of an heir; None: there was none."""
    dead: bool
    """Nobody committed after the kill."""


def standstills(timeline: BucketTimeline, kills_ms: Sequence[int]) -> list[Standstill]:
    """Of each kill."""
    return [
        Standstill(
            _first_commit_of_heir(timeline, killed_ms), not _commits_after(timeline, killed_ms + STRAGGLER_MS)
        )
        for killed_ms in kills_ms
    ]


def take_overs(
    found: Mapping[int, Sequence[Standstill]],
    kills_ms: Sequence[int],
    *,
    lanes: int,
    session_ms: int,
    log_end_ms: int | None,
) -> list[TakeOver]:
    """The lanes that moved because of each kill, from what each bucket says (`found`: bucket → of each kill).

    `log_end_ms`: the last commit of all, None: there is none.
    """
    moved: list[TakeOver] = []
    for number, killed_ms in enumerate(kills_ms):
        end_ms = killed_ms if log_end_ms is None else log_end_ms
        stuck = end_ms > killed_ms + session_ms + TAKEOVER_ALLOWANCE_MS
        first_commit: dict[int, int] = {}
        for bucket, of_kills in found.items():
            standstill = of_kills[number]
            ended_ms = standstill.resumed_ms
            if ended_ms is None and standstill.dead and stuck:
                ended_ms = end_ms
            if ended_ms is not None:
                lane = lane_of(bucket, lanes)
                first_commit[lane] = min(ended_ms, first_commit.get(lane, ended_ms))
        moved += [TakeOver(lane, killed_ms, ended_ms) for lane, ended_ms in sorted(first_commit.items())]
    return moved


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


def first_starts(history: TaskHistory) -> dict[int, int]:
    """occurrence_ts → when its first reported run started, whatever the attempt."""
    started: dict[int, int] = {}
    for run in history.ran:
        if run.started_ms != NEVER:
            started[run.occurrence_ts] = min(run.started_ms, started.get(run.occurrence_ts, run.started_ms))
    return started


class Histogram:
    """Counts of times in ms: exact to 4 s, then to 1/2,048 of the value. Its size does not grow with the count."""

    def __init__(self) -> None:
        self.count = 0
        self.max_ms: int | None = None
        self._counts: Counter[int] = Counter()

    def add(self, ms: int) -> None:
        """Count one."""
        self.count += 1
        self.max_ms = ms if self.max_ms is None else max(ms, self.max_ms)
        surplus = max(0, abs(ms).bit_length() - _EXACT_BITS)
        self._counts[ms >> surplus << surplus] += 1

    def nearest_rank(self, percent: int) -> int | None:
        """The smallest value that `percent` % of all do not exceed; None of none."""
        rank = (self.count * percent + 99) // 100
        for ms in sorted(self._counts):
            rank -= self._counts[ms]
            if rank <= 0:
                return ms
        return None


class Lateness:
    """First start of each occurrence minus its instant: those that count, and those inside a window."""

    def __init__(self) -> None:
        self.counted = Histogram()
        self.excluded = Histogram()

    def add(self, history: TaskHistory, windows: Iterable[tuple[int, int]]) -> None:
        """Count a task's occurrences."""
        for occurrence_ts, started_ms in first_starts(history).items():
            inside = any(first <= occurrence_ts <= last for first, last in windows)
            (self.excluded if inside else self.counted).add(started_ms - occurrence_ts)

    @property
    def ran(self) -> int:
        """Occurrences that ran."""
        return self.counted.count + self.excluded.count

    @property
    def max_ms(self) -> int | None:
        """With nothing left out."""
        both = (h.max_ms for h in (self.counted, self.excluded))
        return max((ms for ms in both if ms is not None), default=None)
