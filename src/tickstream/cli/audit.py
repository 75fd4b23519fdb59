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
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """Read all topics and say what ran, what was lost, what ran twice, too early, or in spite of a cancel.

    Exit code 1 when a promise was broken. Nothing is changed, and dispatchers may go on meanwhile.

    \b
    Examples:
      tickstream audit
      tickstream audit --journal run.jsonl --json
    """
    from tickstream.clock import SystemClock
    from tickstream.ops.audit import audit as audit_topics
    from tickstream.ops.audit import render

    report = audit_topics(
        settings_from(bootstrap, prefix),
        journal=journal,
        clock=SystemClock(),
        grace_ms=round(grace * 1_000),
        session_ms=session_ms,
    )
    Output(json).result(report.to_json(), render(report))
    if not report.ok:
        raise typer.Exit(1)
