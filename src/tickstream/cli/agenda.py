"""`tickstream calendar events|free|conflicts|export`: what a calendar has, answered by a dashboard.

Only printing here; what is answered is the API's (projection/calendars.py).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Annotated, Any

import typer

from tickstream.cli.options import Dashboard, Json, TokenFile, dashboard_from
from tickstream.cli.output import Output
from tickstream.clock import SystemClock, iso_utc, moment_of
from tickstream.errors import InvalidInput, MissingExtra
from tickstream.ops.instants import parse_duration, parse_instant
from tickstream.recurrence.zone_data import load_zone
from tickstream.recurrence.zones import Zone

CalendarId = Annotated[str, typer.Option("--calendar", metavar="ID", help="Which calendar, as room-7.")]
Since = Annotated[
    str, typer.Option("--from", metavar="INSTANT", help="The first instant, as now or 2026-12-24T08:00:00Z.")
]
Until = Annotated[
    str | None,
    typer.Option("--to", metavar="INSTANT", help="The instant before which it ends. (default: a week later)"),
]
Clock = Annotated[
    str | None,
    typer.Option("--zone", metavar="ZONE", help="On whose clock times are shown. (default: the calendar's)"),
]


def events(
    calendar: CalendarId,
    since: Since = "now",
    until: Until = None,
    uid: Annotated[str | None, typer.Option(metavar="UID", help="Only this event.")] = None,
    zone: Clock = None,
    dashboard: Dashboard = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """What takes place, by start; what wants the same time is marked, and what the clock did.

    \b
    Example:
      tickstream calendar events --calendar room-7 --from now --to now+30d
    """
    found: list[dict[str, Any]] = []
    answer: dict[str, Any] = {"cursor": ""}
    span = _span(since, until) | ({} if uid is None else {"uid": uid})
    while answer["cursor"] is not None:
        answer = _ask(
            "events", {"calendar": calendar, **span, "cursor": answer["cursor"]}, dashboard, token_file
        )
        found += answer["events"]
    clock = load_zone(zone or answer["zone"])
    lines = [_event_text(one, clock) for one in found]
    lines += [f"{one['uid']}: cannot be read here ({one['reason']})" for one in answer["unreadable"]]
    _tell(answer | {"events": found}, json, lines or ["nothing takes place"])


def free(
    calendars: Annotated[
        list[str], typer.Option("--calendar", metavar="ID", help="Which calendar; several: free in all.")
    ],
    duration: Annotated[str, typer.Option("--for", metavar="DURATION", help="How long, as 30m or 2h.")],
    since: Since = "now",
    until: Until = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Gaps.")] = 10,
    zone: Clock = None,
    dashboard: Dashboard = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """The first gaps that are long enough, whole.

    \b
    Example:
      tickstream calendar free --calendar room-7 --calendar anna --for 30m
    """
    filters = {"duration_ms": str(parse_duration(duration)), "limit": str(limit), **_span(since, until)}
    answer = _ask(
        "free", [*(("calendar", name) for name in calendars), *filters.items()], dashboard, token_file
    )
    clock = load_zone(zone)
    lines = [
        f"{_time(slot['start_ms'], clock)} to {_time(slot['end_ms'], clock)}  {_lasts(slot)}"
        for slot in answer["slots"]
    ]
    _tell(answer, json, lines or [f"nothing is free for {duration}"])


def conflicts(
    calendar: CalendarId,
    since: Since = "now",
    until: Until = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Conflicts.")] = 100,
    zone: Clock = None,
    dashboard: Dashboard = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Every two occurrences that want the same time.

    \b
    Example:
      tickstream calendar conflicts --calendar room-7 --to now+90d
    """
    answer = _ask(
        "conflicts", {"calendar": calendar, "limit": str(limit), **_span(since, until)}, dashboard, token_file
    )
    clock = load_zone(zone)
    lines = [
        f"{_time(of['start_ms'], clock)} to {_time(of['end_ms'], clock)}  "
        f"{_who(of['one'])} meets {_who(of['other'])}{'  tentative' if of['tentative'] else ''}"
        for of in answer["conflicts"]
    ]
    if answer["more"]:
        lines.append("and more: narrow --from and --to, or raise --limit")
    _tell(answer, json, lines or ["no two want the same time"])


def export(
    calendar: CalendarId,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", dir_okay=False, help="Where it goes; default: stdout.")
    ] = None,
    dashboard: Dashboard = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Write all events of a calendar as an iCalendar file.

    \b
    Example:
      tickstream calendar export --calendar room-7 room-7.ics
    """
    try:
        from tickstream.calendar.ical import write_calendar
    except ModuleNotFoundError as error:
        raise MissingExtra("exporting iCalendar files", "calendar") from error
    from tickstream.ingest.agenda import CalendarReader

    if json and file is None:
        raise InvalidInput("--json needs FILE: without it, stdout is the calendar itself")
    http = dashboard_from(dashboard, token_file)
    stored = CalendarReader(calendar, lambda: http).stored()
    if not stored:
        raise InvalidInput(f"calendar {calendar!r} has no events: tickstream calendar import puts some there")
    zone = http.ask("events", {"calendar": calendar, "limit": "1"})["zone"]
    data = write_calendar(stored, stamp_ms=SystemClock().wall_ms(), name=calendar, zone=zone)
    if file is None:
        sys.stdout.buffer.write(data)
        return
    file.write_bytes(data)
    told = {"calendar": calendar, "file": str(file), "events": len(stored), "bytes": len(data)}
    Output(json).result(told, f"{file}: {len(stored)} events, {len(data)} bytes")


def _ask(
    what: str,
    filters: Mapping[str, str] | list[tuple[str, str]],
    dashboard: str | None,
    token_file: Path | None,
) -> dict[str, Any]:
    return dashboard_from(dashboard, token_file).ask(what, filters)


def _span(since: str, until: str | None) -> dict[str, str]:
    now_ms = SystemClock().wall_ms()
    span = {"start": str(parse_instant(since, now_ms))}
    return span if until is None else span | {"end": str(parse_instant(until, now_ms))}


def _wall(ms: int, clock: Zone) -> datetime:
    """What the clock shows then, with its offset."""
    return moment_of(ms).astimezone(timezone(timedelta(seconds=clock.offset(ms // 1_000))))


def _time(ms: int, clock: Zone) -> str:
    return f"{_wall(ms, clock):%a %Y-%m-%d %H:%M%z}"


def _lasts(slot: Mapping[str, int]) -> str:
    return str(timedelta(milliseconds=slot["end_ms"] - slot["start_ms"]))


def _who(one: Mapping[str, Any]) -> str:
    return f"{one['uid']} ({one['summary']})" if one["summary"] else str(one["uid"])


def _event_text(one: Mapping[str, Any], clock: Zone) -> str:
    marks = (
        "tentative" if one["tentative"] else "",
        "" if one["blocks"] else "does not block",
        "changed" if one["changed"] else "",
        "" if one["clock_change"] is None else f"{one['clock_change']} of the clock",
        f"CONFLICT with {', '.join(sorted({of['uid'] for of in one['conflicts']}))}"
        if one["conflicts"]
        else "",
    )
    if one["all_day"]:
        when = f"{_wall(one['start_ms'], clock):%a %Y-%m-%d} to {_wall(one['end_ms'] - 1, clock):%Y-%m-%d}"
    else:
        when = f"{_time(one['start_ms'], clock)} to {_wall(one['end_ms'], clock):%H:%M}"
    return "  ".join(part for part in (when, _who(one), one["location"], *marks) if part)


def _tell(answer: Mapping[str, Any], json: bool, lines: list[str]) -> None:
    age = f"as of {iso_utc(answer['as_of'])}, {answer['staleness_ms']} ms behind"
    Output(json).result(answer, "\n".join([*lines, age]))
