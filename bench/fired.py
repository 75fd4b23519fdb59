"""What `work.default` says of timers that were to fire: how many, when, and what went wrong with them.

Counts by itself: neither the dispatcher's nor the audit's own reckoning may enter here.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from bench.cluster import BUCKETS
from bench.raw import echo
from bench.raw.runs import ends
from tickstream.codec import decode_work
from tickstream.errors import SendFailed
from tickstream.model import DEFAULT_QUEUE
from tickstream.settings import Settings
from tickstream.topics import TopicNames

_LOOK_EVERY_S = 0.2
_STRAGGLERS_S = 20.0


class Fired(NamedTuple):
    """The work records of one run."""

    first_ms: int
    """When the first was produced, ms since the epoch."""
    last_ms: int
    """When the last was produced; its commit follows within some ten ms."""
    late_ms: list[int]
    """Due → decided, of every timer."""
    lost: int
    duplicates: int
    early: int


def fired(settings: Settings, expected: Mapping[str, int], *, until_s: float) -> Fired:
    """Once all of `expected` (task_id → instant, ms) have work, or the wall clock says `until_s` (s).

    Raises SendFailed when none has.
    """
    topic = TopicNames(settings.prefix).work(DEFAULT_QUEUE)
    # Reading a million records beside the run would be part of it: the ends are asked for, and read later.
    while sum(ends(settings, topic).values()) < len(expected) and time.time() < until_s:
        time.sleep(_LOOK_EVERY_S)
    seen: set[str] = set()
    late: list[int] = []
    duplicates = early = 0
    first, last = float("inf"), 0
    for message in echo.committed(
        settings, topic, BUCKETS, at_least=len(expected), until_s=time.time() + _STRAGGLERS_S
    ):
        work = decode_work(message.value())
        due_ms = expected.get(work.task_id)
        if due_ms is None or work.task_id in seen:
            duplicates += 1
            continue
        seen.add(work.task_id)
        late.append(work.decided_ms - due_ms)
        early += work.decided_ms < due_ms or work.occurrence_ts != due_ms
        at_ms = message.timestamp()[1]
        first, last = min(first, at_ms), max(last, at_ms)
    if not seen:
        raise SendFailed(f"none of {len(expected)} timers fired")
    return Fired(int(first), last, late, len(expected) - len(seen), duplicates, early)
