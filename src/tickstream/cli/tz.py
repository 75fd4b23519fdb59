"""`tickstream tz`: what another release of the tz database changes. Only printing here."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tickstream.cli.options import Bootstrap, Json, Prefix, settings_from
from tickstream.cli.output import Output
from tickstream.clock import SystemClock, iso_utc_seconds

if TYPE_CHECKING:
    from tickstream.ops.tz_diff import Coming, TaskMove
    from tickstream.recurrence.zone_changes import ZoneChange
    from tickstream.recurrence.zone_data import ZoneData

_YEARS_MS: Final = 2 * 366 * 86_400_000
_SOURCE: Final = "A wheel of the package tzdata, a directory of zone data, or: installed."

app = typer.Typer(no_args_is_help=True)


@app.callback()
def tz() -> None:
    """Time zones: what another release of their data changes."""


@app.command()
def diff(
    old: Annotated[str, typer.Argument(metavar="OLD", help=_SOURCE)],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The same.")],
    since: Annotated[
        str,
        typer.Option("--from", metavar="INSTANT", help="Look from here on: now, -1d, 2027-01-01T00:00:00Z."),
    ] = "now",
    until: Annotated[
        str | None,
        typer.Option(metavar="INSTANT", help="Look no further; two years on unless given."),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(metavar="FILE|MODULE:APP", help="Look at what `schedule apply` would declare."),
    ] = None,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """Show which zones two releases have at different times, and which recurring tasks and events that moves.

    With a broker (--bootstrap, or its environment variable) they are those of the installation, with its calendars;
    with --file those that are declared. Of each its first occurrence that moves is shown: `next` is
    moved as soon as a dispatcher has the data, `later` is not placed yet. Nothing is changed.

    \b
    Examples:
      tickstream tz diff tzdata-2022.1-py2.py3-none-any.whl installed
      tickstream tz diff installed tzdata-2027.1-py2.py3-none-any.whl --bootstrap kafka:9092
      tickstream tz diff installed ./tzdata-2027.1 --file schedules.toml --json
    """
    from tickstream.ops.instants import parse_instant
    from tickstream.ops.tz_diff import task_moves
    from tickstream.recurrence.zone_changes import zone_changes
    from tickstream.recurrence.zone_data import zone_data

    before, after = zone_data(old), zone_data(new)
    now_ms = SystemClock().wall_ms()
    start_ms = parse_instant(since, now_ms)
    end_ms = start_ms + _YEARS_MS if until is None else parse_instant(until, now_ms)
    changes = zone_changes(before, after, start_ms // 1_000, -(-end_ms // 1_000))
    tasks = _tasks(changes, before, file, bootstrap, prefix, start_ms)
    moves = None if tasks is None else task_moves(tasks, changes, before, after, end_ms)
    value = {
        "old": before.release,
        "new": after.release,
        "zones": [_zone_value(change) for change in changes],
        "tasks": None if moves is None else [_move_value(move) for move in moves],
    }
    lines = [f"tzdata {before.release} -> {after.release}: {len(changes)} zones differ"]
    lines += [line for change in changes for line in _zone_lines(change)]
    if moves is not None:
        lines += [f"{len(moves)} tasks and events move", *map(_move_line, moves)]
    Output(json).result(value, "\n".join(lines))


def _tasks(
    changes: tuple[ZoneChange, ...],
    old: ZoneData,
    file: str | None,
    bootstrap: str | None,
    prefix: str | None,
    now_ms: int,
) -> list[Coming] | None:
    """None: nobody asked for tasks."""
    from tickstream.ops import tz_diff

    zones = {change.zone for change in changes}
    if file is not None:
        from tickstream.ops.schedules.apply import declared_by

        items = [declaration.item for declaration in declared_by(file)]
        recurring = {
            item.task_id: item.recurrence
            for item in items
            if item.recurrence is not None and item.recurrence.zone in zones
        }
        return tz_diff.declared(recurring, old, now_ms)
    if bootstrap is None and not os.environ.get("TICKSTREAM_BOOTSTRAP"):
        return None
    from tickstream.ingest.client import Client

    with Client(settings_from(bootstrap, prefix)) as client:
        found = client.changelog.tasks(tz_diff.InZones(zones), range(client.layout.buckets))
    return tz_diff.standing(found)


def _zone_value(change: ZoneChange) -> dict[str, Any]:
    return {
        "zone": change.zone,
        "gone": change.gone,
        "differs": [
            {
                "from": iso_utc_seconds(stretch.start * 1_000),
                "until": iso_utc_seconds(stretch.end * 1_000),
                "before": _offset(stretch.before),
                "after": _offset(stretch.after),
            }
            for stretch in change.stretches
        ],
    }


def _zone_lines(change: ZoneChange) -> list[str]:
    if change.gone:
        return [f"{change.zone}  is gone"]
    return [
        f"{change.zone}  {part['from']} to {part['until']}  {part['before']} -> {part['after']}"
        for part in _zone_value(change)["differs"]
    ]


def _move_value(move: TaskMove) -> dict[str, Any]:
    return {
        "task_id": move.task_id,
        "zone": move.zone,
        "local": move.local,
        "before": iso_utc_seconds(move.before_ms),
        "after": None if move.after_ms < 0 else iso_utc_seconds(move.after_ms),
        "next": move.is_next,
    }


def _move_line(move: TaskMove) -> str:
    value = _move_value(move)
    which = "next" if move.is_next else "later"
    return f"{move.task_id}  {move.zone}  {move.local}  {value['before']} -> {value['after'] or 'never'}  {which}"


def _offset(seconds: int) -> str:
    sign, of = ("-", -seconds) if seconds < 0 else ("+", seconds)
    text = f"{sign}{of // 3_600:02}:{of // 60 % 60:02}"
    return f"{text}:{of % 60:02}" if of % 60 else text
