"""The command `tickstream`: its nouns, and the one place where errors become exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Final

import typer

from tickstream.cli import (
    audit,
    calendar,
    dashboard,
    dead_letter,
    demo,
    dev,
    dispatcher,
    projection,
    query,
    queue,
    schedule,
    task,
    topics,
    tz,
    worker,
)
from tickstream.cli.exit_codes import NO, UNAVAILABLE, WRONG_USAGE
from tickstream.cli.running import log_to_stderr
from tickstream.errors import (
    BrokerUnavailable,
    DashboardUnavailable,
    InvalidInput,
    SendFailed,
    TickstreamError,
    VerdictTimeout,
)

_LOG_VARIABLE: Final = "TICKSTREAM_LOG"
_TZDATA_VARIABLE: Final = "TICKSTREAM_TZDATA"


class LogLevel(StrEnum):
    """From which level up the log is written."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 yes or done, 1 no, 2 wrong usage, 3 broker or dashboard unavailable.",
)
app.command()(demo.demo)
app.add_typer(dev.app, name="dev")
app.add_typer(topics.app, name="topics")
app.add_typer(dispatcher.app, name="dispatcher")
app.add_typer(worker.app, name="worker")
app.add_typer(projection.app, name="projection")
app.add_typer(dashboard.app, name="dashboard")
app.add_typer(task.app, name="task")
app.add_typer(queue.app, name="queue")
app.add_typer(dead_letter.app, name="dead-letter")
app.add_typer(query.app, name="query")
app.add_typer(schedule.app, name="schedule")
app.add_typer(calendar.app, name="calendar")
app.add_typer(tz.app, name="tz")
app.command()(audit.audit)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"tickstream {version('tickstream')}")
        raise typer.Exit


@app.callback()
def tickstream(
    log_level: Annotated[
        LogLevel, typer.Option(envvar=_LOG_VARIABLE, help="What is logged to stderr.")
    ] = LogLevel.WARNING,
    tzdata: Annotated[
        str,
        typer.Option(
            envvar=_TZDATA_VARIABLE,
            metavar="WHEEL|DIR",
            help="Reckon with the time zones of another release of the package tzdata. (default: the installed one)",
        ),
    ] = "",
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """A distributed timer, job scheduler and calendar on Kafka.

    \b
    Everything at once, on this machine:
      tickstream demo
    \b
    Step by step, each in a terminal of its own:
      tickstream dev up
      tickstream dispatcher run
      tickstream worker run examples.hello:app
      tickstream task schedule hello:1 --at now+10s --handler hello
    """
    os.environ[_LOG_VARIABLE] = log_level  # for the processes that a command starts
    log_to_stderr(log_level)
    if tzdata:
        from tickstream.recurrence.zone_data import use, zone_data

        os.environ[_TZDATA_VARIABLE] = tzdata
        use(zone_data(tzdata))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code; `arguments` are the process's unless given."""
    try:
        app(None if arguments is None else list(arguments), prog_name="tickstream")
    except TickstreamError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(exit_code(error))


def exit_code(error: TickstreamError) -> int:
    """2: the call was wrong. 3: somebody did not answer. 1: everything else that was refused."""
    match error:
        case InvalidInput():
            return WRONG_USAGE
        case BrokerUnavailable() | DashboardUnavailable() | SendFailed() | VerdictTimeout():
            return UNAVAILABLE
        case _:
            return NO
