"""What was given up on, put together by handler and error, and the command line that lists each group.

No HTTP and no clock may enter here. Only the latest failures of a window are looked at, a bounded
number; the answer says from when on it is whole.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple

from tickstream.clock import iso_utc
from tickstream.projection import keys
from tickstream.projection.error_shape import shape
from tickstream.projection.families import FAILURES
from tickstream.projection.freshness import Freshness
from tickstream.projection.reader import View
from tickstream.projection.rows import Failure
from tickstream.projection.stored import decode_failure

MAX_VISITED: Final = 20_000
MAX_GROUPS: Final = 100
EXAMPLES: Final = 5
_LAST_WRITABLE_MS: Final = 253_402_300_799_999
"""The end of the year 9999: no later instant can be written as ISO 8601."""


class Failures(NamedTuple):
    """Which failures are asked for, by the instant they were recorded at, ms UTC."""

    start_ms: int
    end_ms: int
    queue: str = ""
    handler: str = ""
    limit: int = 20
    """Groups."""


@dataclass(slots=True)
class _Group:
    handler: str
    error: str
    count: int = 0
    first_ms: int = 0
    last_ms: int = 0
    oldest_ts: int = 0
    newest_ts: int = 0
    queues: set[str] = field(default_factory=set)
    examples: list[Failure] = field(default_factory=list)

    def add(self, failure: Failure) -> None:
        """One more; they come latest first."""
        if not self.count:
            self.last_ms = failure.at_ms
            self.oldest_ts = self.newest_ts = failure.occurrence_ts
        self.count += 1
        self.first_ms = failure.at_ms
        self.oldest_ts = min(self.oldest_ts, failure.occurrence_ts)
        self.newest_ts = max(self.newest_ts, failure.occurrence_ts)
        self.queues.add(failure.queue)
        if len(self.examples) < EXAMPLES:
            self.examples.append(failure)


def failures(view: View, asked: Failures, fresh: Freshness) -> dict[str, Any]:
    """The answer of /api/failures: the largest groups first.

    `whole_from_ms`: failures recorded before it were too many to look at, null when none were.
    """
    groups: dict[tuple[str, str], _Group] = {}
    visited, count, whole_from = 0, 0, None
    scan = view.scan_back(FAILURES, keys.failure_bound(asked.start_ms), keys.failure_bound(asked.end_ms))
    for key, value in islice(scan, MAX_VISITED):
        failure = decode_failure(*keys.read_failure_key(key), value)
        visited += 1
        whole_from = failure.at_ms
        if (asked.queue and failure.queue != asked.queue) or (
            asked.handler and failure.handler != asked.handler
        ):
            continue
        count += 1
        name = failure.handler, shape(failure.error)
        groups.setdefault(name, _Group(*name)).add(failure)
    largest = sorted(groups.values(), key=lambda group: (-group.count, -group.last_ms))
    return {
        "groups": [group_object(group) for group in largest[: asked.limit]],
        "group_count": len(groups),
        "count": count,
        "visited": visited,
        "whole_from_ms": whole_from if visited == MAX_VISITED else None,
        **fresh.fields(),
    }


def group_object(group: _Group) -> dict[str, Any]:
    """A group, JSON-ready."""
    return {
        "handler": group.handler,
        "error": group.error,
        "count": group.count,
        "first_ms": group.first_ms,
        "last_ms": group.last_ms,
        "oldest_ts": group.oldest_ts,
        "newest_ts": group.newest_ts,
        "queues": sorted(group.queues),
        "examples": [failure._asdict() for failure in group.examples],
        "command": listing_command(
            handler=group.handler, error=group.error, start_ms=group.oldest_ts, end_ms=group.newest_ts + 1
        ),
        "replay": replay_command(handler=group.handler, error=group.error, since_ms=group.first_ms),
    }


def listing_command(*, handler: str, error: str, start_ms: int, end_ms: int) -> str:
    """The shell line that lists the dead occurrences of a group; quoted, whatever the error says."""
    words: Sequence[str] = (
        *("tickstream", "task", "list", "--state", "dead", "--handler", handler, "--error-like", error),
        *("--from", _iso(start_ms), "--to", _iso(end_ms)),
    )
    return shlex.join(words)


def replay_command(*, handler: str, error: str, since_ms: int) -> str:
    """The shell line that gives a group, and what fails like it until then, another chance."""
    words: Sequence[str] = (
        *("tickstream", "dead-letter", "replay", "--handler", handler, "--error-like", error),
        *("--from", _iso(since_ms)),
    )
    return shlex.join(words)


def _iso(ms: int) -> str:
    return iso_utc(min(max(ms, 0), _LAST_WRITABLE_MS))
