"""`tickstream projection`: the process that keeps the dashboard's index."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from tickstream.cli.options import Bootstrap, DataDir, Json, Prefix, settings_from
from tickstream.cli.output import Output
from tickstream.cli.running import collected_by_the_clock, stop_on_signals
from tickstream.errors import InvalidInput
from tickstream.ops.instants import parse_duration

app = typer.Typer(no_args_is_help=True)


@app.callback()
def projection() -> None:
    """Keep the dashboard's index up to date."""


@app.command()
def run(
    data: DataDir = Path("data/projection"),
    buckets: Annotated[
        str | None,
        typer.Option(metavar="LIST", help="Follow only these, such as 0-31 or 0,4,8: one shard of several."),
    ] = None,
    retention: Annotated[
        str, typer.Option(metavar="DURATION", help="How long finished rows are kept after their instant.")
    ] = "7d",
    rack: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Read from the replica in this rack (client.rack), where brokers allow it."
        ),
    ] = None,
    show_payloads: Annotated[
        bool,
        typer.Option(
            "--show-payloads",
            help="Keep the beginning of every payload, and so show it to whoever may see the dashboard. (default: size and form only)",
        ),
    ] = False,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """Run until Ctrl-C or SIGTERM; a second one ends it at once.

    Any number of projections may run, each with a directory of its own. With --buckets each
    follows a part, and `tickstream dashboard run --shard` puts their answers together.

    \b
    Examples:
      tickstream projection run --data /var/lib/tickstream
      tickstream projection run --buckets 0-31 --data /var/lib/tickstream/first
    """
    from tickstream.projection.service import run_projection

    settings = settings_from(bootstrap, prefix)
    if rack is not None:
        settings = replace(settings, kafka={**settings.kafka, "client.rack": rack})
    with stop_on_signals() as stop, collected_by_the_clock():
        run_projection(
            settings,
            data_dir=data,
            events=Output(json).event,
            stop=stop,
            retention_ms=parse_duration(retention),
            buckets=None if buckets is None else parse_buckets(buckets),
            payloads=show_payloads,
        )


def parse_buckets(text: str) -> tuple[int, ...]:
    """The numbers in `0-3,8`, ascending and once each. Raises InvalidInput."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (first.isascii() and first.isdigit() and (not dash or (last.isascii() and last.isdigit()))):
            raise InvalidInput(
                f"--buckets {text!r}: write numbers and ranges with commas, such as 0-31 or 0,4,8"
            )
        end = int(last) if dash else int(first)
        if not int(first) <= end <= 65_535:
            raise InvalidInput(f"--buckets {text!r}: {part.strip()!r} is no range of bucket numbers")
        found.update(range(int(first), end + 1))
    return tuple(sorted(found))
