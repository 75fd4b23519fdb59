"""`tickstream calendar`: iCalendar files into a calendar, and events out of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tickstream.cli import agenda, booking
from tickstream.cli.agenda import CalendarId
from tickstream.cli.exit_codes import NO
from tickstream.cli.options import Bootstrap, Json, Prefix, Wait, settings_from
from tickstream.cli.output import Output
from tickstream.clock import SystemClock
from tickstream.errors import MissingExtra

if TYPE_CHECKING:
    from tickstream.calendar.ical import Entry

app = typer.Typer(no_args_is_help=True)
for command in (agenda.events, agenda.free, agenda.conflicts, agenda.export):
    app.command()(command)
for told in (booking.add, booking.change, booking.move, booking.cancel, booking.remove):
    app.command()(told)


@app.callback()
def calendar() -> None:
    """Calendars: add and change events, list them, find free time, import and export iCalendar files."""


@app.command(name="import")
def import_(
    paths: Annotated[
        list[Path], typer.Argument(metavar="FILE...", exists=True, help=".ics files, or directories of them.")
    ],
    calendar: CalendarId,
    handler: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What runs at the start of each occurrence; without: it is recorded.",
            show_default=False,
        ),
    ] = "",
    queue: Annotated[str | None, typer.Option(metavar="QUEUE", help="Where it runs.")] = None,
    zone: booking.Zone = "UTC",
    on_conflict: Annotated[
        str, typer.Option(metavar="reject|report|allow", help="What an event comes to that meets another.")
    ] = "reject",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Send nothing: read, and check the events against each other.")
    ] = False,
    wait: Wait = 10,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """Put the events of iCalendar files into a calendar, with a report by line. Exit code 1 when one was rejected."""
    try:
        from tickstream.calendar.ical import Fate
        from tickstream.calendar.stored import OnConflict
        from tickstream.ops.calendar_file import calendar_files, import_file
        from tickstream.ops.calendar_file import dry_run as tried
    except ModuleNotFoundError as error:
        raise MissingExtra("importing iCalendar files", "calendar") from error
    from tickstream.ingest import Client
    from tickstream.timer_store.due import HORIZON_MS

    if on_conflict not in [choice.value for choice in OnConflict]:
        raise typer.BadParameter(
            f"{on_conflict!r}: is one of reject, report and allow", param_hint="--on-conflict"
        )
    output, fates, now = Output(json), Counter[str](), SystemClock().wall_ms()

    def report(path: Path, entries: Iterator[Entry]) -> None:
        for entry in entries:
            fates[entry.fate] += 1
            value = {"file": str(path), **entry._asdict()}
            output.result(value, f"{path}:{entry.line}: {entry.fate} {entry.uid} {entry.reason}".rstrip())

    files = calendar_files(paths)
    if dry_run:
        for path in files:
            report(path, tried(path.read_bytes(), zone, now, now + HORIZON_MS))
    else:
        with Client(settings_from(bootstrap, prefix)) as client:
            room = client.calendar(calendar, zone=zone, timeout=timedelta(seconds=wait))
            for path in files:
                report(path, import_file(path.read_bytes(), room, handler, queue, OnConflict(on_conflict)))
    output.result(
        {"files": len(files), **{fate.value: fates[fate] for fate in Fate}},
        f"{len(files)} files: " + ", ".join(f"{fates[fate]} {fate}" for fate in Fate if fates[fate]),
    )
    if fates[Fate.REJECTED]:
        raise typer.Exit(NO)
