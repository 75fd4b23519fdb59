"""`tickstream worker`: the processes that run an application's handlers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tickstream.cli.options import Bootstrap, Json, Prefix, SessionMs, settings_from
from tickstream.cli.output import Output
from tickstream.cli.running import stop_on_signals
from tickstream.errors import InvalidInput

if TYPE_CHECKING:
    from tickstream.worker.fair import Share

_HEALTH = "Health"

app = typer.Typer(no_args_is_help=True)


@app.callback()
def worker() -> None:
    """Run the handlers of an application."""


@app.command()
def run(
    application: Annotated[
        str, typer.Argument(metavar="MODULE:APP", help="Where the App is, for example examples.hello:app.")
    ],
    queues: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[=WEIGHT],…",
            help="Queues to serve; the slots go to them by weight while all have work.  (default: `default`)",
        ),
    ] = None,
    queue: Annotated[
        list[str] | None,
        typer.Option("--queue", metavar="NAME", help="A queue to serve with weight 1; may be repeated."),
    ] = None,
    limits: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=N,…", help="Runs of a queue at the same time in this process, below --concurrency."
        ),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Handlers that run at the same time.")] = 16,
    executor: Annotated[
        Literal["thread", "process", "async"],
        typer.Option(
            help="Where plain handlers run that do not say so themselves; async: there must be none."
        ),
    ] = "thread",
    grace: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="How long running handlers may take to end.")
    ] = 10.0,
    worker_id: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Its name in reports.  (default: host and process id)")
    ] = None,
    health_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65_535,
            help="Serve /livez, /readyz and /metrics there; 0: on a free one, named in the event `health`.",
            rich_help_panel=_HEALTH,
        ),
    ] = None,
    health_host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where those listen.", rich_help_panel=_HEALTH)
    ] = "127.0.0.1",
    session_ms: SessionMs = 6_000,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """Run until Ctrl-C or SIGTERM: then running handlers end within the grace; a second one ends it at once.

    The working directory is importable. Start as many workers as you like.

    \b
    Examples:
      tickstream worker run examples.hello:app
      tickstream worker run shop.jobs:app --queues mail=3,reports=1 --limits reports=2 --concurrency 64
    """
    from tickstream.worker import load_app
    from tickstream.worker.runtime import run_worker

    settings = settings_from(bootstrap, prefix)
    with stop_on_signals() as stop:
        run_worker(
            load_app(application),
            settings,
            queues=_shares(queues, queue or [], limits),
            concurrency=concurrency,
            executor=executor,
            grace_s=grace,
            health=None if health_port is None else (health_host, health_port),
            session_ms=session_ms,
            worker_id=worker_id or f"{os.uname().nodename}-{os.getpid()}",
            events=Output(json).event,
            stop=stop,
        )


def _shares(queues: str | None, single: list[str], limits: str | None) -> dict[str, Share]:
    """Queue → its share, from `a=3,b=1` and `b=2`. Raises InvalidInput."""
    from tickstream.worker.fair import Share

    weights = _pairs("--queues", queues) + [(name, None) for name in single]
    names = [name for name, _ in weights] or ["default"]
    if len(set(names)) < len(names):
        raise InvalidInput(f"queues {', '.join(names)}: name none twice")
    most = dict(_pairs("--limits", limits))
    for name, limit in most.items():
        if name not in names or limit is None or limit != int(limit):
            raise InvalidInput(f"--limits {limits}: write NAME=N for queues that this worker serves")
    given = {name: weight for name, weight in weights if weight is not None}
    return {
        name: Share(given.get(name, 1.0), None if (limit := most.get(name)) is None else int(limit))
        for name in names
    }


def _pairs(option: str, text: str | None) -> list[tuple[str, float | None]]:
    """`a=3,b` as [("a", 3.0), ("b", None)]. Raises InvalidInput."""
    pairs: list[tuple[str, float | None]] = []
    for part in (text or "").split(",") if text else []:
        name, equals, number = part.strip().partition("=")
        try:
            pairs.append((name, float(number) if equals else None))
        except ValueError as error:
            raise InvalidInput(
                f"{option} {text}: {number!r} is no number; write for example a=3,b=1"
            ) from error
    return pairs
