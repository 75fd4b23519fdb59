"""`tickstream dead-letter`: what was given up on, and another chance for it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from tickstream.cli.options import Bootstrap, Json, Prefix, settings_from
from tickstream.cli.output import Output
from tickstream.clock import SystemClock, iso_utc
from tickstream.errors import InvalidInput
from tickstream.model import NEVER
from tickstream.ops.instants import parse_instant

if TYPE_CHECKING:
    from tickstream.ops.dead_letter import Choice, Letter

app = typer.Typer(no_args_is_help=True, help="See what was given up on, and give it another chance.")


class Reason(StrEnum):
    """Why a letter lies there."""

    GAVE_UP = "gave_up"
    UNDECODABLE = "undecodable"
    FAULT = "fault"


Only = Annotated[
    Reason | None,
    typer.Option(
        "--reason",
        help="gave_up: work out of attempts. undecodable: nobody could read it. fault: the dispatcher failed on it.",
    ),
]


Handler = Annotated[str | None, typer.Option(metavar="NAME", help="Work of this handler.")]
ErrorLike = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="What was wrong differs from this in numbers and ids only."),
]
Since = Annotated[
    str | None, typer.Option("--from", metavar="INSTANT", help="Since then; for example now-1h.")
]


@app.command("list")
def list_letters(
    reason: Only = None,
    handler: Handler = None,
    error_like: ErrorLike = None,
    since: Since = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="The newest so many.")] = 50,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """List letters, the newest last: number, time, reason, task, what was wrong.

    \b
    Examples:
      tickstream dead-letter list
      tickstream dead-letter list --reason undecodable --json
    """
    from tickstream.ops.dead_letter import DeadLetters

    found = sorted(DeadLetters(settings_from(bootstrap, prefix)).read(), key=lambda x: x.at_ms)
    choice = _choice(reason, handler, error_like, since)
    letters = [x for x in found if choice.takes(x)][-limit:]
    text = "\n".join(map(_line, letters)) or "no letters"
    Output(json).result({"letters": [_datum(x) for x in letters]}, text)


@app.command()
def replay(
    numbers: Annotated[
        list[str] | None, typer.Argument(metavar="[LETTER]...", help="As listed: PARTITION:OFFSET.")
    ] = None,
    reason: Only = None,
    handler: Handler = None,
    error_like: ErrorLike = None,
    since: Since = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Send nothing: say which letters are meant.")
    ] = False,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """Give letters another chance: those named, or all of one reason, handler or error.

    What could not be read or applied is sent again, byte for byte: do it after
    the upgrade. Work given up on is scheduled for now, under its task's id; a
    task that is scheduled anew since is left alone. A letter stays in the list,
    and replaying it twice changes nothing.

    \b
    Examples:
      tickstream dead-letter replay 0:17
      tickstream dead-letter replay --reason undecodable
      tickstream dead-letter replay --handler charge --error-like 'Timeout after # ms' --from now-1h
    """
    from tickstream.ops.dead_letter import Choice, DeadLetters, letter_number

    choice = _choice(reason, handler, error_like, since)
    if bool(numbers) == (choice != Choice()):
        raise InvalidInput(
            "name the letters to be replayed, or say which by --reason, --handler, --error-like and --from, not both"
        )
    dead_letters = DeadLetters(settings_from(bootstrap, prefix))
    wanted = {letter_number(text) for text in numbers or ()}
    letters = [
        x for x in dead_letters.read() if ((x.partition, x.offset) in wanted if numbers else choice.takes(x))
    ]
    missing = wanted - {(x.partition, x.offset) for x in letters}
    if missing:
        gone = ", ".join(f"{partition}:{offset}" for partition, offset in sorted(missing))
        raise InvalidInput(f"there is no letter {gone}; letters are kept for 30 days")
    if dry_run:
        told = [f"{x.number} would be sent" for x in letters]
        value = {"replayed": [], "would_be": [x.number for x in letters]}
        Output(json).result(value, "\n".join([*told, f"{len(letters)} letters"]))
        return
    sent = dead_letters.replay(letters, SystemClock().wall_ms())
    lines = [
        f"{x.number} sent to {r.topic}, bucket {r.partition}" for x, r in zip(letters, sent, strict=True)
    ]
    value = {"replayed": [x.number for x in letters]}
    Output(json).result(value, "\n".join(lines) or "no letters")


def _choice(reason: Reason | None, handler: str | None, error_like: str | None, since: str | None) -> Choice:
    from tickstream.ops.dead_letter import Choice

    since_ms = NEVER if since is None else parse_instant(since, SystemClock().wall_ms())
    return Choice("" if reason is None else reason.value, handler or "", error_like or "", since_ms)


def _line(letter: Letter) -> str:
    task = letter.task_id or f"bucket {letter.bucket}"
    return f"{letter.number:<8} {iso_utc(letter.at_ms)}  {letter.reason.value:<12} {task}: {letter.detail}"


def _datum(letter: Letter) -> dict[str, object]:
    from tickstream.ops.dead_letter import handler_of

    return {
        "letter": letter.number,
        "at_ms": letter.at_ms,
        "reason": letter.reason.value,
        "task_id": letter.task_id,
        "source": letter.source,
        "bucket": letter.bucket,
        "queue": letter.queue,
        "handler": handler_of(letter),
        "bytes": letter.size,
        "whole": letter.size == len(letter.value),
        "detail": letter.detail,
    }
