"""`tickstream task pause`, `resume`, `trigger`, `reschedule`: commands about a task that stands.

Only printing here; what they mean is the client's.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from tickstream.cli.options import Bootstrap, Json, Prefix, TaskId, Wait, settings_from
from tickstream.cli.output import Output
from tickstream.clock import SystemClock
from tickstream.ops.instants import parse_instant

if TYPE_CHECKING:
    from tickstream.model import Verdict


def pause(
    task_id: TaskId, wait: Wait = 10.0, bootstrap: Bootstrap = None, prefix: Prefix = None, json: Json = False
) -> None:
    """Have no further occurrence of a task dispatched; what is in flight goes on.

    \b
    Example:
      tickstream task pause report:eu
    """
    from tickstream.ingest.client import Client

    with Client(settings_from(bootstrap, prefix)) as client:
        verdict = client.pause(task_id, timeout=timedelta(seconds=wait))
    conclude(verdict, json)


def resume(
    task_id: TaskId, wait: Wait = 10.0, bootstrap: Bootstrap = None, prefix: Prefix = None, json: Json = False
) -> None:
    """Undo `pause`, or end a fault; what fell due meanwhile is dispatched at once.

    \b
    Example:
      tickstream task resume report:eu
    """
    from tickstream.ingest.client import Client

    with Client(settings_from(bootstrap, prefix)) as client:
        verdict = client.resume(task_id, timeout=timedelta(seconds=wait))
    conclude(verdict, json)


def trigger(
    task_id: TaskId, wait: Wait = 10.0, bootstrap: Bootstrap = None, prefix: Prefix = None, json: Json = False
) -> None:
    """Run a task once now, beside what is scheduled; pauses and limits do not hold it.

    \b
    Example:
      tickstream task trigger report:eu
    """
    from tickstream.ingest.client import Client

    with Client(settings_from(bootstrap, prefix)) as client:
        verdict = client.trigger(task_id, timeout=timedelta(seconds=wait))
    conclude(verdict, json)


def reschedule(
    task_id: TaskId,
    at: Annotated[
        str,
        typer.Option(metavar="INSTANT", help="2026-12-24T18:00:00+01:00, now or now+30s (ms, s, m, h, d)."),
    ],
    allow_past: Annotated[
        bool, typer.Option("--allow-past", help="Accept an instant that is long gone.")
    ] = False,
    wait: Wait = 10.0,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """Give a task that waits another instant; handler, payload and options stay.

    \b
    Example:
      tickstream task reschedule hello:1 --at now+1h
    """
    from tickstream.ingest.client import Client

    run_at_ts = parse_instant(at, SystemClock().wall_ms())
    with Client(settings_from(bootstrap, prefix)) as client:
        verdict = client.reschedule(
            task_id, run_at_ts=run_at_ts, allow_past=allow_past, timeout=timedelta(seconds=wait)
        )
    conclude(verdict, json)


def conclude(verdict: Verdict, json: bool) -> None:
    """Print the verdict; exit with 1 when it says no."""
    from tickstream.model import VerdictKind

    value = {
        "verdict": verdict.kind.value,
        "task_id": verdict.task_id,
        "receipt": str(verdict.receipt),
        "phase": verdict.phase,
        "occurrence_ts": verdict.occurrence_ts,
        "detail": verdict.detail,
        "in_flight": list(verdict.in_flight),
    }
    Output(json).result(value, str(verdict))
    refusals = (
        VerdictKind.TOO_LATE,
        VerdictKind.ALREADY_RAN,
        VerdictKind.UNKNOWN,
        VerdictKind.REJECTED,
        VerdictKind.CONFLICT,
    )
    if verdict.kind in refusals:
        raise typer.Exit(1)
