"""Brings what runs under an owner in line with what is declared: look, decide, send, hear the verdicts.

Thin: what is declared is read in document.py and entries.py, what differs is decided in diff.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from tickstream.errors import InvalidInput, TickstreamError, UnknownQueue
from tickstream.ingest.client import Client
from tickstream.model import Verdict
from tickstream.ops.schedules.diff import Fate, Line, OwnedOrDeclared, difference
from tickstream.ops.schedules.document import SUFFIXES, read_document
from tickstream.ops.schedules.entries import read_entries
from tickstream.worker.declared import Declaration
from tickstream.worker.loader import load_app

SHOWN: Final = 20
"""Mistakes that are named one by one."""
MAX_OWNER_BYTES: Final = 100


class InvalidSchedules(InvalidInput):
    """What is declared cannot be applied, so nothing of it was."""

    def __init__(self, source: str, wrong: Sequence[InvalidInput]) -> None:
        shown = [str(error) for error in islice(wrong, SHOWN)]
        more = [f"… and {len(wrong) - len(shown)} more"] if len(wrong) > len(shown) else []
        count = "1 mistake" if len(wrong) == 1 else f"{len(wrong)} mistakes"
        super().__init__("\n  ".join([f"{source}: {count}, nothing was applied", *shown, *more]))


class HeldByOthers(TickstreamError):
    """Ids that are declared belong to others, so nothing was applied."""

    def __init__(self, held: Sequence[Line]) -> None:
        shown = [f"{line.place}: task {line.task_id!r}: {line.detail}" for line in held[:SHOWN]]
        more = [f"… and {len(held) - len(shown)} more"] if len(held) > len(shown) else []
        ids = "1 id belongs" if len(held) == 1 else f"{len(held)} ids belong"
        super().__init__("\n  ".join([f"{ids} to others, nothing was applied", *shown, *more]))


class Applied(NamedTuple):
    """What became of a line."""

    line: Line
    answer: Verdict | TickstreamError


def check_owner(owner: str) -> str:
    """Return `owner` when it can be one. Raises InvalidInput."""
    if owner and owner.isprintable() and owner.strip() == owner and len(owner.encode()) <= MAX_OWNER_BYTES:
        return owner
    raise InvalidInput(
        f"owner {owner!r}: 1-{MAX_OWNER_BYTES} bytes of printable text; it names who applies, as billing or team-a"
    )


def declared_by(source: str) -> tuple[Declaration, ...]:
    """What a file, or the App that `module:app` names, declares. Raises InvalidInput and its kinds."""
    path = Path(source)
    if path.suffix not in SUFFIXES:
        if path.exists():
            raise InvalidInput(f"{source}: a schedule file ends in {', '.join(SUFFIXES)}")
        return tuple(load_app(source).declarations.values())
    document = read_document(path)
    declared, wrong = read_entries(document, load_app(document.app) if document.app else None)
    if wrong:
        raise InvalidSchedules(source, wrong)
    return tuple(declared)


def look(
    client: Client, declared: Sequence[Declaration], owner: str, source: str, now_ms: int
) -> tuple[Line, ...]:
    """How what runs under this owner differs from what is declared; nothing is sent.

    `now_ms` (UTC): by it a declaration has nothing to come. Raises InvalidInput, BrokerUnavailable,
    LayoutMismatch, NotApplied.
    """
    _check_queues(client, declared, source)
    wanted = OwnedOrDeclared(owner, (one.item.task_id for one in declared))
    standing = client.changelog.tasks(wanted, range(client.layout.buckets))
    return difference(declared, standing, owner, now_ms)


def to_send(lines: Sequence[Line], *, prune: bool) -> list[Line]:
    """The lines that are acted on. Raises HeldByOthers."""
    held = [line for line in lines if line.fate is Fate.HELD]
    if held:
        raise HeldByOthers(held)
    wanted = (Fate.ADDED, Fate.CHANGED, *((Fate.UNDECLARED,) if prune else ()))
    return [line for line in lines if line.fate in wanted]


def send(client: Client, lines: Sequence[Line], timeout: timedelta) -> Iterator[Applied]:
    """Bring these lines' tasks in line; what became of each, in their order.

    Raises BrokerUnavailable, LayoutMismatch; SendFailed as a window cannot be sent: what was reported
    until then is done, and applying once more does the rest.
    """
    commands = [line.command for line in lines if line.command is not None]
    answers = client.together.send(commands, timeout)
    for line, answer in zip(lines, answers, strict=True):
        yield Applied(line, answer)


def _check_queues(client: Client, declared: Sequence[Declaration], source: str) -> None:
    wrong: list[InvalidInput] = []
    for one in declared:
        item = one.item
        queue = item.queue or (item.call.queue if item.call else None)
        if queue is not None:
            try:
                client.layout.check_queue(queue)
            except UnknownQueue as error:
                wrong.append(InvalidInput(f"{one.place}: task {item.task_id!r}: {error}"))
    if wrong:
        raise InvalidSchedules(source, wrong)
