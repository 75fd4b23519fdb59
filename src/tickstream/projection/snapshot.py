"""What the broker says of an installation at one moment: members of groups, ends of topics, and their bytes.

Values only: no Kafka and no database may enter here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson


class Member(NamedTuple):
    """A member of a consumer group."""

    client_id: str
    host: str
    partitions: tuple[int, ...]
    """Assigned to it, of the group's one topic."""


class Snapshot(NamedTuple):
    """One answer of the broker. What could not be asked is empty, and `problem` says why."""

    asked_ms: int
    """By the clock of who asked, ms UTC."""
    problem: str
    lanes: int
    generation: int
    queues: tuple[str, ...]
    dispatchers: tuple[Member, ...]
    workers: Mapping[str, tuple[Member, ...]]
    """By queue."""
    work_waiting: Mapping[str, int]
    """By queue, records of `work` that its workers have not committed yet."""
    ends: Mapping[str, Sequence[int]]
    """By `commands`, `reports`, `timers`, `history`: the end of each partition."""


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """It, as JSON."""
    return orjson.dumps(
        snapshot._asdict()
        | {"dispatchers": [*map(list, snapshot.dispatchers)]}
        | {"workers": {q: [*map(list, m)] for q, m in snapshot.workers.items()}}
    )


def decode_snapshot(value: bytes) -> Snapshot:
    """What `encode_snapshot` wrote."""
    fields: dict[str, Any] = orjson.loads(value)
    fields["queues"] = tuple(fields["queues"])
    fields["dispatchers"] = _members(fields["dispatchers"])
    fields["workers"] = {queue: _members(members) for queue, members in fields["workers"].items()}
    return Snapshot(**fields)


def _members(lists: Sequence[Sequence[Any]]) -> tuple[Member, ...]:
    return tuple(Member(client_id, host, tuple(partitions)) for client_id, host, partitions in lists)
