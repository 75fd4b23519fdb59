"""Shards' answers about calendars put together: pure, on JSON objects, as merge.py.

A calendar lies in one bucket, so one shard knows it, and the others say that they do not.
"""

from __future__ import annotations

from functools import reduce
from operator import itemgetter
from typing import Final

from tickstream.calendar import Slot, common_slots
from tickstream.projection import keys
from tickstream.projection.calendars import slot_object
from tickstream.projection.cursors import decode_cursor, encode_cursor
from tickstream.projection.merge import Answer, Answers, fresh

_NOTHING: Final = ("events", "conflicts", "bookings")


def of_one(answers: Answers) -> Answer:
    """About one calendar: the answer of the shard that has it."""
    having = (answer for answer in answers if answer.get("zone") or any(answer.get(n) for n in _NOTHING))
    return {**next(having, answers[0]), **fresh(answers)}


def calendars(answers: Answers, *, limit: int) -> Answer:
    """Calendars by name, up to the nearest end of a shard's page that has a next one."""
    found = sorted(
        (one for answer in answers for one in answer["calendars"]),
        key=lambda one: keys.calendar_key(one["calendar"]),
    )
    ends = [decode_cursor(answer["cursor"]) for answer in answers if answer["cursor"] is not None]
    bound = min(ends, default=None)
    if bound is not None:
        found = [one for one in found if keys.calendar_key(one["calendar"]) <= bound]
    if len(found) > limit:
        found = found[:limit]
        bound = keys.calendar_key(found[-1]["calendar"])
    return {"calendars": found, "cursor": encode_cursor(bound), **fresh(answers)}


def free_busy(answers: Answers) -> Answer:
    """By calendar, what the shard says that knows it."""
    by_calendar = {
        name: next((a["calendars"][name] for a in answers if a["calendars"][name]["known"]), nothing)
        for name, nothing in answers[0]["calendars"].items()
    }
    first = answers[0]
    bounds = {name: first[name] for name in ("start_ms", "end_ms")}
    return {**bounds, "calendars": by_calendar, **fresh(answers)}


def free(answers: Answers, *, least_ms: int, limit: int) -> Answer:
    """What is free at all shards. Behind the last gap of a list that was cut short nothing is known."""
    lists = [[Slot(**slot) for slot in answer["slots"]] for answer in answers]
    known_to = [answer["slots"][-1]["end_ms"] for answer in answers if answer["more"]]
    found = reduce(lambda one, other: common_slots(one, other, least_ms), lists)
    cut = min(known_to, default=None)
    if cut is not None:
        found = [slot for slot in found if slot.end_ms <= cut]
    return {
        "slots": [slot_object(slot) for slot in sorted(found, key=itemgetter(0))[:limit]],
        "more": len(found) > limit or cut is not None,
        **fresh(answers),
    }
