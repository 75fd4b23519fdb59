"""How a caller says that a task recurs, checked and turned into the Recurrence that it carries. Pure.

No clock may enter here: what a call means does not depend on when it is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from enum import Enum
from typing import Any, Final, Literal, TypedDict, TypeVar
from zoneinfo import ZoneInfo

from tickstream.clock import EPOCH, ceil_ms
from tickstream.errors import InvalidInput, InvalidSchedule, NaiveDatetime
from tickstream.model import NEVER, Misfire, Overlap, Recurrence, RecurrenceKind
from tickstream.model.retry import milliseconds

Moment = datetime | date | str
"""An aware datetime; or text, what the zone's clock shows: `2027-03-01T09:00:00`; or, for days, a date."""

_MS: Final = timedelta(milliseconds=1)
_E = TypeVar("_E", bound=Enum)


class Policies(TypedDict, total=False):
    """On whose clock, from when until when, and what happens when something gets in the way."""

    zone: str | None
    """Whose clock: an IANA name. Default: that of `start`, else UTC."""
    start: Moment | None
    end: Moment | None
    """The first instant that may be no occurrence."""
    gap: Literal["shift", "next_valid", "skip"]
    fold: Literal["first", "second", "both"]
    subday: Literal["elapsed", "wall"]
    misfire: Misfire | Literal["latest", "all", "skip"]
    grace: timedelta
    """How late an occurrence may be before it counts as missed: a minute."""
    overlap: Overlap | Literal["skip", "allow", "queue", "cancel_running"]
    jitter: timedelta
    """Each occurrence is dispatched up to that much later, by a share of its own."""


class Recurring(Policies, total=False):
    """The arguments that make a task recur: one of `every`, `cron` and `rrule`, and what goes with it."""

    every: timedelta | None
    """Counted from `start`, else from 1970: every(hours=1) is on the hour. Never drifts; at least a second."""
    cron: str | None
    """Five fields, or six with seconds first."""
    rrule: str | None
    """A rule of RFC 5545, as FREQ=MONTHLY;BYDAY=-1FR; needs `start`. Empty: only `start` and `rdate`."""
    rdate: Sequence[Moment]
    """With `rrule`: further occurrences."""
    exdate: Sequence[Moment]
    """With `rrule`: occurrences taken out."""


RECURRING: Final = frozenset(Recurring.__annotations__)
_KINDS: Final = ("every", "cron", "rrule")


def recurrence_from(asked: Mapping[str, Any]) -> Recurrence | None:
    """The recurrence that these arguments of `Recurring` describe, admitted; None: they describe none.

    Raises InvalidInput and its kinds: InvalidSchedule, UnknownZone, NeverOccurs, NaiveDatetime.
    """
    given = {name: value for name, value in asked.items() if name in RECURRING and value is not None}
    if not given:
        return None
    kinds = [name for name in _KINDS if name in given]
    if len(kinds) != 1:
        raise InvalidInput(f"{', '.join(given)}: a task recurs by one of every=, cron= and rrule=")
    (kind,) = kinds
    # Imported here: who never lets a task recur should not wait for it.
    from tickstream.recurrence.stored import admitted

    only = {"rdate", "exdate"} & given.keys()
    if only and kind != "rrule":
        raise InvalidInput(f"{', '.join(sorted(only))}: dates are added to an rrule=, or taken out of one")
    recurrence = _recurrence(kind, given)
    admitted(recurrence)
    return recurrence


def _recurrence(kind: str, given: Mapping[str, Any]) -> Recurrence:
    zone = _zone(given)
    common = Recurrence(
        RecurrenceKind[kind.upper()],
        zone="" if zone == "UTC" else zone,
        end_ms=_instant("end", given["end"], zone) if "end" in given else NEVER,
        gap=str(given.get("gap", "shift")),
        fold=str(given.get("fold", "first")),
        subday=str(given.get("subday", "elapsed")),
        misfire=_choice(Misfire, "misfire", given.get("misfire", Misfire.LATEST)),
        grace_ms=milliseconds("grace", given.get("grace", timedelta(minutes=1)), timedelta(0)),
        overlap=_choice(Overlap, "overlap", given.get("overlap", Overlap.SKIP)),
        jitter_ms=milliseconds("jitter", given.get("jitter", timedelta(0)), timedelta(0)),
    )
    if kind == "rrule":
        if "start" not in given:
            raise InvalidSchedule("rrule", given["rrule"], "needs start=, where it begins (its DTSTART)")
        return common._replace(
            rule=given["rrule"],
            start=local_text("start", given["start"], zone),
            rdate=tuple(local_text("rdate", moment, zone) for moment in given.get("rdate", ())),
            exdate=tuple(local_text("exdate", moment, zone) for moment in given.get("exdate", ())),
        )
    start_ms = _instant("start", given["start"], zone) if "start" in given else 0
    if kind == "cron":
        return common._replace(rule=given["cron"], start_ms=start_ms)
    every = given["every"]
    if not isinstance(every, timedelta) or every % _MS:
        raise InvalidSchedule("every", every, "a datetime.timedelta of whole milliseconds")
    return common._replace(start_ms=start_ms, interval_ms=every // _MS)


def _zone(given: Mapping[str, Any]) -> str:
    from tickstream.recurrence.zone_data import load_zone

    zone = given.get("zone")
    if zone is None:
        info = getattr(given.get("start"), "tzinfo", None)
        zone = info.key if isinstance(info, ZoneInfo) and info.key else "UTC"
    if not isinstance(zone, str):
        raise InvalidInput(f"zone={zone!r}: an IANA name, for example Europe/Berlin")
    load_zone(zone)
    return zone


def _instant(name: str, moment: Moment, zone: str) -> int:
    """The instant as ms since the epoch, UTC; text and dates are read on the zone's clock."""
    if isinstance(moment, datetime):
        if moment.utcoffset() is None:
            raise NaiveDatetime(name, moment)
        return ceil_ms(moment)
    from tickstream.recurrence import wall_clock_instant

    return wall_clock_instant(zone, datetime.fromisoformat(_written(name, moment))) * 1_000


def local_text(name: str, moment: Moment, zone: str) -> str:
    """The moment as a rule has it: what the zone's clock shows, or a date."""
    if not isinstance(moment, datetime):
        return moment if isinstance(moment, str) and moment.endswith("Z") else _written(name, moment)
    offset = moment.utcoffset()
    if offset is None:
        raise NaiveDatetime(name, moment)
    if moment.microsecond:
        raise InvalidSchedule(name, moment, "a rule has whole seconds")
    info = moment.tzinfo
    if not (isinstance(info, ZoneInfo) and info.key == zone):
        from tickstream.recurrence.zone_data import load_zone

        # What the clock of the zone shows then, by the tz database in use here.
        seconds = (moment - EPOCH) // timedelta(seconds=1)
        moment = EPOCH + timedelta(seconds=seconds + load_zone(zone).offset(seconds))
    return moment.replace(tzinfo=None).isoformat()


def _written(name: str, moment: object) -> str:
    """Local time or a date, as text. Raises InvalidSchedule."""
    text = moment.isoformat() if isinstance(moment, date) else moment
    try:
        if not isinstance(text, str) or datetime.fromisoformat(text).tzinfo is not None:
            raise ValueError(text)
    except ValueError:
        raise InvalidSchedule(
            name,
            moment,
            "an aware datetime, a date, or what the zone's clock shows, as 2027-03-01T09:00:00",
        ) from None
    return text


def _choice(choices: type[_E], name: str, value: object) -> _E:
    if isinstance(value, choices):
        return value
    try:
        return choices[str(value).upper()]
    except KeyError:
        known = ", ".join(choice.name.lower() for choice in choices)
        raise InvalidInput(f"{name}={value!r}: is one of {known}") from None
