"""`tickstream task`: schedule, cancel, load, and see what became of it."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from tickstream.cli import backfill, recurring, standing
from tickstream.cli.attendance import attendance
from tickstream.cli.options import (
    Bootstrap,
    Dashboard,
    Json,
    Prefix,
    TaskId,
    TokenFile,
    Wait,
    dashboard_from,
    settings_from,
)
from tickstream.cli.output import Output
from tickstream.cli.rows import age, attempt_text, row_text, row_value, task_text
from tickstream.cli.terms import Attempts, Backoff, Lead, Lease, LimitKey, Timeout, retry_of, seconds
from tickstream.clock import SystemClock
from tickstream.errors import InvalidInput
from tickstream.ops.instants import parse_instant

if TYPE_CHECKING:
    from tickstream.ingest.request import ScheduleRequest
    from tickstream.model import Receipt
    from tickstream.ops.load import Loading

app = typer.Typer(
    no_args_is_help=True, help="Schedule, change and cancel tasks, and see what became of them."
)

After = Annotated[
    list[str] | None,
    typer.Option(metavar="RECEIPT", help="Wait until the answer contains this command; may be repeated."),
]

_AFTER_WAIT_MS = 10_000
"""As long as a dashboard lets an answer wait."""


class IfExists(StrEnum):
    """What happens to a task of the same id that has not been dispatched yet."""

    REPLACE = "replace"
    REJECT = "reject"


@app.command()
def schedule(
    task_id: TaskId,
    handler: Annotated[str, typer.Option(metavar="NAME", help="The handler that runs it.")],
    at: Annotated[
        str | None,
        typer.Option(
            metavar="INSTANT", help="Once: 2026-12-24T18:00:00+01:00, now or now+30s (ms, s, m, h, d)."
        ),
    ] = None,
    payload: Annotated[
        str,
        typer.Option(metavar="TEXT", help="What the handler gets: usually a JSON object of its arguments."),
    ] = "",
    payload_file: Annotated[
        Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, help="The same, from a file.")
    ] = None,
    queue: Annotated[str, typer.Option(metavar="NAME", help="The queue whose workers run it.")] = "default",
    label: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="For filters; may be repeated.")
    ] = None,
    if_exists: Annotated[
        IfExists, typer.Option(help="What happens to a task of that id that is still waiting.")
    ] = IfExists.REPLACE,
    allow_past: Annotated[
        bool, typer.Option("--allow-past", help="Accept an instant that is long gone.")
    ] = False,
    limit_key: LimitKey = "",
    lead: Lead = 0.0,
    lease: Lease = None,
    timeout: Timeout = None,
    attempts: Attempts = None,
    backoff: Backoff = None,
    every: recurring.EveryOption = None,
    cron: recurring.CronOption = None,
    rrule: recurring.RruleOption = None,
    zone: recurring.ZoneOption = None,
    start: recurring.StartOption = None,
    end: recurring.EndOption = None,
    rdate: recurring.RdateOption = None,
    exdate: recurring.ExdateOption = None,
    jitter: recurring.JitterOption = None,
    gap: recurring.GapOption = None,
    fold: recurring.FoldOption = None,
    subday: recurring.SubdayOption = None,
    misfire: recurring.MisfireOption = None,
    grace: recurring.GraceOption = None,
    overlap: recurring.OverlapOption = None,
    wait: Wait = 10.0,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Only wait for Kafka's acknowledgement, and print the receipt.")
    ] = False,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """Schedule a task, once or again and again, and print the verdict; exit code 1 when it is not scheduled.

    \b
    Examples:
      tickstream task schedule hello:1 --at now+10s --handler hello --payload '{"name": "world"}'
      tickstream task schedule report:eu:4711 --at 2026-12-24T18:00:00+01:00 --handler report --label region=eu
      tickstream task schedule mail:42 --at now --handler mail --queue mail --timeout 30 --attempts 3
      tickstream task schedule nightly --cron "0 2 * * *" --zone Europe/Berlin --handler backup
    """
    from tickstream.ingest.client import Client
    from tickstream.ingest.recurring import recurrence_from

    recurs = recurring.asked(locals())
    if at is None and not recurs:
        raise InvalidInput("when? Give --at for once; or one of --every, --cron and --rrule")
    recurrence_from(recurs)  # what cannot be is said before a broker is asked
    if payload and payload_file:
        raise InvalidInput("give either --payload or --payload-file, not both")
    content = payload_file.read_bytes() if payload_file else payload.encode()
    settings = settings_from(bootstrap, prefix)
    request: ScheduleRequest = {
        **cast("ScheduleRequest", recurs),
        "run_at_ts": None if at is None else parse_instant(at, SystemClock().wall_ms()),
        "handler": handler,
        "payload": content,
        "queue": queue,
        "labels": dict(_label(text) for text in label or ()),
        "if_exists": if_exists.value,
        "allow_past": allow_past,
        "limit_key": limit_key,
        "lead": timedelta(seconds=lead),
        "lease": seconds(lease),
        "timeout": seconds(timeout),
        "retry": retry_of(attempts, backoff),
    }
    with Client(settings) as client:
        if no_wait:
            receipt = str(client.schedule(task_id, **request).receipt())
            Output(json).result({"task_id": task_id, "receipt": receipt}, f"accepted, receipt {receipt}")
        else:
            standing.conclude(client.schedule(task_id, **request, wait=timedelta(seconds=wait)), json)
    if nobody := attendance(settings, queue):
        typer.echo(nobody, err=True)


@app.command()
def cancel(
    task_id: TaskId,
    running: Annotated[
        bool, typer.Option("--running", help="Ask a run in flight to stop, too; it is not tried again.")
    ] = False,
    wait: Wait = 10.0,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """Cancel a task and print the verdict; exit code 1 when it was too late, or there is none.

    \b
    Example:
      tickstream task cancel hello:1
    """
    from tickstream.ingest.client import Client

    with Client(settings_from(bootstrap, prefix)) as client:
        verdict = client.cancel(task_id, running=running, timeout=timedelta(seconds=wait))
    standing.conclude(verdict, json)


app.command()(standing.reschedule)
app.command()(standing.trigger)
app.command()(standing.pause)
app.command()(standing.resume)
app.command()(backfill.backfill)


@app.command()
def load(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE.jsonl", exists=True, dir_okay=False, help="One JSON object a line."),
    ],
    start: Annotated[
        str, typer.Option(metavar="INSTANT", help="From when `offset_s` counts: now, now+30s or ISO 8601.")
    ] = "now",
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Load the good lines although others are bad.")
    ] = False,
    journal: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", dir_okay=False, help="Append the receipts here, for `tickstream audit`."
        ),
    ] = None,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """Schedule every line of a file; nothing is loaded when a line is bad.

    A line has task_id, handler, one of run_at (ISO 8601 with a zone) and
    offset_s (seconds from --start), and may have payload (any JSON, or a text
    that goes as it is), queue and labels. Exit code 2 when a line is bad, 1
    when not all of them were accepted.

    \b
    Examples:
      tickstream task load examples/tasks.jsonl --start now+10s
      tickstream task load tasks.jsonl --keep-going --journal receipts.jsonl
    """
    from contextlib import ExitStack

    from tickstream.ingest.client import Client
    from tickstream.kafka import Admin
    from tickstream.ops.journal import JournalWriter
    from tickstream.ops.load import BadTaskFile, Loading, TaskFile

    start_ms = parse_instant(start, SystemClock().wall_ms())
    settings = settings_from(bootstrap, prefix)
    tasks = TaskFile(file, start_ms=start_ms, queues=Admin(settings).layout().queues)
    bad, first = tasks.check()
    if bad and not keep_going:
        raise BadTaskFile(file, bad, first)
    with ExitStack() as resources:
        kept = resources.enter_context(JournalWriter(journal)) if journal else None
        loading = Loading(resources.enter_context(Client(settings)), kept)
        try:
            loading.run(tasks.tasks())
        finally:
            # However it ends: nothing is half loaded without saying so.
            _account(loading, bad, [*map(str, first), *map(str, loading.errors)], json)
    if bad or loading.failed:
        raise typer.Exit(1)


@app.command()
def show(
    task_id: TaskId,
    after: After = None,
    dashboard: Dashboard = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Show one task, its occurrences and every attempt, as a dashboard knows them; exit code 1 when there is no such task.

    \b
    Example:
      tickstream task show hello:1
    """
    reader = dashboard_from(dashboard, token_file)
    answer = reader.task(task_id, after=_receipts(after), wait_ms=_AFTER_WAIT_MS if after else 0)
    value = {
        "task": answer.task,
        "occurrences": [row_value(row) for row in answer.occurrences],
        "attempts": answer.attempts,
        "as_of": answer.as_of,
        "staleness_ms": answer.staleness_ms,
    }
    if answer.task is None:
        text = f"there is no task {task_id!r}"
    else:
        lines = [task_text(answer.task), *map(row_text, answer.occurrences)]
        text = "\n".join([*lines, *map(attempt_text, answer.attempts)])
    Output(json).result(value, f"{text}\n{age(answer.as_of, answer.staleness_ms)}")
    if answer.task is None:
        raise typer.Exit(1)


@app.command("list")
def list_tasks(
    since: Annotated[
        str | None, typer.Option("--from", metavar="INSTANT", help="The first instant; for example now-1h.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="INSTANT", help="The instant before which it ends.")
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="STATE",
            help="scheduled, dispatched, running, retrying, succeeded, dead or cancelled; several with commas.",
        ),
    ] = None,
    queue: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    handler: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    label: Annotated[str | None, typer.Option(metavar="KEY=VALUE")] = None,
    id_prefix: Annotated[str | None, typer.Option(metavar="TEXT", help="What the id begins with.")] = None,
    calendar: Annotated[str | None, typer.Option(metavar="NAME", help="Events of this calendar.")] = None,
    error: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What the error contains, whatever its case.")
    ] = None,
    error_like: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="An error from which it differs in numbers and ids only."),
    ] = None,
    order: Annotated[str, typer.Option(metavar="asc|desc", help="The earliest or the latest first.")] = "asc",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Rows of a page.")] = 100,
    cursor: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Where the page before ended, as it was printed.")
    ] = None,
    after: After = None,
    dashboard: Dashboard = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """List occurrences by their instant, as a dashboard knows them.

    \b
    Examples:
      tickstream task list --from now-1h --to now+1h
      tickstream task list --state dead --label region=eu --json
    """
    now_ms = SystemClock().wall_ms()
    filters = {
        "start": None if since is None else str(parse_instant(since, now_ms)),
        "end": None if until is None else str(parse_instant(until, now_ms)),
        "state": state,
        "queue": queue,
        "handler": handler,
        "label": None if label is None else ":".join(_label(label)),
        "id_prefix": id_prefix,
        "calendar": calendar,
        "error": error,
        "error_like": error_like,
        "order": order,
        "limit": str(limit),
        "cursor": cursor,
    }
    given = {name: text for name, text in filters.items() if text is not None}
    reader = dashboard_from(dashboard, token_file)
    page = reader.tasks(given, after=_receipts(after), wait_ms=_AFTER_WAIT_MS if after else 0)
    value = {**page._asdict(), "rows": [row_value(row) for row in page.rows]}
    lines = [row_text(row) for row in page.rows] or ["nothing there"]
    lines += [f"more with: --cursor {page.cursor}"] if page.cursor else []
    lines.append(age(page.as_of, page.staleness_ms))
    Output(json).result(value, "\n".join(lines))


def _account(loading: Loading, bad: int, errors: list[str], json: bool) -> None:
    for error in errors:
        typer.echo(error, err=True)
    counts = {
        "accepted": loading.accepted,
        "failed": loading.failed,
        "bad_lines": bad,
        "unanswered": loading.unanswered,
    }
    text = f"{loading.accepted} tasks accepted, {loading.failed} failed, {bad} bad lines"
    if loading.unanswered:
        text += f"; {loading.unanswered} were on their way: nobody knows what became of them"
    Output(json).result({"event": "loaded", **counts, "errors": errors}, text)


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise InvalidInput(f"label {text!r}: write KEY=VALUE")
    return key, value


def _receipts(texts: list[str] | None) -> list[Receipt]:
    from tickstream.model import Receipt

    try:
        return [Receipt.parse(text) for text in texts or ()]
    except ValueError as error:
        raise InvalidInput(str(error)) from None
