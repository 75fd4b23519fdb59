"""What single records say, cut down to what the promises are about; each with the place it was read from.

Only values and their bytes for the scratch file: what they mean together is history.py's. Only model
may enter here.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tickstream.model import Outcome, Receipt, Rev, Verb, VerdictKind

Partition = tuple[str, int]
"""A topic's name and a partition of it."""


class Acked(NamedTuple):
    """A command that the broker acknowledged to a client who kept a journal."""

    task_id: str
    run_at_ms: int
    """NEVER for a Cancel."""
    receipt: Receipt
    verdict: VerdictKind | None
    """The answer, where the client waited for it."""


class Rule(NamedTuple):
    """When a task recurs; the fields are those of model.Recurrence."""

    kind: str
    text: str
    """CRON: the expression; RRULE: its value."""
    zone: str
    start: str
    start_ms: int
    end_ms: int
    interval_ms: int
    rdate: tuple[str, ...]
    exdate: tuple[str, ...]


class Asked(NamedTuple):
    """A command as it lies in its bucket's log."""

    rev: Rev
    verb: Verb
    when: int
    """run_at of a Schedule that does not recur, else NEVER."""
    accepted_ms: int
    """Time at which the broker appended it."""
    queue: str
    command_id: bytes
    rejects: bool
    """It leaves a task alone that exists."""
    allow_past: bool
    not_after: int
    recurs: bool
    lead_ms: int
    """Its work may be decided so much before `when`."""
    event: bool
    """The task is a calendar's event: an occurrence may be moved, and is due where its work says."""
    rule: Rule | None
    """Of a Schedule that recurs."""


class Misplaced(NamedTuple):
    """A command of the task that lies in a bucket which is not the task's."""

    rev: Rev
    bucket: int


class SetAside(NamedTuple):
    """A command on which the dispatcher itself failed, and which lies in `dead-letter` for a person."""

    command_id: bytes
    partition: int
    offset: int


class Dispatched(NamedTuple):
    """A committed Work record."""

    rev: Rev
    occurrence_ts: int
    attempt: int
    decided_ms: int
    work_number: int
    topic: str
    partition: int
    offset: int
    not_before_ms: int
    """Sent ahead of that, NEVER: at its instant."""


class Ran(NamedTuple):
    """A run that a worker says it started, by a claim or an outcome, and that report's offset in its bucket."""

    occurrence_ts: int
    attempt: int
    run_id: bytes
    started_ms: int
    """NEVER where the report does not say."""
    succeeded: bool
    offset: int


class Ended(NamedTuple):
    """A History record, of an occurrence or of one attempt, and its offset in its bucket."""

    rev: Rev
    occurrence_ts: int
    attempt: int
    outcome: Outcome
    number: int
    reason: str
    """Of a skip."""
    through_ts: int
    """Of a skip of several occurrences: the last of them, NEVER: it is one alone."""
    offset: int


class Retry(NamedTuple):
    """A next attempt that a TaskState says is to come."""

    occurrence_ts: int
    attempt: int
    at_ms: int


class Stood(NamedTuple):
    """A TaskState, or its tombstone: what the task waits for, and the answers that it remembers."""

    waiting_for: int
    """next_occurrence_ts, NEVER: nothing."""
    due_ms: int
    """When that is to be dispatched."""
    parked: str
    """Why it is not, due or not: paused, held at a gate, faulted (and an alarm was raised); empty: it will be."""
    retries: tuple[Retry, ...]
    answers: tuple[tuple[bytes, VerdictKind], ...]
    """command_id and answer, as far as it is not plain acceptance."""
    offset: int


Fact = Acked | Asked | Misplaced | SetAside | Dispatched | Ran | Ended | Stood
"""Of one task."""


class Advanced(NamedTuple):
    """A Progress record of a bucket."""

    at_ms: int
    """CreateTime: just before its commit."""
    commands: Rev
    """The next command to be applied."""
    reports: Rev
    work_number: int
    history_number: int


class Claimed(NamedTuple):
    """A Claim of a bucket's lane."""

    at_ms: int


# --------------------------------------------------------------------------- bytes

# Numbers, texts and plain tuples only: marshal writes them in a fraction of pickle's time and space, and
# the file is read by the process that wrote it.

_VERBS: Final = {v.value: v for v in Verb}
_VERDICTS: Final = {v.value: v for v in VerdictKind}
_OUTCOMES: Final = {o.value: o for o in Outcome}
_Values = tuple[Any, ...]


def _acked(v: _Values) -> Fact:
    return Acked(v[0], v[1], Receipt(*v[2]), None if v[3] is None else _VERDICTS[v[3]])


def _asked(v: _Values) -> Fact:
    values = (Rev(*v[0]), _VERBS[v[1]], *v[2:-1], None if v[-1] is None else Rule(*v[-1]))
    return Asked(*values)


def _stood(v: _Values) -> Fact:
    retries = tuple(Retry(*r) for r in v[3])
    return Stood(v[0], v[1], v[2], retries, tuple((command_id, _VERDICTS[k]) for command_id, k in v[4]), v[5])


_READ: Final[tuple[Callable[[_Values], Fact], ...]] = (
    _acked,
    _asked,
    lambda v: Misplaced(Rev(*v[0]), *v[1:]),
    lambda v: SetAside(*v),
    lambda v: Dispatched(Rev(*v[0]), *v[1:]),
    lambda v: Ran(*v),
    lambda v: Ended(Rev(*v[0]), v[1], v[2], _OUTCOMES[v[3]], *v[4:]),
    _stood,
)
_KIND: Final = {
    kind: number
    for number, kind in enumerate((Acked, Asked, Misplaced, SetAside, Dispatched, Ran, Ended, Stood))
}


def pack(fact: Fact) -> bytes:
    """The fact as bytes."""
    match fact:
        case Acked(task_id, run_at_ms, receipt, verdict):
            values: _Values = (task_id, run_at_ms, tuple(receipt), verdict and verdict.value)
        case Stood(retries=retries, answers=answers):
            answered = tuple((command_id, kind.value) for command_id, kind in answers)
            values = (*fact[:3], tuple(map(tuple, retries)), answered, fact.offset)
        case Asked(rev, verb, rule=rule):
            values = (tuple(rev), verb.value, *fact[2:-1], rule and tuple(rule))
        case Ended(rev, occurrence_ts, attempt, outcome):
            values = (tuple(rev), occurrence_ts, attempt, outcome.value, *fact[4:])
        case Misplaced(rev) | Dispatched(rev):
            values = (tuple(rev), *fact[1:])
        case _:
            values = tuple(fact)
    return marshal.dumps((_KIND[type(fact)], values))


def unpack(data: bytes) -> Fact:
    """What `pack` wrote."""
    number, values = marshal.loads(data)
    read: Callable[[_Values], Fact] = _READ[number]
    return read(values)


def pack_mark(mark: Advanced | Claimed) -> bytes:
    """A Progress or a Claim as bytes."""
    if isinstance(mark, Claimed):
        return marshal.dumps(tuple(mark))
    return marshal.dumps((mark.at_ms, tuple(mark.commands), tuple(mark.reports), *mark[3:]))


def unpack_mark(data: bytes) -> Advanced | Claimed:
    """What `pack_mark` wrote."""
    values = marshal.loads(data)
    if len(values) == 1:
        return Claimed(*values)
    return Advanced(values[0], Rev(*values[1]), Rev(*values[2]), *values[3:])
