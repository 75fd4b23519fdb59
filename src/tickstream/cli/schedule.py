"""`tickstream schedule`: what a recurring schedule will do, which needs no broker; and what is declared (apply.py)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tickstream.cli import apply
from tickstream.cli.options import Json
from tickstream.cli.output import Output
from tickstream.cli.recurring import ExdateOption, RdateOption
from tickstream.errors import InvalidInput
from tickstream.recurrence.values import Cron, Every, Fold, Gap, Policy, Rrule, Schedule, Subday

if TYPE_CHECKING:
    from tickstream.recurrence import Previewed

app = typer.Typer(no_args_is_help=True)

_CHANGES = "When clocks change"
_DAY_MS = 86_400_000


@app.callback()
def schedule() -> None:
    """Recurring schedules: see what one will do, and apply those that are declared."""


app.command("apply")(apply.apply)


@app.command()
def preview(
    cron: Annotated[
        str | None,
        typer.Argument(metavar="[CRON]", help="Five fields, or six with seconds first.", show_default=False),
    ] = None,
    rrule: Annotated[
        str | None,
        typer.Option(metavar="RULE", help="A rule of RFC 5545, as FREQ=MONTHLY;BYDAY=-1FR; needs --start."),
    ] = None,
    every: Annotated[
        str | None, typer.Option(metavar="DURATION", help="A fixed interval: 90s, 15m, 2h.")
    ] = None,
    zone: Annotated[
        str, typer.Option(metavar="ZONE", help="Whose clock: an IANA name, as Europe/Berlin.")
    ] = "UTC",
    start: Annotated[
        str | None,
        typer.Option(
            metavar="LOCAL",
            help="On that clock: where --rrule and cron begin, and --every is anchored; 2027-03-01T09:00:00, or a date.",
        ),
    ] = None,
    rdate: RdateOption = None,
    exdate: ExdateOption = None,
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=1_000, help="How many.")] = 10,
    around: Annotated[
        str | None,
        typer.Option(
            metavar="DATE", help="Show those from the day before this one on; otherwise from now on."
        ),
    ] = None,
    gap: Annotated[
        Gap, typer.Option(help="A time that does not exist.", rich_help_panel=_CHANGES)
    ] = Gap.SHIFT,
    fold: Annotated[
        Fold, typer.Option(help="A time that comes twice.", rich_help_panel=_CHANGES)
    ] = Fold.FIRST,
    subday: Annotated[
        Subday, typer.Option(help="Steps shorter than a day.", rich_help_panel=_CHANGES)
    ] = Subday.ELAPSED,
    json: Json = False,
) -> None:
    """Show when a schedule occurs, on the zone's clock and in UTC, and what a change of clocks does to it.

    \b
    Examples:
      tickstream schedule preview "0 2 * * *" --zone America/New_York --around 2027-03-14
      tickstream schedule preview --rrule "FREQ=MONTHLY;BYDAY=-1FR" --start 2027-01-29T17:00:00 --zone Europe/Paris
      tickstream schedule preview --every 90m -n 5
    """
    from dataclasses import asdict

    from tickstream import recurrence
    from tickstream.clock import SystemClock

    dates = (tuple(rdate or ()), tuple(exdate or ()))
    wanted = recurrence.admit(_schedule(cron, rrule, every, zone, start, dates, Policy(gap, fold, subday)))
    # A day is not 24 hours where clocks change; what matters is that the change itself is shown.
    after_ms = SystemClock().wall_ms() if around is None else _instant_ms(around, zone) - _DAY_MS - 1
    lines = recurrence.preview(wanted, count, after_ms)
    value = {
        "zone": zone,
        "tzdata": recurrence.tzdata_version(),
        "occurrences": [asdict(line) for line in lines],
    }
    Output(json).result(value, "\n".join(map(_line, lines)) or "nothing follows: the schedule has ended")


def _schedule(
    cron: str | None,
    rrule: str | None,
    every: str | None,
    zone: str,
    start: str | None,
    dates: tuple[tuple[str, ...], tuple[str, ...]],
    policy: Policy,
) -> Schedule:
    """`dates`: what --rdate and --exdate name. Raises InvalidInput, UnknownZone."""
    from tickstream.ops.instants import parse_duration

    if any(dates) and rrule is None:
        raise InvalidInput("--rdate and --exdate go with --rrule: they add to a rule, or take out of it")
    match cron, rrule, every:
        case str(), None, None:
            return Cron(cron, zone, 0 if start is None else _instant_ms(start, zone), policy=policy)
        case None, str(), None:
            if start is None:
                raise InvalidInput(
                    "--rrule needs --start, where it begins: for example --start 2027-03-01T09:00:00"
                )
            return Rrule(start, rrule, zone, *dates, policy=policy)
        case None, None, str():
            return Every(parse_duration(every), 0 if start is None else _instant_ms(start, zone), zone=zone)
        case _:
            raise InvalidInput("give one of: a cron expression, --rrule, --every")


def _instant_ms(text: str, zone: str) -> int:
    """Wall clock time in `zone` as ms, UTC. Raises InvalidInput, UnknownZone."""
    from tickstream.recurrence import wall_clock_instant

    try:
        wall = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"{text!r} is no date or local time; write 2027-03-14 or 2027-03-14T09:00:00"
        ) from None
    if wall.tzinfo is not None:
        raise InvalidInput(
            f"{text!r} has an offset; write the time that the clock of --zone shows, without one"
        )
    return wall_clock_instant(zone, wall) * 1_000


def _line(line: Previewed) -> str:
    if line.local is None:
        return f"{_readable(line.nominal):29}  {'skipped':20}  {line.note}"
    text = f"{_readable(line.local):29}  {line.utc}"
    return f"{text}  {line.note}" if line.change else text


def _readable(iso: str) -> str:
    """`Sun 2027-03-14 03:30:00-04:00`."""
    return f"{datetime.fromisoformat(iso):%a} {iso.replace('T', ' ')}"
