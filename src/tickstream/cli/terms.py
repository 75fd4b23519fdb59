"""The options of `task schedule` that stand in for a handler's lease, timeout and retries.

What the numbers mean is the model's: no decision may enter here.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from tickstream.model import Retry

_PANEL = "What happens to its runs"

Lease: TypeAlias = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="A run of which nothing is heard for so long is given to another worker.  (default: 10)",
        rich_help_panel=_PANEL,
    ),
]
Lead: TypeAlias = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        help="Send it so much ahead, to be held by a worker until its instant; then a cancel is too late.",
        rich_help_panel=_PANEL,
    ),
]
LimitKey: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="KEY",
        help="Of tasks with the same key one is in flight at a time, within a bucket.",
        rich_help_panel=_PANEL,
    ),
]
Timeout: TypeAlias = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS", help="The longest one attempt may take.  (default: 3600)", rich_help_panel=_PANEL
    ),
]
Attempts: TypeAlias = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="How often it is tried before it is given up; 1: no retry.  (default: 5)",
        rich_help_panel=_PANEL,
    ),
]
Backoff: TypeAlias = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="The pause before the second attempt; it doubles with each one.  (default: 1)",
        rich_help_panel=_PANEL,
    ),
]


def seconds(given: float | None) -> timedelta | None:
    """What was given, as a length of time."""
    return None if given is None else timedelta(seconds=given)


def retry_of(attempts: int | None, backoff: float | None) -> Retry | None:
    """The default retries with what was given in their place; None when nothing was. Raises InvalidInput."""
    from tickstream.model import DEFAULT_RETRY

    retry = DEFAULT_RETRY
    if attempts is not None:
        retry = replace(retry, attempts=attempts)
    if backoff is not None:
        retry = replace(retry, backoff=timedelta(seconds=backoff))
    return None if retry is DEFAULT_RETRY else retry
