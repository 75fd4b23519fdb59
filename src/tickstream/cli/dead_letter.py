"""`tickstream dead-letter`: what was given up on, and another chance for it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from tickstream.cli.options import Bootstrap, Json, Prefix, settings_from
from tickstream.cli.output import Output
from tickstream.clock import SystemClock, iso_utc
from tickstream.errors import InvalidInput

if TYPE_CHECKING:
    from tickstream.ops.dead_letter import Letter

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


@app.command("list")
def list_letters(
    reason: Only = None,
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
    letters = [x for x in found if reason is None or x.reason.value == reason][-limit:]
    text = "\n".join(map(_line, letters)) or "no letters"
    Output(json).result({"letters": [_datum(x) for x in letters]}, text)


@app.command()
def replay(
    numbers: Annotated[
        list[str] | None, typer.Argument(metavar="[LETTER]...", help="As listed: PARTITION:OFFSET.")
    ] = None,
    reason: Only = None,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """Give letters another chance: those named, or all of one reason.

    What could not be read or applied is sent again, byte for byte: do it after
    the upgrade. Work given up on is scheduled for now, under its task's id; a
    task that is scheduled anew since is left alone. A letter stays in the list,
    and replaying it twice changes nothing.

    \b
    Examples:
      tickstream dead-letter replay 0:17
      tickstream dead-letter replay --reason undecodable
    """
    from tickstream.ops.dead_letter import DeadLetters, letter_number

    if bool(numbers) == (reason is not None):
        raise InvalidInput("name the letters to be replayed, or a --reason, not both")
    dead_letters = DeadLetters(settings_from(bootstrap, prefix))
    wanted = {letter_number(text) for text in numbers or ()}
    letters = [
        x for x in dead_letters.read() if (x.partition, x.offset) in wanted or x.reason.value == reason
    ]
    missing = wanted - {(x.partition, x.offset) for x in letters}
    if missing:
        gone = ", ".join(f"{partition}:{offset}" for partition, offset in sorted(missing))
        raise InvalidInput(f"there is no letter {gone}; letters are kept for 30 days")
    sent = dead_letters.replay(letters, SystemClock().wall_ms())
    lines = [
        f"{x.number} sent to {r.topic}, bucket {r.partition}" for x, r in zip(letters, sent, strict=True)
    ]
    value = {"replayed": [x.number for x in letters]}
    Output(json).result(value, "\n".join(lines) or "no letters")


def _line(letter: Letter) -> str:
    task = letter.task_id or f"bucket {letter.bucket}"
    return f"{letter.number:<8} {iso_utc(letter.at_ms)}  {letter.reason.value:<12} {task}: {letter.detail}"


def _datum(letter: Letter) -> dict[str, object]:
    return {
        "letter": letter.number,
        "at_ms": letter.at_ms,
        "reason": letter.reason.value,
        "task_id": letter.task_id,
        "source": letter.source,
        "bucket": letter.bucket,
        "queue": letter.queue,
        "bytes": letter.size,
        "whole": letter.size == len(letter.value),
        "detail": letter.detail,
    }
