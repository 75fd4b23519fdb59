"""The options by which a command line says that a task recurs. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from tickstream.ops.instants import parse_duration

_RECURS = "Again and again"
_CHANGES = "When clocks change"
_MISSED = "What is missed, or meets a run in flight"


class Misfire(StrEnum):
    """What becomes of occurrences that could not be dispatched in time."""

    LATEST = "latest"
    ALL = "all"
    SKIP = "skip"


class Overlap(StrEnum):
    """What an occurrence does that meets another in flight."""

    SKIP = "skip"
    ALLOW = "allow"
    QUEUE = "queue"
    CANCEL_RUNNING = "cancel_running"


class Gap(StrEnum):
    """As recurrence.Gap; the command line's help does not wait for that package."""

    SHIFT = "shift"
    NEXT_VALID = "next_valid"
    SKIP = "skip"


class Fold(StrEnum):
    """As recurrence.Fold."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


class Subday(StrEnum):
    """As recurrence.Subday."""

    ELAPSED = "elapsed"
    WALL = "wall"


def _option(metavar: str | None, text: str, panel: str = _RECURS) -> Any:
    return typer.Option(metavar=metavar, help=text, rich_help_panel=panel)


EveryOption = Annotated[
    str | None, _option("DURATION", "A fixed interval: 90s, 15m, 2h; from --start, or 1970.")
]
CronOption = Annotated[str | None, _option("CRON", "Five fields, or six with seconds first.")]
RruleOption = Annotated[
    str | None, _option("RULE", "A rule of RFC 5545, as FREQ=MONTHLY;BYDAY=-1FR; needs --start.")
]
ZoneOption = Annotated[
    str | None, _option("ZONE", "Whose clock: an IANA name, as Europe/Berlin; otherwise UTC.")
]
StartOption = Annotated[
    str | None, _option("LOCAL", "On that clock: where it begins; 2027-03-01T09:00:00, or a date.")
]
EndOption = Annotated[str | None, _option("LOCAL", "On that clock: the first instant that is no occurrence.")]
RdateOption = Annotated[list[str] | None, _option("LOCAL", "One more, beside --rrule; may be repeated.")]
ExdateOption = Annotated[list[str] | None, _option("LOCAL", "One taken out of --rrule; may be repeated.")]
JitterOption = Annotated[str | None, _option("DURATION", "Dispatch each up to that much later.")]
GapOption = Annotated[Gap | None, _option(None, "A time that does not exist; otherwise shift.", _CHANGES)]
FoldOption = Annotated[Fold | None, _option(None, "A time that comes twice; otherwise first.", _CHANGES)]
SubdayOption = Annotated[
    Subday | None, _option(None, "Steps shorter than a day; otherwise elapsed.", _CHANGES)
]
MisfireOption = Annotated[Misfire | None, _option(None, "What is missed; otherwise latest.", _MISSED)]
GraceOption = Annotated[str | None, _option("DURATION", "How late is not missed yet; otherwise 1m.", _MISSED)]
OverlapOption = Annotated[
    Overlap | None, _option(None, "What meets a run in flight; otherwise skip.", _MISSED)
]


OPTIONS: Final = frozenset(
    {"every", "cron", "rrule", "zone", "start", "end", "rdate", "exdate", "jitter"}
    | {"gap", "fold", "subday", "misfire", "grace", "overlap"}
)
"""By the names of their parameters, which are those of `Client.schedule`."""


def asked(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `Client.schedule` that a command's parameters stand for. Raises InvalidInput."""
    given = {name: value for name, value in parameters.items() if name in OPTIONS and value}
    for name in {"every", "grace", "jitter"} & given.keys():
        given[name] = timedelta(milliseconds=parse_duration(given[name]))
    return {name: value.value if isinstance(value, StrEnum) else value for name, value in given.items()}
