"""`tickstream task backfill`: what a recurring task missed, or did before it was there. Only printing here."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tickstream.cli.exit_codes import NO
from tickstream.cli.options import Bootstrap, Json, Prefix, TaskId, Wait, settings_from
from tickstream.cli.output import Output
from tickstream.clock import SystemClock, moment_of
from tickstream.ops.instants import parse_instant

if TYPE_CHECKING:
    from tickstream.ingest.backfill import Backfilled


def backfill(
    task_id: TaskId,
    since: Annotated[
        str,
        typer.Option(
            "--from", metavar="INSTANT", help="The first instant: 2027-03-01T00:00:00+01:00 or now-7d."
        ),
    ],
    until: Annotated[
        str,
        typer.Option("--to", metavar="INSTANT", help="The instant before which it ends, not in the future."),
    ] = "now",
    most: Annotated[
        int, typer.Option("--max", min=1, metavar="N", help="More occurrences than that are refused.")
    ] = 100,
    again: Annotated[
        bool,
        typer.Option("--again", help="Run what succeeded as well, each with an idempotency key of its own."),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="List the occurrences and what would come of each; send nothing."),
    ] = False,
    wait: Wait = 10.0,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """Run the occurrences of a recurring task that lie in a past window, by its rule as it stands now.

    Each runs as a task of its own, the earliest first, under the idempotency key of the occurrence. What
    succeeded, as far as history goes back, is left out, and so is what waits or runs. Exit code 1: a
    verdict says no, or there is no such task. 2: the window is empty, in the future or too full. 3: a
    broker or a verdict did not answer; repeat it, nothing runs twice.

    \b
    Examples:
      tickstream task backfill report:eu --from now-7d --dry-run
      tickstream task backfill report:eu --from 2026-11-01T00:00:00Z --to 2026-11-08T00:00:00Z
    """
    from tickstream.ingest.client import Client

    now_ms = SystemClock().wall_ms()
    start, end = (moment_of(parse_instant(text, now_ms)) for text in (since, until))
    with Client(settings_from(bootstrap, prefix)) as client:
        found = client.backfill(
            task_id,
            start,
            end,
            most=most,
            again=again,
            dry_run=dry_run,
            timeout=timedelta(seconds=wait),
        )
    counts = Counter(one.fate.value for one in found)
    value = {
        "task_id": task_id,
        "dry_run": dry_run,
        "counts": dict(counts),
        "occurrences": [_value(one) for one in found],
    }
    total = (
        ", ".join(f"{count} {fate}" for fate, count in counts.items()) or "no occurrence lies in the window"
    )
    lines = [*map(_line, found), f"{total}; nothing was sent" if dry_run else total]
    Output(json).result(value, "\n".join(lines))
    _exit(found)


def _line(one: Backfilled) -> str:
    when = f"{datetime.fromisoformat(one.local):%a} {one.local.replace('T', ' ')}"
    return f"{when:29}  {one.utc}  {one.fate.value if one.answer is None else one.answer}"


def _value(one: Backfilled) -> dict[str, Any]:
    from tickstream.model import Verdict

    value: dict[str, Any] = {
        "occurrence_ts": one.occurrence_ts,
        "local": one.local,
        "utc": one.utc,
        "fate": one.fate.value,
        "runs_as": None if one.item is None else one.item.task_id,
    }
    if isinstance(one.answer, Verdict):
        value |= {
            "verdict": one.answer.kind.value,
            "receipt": str(one.answer.receipt),
            "detail": one.answer.detail,
        }
    elif one.answer is not None:
        value["error"] = str(one.answer)
    return value


def _exit(found: tuple[Backfilled, ...]) -> None:
    """By the worst answer."""
    from tickstream.cli.main import exit_code
    from tickstream.model import Verdict, VerdictKind

    codes = [0]
    for answer in (one.answer for one in found if one.answer is not None):
        if not isinstance(answer, Verdict):
            codes.append(exit_code(answer))
        elif answer.kind is not VerdictKind.SCHEDULED:
            codes.append(NO)
    if code := max(codes):
        raise typer.Exit(code)
