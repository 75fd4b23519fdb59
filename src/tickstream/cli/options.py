"""Options that several commands share, and the settings made from them.

The environment is read here; below this package nobody looks at it but settings.py.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from tickstream.settings import Settings, dashboard_token, dashboard_url, first_line

if TYPE_CHECKING:
    from tickstream.ingest.dashboard import Dashboard as Reader

_CONNECTION = "Connection"

Bootstrap: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT",
        help="Kafka's address. (environment: TICKSTREAM_BOOTSTRAP)",
        rich_help_panel=_CONNECTION,
    ),
]
Prefix: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--prefix",
        metavar="TEXT",
        help="What the names of all topics begin with. (environment: TICKSTREAM_PREFIX; default tickstream.)",
        rich_help_panel=_CONNECTION,
    ),
]
Dashboard: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--dashboard",
        metavar="URL",
        help="The dashboard that answers. (environment: TICKSTREAM_DASHBOARD; default http://127.0.0.1:8080)",
        rich_help_panel=_CONNECTION,
    ),
]
TokenFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        dir_okay=False,
        help="The file whose first line is the dashboard's token. (environment: TICKSTREAM_DASHBOARD_TOKEN_FILE, or the token itself in TICKSTREAM_DASHBOARD_TOKEN)",
        rich_help_panel=_CONNECTION,
    ),
]
Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print for machines: one JSON object a line on stdout.")
]
TaskId: TypeAlias = Annotated[str, typer.Argument(metavar="TASK_ID", help="The task's id.")]
Wait: TypeAlias = Annotated[
    float, typer.Option(min=0, metavar="SECONDS", help="How long to wait for the verdict.")
]
DataDir: TypeAlias = Annotated[
    Path,
    typer.Option(
        "--data",
        "--data-dir",
        metavar="DIR",
        file_okay=False,
        help="Where the local store lies; it is made if need be, and may be deleted while nothing runs.",
    ),
]
SessionMs: TypeAlias = Annotated[
    int,
    typer.Option(
        "--session-ms",
        min=1000,
        metavar="MS",
        help="How long a dead process goes unnoticed. Stock brokers allow 6000 and more, the dev broker 1000.",
    ),
]


def settings_from(bootstrap: str | None, prefix: str | None) -> Settings:
    """The settings of this call: its options, else the environment. Raises InvalidInput without an address."""
    given = {"TICKSTREAM_BOOTSTRAP": bootstrap, "TICKSTREAM_PREFIX": prefix}
    return Settings.from_env({**os.environ, **{name: value for name, value in given.items() if value}})


def dashboard_from(url: str | None, token_file: Path | None) -> Reader:
    """Who answers this call's questions: by its options, else the environment. Raises InvalidInput."""
    from tickstream.ingest.dashboard import Dashboard as Reader

    token = dashboard_token() if token_file is None else first_line("--token-file", token_file)
    return Reader(url or dashboard_url(), token=token)
