"""`tickstream calendar add|change|move|cancel|remove`: commands about a calendar's events, and what they were answered.

Only arguments and printing here; what becomes of a change is the dispatcher's.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from tickstream.cli.agenda import CalendarId
from tickstream.cli.exit_codes import NO
from tickstream.cli.options import Bootstrap, Json, Prefix, Wait, settings_from
from tickstream.cli.output import Output
from tickstream.errors import InvalidInput
from tickstream.ops.instants import parse_duration

if TYPE_CHECKING:
    from tickstream.ingest.calendar import Calendar
    from tickstream.model import Verdict

Uid = Annotated[str, typer.Argument(metavar="UID", help="The event's UID.")]
Occurrence = Annotated[
    str,
    typer.Argument(
        metavar="OCCURRENCE",
        help="The start that its rule gives it, wherever it was moved: as the START of add.",
    ),
]
Start = Annotated[
    str,
    typer.Argument(
        metavar="START", help="2026-12-07T09:30:00 on the zone's clock, 2026-12-07T08:30:00Z, or a date."
    ),
]
OnConflict = Annotated[
    str, typer.Option(metavar="reject|report|allow", help="What it comes to that it meets another.")
]
Zone = Annotated[
    str, typer.Option(metavar="ZONE", help="Of its days and of times without a zone: an IANA name.")
]
Lasts = Annotated[
    str | None, typer.Option("--for", metavar="DURATION", help="How long an occurrence lasts, as 45m or 2h.")
]
Rule = Annotated[str | None, typer.Option("--rrule", metavar="RRULE", help="As FREQ=WEEKLY;BYDAY=MO.")]
Reminders = Annotated[
    list[str] | None,
    typer.Option("--remind", metavar="DURATION", help="So long before the start, as 10m; repeatable."),
]
Summary = Annotated[str | None, typer.Option(metavar="TEXT")]
Location = Annotated[str | None, typer.Option(metavar="TEXT")]
Status = Annotated[str | None, typer.Option(metavar="confirmed|tentative|cancelled")]
Following = Annotated[
    bool,
    typer.Option(
        "--and-following", help="That occurrence and all that follow it: they become a series of their own."
    ),
]


def add(
    uid: Uid,
    start: Start,
    calendar: CalendarId,
    lasts: Lasts = None,
    rule: Rule = None,
    handler: Annotated[
        str, typer.Option(metavar="NAME", help="What runs at the start of each; without: it is recorded.")
    ] = "",
    queue: Annotated[str | None, typer.Option(metavar="QUEUE", help="Where it runs.")] = None,
    remind: Reminders = None,
    status: Status = None,
    summary: Summary = None,
    location: Location = None,
    zone: Zone = "UTC",
    on_conflict: OnConflict = "reject",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only ask what it would meet: nothing is changed.")
    ] = False,
    wait: Wait = 10,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """Add an event, or change the one of that UID; or ask what it would meet. Exit code 1 on a conflict.

    \b
    Example:
      tickstream calendar add standup 2026-12-07T09:30:00 --for 15m --rrule FREQ=WEEKLY --calendar room-7 --dry-run
    """

    def asked(room: Calendar) -> Verdict:
        event = room.event(
            uid,
            _moment(start),
            duration=None if lasts is None else _duration(lasts),
            rrule=rule,
            reminders=[_duration(before) for before in remind or ()],
            status=status or "confirmed",
            summary=summary or "",
            location=location or "",
        )
        if dry_run:
            return room.conflicts(event)
        if handler:
            return room.put(event, on_conflict=on_conflict, handler=handler, payload=b"", queue=queue)
        return room.put(event, on_conflict=on_conflict)

    _tell(uid, calendar, asked, zone, wait, bootstrap, prefix, json)


def change(
    uid: Uid,
    calendar: CalendarId,
    occurrence: Annotated[
        str | None,
        typer.Option(metavar="OCCURRENCE", help="Only this one: the start that its rule gives it."),
    ] = None,
    following: Following = False,
    start: Annotated[str | None, typer.Option(metavar="START", help="Another start.")] = None,
    lasts: Lasts = None,
    rule: Rule = None,
    remind: Reminders = None,
    status: Status = None,
    summary: Summary = None,
    location: Location = None,
    on_conflict: OnConflict = "reject",
    wait: Wait = 10,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """Change an event, one occurrence, or one and all that follow it; what is not given stays.

    \b
    Example:
      tickstream calendar change standup --occurrence 2026-12-14T09:30:00 --and-following \\
        --start 2026-12-14T10:00:00 --calendar room-7
    """
    _tell(
        uid,
        calendar,
        lambda room: room.change(
            uid,
            occurrence=None if occurrence is None else _moment(occurrence),
            and_following=following,
            start=None if start is None else _moment(start),
            duration=None if lasts is None else _duration(lasts),
            rrule=rule,
            reminders=None if remind is None else [_duration(before) for before in remind],
            status=status,
            summary=summary,
            location=location,
            on_conflict=on_conflict,
        ),
        "UTC",
        wait,
        bootstrap,
        prefix,
        json,
    )


def move(
    uid: Uid,
    occurrence: Occurrence,
    to: Annotated[str, typer.Argument(metavar="TO", help="Its new start.")],
    calendar: CalendarId,
    lasts: Lasts = None,
    on_conflict: OnConflict = "reject",
    wait: Wait = 10,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """Move one occurrence: it runs at its new start, under its old identity."""
    _tell(
        uid,
        calendar,
        lambda room: room.move(
            uid,
            _moment(occurrence),
            _moment(to),
            duration=None if lasts is None else _duration(lasts),
            on_conflict=on_conflict,
        ),
        "UTC",
        wait,
        bootstrap,
        prefix,
        json,
    )


def cancel(
    uid: Uid,
    occurrence: Occurrence,
    calendar: CalendarId,
    following: Following = False,
    wait: Wait = 10,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """Call off one occurrence, or that one and all that follow it: it does not run, and its time is free."""
    _tell(
        uid,
        calendar,
        lambda room: room.cancel(uid, _moment(occurrence), and_following=following),
        "UTC",
        wait,
        bootstrap,
        prefix,
        json,
    )


def remove(
    uid: Uid,
    calendar: CalendarId,
    wait: Wait = 10,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """Remove an event with all its occurrences: its time is free."""
    _tell(uid, calendar, lambda room: room.remove(uid), "UTC", wait, bootstrap, prefix, json)


def _moment(text: str) -> datetime | str:
    """With an offset an instant; else what a clock shows, or a date."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"{text!r}: a time as 2026-12-07T09:30:00, with Z or an offset if it is an instant, or a date"
        ) from None
    return text if found.tzinfo is None or text.endswith("Z") else found


def _duration(text: str) -> timedelta:
    return timedelta(milliseconds=parse_duration(text))


def _tell(
    uid: str,
    calendar: str,
    asked: Callable[[Calendar], Verdict],
    zone: str,
    wait: float,
    bootstrap: str | None,
    prefix: str | None,
    json: bool,
) -> None:
    """Ask, and print the answer. Exit code 1 unless it is that something was done, or is free."""
    from tickstream.ingest import Client
    from tickstream.model import VerdictKind

    with Client(settings_from(bootstrap, prefix)) as client:
        verdict = asked(client.calendar(calendar, zone=zone, timeout=timedelta(seconds=wait)))
    kind = verdict.kind.value.lower()
    answer = verdict.calendar
    value = {
        "uid": uid,
        "calendar": calendar,
        "verdict": kind,
        "detail": verdict.detail,
        "conflicts": [conflict._asdict() for conflict in verdict.conflicts],
        "more": answer is not None and answer.more,
        "zone": None if answer is None else answer.zone,
        "clear_until_ms": None if answer is None or answer.clear_until_ms < 0 else answer.clear_until_ms,
    }
    lines = [f"{uid}: {kind.replace('_', ' ')}", *filter(None, verdict.detail.split("; "))]
    Output(json).result(value, "\n  ".join(lines) if len(lines) > 2 else " ".join(lines))
    done = (VerdictKind.SCHEDULED, VerdictKind.REPLACED, VerdictKind.CANCELLED, VerdictKind.CLEAR)
    if verdict.kind not in done:
        raise typer.Exit(NO)
