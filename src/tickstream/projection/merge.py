"""Answers of shards put together into the answer of the whole: pure, on JSON objects.

No HTTP, no index and no clock may enter here. A shard's answer covers its own buckets; every function
takes one answer of each shard, to the same question. Pages are cut where a shard's page ends, so that
nothing in between is missing; cursors are keys, and one key serves all shards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, Final

from tickstream.model import Phase
from tickstream.projection import keys, lateness
from tickstream.projection.charts import WORST_SECONDS
from tickstream.projection.cursors import decode_cursor, encode_cursor
from tickstream.projection.failures import EXAMPLES, listing_command, replay_command
from tickstream.projection.lateness import Stage
from tickstream.projection.rows import ChangeKind
from tickstream.projection.status import RECENT_FAILURES

Answer = dict[str, Any]
Answers = Sequence[Answer]

_STATES: Final = tuple(state.value for state in Phase)


def fresh(answers: Answers) -> Answer:
    """As old as the oldest of them; the slowest bucket is the slowest of all."""
    slowest = max(answers, key=itemgetter("staleness_ms"))
    return {
        "as_of": min(answer["as_of"] for answer in answers),
        "staleness_ms": slowest["staleness_ms"],
        "slowest_bucket": slowest["slowest_bucket"],
        "restoring": sorted(bucket for answer in answers for bucket in answer["restoring"]),
        "of_buckets": answers[0]["of_buckets"],
        "position": dict(sorted(_of_all(answers, "position"), key=lambda entry: int(entry[0]))),
    }


def _of_all(answers: Answers, name: str) -> list[Any]:
    """What all of them list under a name."""
    return [
        entry
        for answer in answers
        for entry in (answer[name].items() if isinstance(answer[name], dict) else answer[name])
    ]


# --------------------------------------------------------------------------- pages


def page(answers: Answers, *, limit: int, descending: bool) -> Answer:
    """Rows by their key, as each shard gives them."""
    rows, cursor = _cut(answers, "rows", _row_key, limit, descending)
    return {
        "rows": rows,
        "cursor": cursor,
        "visited": sum(answer["visited"] for answer in answers),
        **fresh(answers),
    }


def changes(answers: Answers, *, limit: int) -> Answer:
    """Changes, latest first; a take-over whose buckets lie in several shards is one again."""
    together: dict[str, Answer] = {}
    for change in _of_all(answers, "changes"):
        same = repr([change[name] for name in change if name != "buckets"])
        known = together.setdefault(same, {**change, "buckets": []})
        known["buckets"] = sorted({*known["buckets"], *change["buckets"]})
    merged = [{"changes": list(together.values()), "cursor": None}]
    ends = [{"changes": [], "cursor": answer["cursor"]} for answer in answers]
    found, cursor = _cut(merged + ends, "changes", _change_key, limit, True)
    return {"changes": found, "cursor": cursor, **fresh(answers)}


def _cut(
    answers: Answers, name: str, key_of: Callable[[Answer], bytes], limit: int, descending: bool
) -> tuple[list[Answer], str | None]:
    """The entries up to the nearest end of a shard's page that has a next one, at most `limit`."""
    entries = sorted(
        ((key_of(entry), entry) for entry in _of_all(answers, name)), key=itemgetter(0), reverse=descending
    )
    ends = [decode_cursor(answer["cursor"]) for answer in answers if answer["cursor"] is not None]
    bound = (max if descending else min)(ends, default=None)
    if bound is not None:
        entries = [(key, entry) for key, entry in entries if (key >= bound if descending else key <= bound)]
    if len(entries) > limit:
        return [entry for _, entry in entries[:limit]], encode_cursor(entries[limit - 1][0])
    return [entry for _, entry in entries], encode_cursor(bound)


def _row_key(row: Answer) -> bytes:
    return keys.row_key(row["task_id"], row["occurrence_ts"])


def _change_key(change: Answer) -> bytes:
    """The last of its keys, latest first."""
    kind = ChangeKind[change["kind"].upper()]
    bucket = min(change["buckets"], default=keys.WHOLE)
    return keys.change_key(change["at_ms"], kind, bucket, change["queue"] or "")


# --------------------------------------------------------------------------- one task


def task(answers: Answers) -> Answer:
    """That of the shard that knows it; of one that nobody knows, nothing."""
    known = next((answer for answer in answers if answer["task"] is not None), answers[0])
    return {**known, **fresh(answers)}


# --------------------------------------------------------------------------- over time


def counts(answers: Answers) -> Answer:
    """Sums; up to the first second that a shard could not count any more."""
    stops = [answer["next_start"] for answer in answers if answer["next_start"] is not None]
    next_start = min(stops, default=None)
    periods = [
        period
        for period in _summed(_of_all(answers, "periods"), "start_ms", _STATES)
        if next_start is None or period["start_ms"] < next_start
    ]
    return {
        "by": answers[0]["by"],
        "periods": periods,
        "totals": {state: sum(period[state] for period in periods) for state in _STATES},
        "next_start": next_start,
        "exact": all(answer["exact"] for answer in answers),
        **fresh(answers),
    }


def _summed(entries: Iterable[Answer], name: str, counted: Sequence[str]) -> list[Answer]:
    """Entries of one `name` added up, in its order."""
    sums: dict[Any, Counter[str]] = {}
    for entry in entries:
        sums.setdefault(entry[name], Counter()).update({field: entry[field] for field in counted})
    return [{name: at} | {field: sums[at][field] for field in counted} for at in sorted(sums)]


def forecast(answers: Answers) -> Answer:
    """Sums. A second that is among the worst in no shard may be so in all: the worst seconds are bounds."""
    queues: Counter[str] = Counter()
    for answer in answers:
        queues.update(answer["queues"])
    worst = _summed(_of_all(answers, "worst_seconds"), "start_ms", ("count",))
    worst.sort(key=lambda second: (-second["count"], second["start_ms"]))
    first = min(answers, key=itemgetter("start_ms"))
    return {
        **{name: first[name] for name in ("horizon", "start_ms", "end_ms", "step_ms")},
        "total": sum(answer["total"] for answer in answers),
        "queues": dict(sorted(queues.items())),
        "periods": _summed(_of_all(answers, "periods"), "start_ms", ("count",)),
        "worst_seconds": worst[:WORST_SECONDS],
        "exact": len(answers) == 1 and first["exact"],
        **fresh(answers),
    }


def late(answers: Answers) -> Answer:
    """Percentiles of the histograms of all."""
    periods: dict[int, list[Answer]] = {}
    for period in _of_all(answers, "periods"):
        periods.setdefault(period["start_ms"], []).append(period["stages"])
    return {
        "by": answers[0]["by"],
        "periods": [{"start_ms": at, "stages": _stages(parts)} for at, parts in sorted(periods.items())],
        "stages": _stages([answer["stages"] for answer in answers]),
        **fresh(answers),
    }


def _stages(parts: Sequence[Answer]) -> Answer:
    return lateness.summary(
        {
            stage: lateness.merge(lateness.histogram_of(part[stage.label]["histogram"]) for part in parts)
            for stage in Stage
        }
    )


# --------------------------------------------------------------------------- failures


def failures(answers: Answers, *, limit: int) -> Answer:
    """Groups of one handler and error put together. Beyond the limit of a shard's groups, counts are bounds."""
    groups: dict[tuple[str, str], list[Answer]] = {}
    for group in _of_all(answers, "groups"):
        groups.setdefault((group["handler"], group["error"]), []).append(group)
    merged = [_group(parts) for parts in groups.values()]
    merged.sort(key=lambda group: (-group["count"], -group["last_ms"]))
    whole_from = [answer["whole_from_ms"] for answer in answers if answer["whole_from_ms"] is not None]
    return {
        "groups": merged[:limit],
        "group_count": max(len(groups), *(answer["group_count"] for answer in answers)),
        "count": sum(answer["count"] for answer in answers),
        "visited": sum(answer["visited"] for answer in answers),
        "whole_from_ms": max(whole_from, default=None),
        **fresh(answers),
    }


def _group(parts: Sequence[Answer]) -> Answer:
    handler, error = parts[0]["handler"], parts[0]["error"]
    oldest, newest = min(part["oldest_ts"] for part in parts), max(part["newest_ts"] for part in parts)
    examples = sorted(_of_all(parts, "examples"), key=itemgetter("at_ms"), reverse=True)
    return {
        "handler": handler,
        "error": error,
        "count": sum(part["count"] for part in parts),
        "first_ms": min(part["first_ms"] for part in parts),
        "last_ms": max(part["last_ms"] for part in parts),
        "oldest_ts": oldest,
        "newest_ts": newest,
        "queues": sorted(set(_of_all(parts, "queues"))),
        "examples": examples[:EXAMPLES],
        "command": listing_command(handler=handler, error=error, start_ms=oldest, end_ms=newest + 1),
        "replay": replay_command(
            handler=handler, error=error, since_ms=min(part["first_ms"] for part in parts)
        ),
    }


# --------------------------------------------------------------------------- the installation


def queues(answers: Answers) -> Answer:
    """Sums by queue; what the broker said is that of the shard that asked it last."""
    newest = _asked_last(answers)
    told = {queue["queue"]: queue for queue in newest["queues"]}
    merged = _summed(_of_all(answers, "queues"), "queue", (*_STATES, "paused_buckets", "overdue"))
    for queue in merged:
        own = [of for of in _of_all(answers, "queues") if of["queue"] == queue["queue"]]
        said = told.get(queue["queue"]) or own[0]
        queue |= {name: said[name] for name in ("exists", "work_waiting", "workers")}
        queue["limits"] = _limits([limit for of in own for limit in of["limits"]])
        queue["oldest_ts"] = min((of["oldest_ts"] for of in own if of["oldest_ts"] is not None), default=None)
    return {
        "queues": merged,
        "exact": all(answer["exact"] for answer in answers),
        "broker": newest["broker"],
        **fresh(answers),
    }


def _limits(found: Sequence[Answer]) -> list[Answer]:
    """Each gate once, with all the buckets in which it holds."""
    buckets: Counter[tuple[tuple[str, Any], ...]] = Counter()
    for limit in found:
        buckets[tuple((name, value) for name, value in limit.items() if name != "buckets")] += limit[
            "buckets"
        ]
    return [dict(limit) | {"buckets": count} for limit, count in buckets.items()]


def cluster(answers: Answers) -> Answer:
    """All buckets; of a lane that lies in several shards, the owner that claimed last."""
    newest = _asked_last(answers)
    lanes: dict[int, list[Answer]] = {}
    for lane in _of_all(answers, "lanes"):
        lanes.setdefault(lane["lane"], []).append(lane)
    return {
        "buckets": sorted(_of_all(answers, "buckets"), key=itemgetter("bucket")),
        "lanes": [_lane(parts) for _, parts in sorted(lanes.items())],
        **{name: newest[name] for name in ("dispatchers", "workers", "broker")},
        **fresh(answers),
    }


def _lane(parts: Sequence[Answer]) -> Answer:
    latest = max(parts, key=lambda lane: -1 if lane["claimed_ms"] is None else lane["claimed_ms"])
    own = [lane for lane in parts if lane["buckets"]]
    waiting = [lane["commands_waiting"] for lane in own]
    return {
        **latest,
        "buckets": sorted(_of_all(own, "buckets")),
        "lag_ms": max((lane["lag_ms"] for lane in own), default=None),
        "commands_waiting": None if None in waiting else sum(waiting),
    }


def _asked_last(answers: Answers) -> Answer:
    return max(answers, key=lambda answer: answer["broker"]["asked_ms"] or 0)


def status(answers: Answers) -> Answer:
    """Everything at a glance."""
    by_queue: dict[str, list[Answer]] = {}
    for answer in answers:
        for queue, late_ in answer["overdue"]["queues"].items():
            by_queue.setdefault(queue, []).append(late_)
    overdue = [answer["overdue"] for answer in answers]
    oldest_runs = [answer["running"]["oldest"] for answer in answers if answer["running"]["oldest"]]
    failed = sorted(_of_all(answers, "failures"), key=itemgetter("at_ms"), reverse=True)
    return {
        **fresh(answers),
        "buckets": sorted(_of_all(answers, "buckets"), key=itemgetter("bucket")),
        "totals": {state: sum(answer["totals"][state] for answer in answers) for state in _STATES},
        "overdue": {
            "count": sum(late_["count"] for late_ in overdue),
            "oldest_ts": min((o["oldest_ts"] for o in overdue if o["oldest_ts"] is not None), default=None),
            "exact": all(late_["exact"] for late_ in overdue),
            "queues": {
                queue: {
                    "count": sum(part["count"] for part in parts),
                    "oldest_ts": min(part["oldest_ts"] for part in parts),
                }
                for queue, parts in by_queue.items()
            },
        },
        "running": {
            "count": sum(answer["running"]["count"] for answer in answers),
            "oldest": min(oldest_runs, key=itemgetter("occurrence_ts"), default=None),
        },
        "lateness": {
            "minutes": answers[0]["lateness"]["minutes"],
            "stages": _stages([answer["lateness"]["stages"] for answer in answers]),
        },
        "minutes": _summed(_of_all(answers, "minutes"), "minute_ms", _STATES),
        "failures": failed[:RECENT_FAILURES],
    }
