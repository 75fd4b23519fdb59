"""What becomes of an event that is changed: one occurrence, one and those that follow it, or all.

Pure: an event and a change in, the event as it is to be out. Whether it may have its time may not enter here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice, takewhile
from typing import Final

from tickstream import recurrence
from tickstream.calendar.expansion import Expansion, expand
from tickstream.calendar.values import (
    DAY_MS,
    Details,
    Event,
    Length,
    Override,
    Reminder,
    Status,
    Transparency,
)
from tickstream.clock import iso_utc_seconds
from tickstream.errors import InvalidEvent
from tickstream.recurrence.civil import iso_local, seconds_of
from tickstream.recurrence.grammar import parse_written
from tickstream.recurrence.zone_data import wall_clock_instant
from tickstream.recurrence.zones import Zone

_END: Final = re.compile(r"(?:^|;)(?:COUNT|UNTIL)=[^;]*", re.ASCII | re.IGNORECASE)
_COUNT: Final = re.compile(r"(?<=COUNT=)\d+", re.ASCII | re.IGNORECASE)
_UNTIL: Final = re.compile(
    r"(?<=UNTIL=)(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z?))?(?=;|$)", re.ASCII | re.IGNORECASE
)
_COMPARED: Final = 8
"""Occurrences by which a split is checked: the new series has to begin as the old one would have gone on."""


class Scope(StrEnum):
    """Which occurrences a change is about."""

    ONE = "one"
    FOLLOWING = "following"
    """One, and those that follow it: they become a series of their own."""
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be otherwise; what is None stays. Times are written as `Event.start` is."""

    scope: Scope
    recurrence_id: str = ""
    """Of ONE and FOLLOWING: the start that the rule gives the occurrence, wherever it was moved."""
    start: str | None = None
    zone: str | None = None
    length: Length | None = None
    rule: str | None = None
    """Empty: none any more. Not of ONE."""
    status: Status | None = None
    """CANCELLED: of ONE, it does not take place; of FOLLOWING, the series ends before it."""
    transparency: Transparency | None = None
    summary: str | None = None
    location: str | None = None
    description: str | None = None
    attendees: tuple[str, ...] | None = None
    reminders: tuple[Reminder, ...] | None = None
    new_uid: str = ""
    """Of FOLLOWING, unless it cancels: the uid of the series that is split off."""


def with_one_changed(event: Event, change: Change, calendar_zone: str | None) -> Event:
    """The event with one occurrence changed by hand. Raises InvalidEvent, InvalidSchedule, UnknownZone."""
    if change.rule is not None:
        raise InvalidEvent("rrule", change.rule, "is the series', not one occurrence's")
    expansion = expand(event, calendar_zone)
    identity = _identity(expansion, change)
    old = next((o for o in event.overrides if expansion.identity(o.recurrence_id) == identity), None)
    base = old or Override(_written(identity, expansion))
    override = replace(
        base,
        start=base.start if change.start is None else change.start,
        zone=base.zone if change.start is None else change.zone,
        length=base.length if change.length is None else _length(change.length, change.start or event.start),
        status=base.status if change.status is None else change.status,
        transparency=base.transparency if change.transparency is None else change.transparency,
        details=_details(base.details or event.details, change) or base.details,
        reminders=base.reminders if change.reminders is None else change.reminders,
    )
    others = tuple(o for o in event.overrides if o is not old)
    return replace(event, overrides=(*others, override), sequence=event.sequence + 1)


def with_all_changed(event: Event, change: Change, calendar_zone: str | None) -> Event:
    """The event with its series changed; occurrences changed by hand keep what was changed of them.

    Another start moves what names occurrences (EXDATE, RDATE, RECURRENCE-ID, UNTIL) along by as much on the
    clock. Raises InvalidEvent, InvalidSchedule, UnknownZone.
    """
    changed = replace(
        event,
        length=event.length if change.length is None else _length(change.length, change.start or event.start),
        status=event.status if change.status is None else change.status,
        transparency=event.transparency if change.transparency is None else change.transparency,
        details=_details(event.details, change) or event.details,
        reminders=event.reminders if change.reminders is None else change.reminders,
        sequence=event.sequence + 1,
        last=None,
    )
    if change.start is not None or change.zone is not None:
        changed = _moved(changed, change, calendar_zone)
    return changed if change.rule is None else replace(changed, rule=change.rule or None)


def split(event: Event, change: Change, calendar_zone: str | None) -> tuple[Event, Event | None]:
    """The series up to an occurrence, and a new one from it on, changed; None: nothing follows any more.

    Raises InvalidEvent, InvalidSchedule, UnknownZone.
    """
    expansion = expand(event, calendar_zone)
    identity = _identity(expansion, change)
    ruled = recurrence.first(expansion.schedule)
    identities = [occurrence.recurrence_ms for occurrence in expansion.changed]
    if identity <= min([*identities, *([] if ruled is None else [ruled.next_occurrence_ts])]):
        raise InvalidEvent(
            "occurrence", change.recurrence_id, "is the first one: change, or remove, the whole event"
        )

    def before(text: str) -> bool:
        return expansion.identity(text) < identity

    def behind(text: str) -> bool:
        return not before(text)

    begun = replace(
        _part(event, before),
        rule=None if event.rule is None else _ending(event.rule, identity, expansion),
        sequence=event.sequence + 1,
        last=None,
    )
    if change.status is Status.CANCELLED:
        return begun, None
    if not change.new_uid:
        raise InvalidEvent("new_uid", "", "the series that is split off has a uid of its own")
    following = replace(
        _part(event, behind),
        uid=change.new_uid,
        start=_nominal(expansion, identity),
        rule=None if event.rule is None else _rest(event.rule, event, identity, expansion),
        continues=event.uid,
        sequence=-1,
        last=None,
    )
    if event.rule is not None:
        _check_alike(expansion, following, identity, calendar_zone, change)
    return begun, with_all_changed(following, change, calendar_zone)


def _length(given: Length, start: str) -> Length:
    """The length of what begins so: 24 hours of an event of days are one day."""
    if "T" in start or given.ms % DAY_MS:
        return given
    return Length(given.days + given.ms // DAY_MS)


def _identity(expansion: Expansion, change: Change) -> int:
    identity = expansion.identity(change.recurrence_id)
    if expansion.at(identity) is None:
        raise InvalidEvent(
            "occurrence",
            change.recurrence_id,
            f"is none of {expansion.event.uid!r}: it is named by the start that the rule gives it, wherever it was moved",
        )
    return identity


def _details(base: Details, change: Change) -> Details | None:
    """None when nothing of them changes."""
    given = (change.summary, change.location, change.description, change.attendees)
    if given == (None, None, None, None):
        return None
    return Details(
        base.summary if change.summary is None else change.summary,
        base.location if change.location is None else change.location,
        base.description if change.description is None else change.description,
        base.attendees if change.attendees is None else change.attendees,
    )


def _written(identity: int, expansion: Expansion) -> str:
    """The occurrence as RECURRENCE-ID has it: a date of a series of days, else UTC."""
    return _day(identity, expansion.zone) if expansion.event.all_day else iso_utc_seconds(identity)


def _day(instant_ms: int, zone: Zone) -> str:
    return _wall(instant_ms, zone)[:10]


def _wall(instant_ms: int, zone: Zone) -> str:
    seconds = instant_ms // 1_000
    return iso_local(seconds + zone.offset(seconds))


# --------------------------------------------------------------------------- another start


def _moved(event: Event, change: Change, calendar_zone: str | None) -> Event:
    expansion = expand(event, calendar_zone)
    start = event.start if change.start is None else change.start
    if start.endswith("Z") and not event.start.endswith("Z"):
        # The series stays on its clock; only the instant is given.
        zone = expand(replace(event, start=event.start, zone=change.zone or event.zone), calendar_zone).zone
        start = _wall(seconds_of(parse_written("start", start).wall) * 1_000, zone)
    moved = replace(event, start=start, zone=change.zone or event.zone)
    names = (*event.exdate, *event.rdate, *event.overrides)
    if moved.all_day is not event.all_day or start.endswith("Z") is not event.start.endswith("Z"):
        if names or _UNTIL.search(event.rule or ""):
            raise InvalidEvent(
                "start",
                start,
                "makes days of times, or the other way round: add the event anew with its dates",
            )
        return moved
    shift = seconds_of(parse_written("start", start).wall) - seconds_of(
        parse_written("start", event.start).wall
    )
    to = expand(replace(moved, exdate=(), rdate=(), overrides=(), rule=None), calendar_zone).zone

    def along(text: str) -> str:
        local = (
            seconds_of(parse_written("start", _wall(expansion.identity(text), expansion.zone)).wall) + shift
        )
        if event.all_day:
            return iso_local(local)[:10]
        return iso_local(local) + ("Z" if event.start.endswith("Z") else "")

    return replace(
        moved,
        exdate=tuple(along(text) for text in event.exdate),
        rdate=tuple(added._replace(start=along(added.start)) for added in event.rdate),
        overrides=tuple(replace(o, recurrence_id=along(o.recurrence_id)) for o in event.overrides),
        rule=event.rule and _UNTIL.sub(lambda found: _until(found, shift, expansion.zone, to), event.rule),
    )


def _until(found: re.Match[str], shift: int, old: Zone, new: Zone) -> str:
    year, month, day, hour, minute, second, utc = found.groups()
    text = f"{year}-{month}-{day}T{hour or '00'}:{minute or '00'}:{second or '00'}"
    seconds = seconds_of(parse_written("UNTIL", text).wall)
    if utc:
        seconds = _instant(seconds + old.offset(seconds) + shift, new)
    else:
        seconds += shift
    written = re.sub("[-:]", "", iso_local(seconds))
    return f"{written}{utc or ''}" if hour else written[:8]


def _instant(local: int, zone: Zone) -> int:
    """Seconds UTC at which the zone's clock shows it."""
    return wall_clock_instant(zone.key, parse_written("UNTIL", iso_local(local)).wall)


# --------------------------------------------------------------------------- a split


def _part(event: Event, wanted: Callable[[str], bool]) -> Event:
    """The event with those of its dates and changes whose identity is wanted."""
    return replace(
        event,
        rdate=tuple(added for added in event.rdate if wanted(added.start)),
        exdate=tuple(text for text in event.exdate if wanted(text)),
        overrides=tuple(o for o in event.overrides if wanted(o.recurrence_id)),
    )


def _ending(rule: str, identity: int, expansion: Expansion) -> str:
    """The rule with its last occurrence before that instant."""
    event, last = expansion.event, identity - 1_000
    if event.all_day:
        until = re.sub("-", "", _day(last, expansion.zone))
    elif event.zone is None and not event.start.endswith("Z"):
        until = re.sub("[-:]", "", _wall(last, expansion.zone))
    else:
        until = re.sub("[-:]", "", iso_utc_seconds(last))
    return f"{_END.sub('', rule).lstrip(';')};UNTIL={until}"


def _rest(rule: str, event: Event, identity: int, expansion: Expansion) -> str:
    """The rule from that occurrence on: of its COUNT what is left."""
    count = _COUNT.search(rule)
    if count is None:
        return rule
    bare = replace(expansion.schedule, rdate=(), exdate=(), last=event.last)
    occurrences = recurrence.compile_schedule(bare)
    first = occurrences.first()
    since = -1 if first is None else first.next_occurrence_ts - 1
    gone = sum(1 for _ in takewhile(lambda p: p.next_occurrence_ts < identity, occurrences.after(since)))
    return _COUNT.sub(str(int(count[0]) - gone), rule)


def _nominal(expansion: Expansion, identity: int) -> str:
    """The start of a series that begins with that occurrence, as the rule names it."""
    pointer = recurrence.next_after(expansion.schedule, identity - 1)
    if pointer is None or pointer.next_occurrence_ts != identity:
        raise InvalidEvent(
            "occurrence",
            _written(identity, expansion),
            "is beside the rule: split at one that the rule names",
        )
    text = iso_local(pointer.nominal_local)
    if expansion.event.all_day:
        return text[:10]
    return text + ("Z" if expansion.event.start.endswith("Z") else "")


def _check_alike(
    expansion: Expansion, following: Event, identity: int, calendar_zone: str | None, change: Change
) -> None:
    goes_on = islice(expansion.by_rule(identity), _COMPARED)
    begins = islice(expand(following, calendar_zone).by_rule(identity), _COMPARED)
    if [o.recurrence_ms for o in goes_on] != [o.recurrence_ms for o in begins]:
        raise InvalidEvent(
            "occurrence",
            change.recurrence_id,
            "is where the rule depends on what came before: split at another, or give a new rule to a new event",
        )
