"""`tickstream dispatcher`: the processes that apply commands and dispatch what is due."""

from __future__ import annotations

import threading
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tickstream.cli.exit_codes import UNAVAILABLE, WRONG_USAGE
from tickstream.cli.options import Bootstrap, DataDir, Json, Prefix, SessionMs, settings_from
from tickstream.cli.output import Output
from tickstream.cli.running import stop_on_signals
from tickstream.settings import LaneSettings, Settings

app = typer.Typer(no_args_is_help=True)


class Standby(StrEnum):
    """Of which buckets a process keeps a copy that it does not own."""

    NONE = "none"
    ALL = "all"


@app.callback()
def dispatcher() -> None:
    """Apply commands, and dispatch what is due."""


@app.command()
def run(
    processes: Annotated[
        int, typer.Option(min=1, help="How many processes; more than one are watched and restarted.")
    ] = 1,
    data: DataDir = Path("data/dispatcher"),
    session_ms: SessionMs = 6_000,
    standby: Annotated[
        Standby,
        typer.Option(
            help="all: keep copies of what other processes own up to date, to take it over within seconds."
        ),
    ] = Standby.NONE,
    no_restart: Annotated[bool, typer.Option("--no-restart", help="Leave a process that died dead.")] = False,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
    index: Annotated[int | None, typer.Option(hidden=True, min=0)] = None,
    kill_at: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Run until Ctrl-C or SIGTERM; a second one ends it at once.

    Start as many as you like, on as many machines: they share the lanes among
    them. Each process keeps its own store in DIR/0, DIR/1, …

    \b
    Examples:
      tickstream dispatcher run
      tickstream dispatcher run --processes 2 --data /var/lib/tickstream
      tickstream dispatcher run --standby all
    """
    settings = settings_from(bootstrap, prefix)
    output = Output(json)
    with stop_on_signals(supervised=index is not None) as stop:
        if processes == 1:
            _run_one(settings, data, index, session_ms, standby, output, stop, kill_at)
        else:
            command = _Child(settings, data, session_ms, standby, json, kill_at)
            _run_several(command, processes, output, stop, restart=not no_restart)


def _run_one(
    settings: Settings,
    data: Path,
    index: int | None,
    session_ms: int,
    standby: Standby,
    output: Output,
    stop: threading.Event,
    kill_at: str,
) -> None:
    from tickstream.dispatcher.process import run_dispatcher

    lane = LaneSettings(session_ms=session_ms)
    run_dispatcher(
        settings,
        data_dir=data,
        index=index or 0,
        lane=lane,
        events=output.event,
        stop=stop,
        kill_at=kill_at,
        supervised=index is not None,
        standby=standby is Standby.ALL,
    )


def _run_several(
    command: _Child, processes: int, output: Output, stop: threading.Event, *, restart: bool
) -> None:
    from tickstream.clock import SystemClock
    from tickstream.dispatcher.supervisor import ExitCodes, supervise

    supervise(
        command,
        processes,
        events=output.event,
        stop=stop,
        clock=SystemClock(),
        codes=ExitCodes(WRONG_USAGE, UNAVAILABLE),
        restart=restart,
    )


class _Child:
    """The command line of the child with a number."""

    def __init__(
        self, settings: Settings, data: Path, session_ms: int, standby: Standby, json: bool, kill_at: str
    ) -> None:
        self._options = [f"--bootstrap={settings.bootstrap}", f"--prefix={settings.prefix}"]
        self._options += [f"--data={data}", f"--session-ms={session_ms}", f"--standby={standby}"]
        self._options += ["--json"] if json else []
        self._options += [f"--kill-at={kill_at}"] if kill_at else []

    def __call__(self, index: int) -> list[str]:
        from tickstream.ops.processes import dying_with_parent, tickstream_command

        return dying_with_parent(tickstream_command("dispatcher", "run", f"--index={index}", *self._options))
