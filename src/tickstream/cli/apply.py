"""`tickstream schedule apply`: what is declared, against what runs. Only printing here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tickstream.cli.exit_codes import NO, UNAVAILABLE
from tickstream.cli.options import Bootstrap, Json, Prefix, Wait, settings_from
from tickstream.cli.output import Output
from tickstream.clock import SystemClock, iso_utc

if TYPE_CHECKING:
    from tickstream.ops.schedules.apply import Applied
    from tickstream.ops.schedules.diff import Line

_WIDEST = 80
"""Of a value in the difference; --json has all of it."""
_SIGNS = {
    "added": "+",
    "changed": "~",
    "unchanged": "=",
    "no longer declared": "-",
    "ended": ".",
    "held": "!",
}


def apply(
    source: Annotated[
        str,
        typer.Argument(metavar="FILE|MODULE:APP", help="A .toml or .yaml file, or an App that declares."),
    ],
    owner: Annotated[
        str, typer.Option(metavar="NAME", help="In whose name: other owners' tasks are left alone.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the difference, send nothing.")] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Cancel what this owner has and declares no more.")
    ] = False,
    wait: Wait = 10.0,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    json: Json = False,
) -> None:
    """Bring the recurring tasks of an owner in line with what code or a file declares.

    Shows the difference first: + added, ~ changed, = unchanged, - no longer declared (goes on until
    --prune). Nothing is sent when anything is invalid, or an id is held by others. Exit code 2: something is
    invalid. 1: an id is held by others, or a verdict says no. 3: a broker or a verdict did not answer;
    apply once more.

    \b
    Examples:
      tickstream schedule apply examples/schedules.toml --owner reports --dry-run
      tickstream schedule apply examples.declared:app --owner reports --prune
    """
    from tickstream.ingest.client import Client
    from tickstream.ops.schedules import apply as schedules

    now_ms = SystemClock().wall_ms()
    schedules.check_owner(owner)
    declared = schedules.declared_by(source)
    output = Output(json)
    with Client(settings_from(bootstrap, prefix)) as client:
        lines = schedules.look(client, declared, owner, source, now_ms)
        if lines and not json:
            output.result({}, "\n".join(text for line in lines for text in _difference(line, prune, now_ms)))
        try:
            todo = schedules.to_send(lines, prune=prune)
        except schedules.HeldByOthers:
            if json:
                output.result(_report(owner, dry_run, lines, []), "")
            raise
        done = [] if dry_run else list(schedules.send(client, todo, timedelta(seconds=wait)))
    counts = Counter(line.fate.value for line in lines)
    text = ", ".join(f"{count} {fate}" for fate, count in counts.items()) or "nothing declared, nothing there"
    verdicts = [str(one.answer) for one in done]
    output.result(
        _report(owner, dry_run, lines, done),
        "\n".join([*verdicts, text if done else f"{text}; nothing was sent"]),
    )
    _exit(done)


def _difference(line: Line, prune: bool, now_ms: int) -> list[str]:
    """The line, and a field each that changes."""
    detail = [line.detail] if line.detail else []
    match line.fate.value:
        case "added":
            detail += [_summary(line, now_ms)]
        case "no longer declared":
            detail += [
                "no longer declared, to be cancelled"
                if prune
                else "no longer declared, goes on until --prune"
            ]
    head = f"{_SIGNS[line.fate.value]} {line.task_id}" + (f"  {', '.join(detail)}" if detail else "")
    return [head, *(f"    {c.field}: {_short(c.old)} -> {_short(c.new)}" for c in line.changes)]


def _summary(line: Line, now_ms: int) -> str:
    """What is added, in a few words."""
    from tickstream.ops.schedules.definition import definition_of, fields_of
    from tickstream.ops.schedules.diff import next_of

    assert line.command is not None
    definition = definition_of(line.command)
    assert definition.recurrence is not None
    fields = fields_of(definition)
    rule = next(f"{kind} {fields[kind]}" for kind in ("every", "cron", "rrule") if kind in fields)
    return f"{rule} {fields['zone']}, handler {fields['handler']}, first {iso_utc(next_of(definition.recurrence, now_ms))}"


def _short(text: str) -> str:
    if not text:
        return "(not said)"
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}… ({len(text)} characters)"


def _report(owner: str, dry_run: bool, lines: Sequence[Line], done: list[Applied]) -> dict[str, Any]:
    return {
        "owner": owner,
        "dry_run": dry_run,
        "sent": len(done),
        "counts": dict(Counter(line.fate.value for line in lines)),
        "tasks": [_value(line) for line in lines],
        "verdicts": [_answer(one) for one in done],
    }


def _value(line: Line) -> dict[str, Any]:
    return {
        "task_id": line.task_id,
        "fate": line.fate.value,
        "changes": [change._asdict() for change in line.changes],
        "detail": line.detail,
        "place": line.place,
    }


def _answer(one: Applied) -> dict[str, Any]:
    from tickstream.model import Verdict

    answer = one.answer
    if isinstance(answer, Verdict):
        return {
            "task_id": answer.task_id,
            "verdict": answer.kind.value,
            "receipt": str(answer.receipt),
            "occurrence_ts": answer.occurrence_ts,
            "detail": answer.detail,
        }
    return {"task_id": one.line.task_id, "verdict": None, "error": str(answer)}


def _exit(done: list[Applied]) -> None:
    """By the worst that became of a line."""
    from tickstream.model import Verdict
    from tickstream.ops.schedules.diff import is_done

    if any(not isinstance(one.answer, Verdict) for one in done):
        raise typer.Exit(UNAVAILABLE)
    if any(isinstance(one.answer, Verdict) and not is_done(one.line, one.answer) for one in done):
        raise typer.Exit(NO)
