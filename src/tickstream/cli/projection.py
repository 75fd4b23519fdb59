"""`tickstream projection`: the process that keeps the dashboard's index."""

from __future__ import annotations

from pathlib import Path

import typer

from tickstream.cli.options import Bootstrap, DataDir, Json, Prefix, settings_from
from tickstream.cli.output import Output
from tickstream.cli.running import stop_on_signals

app = typer.Typer(no_args_is_help=True)


@app.callback()
def projection() -> None:
    """Keep the dashboard's index up to date."""


@app.command()
def run(
    data: DataDir = Path("data/projection"),
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """Run until Ctrl-C or SIGTERM; a second one ends it at once.

    Any number of projections may run, each with a directory of its own.

    \b
    Example:
      tickstream projection run --data /var/lib/tickstream
    """
    from tickstream.projection.service import run_projection

    settings = settings_from(bootstrap, prefix)
    with stop_on_signals() as stop:
        run_projection(settings, data_dir=data, events=Output(json).event, stop=stop)
