"""RRULE's value (RFC 5545, 3.3.10; RFC 7529 for RSCALE and SKIP) as a `Rule`, or the reason why it is none.

Text and the rules about it only: no zone and no expansion may enter here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple

from tickstream.errors import InvalidSchedule

WEEKDAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


class Freq(IntEnum):
    """From the longest period to the shortest."""

    YEARLY = 0
    MONTHLY = 1
    WEEKLY = 2
    DAILY = 3
    HOURLY = 4
    MINUTELY = 5
    SECONDLY = 6


class Skip(StrEnum):
    """RFC 7529: where a date goes that its month does not have."""

    OMIT = "OMIT"
    BACKWARD = "BACKWARD"
    FORWARD = "FORWARD"


class NumberedDay(NamedTuple):
    """An entry of BYDAY: `nth` is 0 without a number."""

    nth: int
    weekday: int
    """0 for Monday … 6 for Sunday."""


class Until(NamedTuple):
    """UNTIL as written; which kind is right depends on DTSTART."""

    text: str
    wall: datetime
    is_date: bool
    is_utc: bool


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as written: nothing is filled in from DTSTART yet."""

    freq: Freq
    interval: int = 1
    count: int | None = None
    until: Until | None = None
    bymonth: tuple[int, ...] = ()
    byweekno: tuple[int, ...] = ()
    byyearday: tuple[int, ...] = ()
    bymonthday: tuple[int, ...] = ()
    byday: tuple[NumberedDay, ...] = ()
    byhour: tuple[int, ...] = ()
    byminute: tuple[int, ...] = ()
    bysecond: tuple[int, ...] = ()
    bysetpos: tuple[int, ...] = ()
    wkst: int = 0
    skip: Skip = Skip.OMIT


_KNOWN: Final = frozenset(
    {"FREQ", "INTERVAL", "COUNT", "UNTIL", "BYMONTH", "BYWEEKNO", "BYYEARDAY", "BYMONTHDAY", "BYDAY"}
    | {"BYHOUR", "BYMINUTE", "BYSECOND", "BYSETPOS", "WKST", "RSCALE", "SKIP"}
)
_DATE: Final = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z?))?", re.ASCII)
_NUMBERED_DAY: Final = re.compile(r"([+-]?\d{1,2})?([A-Z]{2})", re.ASCII)


def parse_rule(text: str) -> Rule:
    """The rule that `text` writes down. Raises InvalidSchedule, which names the part and what it breaks."""
    parts = _split(text)
    if "FREQ" not in parts:
        raise InvalidSchedule(
            "RRULE", text, "FREQ is missing; every rule must have exactly one (RFC 5545, 3.3.10)"
        )
    numbers: Mapping[str, tuple[int, ...]] = {
        name: _numbers(name, parts[name], *limits) for name, limits in _LISTS.items() if name in parts
    }
    rule = Rule(
        freq=_freq(parts["FREQ"]),
        interval=_positive("INTERVAL", parts.get("INTERVAL", "1")),
        count=_positive("COUNT", parts["COUNT"]) if "COUNT" in parts else None,
        until=_until(parts["UNTIL"]) if "UNTIL" in parts else None,
        bymonth=numbers.get("BYMONTH", ()),
        byweekno=numbers.get("BYWEEKNO", ()),
        byyearday=numbers.get("BYYEARDAY", ()),
        bymonthday=numbers.get("BYMONTHDAY", ()),
        byday=_numbered_days(parts["BYDAY"]) if "BYDAY" in parts else (),
        byhour=numbers.get("BYHOUR", ()),
        byminute=numbers.get("BYMINUTE", ()),
        # 60 is a leap second; who has none reads it as 59 (RFC 5545, 3.3.12).
        bysecond=tuple(sorted({min(second, 59) for second in numbers.get("BYSECOND", ())})),
        bysetpos=numbers.get("BYSETPOS", ()),
        wkst=_weekday("WKST", parts.get("WKST", "MO")),
        skip=_skip(parts),
    )
    _check_together(rule, parts)
    return rule


def _split(text: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    for part in text.upper().split(";"):
        name, equals, value = part.partition("=")
        if not equals:
            raise InvalidSchedule(
                "RRULE",
                text,
                f"the part {part!r} is not of the form NAME=value, as all are (RFC 5545, 3.3.10)",
            )
        if name not in _KNOWN:
            raise InvalidSchedule(
                "RRULE", text, f"{name!r} is no part of a recurrence rule (RFC 5545, 3.3.10)"
            )
        if name in parts:
            raise InvalidSchedule(name, value, "a part must not be given twice (RFC 5545, 3.3.10)")
        if not value:
            raise InvalidSchedule(name, value, "a part needs a value (RFC 5545, 3.3.10)")
        parts[name] = value
    return parts


def _freq(value: str) -> Freq:
    if value not in Freq.__members__:
        raise InvalidSchedule(
            "FREQ", value, f"the frequencies are {', '.join(Freq.__members__)} (RFC 5545, 3.3.10)"
        )
    return Freq[value]


def _positive(name: str, value: str) -> int:
    if not (value.isascii() and value.isdigit()) or int(value) == 0:
        raise InvalidSchedule(
            name, value, "must be a positive integer in digits, without a sign (RFC 5545, 3.3.10)"
        )
    return int(value)


def _until(value: str) -> Until:
    found = _DATE.fullmatch(value)
    if found is None:
        raise InvalidSchedule(
            "UNTIL", value, "is no DATE or DATE-TIME, as 20261231 or 20261231T235959Z (RFC 5545, 3.3.10)"
        )
    year, month, day, hour, minute, second = (int(digits or 0) for digits in found.groups()[:6])
    try:
        wall = datetime(year, month, day, hour, minute, 59 if second == 60 else second)
    except ValueError as error:
        raise InvalidSchedule(
            "UNTIL", value, f"is no calendar date or time of day: {error} (RFC 5545, 3.3.5)"
        ) from None
    return Until(value, wall, is_date=found[4] is None, is_utc=found[7] == "Z")


_LISTS: Final[Mapping[str, tuple[int, int, bool]]] = {
    "BYMONTH": (1, 12, False),
    "BYWEEKNO": (1, 53, True),
    "BYYEARDAY": (1, 366, True),
    "BYMONTHDAY": (1, 31, True),
    "BYHOUR": (0, 23, False),
    "BYMINUTE": (0, 59, False),
    "BYSECOND": (0, 60, False),
    "BYSETPOS": (1, 366, True),
}
"""Least and greatest value, and whether it may be counted from the end."""


def _numbers(name: str, value: str, least: int, greatest: int, signed: bool) -> tuple[int, ...]:
    pattern = rf"{'[+-]?' if signed else ''}\d{{1,{len(str(greatest))}}}"
    ends = f"{least} to {greatest}" + (f", or -{greatest} to -{least}" if signed else "")
    found: set[int] = set()
    for entry in value.split(","):
        if not re.fullmatch(pattern, entry, re.ASCII) or not least <= abs(int(entry)) <= greatest:
            raise InvalidSchedule(
                name, value, f"{entry!r} is not valid; the values are {ends} (RFC 5545, 3.3.10)"
            )
        found.add(int(entry))
    return tuple(sorted(found))


def _numbered_days(value: str) -> tuple[NumberedDay, ...]:
    return tuple(sorted({_numbered_day(entry) for entry in value.split(",")}))


def _numbered_day(entry: str) -> NumberedDay:
    found = _NUMBERED_DAY.fullmatch(entry)
    if found is None:
        raise InvalidSchedule(
            "BYDAY",
            entry,
            f"is no weekday ({', '.join(WEEKDAYS)}), with or without a number before it (RFC 5545, 3.3.10)",
        )
    nth = int(found[1]) if found[1] else 0
    if found[1] and not 1 <= abs(nth) <= 53:
        raise InvalidSchedule(
            "BYDAY", entry, "the number before a weekday is 1 to 53, or -53 to -1 (RFC 5545, 3.3.10)"
        )
    return NumberedDay(nth, _weekday("BYDAY", found[2]))


def _weekday(name: str, value: str) -> int:
    if value not in WEEKDAYS:
        raise InvalidSchedule(name, value, f"the weekdays are {', '.join(WEEKDAYS)} (RFC 5545, 3.3.10)")
    return WEEKDAYS.index(value)


def _skip(parts: Mapping[str, str]) -> Skip:
    scale, skip = parts.get("RSCALE"), parts.get("SKIP")
    if scale not in (None, "GREGORIAN"):
        raise InvalidSchedule(
            "RSCALE", scale, "only GREGORIAN is known here, and what is not known is refused (RFC 7529, 4.1)"
        )
    if skip is None:
        return Skip.OMIT
    if scale is None:
        raise InvalidSchedule("SKIP", skip, "must not be there without RSCALE (RFC 7529, 4.1)")
    if skip not in Skip.__members__:
        raise InvalidSchedule("SKIP", skip, f"the values are {', '.join(Skip)} (RFC 7529, 4.1)")
    return Skip[skip]


class _Forbidden(NamedTuple):
    part: str
    when: Callable[[Rule], bool]
    reason: str


_TOGETHER: Final = (
    _Forbidden("COUNT", lambda r: r.count is not None and r.until is not None, "must not be beside UNTIL"),
    _Forbidden(
        "BYDAY",
        lambda r: r.freq > Freq.MONTHLY and any(day.nth for day in r.byday),
        "weekdays may have numbers in MONTHLY and YEARLY rules only",
    ),
    _Forbidden(
        "BYDAY",
        lambda r: bool(r.byweekno) and any(day.nth for day in r.byday),
        "weekdays must not have numbers in a YEARLY rule with BYWEEKNO",
    ),
    _Forbidden(
        "BYMONTHDAY",
        lambda r: bool(r.bymonthday) and r.freq is Freq.WEEKLY,
        "must not be in a WEEKLY rule",
    ),
    _Forbidden(
        "BYYEARDAY",
        lambda r: bool(r.byyearday) and r.freq in (Freq.DAILY, Freq.WEEKLY, Freq.MONTHLY),
        "must not be in a DAILY, WEEKLY or MONTHLY rule",
    ),
    _Forbidden(
        "BYWEEKNO", lambda r: bool(r.byweekno) and r.freq is not Freq.YEARLY, "may be in a YEARLY rule only"
    ),
    _Forbidden(
        "BYSETPOS",
        lambda r: bool(r.bysetpos)
        and not (
            r.bymonth or r.byweekno or r.byyearday or r.bymonthday or r.byday
            or r.byhour or r.byminute or r.bysecond
        ),
        "needs another BY part beside it",
    ),
)  # fmt: skip


def _check_together(rule: Rule, parts: Mapping[str, str]) -> None:
    for forbidden in _TOGETHER:
        if forbidden.when(rule):
            raise InvalidSchedule(
                forbidden.part, parts[forbidden.part], f"{forbidden.reason} (RFC 5545, 3.3.10)"
            )
    if rule.skip is not Skip.OMIT and 366 in map(abs, rule.byyearday):
        raise InvalidSchedule(
            "SKIP", rule.skip.value, "is not known here for BYYEARDAY=366; write BYMONTH and BYMONTHDAY"
        )


# --------------------------------------------------------------------------- dates beside the rule


class Written(NamedTuple):
    """A date or date-time as DTSTART, RDATE and EXDATE have it here."""

    wall: datetime
    is_date: bool
    is_utc: bool


_WRITTEN: Final = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d)?(Z)?)?", re.ASCII)


def parse_written(part: str, text: str) -> Written:
    """`2026-03-01`, `2026-03-01T09:00:00` or with a `Z`. Raises InvalidSchedule naming `part`."""
    found = _WRITTEN.fullmatch(text)
    try:
        if found is None:
            raise ValueError("it is written as 2026-03-01T09:00:00, 2026-03-01, or in UTC with a Z")
        if found[1] is None:
            day = date.fromisoformat(text)
            return Written(datetime(day.year, day.month, day.day), is_date=True, is_utc=False)
        wall = datetime.fromisoformat(text.removesuffix("Z"))
        return Written(wall, is_date=False, is_utc=found[3] is not None)
    except ValueError as error:
        raise InvalidSchedule(
            part, text, f"is no calendar date or time of day: {error} (RFC 5545, 3.3.5)"
        ) from None
