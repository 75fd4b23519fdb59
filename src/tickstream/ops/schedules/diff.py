"""What is declared, held against what runs: the lines of the difference, and the commands that remove it. Pure.

No broker and no clock may enter here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from tickstream.clock import iso_utc
from tickstream.codec import decode_command, decode_spec, encode_command
from tickstream.ingest.changelog import Standing
from tickstream.ingest.request import Requests, cancel_command
from tickstream.model import NEVER, Command, IfExists, Phase, Recurrence, Verdict, VerdictKind
from tickstream.ops.schedules.definition import (
    Definition,
    command_of,
    definition_of,
    fields_of,
    owner_of,
)
from tickstream.recurrence.stored import admitted, occurrences_of
from tickstream.worker.declared import Declaration

NOTHING: Final = Standing()


class Fate(StrEnum):
    """What a line of the difference says of its task."""

    ADDED = "added"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    UNDECLARED = "no longer declared"
    """It runs under this owner and is declared no more, or has nothing to come: to be cancelled with prune."""
    ENDED = "ended"
    """It is declared, nothing of it is to come, and it does not run: nothing to be done."""
    HELD = "held"
    """Its id belongs to another owner, or to nobody's declaration."""


class Change(NamedTuple):
    """One field, in words; empty: it is not said there."""

    field: str
    old: str
    new: str


class Line(NamedTuple):
    """One task of the difference."""

    task_id: str
    fate: Fate
    changes: tuple[Change, ...] = ()
    """Of CHANGED."""
    detail: str = ""
    place: str = ""
    """Where it is declared; empty: nowhere."""
    command: Command | None = None
    """What brings it in line; of UNDECLARED: with prune."""


class OwnedOrDeclared:
    """Of `Wanted`: the tasks of one owner, and those whose id is declared."""

    def __init__(self, owner: str, declared: Iterable[str]) -> None:
        self._owner = owner
        self._mark = owner.encode()
        self._declared = frozenset(declared)

    def spec(self, task_id: str, value: bytes) -> bool:
        """Most records are passed over without being decoded."""
        return task_id in self._declared or (self._mark in value and self._owns(value))

    def state(self, task_id: str) -> bool:
        """What an id remembers matters only where it is defined."""
        return task_id in self._declared

    def _owns(self, value: bytes) -> bool:
        return owner_of(decode_command(decode_spec(value).command)) == self._owner


def difference(
    declared: Sequence[Declaration], standing: Mapping[str, Standing], owner: str, now_ms: int
) -> tuple[Line, ...]:
    """The lines, in the order of the declarations, then what is declared no more by id.

    `now_ms`: by it a declaration has ended. `standing`: the tasks of OwnedOrDeclared. Raises InvalidInput.
    """
    requests = Requests()
    lines = []
    for one in declared:
        task_id = one.item.task_id
        command = command_of(one, owner, requests)
        lines.append(_line(command, one.place, standing.get(task_id, NOTHING), owner, now_ms))
    ids = {one.item.task_id for one in declared}
    for task_id in sorted(standing.keys() - ids):
        lines.append(_undeclared(task_id, standing[task_id], owner))
    return tuple(lines)


def _line(command: Command, place: str, stands: Standing, owner: str, now_ms: int) -> Line:
    task_id = command.task_id
    recurrence = command.options.recurrence
    assert recurrence is not None
    over = _over(recurrence, now_ms)
    if stands.spec is None:
        if over:
            return Line(task_id, Fate.ENDED, detail=over, place=place)
        return Line(task_id, Fate.ADDED, (), "", place, _named(_guarded(command, stands), owner, stands))
    old = decode_command(stands.spec.command)
    if holder := _other_holder(old, owner):
        return Line(task_id, Fate.HELD, detail=holder, place=place)
    before, after = definition_of(old), definition_of(command)
    detail = _plight(stands)
    if before == after:
        return Line(task_id, Fate.UNCHANGED, detail=detail, place=place)
    if over:
        return _undeclared(task_id, stands, owner)._replace(detail=over, place=place)
    named = _named(_guarded(command, stands), owner, stands)
    return Line(task_id, Fate.CHANGED, changes(before, after), detail, place, named)


def _undeclared(task_id: str, stands: Standing, owner: str) -> Line:
    assert stands.spec is not None
    cancel = cancel_command(bytes(16), task_id)
    cancel = cancel._replace(options=cancel.options._replace(if_rev=stands.spec.rev))
    return Line(task_id, Fate.UNDECLARED, detail=_plight(stands), command=_named(cancel, owner, stands))


def changes(before: Definition, after: Definition) -> tuple[Change, ...]:
    """Field by field, in the order of the new one, then what it says no more."""
    old, new = fields_of(before), fields_of(after)
    return tuple(
        Change(name, old.get(name, ""), new.get(name, ""))
        for name in (*new, *(name for name in old if name not in new))
        if old.get(name) != new.get(name)
    )


def _over(recurrence: Recurrence, now_ms: int) -> str:
    """Why nothing of it is to come; empty: something is."""
    last = admitted(recurrence)
    occurrences = occurrences_of(recurrence, last)
    if occurrences.next_after(now_ms - 1) is not None:
        return ""
    before = occurrences.previous(now_ms)
    ended = "" if before is None else f", the last was at {iso_utc(before.next_occurrence_ts)}"
    return f"nothing of it is to come{ended}: take it out"


def _other_holder(old: Command, owner: str) -> str:
    """Who has the task, if it is not this owner; empty: it is."""
    holder = owner_of(old)
    if holder == owner:
        return ""
    if holder:
        return (
            f"it belongs to owner {holder!r}: give yours another id, or take it out there and prune it first"
        )
    if old.options.event:
        return "it is a calendar's event: give yours another id"
    return (
        "it was scheduled by hand: give yours another id, or cancel that one first "
        f"(tickstream task cancel {old.task_id})"
    )


def _plight(stands: Standing) -> str:
    """What a reader of the difference should know of how it stands."""
    phase = None if stands.state is None else stands.state.phase
    return phase.value if phase in (Phase.PAUSED, Phase.FAULTED) else ""


def _guarded(command: Command, stands: Standing) -> Command:
    """The command, which then changes only what was looked at: somebody else's is refused."""
    state = stands.state
    if state is None or state.outcome is not None:
        options = command.options._replace(if_exists=IfExists.REJECT)
    else:
        options = command.options._replace(if_rev=state.rev)
    return command._replace(options=options)


def _named(command: Command, owner: str, stands: Standing) -> Command:
    """The command with an id that follows from what it says and what it was decided on.

    So an application that is repeated, or that runs twice at once, is one command. What the task remembers
    counts, or a definition that comes back after its end would be taken for its own repeat.
    """
    digest = hashlib.blake2b(b"tickstream schedule apply", digest_size=16)
    for part in (owner.encode(), encode_command(command)):
        digest.update(len(part).to_bytes(8, "big") + part)
    if stands.state is not None:
        for recent in stands.state.recent:
            digest.update(recent.command_id)
    return command._replace(command_id=digest.digest())


_DONE: Final = {
    Fate.ADDED: (VerdictKind.SCHEDULED, VerdictKind.REPLACED),
    Fate.CHANGED: (VerdictKind.SCHEDULED, VerdictKind.REPLACED),
    # Either way it fires no more.
    Fate.UNDECLARED: (VerdictKind.CANCELLED, VerdictKind.TOO_LATE, VerdictKind.UNKNOWN),
}


def is_done(line: Line, verdict: Verdict) -> bool:
    """Whether the verdict says that the task is now as its line wants it."""
    return verdict.kind in _DONE[line.fate]


def next_of(recurrence: Recurrence, now_ms: int) -> int:
    """The first occurrence at or after `now_ms` (ms, UTC), NEVER when there is none."""
    found = occurrences_of(recurrence, admitted(recurrence)).next_after(now_ms - 1)
    return NEVER if found is None else found.next_occurrence_ts
