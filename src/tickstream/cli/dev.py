"""`tickstream dev`: a Kafka for this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tickstream.cli.options import Json, Prefix, settings_from
from tickstream.cli.output import Output
from tickstream.cli.running import stop_on_signals

app = typer.Typer(
    no_args_is_help=True, help="Run a Kafka on this machine, without Docker or an installed Java."
)

_CHECK_S = 1.0


@app.callback()
def dev() -> None:
    """Run a Kafka on this machine, without Docker or an installed Java."""


@app.command()
def up(
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Kafka's port.  (default: a free one)")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="DIR",
            file_okay=False,
            help="Keep the data here.  (default: dropped at the end)",
        ),
    ] = None,
    queue: Annotated[
        list[str] | None,
        typer.Option("--queue", metavar="NAME", help="A queue to have beside `default`; may be repeated."),
    ] = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """Start a real Apache Kafka with all topics, and keep it until Ctrl-C.

    The first start downloads it (56 MB) into the cache directory.

    \b
    Examples:
      tickstream dev up
      tickstream dev up --port 9092 --data ~/tickstream-kafka
    """
    from rich.console import Console

    from tickstream.broker import DevBroker
    from tickstream.errors import BrokerUnavailable
    from tickstream.ops.dev_broker import create_topics, kafka_runtime, require_free
    from tickstream.settings import cache_dir

    if port is not None:
        require_free(port)
    with stop_on_signals(unwind=True) as stop:
        runtime = kafka_runtime(cache_dir(), Console(stderr=True))
        with DevBroker.start(runtime=runtime, port=port, directory=data) as broker:
            settings = settings_from(broker.bootstrap, prefix)
            create_topics(settings, queue or ())
            ready = {"event": "ready", "bootstrap": broker.bootstrap, "prefix": settings.prefix}
            Output(json).result(ready, _greeting(runtime.kafka_version, broker.bootstrap))
            while not stop.wait(_CHECK_S):
                if not broker.pids:
                    raise BrokerUnavailable(f"Kafka at {broker.bootstrap} has ended; start it again")


def _greeting(version: str, bootstrap: str) -> str:
    return (
        f"Kafka {version} is up, with all topics. In other terminals:\n\n"
        f"  export TICKSTREAM_BOOTSTRAP={bootstrap}\n\nCtrl-C stops it."
    )
