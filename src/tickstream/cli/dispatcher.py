"""`tickstream dispatcher`: the processes that apply commands and dispatch what is due."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tickstream.cli.exit_codes import UNAVAILABLE, WRONG_USAGE
from tickstream.cli.options import Bootstrap, DataDir, Json, Prefix, SessionMs, settings_from
from tickstream.cli.output import Output
from tickstream.cli.running import collected_by_the_clock, stop_on_signals
from tickstream.settings import EngineSettings, LaneSettings, Settings

_HEALTH = "Health"
_LIMITS = "Limits of a transaction"
_DEFAULT = LaneSettings()

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
    keep_inputs_ms: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="MS",
            help="How long commands and reports are kept at least; applied and older, they are deleted.",
        ),
    ] = 86_400_000,
    done_retention_ms: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="MS",
            help="How long an ended task is remembered, to answer who asks for it again; 0: not at all.",
        ),
    ] = EngineSettings().done_retention_ms,
    no_restart: Annotated[bool, typer.Option("--no-restart", help="Leave a process that died dead.")] = False,
    batch_open_ms: Annotated[
        int,
        typer.Option(
            min=0,
            help="How long a transaction that was begun for a command or report waits for more.",
            rich_help_panel=_LIMITS,
        ),
    ] = _DEFAULT.batch_open_ms,
    batch_records: Annotated[
        int,
        typer.Option(min=1, help="The most messages of commands and reports in it.", rich_help_panel=_LIMITS),
    ] = _DEFAULT.batch_records,
    due_page: Annotated[
        int,
        typer.Option(
            min=1,
            help="The most timers of one bucket in it: a command waits for the pages of a spike under way.",
            rich_help_panel=_LIMITS,
        ),
    ] = _DEFAULT.due_page,
    health_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65_535,
            help="Serve /livez, /readyz and /metrics there; 0: on a free one, named in the event `health`. "
            "Process n of several has the n-th port from there on.",
            rich_help_panel=_HEALTH,
        ),
    ] = None,
    health_host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where those listen.", rich_help_panel=_HEALTH)
    ] = "127.0.0.1",
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
    health = None if health_port is None else (health_host, health_port)
    lane = LaneSettings(
        session_ms=session_ms,
        input_window_ms=keep_inputs_ms,
        batch_open_ms=batch_open_ms,
        batch_records=batch_records,
        due_page=due_page,
    )
    wanted = _Wanted(data, lane, EngineSettings(done_retention_ms), standby, health, kill_at)
    with stop_on_signals(supervised=index is not None) as stop:
        if processes == 1:
            _run_one(settings, wanted, index, output, stop)
        else:
            command = _Child(settings, wanted, json)
            _run_several(command, processes, output, stop, restart=not no_restart)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a process and each of its children is to be told."""

    data: Path
    lane: LaneSettings
    engine: EngineSettings
    standby: Standby
    health: tuple[str, int] | None
    """Host and port of the health endpoints, of the first process."""
    kill_at: str

    def arguments(self, index: int) -> list[str]:
        """As options of a child's command line."""
        host, port = self.health or ("", 0)
        return [
            *([f"--health-host={host}"] if self.health else []),
            *([f"--health-port={port and port + index}"] if self.health else []),
            f"--data={self.data}",
            f"--session-ms={self.lane.session_ms}",
            f"--standby={self.standby}",
            f"--keep-inputs-ms={self.lane.input_window_ms}",
            f"--done-retention-ms={self.engine.done_retention_ms}",
            f"--batch-open-ms={self.lane.batch_open_ms}",
            f"--batch-records={self.lane.batch_records}",
            f"--due-page={self.lane.due_page}",
            *([f"--kill-at={self.kill_at}"] if self.kill_at else []),
        ]


def _run_one(
    settings: Settings, wanted: _Wanted, index: int | None, output: Output, stop: threading.Event
) -> None:
    from tickstream.dispatcher.process import run_dispatcher

    with collected_by_the_clock():
        run_dispatcher(
            settings,
            data_dir=wanted.data,
            index=index or 0,
            engine=wanted.engine,
            lane=wanted.lane,
            events=output.event,
            stop=stop,
            kill_at=wanted.kill_at,
            supervised=index is not None,
            standby=wanted.standby is Standby.ALL,
            health=wanted.health,
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

    def __init__(self, settings: Settings, wanted: _Wanted, json: bool) -> None:
        self._options = [f"--bootstrap={settings.bootstrap}", f"--prefix={settings.prefix}"]
        self._options += ["--json"] if json else []
        self._wanted = wanted

    def __call__(self, index: int) -> list[str]:
        from tickstream.ops.processes import dying_with_parent, tickstream_command

        own = (f"--index={index}", *self._wanted.arguments(index))
        return dying_with_parent(tickstream_command("dispatcher", "run", *own, *self._options))
