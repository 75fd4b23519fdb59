"""`tickstream demo`: everything at once, disturbed, and audited."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tickstream.cli.options import Json
from tickstream.cli.output import Output
from tickstream.cli.running import stop_on_signals

_CHECKOUT = Path(__file__).parents[3]


def demo(
    for_s: Annotated[
        float | None,
        typer.Option(
            "--for",
            min=20,
            metavar="SECONDS",
            help="End after this long. Tasks that fall due later are left out.",
        ),
    ] = None,
    json: Json = False,
    session_ms: Annotated[int | None, typer.Option(hidden=True, min=1000)] = None,
) -> None:
    """Run everything on this machine for a minute, kill parts of it, and audit what happened.

    Starts a real Kafka (or uses the one at TICKSTREAM_BOOTSTRAP), two
    dispatchers, two workers, projection and dashboard; loads 10,000 tasks that
    fall due within a minute, cancels and replaces some of them, and kills a
    dispatcher and a worker half way. Ends on Ctrl-C or after --for SECONDS
    (without a terminal: when all has run) with the audit. Exit code 1 when a
    promise was broken. Nothing is left running or lying about.

    \b
    Examples:
      tickstream demo
      tickstream demo --for 90 --json
    """
    from rich.console import Console

    from tickstream.clock import SystemClock
    from tickstream.ops.audit import render
    from tickstream.ops.demo.display import Display
    from tickstream.ops.demo.run import Demo, DemoOptions, find_examples
    from tickstream.settings import cache_dir

    # With --json stdout belongs to the one object at the end.
    console = Console(stderr=json)
    options = DemoOptions(
        examples=find_examples(Path("examples"), _CHECKOUT / "examples"),
        cache=cache_dir(),
        environ=os.environ,
        for_s=for_s,
        session_ms=session_ms,
        ends_when_done=for_s is None and not console.is_terminal,
    )
    clock = SystemClock()
    with stop_on_signals(unwind=True) as stop, Display(console, clock) as display:
        result = Demo(options, display, stop, clock).run()
    Output(json).result(result.to_json(), render(result.report))
    if not result.report.ok:
        raise typer.Exit(1)
