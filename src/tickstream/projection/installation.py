"""Who does the work: buckets and lanes with their owners, queues with their workers, and what changed.

No HTTP, no Kafka and no clock may enter here. Owners come from the Claims in the log, groups and
ends from what the broker was asked last (watch.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from tickstream.model import EVERY_QUEUE, NO_LIMIT, Phase, QueueLimits
from tickstream.projection import keys
from tickstream.projection.cursors import encode_cursor
from tickstream.projection.families import CHANGES
from tickstream.projection.freshness import Freshness
from tickstream.projection.reader import View
from tickstream.projection.rows import Change, ChangeKind, Owner, Position, QueueSetting
from tickstream.projection.snapshot import Snapshot, decode_snapshot
from tickstream.projection.status import overdue
from tickstream.projection.stored import decode_change


def _snapshot(view: View) -> Snapshot | None:
    value = view.cluster()
    return None if value is None else decode_snapshot(value)


# --------------------------------------------------------------------------- cluster


def cluster(view: View, fresh: Freshness) -> dict[str, Any]:
    """The answer of /api/cluster."""
    snapshot = _snapshot(view)
    owners = view.owners()
    buckets = [
        _bucket_object(bucket, position, owners.get(bucket), snapshot, fresh.as_of)
        for bucket, position in fresh.positions.items()
    ]
    return {
        "buckets": buckets,
        "lanes": _lanes(buckets, snapshot),
        "dispatchers": [
            {"instance": member.client_id, "host": member.host, "lanes": list(member.partitions)}
            for member in (snapshot.dispatchers if snapshot is not None else ())
        ],
        "workers": {
            queue: [
                {"worker": member.client_id, "host": member.host, "partitions": len(member.partitions)}
                for member in members
            ]
            for queue, members in (snapshot.workers if snapshot is not None else {}).items()
        },
        "broker": {
            "asked_ms": None if snapshot is None else snapshot.asked_ms,
            "problem": "it was not asked yet" if snapshot is None else snapshot.problem,
        },
        **fresh.fields(),
    }


def _bucket_object(
    bucket: int, position: Position, owner: Owner | None, snapshot: Snapshot | None, now_ms: int
) -> dict[str, Any]:
    ends = snapshot.ends if snapshot is not None else {}

    def end(topic: str) -> int | None:
        of_topic = ends.get(topic, ())
        return of_topic[bucket] if bucket < len(of_topic) else None

    timers_end, commands_end = end("timers"), end("commands")
    return {
        "bucket": bucket,
        "lane": bucket % snapshot.lanes if snapshot is not None and snapshot.lanes else None,
        "owner": None if owner is None else owner.instance,
        "claimed_ms": None if owner is None else owner.at_ms,
        "applied_before_ms": position.applied_before_ms,
        "lag_ms": max(0, now_ms - position.applied_before_ms),
        "restoring": position.restoring,
        "timers": position.timers,
        "timers_end": timers_end,
        "history": position.history,
        "history_end": end("history"),
        "commands": position.commands_offset,
        "commands_waiting": None if commands_end is None else max(0, commands_end - position.commands_offset),
        "tzdata": position.tzdata,
        "layout": position.layout,
    }


def _lanes(buckets: list[dict[str, Any]], snapshot: Snapshot | None) -> list[dict[str, Any]]:
    """Lanes with the owner that claimed last; `member`: whether the group still knows that owner."""
    if snapshot is None or not snapshot.lanes:
        return []
    members = {member.client_id for member in snapshot.dispatchers}
    lanes = []
    for lane in range(snapshot.lanes):
        own = [bucket for bucket in buckets if bucket["lane"] == lane]
        claimed = [bucket for bucket in own if bucket["claimed_ms"] is not None]
        latest = max(claimed, key=lambda bucket: bucket["claimed_ms"], default=None)
        owner = None if latest is None else latest["owner"]
        lanes.append(
            {
                "lane": lane,
                "owner": owner,
                "claimed_ms": None if latest is None else latest["claimed_ms"],
                "member": None if owner is None or snapshot.problem else owner in members,
                "buckets": [bucket["bucket"] for bucket in own],
                "lag_ms": max((bucket["lag_ms"] for bucket in own), default=None),
                "commands_waiting": _sum([bucket["commands_waiting"] for bucket in own]),
            }
        )
    return lanes


def _sum(numbers: list[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


# --------------------------------------------------------------------------- queues


def queues(view: View, fresh: Freshness) -> dict[str, Any]:
    """The answer of /api/queues: of each queue, what waits, what is due, what is out, and who works on it."""
    snapshot = _snapshot(view)
    totals = view.totals()
    late = overdue(view, fresh.as_of)
    known = set(snapshot.queues) if snapshot is not None else set()
    settings = view.settings()
    everything = sum(setting.paused for setting in settings.pop(EVERY_QUEUE, ()))
    names = sorted({queue for _, queue in totals} | known | set(settings))
    return {
        "queues": [
            {
                "queue": queue,
                "exists": None if snapshot is None else queue in known,
                **{state.value: totals.get((state, queue), 0) for state in Phase},
                "paused_buckets": max(everything, sum(setting.paused for setting in settings.get(queue, ()))),
                "limits": _gates(settings.get(queue, ())),
                "overdue": late["queues"].get(queue, {"count": 0})["count"],
                "oldest_ts": late["queues"].get(queue, {"oldest_ts": None})["oldest_ts"],
                "work_waiting": None if snapshot is None else snapshot.work_waiting.get(queue),
                "workers": None if snapshot is None else len(snapshot.workers.get(queue, ())),
            }
            for queue in names
        ],
        "exact": late["exact"],
        "broker": {
            "asked_ms": None if snapshot is None else snapshot.asked_ms,
            "problem": "it was not asked yet" if snapshot is None else snapshot.problem,
        },
        **fresh.fields(),
    }


def _gates(settings: Iterable[QueueSetting]) -> list[dict[str, int | None]]:
    """Each gate that is set, with the number of buckets in which it holds; the most frequent first."""
    counted = Counter(setting.limits for setting in settings if setting.limits is not None)
    return [
        {
            "max_running": None if limits.max_running == NO_LIMIT else limits.max_running,
            "starts": None if limits.starts == NO_LIMIT else limits.starts,
            "per_ms": limits.per_ms,
            "buckets": buckets,
        }
        for limits, buckets in counted.most_common()
        if limits != QueueLimits()
    ]


# --------------------------------------------------------------------------- changes


class Strip(NamedTuple):
    """Which changes are asked for, by their instant, ms UTC."""

    start_ms: int
    end_ms: int
    limit: int
    cursor: bytes = b""
    """Key of the last change of the page before."""


def changes(view: View, asked: Strip, fresh: Freshness) -> dict[str, Any]:
    """The answer of /api/changes, latest first; a take-over of several buckets at once is one."""
    start, end = keys.change_key(asked.start_ms, 0, 0), keys.change_key(asked.end_ms, 0, 0)
    if asked.cursor:
        end = min(end, asked.cursor)
    found: list[dict[str, Any]] = []
    last, cursor = b"", None
    for group in _together(view, start, end):
        if len(found) == asked.limit:
            cursor = last
            break
        first = group[0][1]
        found.append(
            {
                "at_ms": first.at_ms,
                "kind": first.kind.name.lower(),
                "buckets": sorted(change.bucket for _, change in group if change.bucket != keys.WHOLE),
                "instance": first.fields.get("instance"),
                "lane": first.fields.get("lane"),
                "queue": first.fields.get("queue"),
                "before": _text(first.fields.get("before")),
                "after": _text(first.fields.get("after")),
                "reason": first.fields.get("reason", ""),
            }
        )
        last = group[-1][0]
    return {"changes": found, "cursor": encode_cursor(cursor), **fresh.fields()}


def _together(view: View, start: bytes, end: bytes) -> Iterator[list[tuple[bytes, Change]]]:
    """Entries that are one change: of one kind, at one instant, saying the same."""
    entries = (
        (key, decode_change(*keys.read_change_key(key), value))
        for key, value in view.scan_back(CHANGES, start, end)
    )

    def same(entry: tuple[bytes, Change]) -> tuple[int, ChangeKind, str]:
        change = entry[1]
        return change.at_ms, change.kind, repr(change.fields)

    for _, group in groupby(entries, key=same):
        yield list(group)


def _text(value: object) -> str | None:
    return None if value is None else str(value)
