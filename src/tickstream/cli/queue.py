"""`tickstream queue`: pauses and limits of queues. Creating one is `tickstream topics create --queue`.

Only printing here; what they mean is the client's.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final

import typer

from tickstream.cli.options import Bootstrap, Json, Prefix, Wait, settings_from
from tickstream.cli.output import Output
from tickstream.errors import InvalidInput

app = typer.Typer(no_args_is_help=True, help="Pause, resume and limit queues.")

_EVERY: Final = ""
Name = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.")]
Named = Annotated[str | None, typer.Argument(metavar="[QUEUE]", help="The queue's name.")]
Everything = Annotated[bool, typer.Option("--all", help="Everything instead of one queue.")]


@app.command()
def pause(
    queue: Named = None,
    everything: Everything = False,
    wait: Wait = 10.0,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """Dispatch nothing of a queue, or of any; what falls due waits in order. Runs in flight go on.

    \b
    Examples:
      tickstream queue pause mail
      tickstream queue pause --all
    """
    from tickstream.ingest.client import Client

    name = _one(queue, everything)
    with Client(settings_from(bootstrap, prefix)) as client:
        client.queues.pause(name, timeout=timedelta(seconds=wait))
    _done(name, "paused", json)


@app.command()
def resume(
    queue: Named = None,
    everything: Everything = False,
    wait: Wait = 10.0,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """Undo a pause of the same name, or with --all that of everything; what waits is dispatched.

    \b
    Example:
      tickstream queue resume mail
    """
    from tickstream.ingest.client import Client

    name = _one(queue, everything)
    with Client(settings_from(bootstrap, prefix)) as client:
        client.queues.resume(name, timeout=timedelta(seconds=wait))
    _done(name, "resumed", json)


@app.command()
def limit(
    queue: Name,
    running: Annotated[
        int | None, typer.Option(metavar="N", help="Occurrences in flight at once, in each bucket.")
    ] = None,
    starts: Annotated[
        int | None, typer.Option(metavar="N", help="Dispatches per --per seconds, in each bucket.")
    ] = None,
    per: Annotated[float, typer.Option(metavar="SECONDS", help="The span of --starts.")] = 1.0,
    wait: Wait = 10.0,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """Limit a queue; an option that is left out lifts that limit.

    Each bucket keeps to its limits by itself: across B buckets it comes to up to B times as much.

    \b
    Examples:
      tickstream queue limit mail --running 5
      tickstream queue limit mail --starts 10 --per 60
      tickstream queue limit mail
    """
    from tickstream.ingest.client import Client

    with Client(settings_from(bootstrap, prefix)) as client:
        client.queues.limit(
            queue,
            running=running,
            starts=starts,
            per=timedelta(seconds=per),
            timeout=timedelta(seconds=wait),
        )
    limits = [f"{running} running"] if running is not None else []
    limits += [f"{starts} starts in {per:g} s"] if starts is not None else []
    _done(queue, f"limited in each bucket to {' and '.join(limits)}" if limits else "without limits", json)


def _one(queue: str | None, everything: bool) -> str:
    if (queue is None) != everything:
        raise InvalidInput("name one queue, or give --all")
    return queue or _EVERY


def _done(queue: str, what: str, json: bool) -> None:
    Output(json).result({"queue": queue, "state": what}, f"{queue or 'everything'}: {what}")
