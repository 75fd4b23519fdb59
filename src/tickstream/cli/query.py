"""`tickstream query`: the questions of someone on call, answered by a dashboard.

Only printing here; what is answered is the API's (projection/). Lists of tasks: `tickstream task list`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from tickstream.cli.options import Dashboard, Json, TokenFile, dashboard_from
from tickstream.cli.output import Output
from tickstream.clock import SystemClock, iso_utc
from tickstream.ops.instants import parse_instant

app = typer.Typer(no_args_is_help=True)

Since = Annotated[
    str | None, typer.Option("--from", metavar="INSTANT", help="The first instant; for example now-1h.")
]
Until = Annotated[
    str | None, typer.Option("--to", metavar="INSTANT", help="The instant before which it ends.")
]
Queue = Annotated[str | None, typer.Option(metavar="NAME")]
Handler = Annotated[str | None, typer.Option(metavar="NAME")]


@app.callback()
def query() -> None:
    """Ask a dashboard what is late, what runs, what failed, and who does the work."""


@app.command()
def running(
    state: Annotated[
        str | None,
        typer.Option(metavar="STATE", help="running, dispatched or retrying; several with commas."),
    ] = None,
    queue: Queue = None,
    handler: Handler = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Rows.")] = 100,
    dashboard: Dashboard = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """What is out, and who holds it: with the age of its lease, oldest first.

    \b
    Example:
      tickstream query running --queue mail
    """
    filters = {"state": state, "queue": queue, "handler": handler, "limit": str(limit)}
    answer = _ask("running", filters, dashboard, token_file)
    _tell(answer, json, [_run_text(row) for row in answer["rows"]])


@app.command()
def failures(
    since: Since = None,
    until: Until = None,
    queue: Queue = None,
    handler: Handler = None,
    dashboard: Dashboard = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """What was given up on in the last day, by handler and error, with the line that lists each group.

    \b
    Example:
      tickstream query failures --from now-1h
    """
    answer = _ask(
        "failures", _window(since, until) | {"queue": queue, "handler": handler}, dashboard, token_file
    )
    _tell(
        answer,
        json,
        [
            f"{group['count']:>7}  {group['handler']}  {group['error']}\n"
            f"         {iso_utc(group['first_ms'])} to {iso_utc(group['last_ms'])}, "
            f"latest {group['examples'][0]['task_id']}\n"
            f"         {group['command']}"
            for group in answer["groups"]
        ],
    )


@app.command()
def forecast(
    horizon: Annotated[str, typer.Option(metavar="hour|day|week", help="How far it looks.")] = "hour",
    dashboard: Dashboard = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """The load to come, by period, and the seconds with the most tasks.

    \b
    Example:
      tickstream query forecast --horizon day
    """
    answer = _ask("forecast", {"horizon": horizon}, dashboard, token_file)
    periods = [f"{iso_utc(p['start_ms'])}  {p['count']:>9}" for p in answer["periods"]]
    worst = [f"{iso_utc(s['start_ms'])}  {s['count']:>9} in that second" for s in answer["worst_seconds"]]
    _tell(answer, json, [*periods, *worst, f"{answer['total']} in all"])


@app.command()
def lateness(
    since: Since = None,
    until: Until = None,
    dashboard: Dashboard = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """How late runs started in the last hour, and where that arises.

    \b
    Example:
      tickstream query lateness --from now-6h
    """
    answer = _ask("lateness", _window(since, until), dashboard, token_file)
    _tell(
        answer,
        json,
        [
            f"{stage:<20} {of['count']:>9} runs  p50 {_ms(of['p50_ms'])}  p99 {_ms(of['p99_ms'])}  max {_ms(of['max_ms'])}"
            for stage, of in answer["stages"].items()
        ],
    )


@app.command()
def queues(dashboard: Dashboard = None, token_file: TokenFile = None, json: Json = False) -> None:
    """Each queue: what waits, what is late, what is out, and who works on it.

    \b
    Example:
      tickstream query queues
    """
    answer = _ask("queues", {}, dashboard, token_file)
    _tell(
        answer,
        json,
        [
            f"{of['queue']:<16} {of['scheduled']:>9} wait  {of['overdue']:>7} late  "
            f"{of['dispatched'] + of['running'] + of['retrying']:>7} out  {_known(of['workers'])} workers"
            + (f"  paused in {of['paused_buckets']} buckets" if of["paused_buckets"] else "")
            + ("" if of["oldest_ts"] is None else f"  late since {iso_utc(of['oldest_ts'])}")
            for of in answer["queues"]
        ],
    )


@app.command()
def cluster(dashboard: Dashboard = None, token_file: TokenFile = None, json: Json = False) -> None:
    """Lanes and buckets, who owns them, and how far they are.

    \b
    Example:
      tickstream query cluster
    """
    answer = _ask("cluster", {}, dashboard, token_file)
    lanes = [
        f"lane {lane['lane']:<4} {lane['owner'] or 'nobody'}"
        + (" (no longer in the group)" if lane["member"] is False else "")
        + f"  {lane['lag_ms']} ms behind  {_known(lane['commands_waiting'])} commands wait"
        for lane in answer["lanes"]
    ]
    workers = [
        f"queue {queue:<12} {worker['worker']} on {worker['host']}, {worker['partitions']} partitions"
        for queue, members in answer["workers"].items()
        for worker in members
    ]
    problem = answer["broker"]["problem"]
    _tell(answer, json, [*lanes, *workers, *([f"the broker: {problem}"] if problem else [])])


@app.command()
def changes(
    since: Since = None,
    until: Until = None,
    dashboard: Dashboard = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Take-overs, new zone data, new layouts and rebuilds of the last day, latest first.

    \b
    Example:
      tickstream query changes --from now-10m
    """
    answer = _ask("changes", _window(since, until), dashboard, token_file)
    _tell(answer, json, [_change_text(change) for change in answer["changes"]])


def _ask(
    what: str, filters: Mapping[str, str | None], dashboard: str | None, token_file: Path | None
) -> dict[str, Any]:
    given = {name: text for name, text in filters.items() if text is not None}
    return dashboard_from(dashboard, token_file).ask(what, given)


def _window(since: str | None, until: str | None) -> dict[str, str | None]:
    now_ms = SystemClock().wall_ms()
    bounds = {"start": since, "end": until}
    return {name: str(parse_instant(text, now_ms)) for name, text in bounds.items() if text is not None}


def _tell(answer: Mapping[str, Any], json: bool, lines: Iterable[str]) -> None:
    age = f"as of {iso_utc(answer['as_of'])}, {answer['staleness_ms']} ms behind"
    Output(json).result(answer, "\n".join([*(list(lines) or ["nothing there"]), age]))


def _run_text(row: Mapping[str, Any]) -> str:
    parts = (
        iso_utc(row["occurrence_ts"]),
        f"{row['state']:<10}",
        row["task_id"],
        f"attempt {row['attempt']}",
        f"on {row['worker']}" if row["worker"] else "",
        "" if row["lease_age_ms"] is None else f"heard of {row['lease_age_ms']} ms ago",
        "" if row["lease_left_ms"] is None else f"lease {row['lease_left_ms']} ms",
        "" if row["progress"] is None else f"{row['progress']:.0%}",
        row["note"],
    )
    return "  ".join(part for part in parts if part)


def _change_text(change: Mapping[str, Any]) -> str:
    buckets = ",".join(map(str, change["buckets"]))
    parts = (
        iso_utc(change["at_ms"]),
        f"{change['kind']:<9}",
        f"buckets {buckets}" if buckets else "",
        f"by {change['instance']}" if change["instance"] else "",
        f"from {change['before']} to {change['after']}" if change["after"] is not None else "",
        "" if change["queue"] is None else f"queue {change['queue'] or '(all)'}",
        change["reason"],
    )
    return "  ".join(part for part in parts if part)


def _ms(value: int | None) -> str:
    return "-" if value is None else f"{value} ms"


def _known(value: int | None) -> str:
    return "?" if value is None else str(value)
