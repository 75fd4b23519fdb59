"""`tickstream dashboard`: the HTTP API and the page, on a projection's index."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tickstream.cli.options import DataDir, Json
from tickstream.cli.output import Output
from tickstream.cli.running import stop_on_signals

app = typer.Typer(no_args_is_help=True)


@app.callback()
def dashboard() -> None:
    """Serve the dashboard."""


@app.command()
def run(
    data: DataDir = Path("data/projection"),
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8080,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A further name under which it may be called; may be repeated."),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="TICKSTREAM_DASHBOARD_TOKEN",
            metavar="TEXT",
            help="Ask every caller for this bearer token.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Serve until Ctrl-C or SIGTERM; a second one ends it at once.

    DIR is the directory of a projection that runs on this machine; it is only read.

    \b
    Examples:
      tickstream dashboard run
      tickstream dashboard run --data /var/lib/tickstream --host 0.0.0.0 --allow-host jobs.example.com
    """
    from tickstream.projection.server import serve

    with stop_on_signals() as stop:
        serve(
            data_dir=data,
            host=host,
            port=port,
            hosts=allow_host or (),
            token=token,
            events=Output(json).event,
            stop=stop,
        )
