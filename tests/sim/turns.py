"""The log of a bucket as the transactions that it is made of: what each applied, dispatched and ended.

Told from Progress, which stands in every transaction. Only the evidence and the model may enter here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from tests.sim.evidence import FATES, End, Evidence, Out, Sent
from tests.sim.rules import instants
from tickstream.model import Command, Rev

Occurrence = tuple[str, int]
"""(task_id, occurrence_ts)"""


class Turn(NamedTuple):
    """One transaction of one bucket."""

    bucket: int
    applied: list[Sent]
    """Commands, in order."""
    first: list[Out]
    """Work of first attempts."""
    ends: list[End]
    """Of occurrences that had work."""


def turns(evidence: Evidence) -> Iterator[list[Turn]]:
    """Of every bucket, its transactions in order."""
    works: dict[tuple[int, int], list[Out]] = defaultdict(list)
    for out in evidence.works:
        if out.work.attempt == 1:
            works[out.work.bucket, id(out.record.txn)].append(out)
    ends: dict[tuple[int, int], list[End]] = defaultdict(list)
    for end in evidence.ends:
        if end.history.outcome in FATES and end.history.attempt > 0:
            ends[end.bucket, id(end.record.txn)].append(end)
    for bucket, marks in evidence.marks.items():
        commands, at = evidence.commands[bucket], 0
        found = []
        for mark in marks:
            reached = mark.progress.commands
            first = at
            while at < len(commands) and (commands[at].offset, commands[at].item) < (
                reached.offset,
                reached.item,
            ):
                at += 1
            place = (bucket, id(mark.record.txn))
            found.append(Turn(bucket, commands[first:at], works[place], ends[place]))
        yield found


def definition(evidence: Evidence, bucket: int, rev: Rev) -> Command | None:
    """What stands in the changelog under that rev: of a task that was moved, what it was asked to do at first.

    Or in `commands`, of one that was replaced before it was written.
    """
    stood = evidence.definitions.get((bucket, rev))
    return stood or next((s.command for s in evidence.commands[bucket] if (s.offset, s.item) == rev), None)


def triggered(out: Out, asked: Command | None) -> bool:
    """Whether the occurrence is none that its definition names: somebody asked for it by hand."""
    if asked is None:
        return True
    recurrence = asked.options.recurrence
    named = (asked.when,) if recurrence is None else instants(recurrence)
    return out.work.occurrence_ts not in named
