"""`tickstream dashboard`: the HTTP API and the page, on a projection's index or over several shards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tickstream.cli.options import Json
from tickstream.cli.output import Output
from tickstream.cli.running import stop_on_signals
from tickstream.errors import InvalidInput
from tickstream.settings import first_line

app = typer.Typer(no_args_is_help=True)


@app.callback()
def dashboard() -> None:
    """Serve the dashboard."""


@app.command()
def run(
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            "--data-dir",
            metavar="DIR",
            file_okay=False,
            help="The directory of a projection on this machine; only read. (default data/projection)",
        ),
    ] = None,
    shard: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            help="Instead: a dashboard over some of the buckets (projection run --buckets); name one for each part.",
        ),
    ] = None,
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
            help="Ask every caller for this bearer token; on a shared machine, keep it in a file.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            envvar="TICKSTREAM_DASHBOARD_TOKEN_FILE",
            metavar="FILE",
            dir_okay=False,
            help="The file whose first line is that token.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Serve until Ctrl-C or SIGTERM; a second one ends it at once.

    \b
    Examples:
      tickstream dashboard run
      tickstream dashboard run --data /var/lib/tickstream --host 0.0.0.0 --allow-host jobs.example.com --token-file token
      tickstream dashboard run --shard http://10.0.0.1:8080 --shard http://10.0.0.2:8080
    """
    from tickstream.projection.server import serve

    if shard and data is not None:
        raise InvalidInput("--data and --shard: a dashboard has an index or shards, not both")
    with stop_on_signals() as stop:
        serve(
            data_dir=None if shard else data or Path("data/projection"),
            shards=shard or (),
            host=host,
            port=port,
            hosts=allow_host or (),
            token=_token(token, token_file),
            events=Output(json).event,
            stop=stop,
        )


def _token(text: str | None, file: Path | None) -> str | None:
    """The token that callers must send, None when they need none. Raises InvalidInput."""
    if file is None:
        return text
    if text is not None:
        raise InvalidInput("--token and --token-file: give one of them")
    return first_line("--token-file", file)
