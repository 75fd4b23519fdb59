"""The case files' cases through the public code: a case in; instants out, or conflicts.

Reads the input fields of a case only, never an expected one.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tickstream import calendar, recurrence
from tickstream.recurrence import Fold, Gap, Policy, Rrule, Subday


def schedule(case: dict[str, Any]) -> Rrule:
    """The schedule that the case describes."""
    policy = case["policy"]
    return Rrule(
        start=case["dtstart"].removesuffix("T00:00:00") if case["all_day"] else case["dtstart"],
        rule=case["rrule"],
        zone=case["tz"],
        rdate=tuple(case["rdate"]),
        exdate=tuple(case["exdate"]),
        policy=Policy(Gap(policy["gap"]), Fold(policy["fold"]), Subday(policy["subday"])),
    )


def occurrences(case: dict[str, Any]) -> list[str]:
    """The case's occurrences as `2026-03-08T07:30:00Z`. Raises InvalidInput for what must be refused."""
    return taken(schedule(case), case)


def taken(schedule: Rrule, case: dict[str, Any]) -> list[str]:
    """As many of the schedule's occurrences as the case asks for, from where it asks."""
    after = case["after_utc"]
    after_ms = None if after is None else _ms(after)
    found = recurrence.take(schedule, case["limit"], after_ms)
    return [_utc(p.next_occurrence_ts) for p in found]


def event(described: dict[str, Any], uid: str) -> calendar.Event:
    """The event that a conflict case describes."""
    zone = described["tz"]
    return calendar.Event(
        uid=uid,
        start=described["start"],
        zone=zone,
        length=_length(described, described["start"], zone),
        rule=described["rrule"],
        rdate=tuple(calendar.Added(start) for start in described.get("rdate", ())),
        exdate=tuple(described.get("exdate", ())),
        overrides=tuple(
            calendar.Override(
                recurrence_id=override["recurrence_id"],
                start=override["start"],
                length=_length(override, override["start"], zone),
                status=calendar.Status(override["status"]) if "status" in override else None,
            )
            for override in described.get("overrides", ())
        ),
        status=calendar.Status(described["status"]),
        transparency=calendar.Transparency.TRANSPARENT
        if described["transparent"]
        else calendar.Transparency.OPAQUE,
    )


def _length(described: dict[str, Any], start: str, zone: str | None) -> calendar.Length:
    if "duration" in described:
        return calendar.parse_length(described["duration"])
    return calendar.length_until(start, described["end"], zone, zone, None)


def conflicts(case: dict[str, Any]) -> list[list[Any]]:
    """[candidate occurrence, index in `busy` (-1: itself), busy occurrence]: their starts as `2025-06-02T09:00:00Z`."""
    candidate = calendar.expand(event(case["candidate"], "candidate"), None)
    until_ms = _FAR_MS if case["until_utc"] is None else _ms(case["until_utc"])
    mine = list(candidate.overlapping(_FIRST_MS, until_ms))
    end_ms = max((occurrence.end_ms for occurrence in mine), default=_FIRST_MS)
    occupancy = calendar.MemoryOccupancy()
    for number, described in enumerate(case["busy"]):
        expansion = calendar.expand(event(described, str(number)), None)
        occupancy.add(calendar.busy_time(expansion, _FIRST_MS, end_ms))
    found = calendar.check(candidate, occupancy, _FIRST_MS, until_ms).conflicts
    return [
        [_utc(c.occurrence.start_ms), -1 if c.with_itself else int(c.busy.uid), _utc(c.busy.start_ms)]
        for c in found
    ]


_FIRST_MS = 0
_FAR_MS = 4_102_444_800_000


def _ms(utc: str) -> int:
    return round(datetime.fromisoformat(utc).timestamp() * 1_000)


def _utc(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1_000, UTC):%Y-%m-%dT%H:%M:%SZ}"
