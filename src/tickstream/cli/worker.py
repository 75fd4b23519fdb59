"""`tickstream worker`: the processes that run an application's handlers."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from tickstream.cli.options import Bootstrap, Json, Prefix, SessionMs, settings_from
from tickstream.cli.output import Output
from tickstream.cli.running import stop_on_signals

app = typer.Typer(no_args_is_help=True)


@app.callback()
def worker() -> None:
    """Run the handlers of an application."""


@app.command()
def run(
    application: Annotated[
        str, typer.Argument(metavar="MODULE:APP", help="Where the App is, for example examples.hello:app.")
    ],
    queue: Annotated[
        list[str] | None,
        typer.Option(
            "--queue", metavar="NAME", help="A queue to serve; may be repeated.  (default: `default`)"
        ),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Handlers that run at the same time.")] = 16,
    grace: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="How long running handlers may take to end.")
    ] = 10.0,
    worker_id: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Its name in reports.  (default: host and process id)")
    ] = None,
    session_ms: SessionMs = 10_000,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """Run until Ctrl-C or SIGTERM: then running handlers end within the grace; a second one ends it at once.

    The working directory is importable. Start as many workers as you like.

    \b
    Examples:
      tickstream worker run examples.hello:app
      tickstream worker run shop.jobs:app --queue mail --queue reports --concurrency 64
    """
    from tickstream.worker import load_app
    from tickstream.worker.runtime import run_worker

    settings = settings_from(bootstrap, prefix)
    with stop_on_signals() as stop:
        run_worker(
            load_app(application),
            settings,
            queues=queue or ["default"],
            concurrency=concurrency,
            grace_s=grace,
            session_ms=session_ms,
            worker_id=worker_id or f"{os.uname().nodename}-{os.getpid()}",
            events=Output(json).event,
            stop=stop,
        )
