"""`tickstream audit`: whether every promise was kept, read from the topics themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tickstream.cli.options import Bootstrap, Json, Prefix, settings_from
from tickstream.cli.output import Output


def audit(
    journal: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            dir_okay=False,
            exists=True,
            help="Receipts kept by a client, as `task load --journal` writes them.",
        ),
    ] = None,
    grace: Annotated[
        float,
        typer.Option(
            min=0, metavar="SECONDS", help="How long something may be due before its missing work is a loss."
        ),
    ] = 5.0,
    session_ms: Annotated[
        int,
        typer.Option(
            min=1, metavar="MS", help="Session of the dispatchers that the journal says were killed."
        ),
    ] = 6_000,
    late_ms: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="MS",
            help="What is dispatched or started later than that after its instant is a fault.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="INSTANT", help="Read records from this instant on: -2h, or 2026-12-24T17:00:00Z."
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="INSTANT", help="Read records before this instant, and judge as of it."),
    ] = None,
    scratch: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            file_okay=False,
            exists=True,
            help="Where to sort what is read, some 100 bytes a record; the system's temporary directory unless given.",
        ),
    ] = None,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """Read all topics and say what ran, what was lost, what ran twice, too early, or in spite of a cancel.

    Exit code 1 when a promise was broken. Nothing is changed, and dispatchers may go on meanwhile.
    Memory does not grow with the number of records. Of a time range, what lies before it counts as purged.

    \b
    Examples:
      tickstream audit
      tickstream audit --journal run.jsonl --json
      tickstream audit --since -1h --late-ms 1000
    """
    from tickstream.clock import SystemClock
    from tickstream.ops.audit import Span, render
    from tickstream.ops.audit import audit as audit_topics
    from tickstream.ops.instants import parse_instant

    clock = SystemClock()
    now_ms = clock.wall_ms()
    since_ms, until_ms = (None if text is None else parse_instant(text, now_ms) for text in (since, until))
    report = audit_topics(
        settings_from(bootstrap, prefix),
        journal=journal,
        clock=clock,
        grace_ms=round(grace * 1_000),
        session_ms=session_ms,
        late_ms=late_ms,
        span=Span(since_ms, until_ms),
        scratch=scratch,
    )
    Output(json).result(report.to_json(), render(report))
    if not report.ok:
        raise typer.Exit(1)
