"""Pauses, limits and keys: who was dispatched although something held it. Constraints over transactions.

A command that was applied in an earlier transaction holds in this one; where one is applied in this very
transaction, either order is right and nothing is claimed. Nothing of tickstream.dispatcher may enter here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.sim.evidence import Evidence, Out
from tests.sim.turns import Occurrence, Turn, definition, triggered
from tickstream.model import NO_LIMIT, QueueLimits, Receipt, Verb, VerdictKind

_LAX = 1.0
"""Dispatches that rounding may add to a limit over time."""


@dataclass(slots=True)
class _Set:
    """What is set for the one queue, in one bucket."""

    paused: set[str] = field(default_factory=set)
    limits: QueueLimits = field(default_factory=QueueLimits)
    known: set[bytes] = field(default_factory=set)
    tasks: set[str] = field(default_factory=set)
    """Paused ones."""


def broken(
    evidence: Evidence, by_bucket: list[list[Turn]], *, trusted_clocks: bool
) -> Iterator[tuple[str, str, str]]:
    """(promise, what, task_id)."""
    paused = {v.receipt for v in evidence.verdicts if v.kind is VerdictKind.PAUSED}
    for bucket in by_bucket:
        yield from _bucket(bucket, evidence, paused, trusted_clocks=trusted_clocks)


def _bucket(
    bucket: list[Turn], evidence: Evidence, paused: set[Receipt], *, trusted_clocks: bool
) -> Iterator[tuple[str, str, str]]:
    stands = _Set()
    limited: set[Occurrence] = set()
    """In flight, and dispatched while running ones were limited."""
    keyed: dict[Occurrence, str] = {}
    started: list[int] = []
    """decided_ms under the present limit of starts."""
    for turn in bucket:
        ended = {(e.history.task_id, e.history.occurrence_ts) for e in turn.ends}
        moved = any(sent.command.verb.of_queue for sent in turn.applied)
        limit = stands.limits.max_running
        asked = {id(out): definition(evidence, turn.bucket, out.work.rev) for out in turn.first}
        held = [out for out in turn.first if not triggered(out, asked[id(out)])]
        touched = {sent.command.task_id for sent in turn.applied}
        for out in held:
            if stands.paused and not moved:
                yield "G2", f"{_name(out)} was dispatched while its queue was paused", out.work.task_id
            if out.work.task_id in stands.tasks - touched:
                yield "G2", f"{_name(out)} was dispatched while it was paused", out.work.task_id
        if held and not moved and limit != NO_LIMIT and len(limited - ended) + len(held) > limit:
            yield (
                "G2",
                f"{_name(held[-1])} was dispatched beyond the limit of {limit} at once",
                held[-1].work.task_id,
            )
        for out in turn.first:
            command = asked[id(out)]
            key = "" if command is None else command.options.limit_key
            if key and out in held:
                other = next((o for o, k in keyed.items() if k == key and o not in ended), None)
                if other is not None:
                    yield (
                        "G2",
                        f"{_name(out)} was dispatched while {other} had its limit_key",
                        out.work.task_id,
                    )
            if key:
                keyed[out.work.task_id, out.work.occurrence_ts] = key
            if limit != NO_LIMIT and not moved:
                limited.add((out.work.task_id, out.work.occurrence_ts))
        limited -= ended
        for occurrence in ended:
            keyed.pop(occurrence, None)
        if moved:
            started = []
        elif trusted_clocks and stands.limits.starts != NO_LIMIT:
            started += [out.work.decided_ms for out in held]
            yield from _too_fast(started, stands.limits, turn.bucket)
        _apply(stands, turn, paused)


def _too_fast(started: list[int], limits: QueueLimits, bucket: int) -> Iterator[tuple[str, str, str]]:
    """Within any stretch no more than a full measure, and what comes in meanwhile."""
    for at, begin in enumerate(started):
        most = limits.starts * (1 + (started[-1] - begin) / limits.per_ms) + _LAX
        if len(started) - at > most:
            count, took_ms = len(started) - at, started[-1] - begin
            yield "G2", f"bucket {bucket}: {count} were started within {took_ms} ms, beyond {limits}", ""
            return


def _apply(stands: _Set, turn: Turn, paused: set[Receipt]) -> None:
    for sent in turn.applied:
        command = sent.command
        if command.command_id in stands.known:
            continue  # sent again, it changes nothing, but where the first one met no task: nothing is claimed then
        stands.known.add(command.command_id)
        match command.verb:
            case Verb.PAUSE_QUEUE:
                stands.paused.add(command.queue)
            case Verb.RESUME_QUEUE:
                stands.paused.discard(command.queue)
            case Verb.LIMIT_QUEUE:
                stands.limits = command.options.limits or QueueLimits()
            case Verb.PAUSE:
                if Receipt(turn.bucket, sent.offset, sent.item) in paused:
                    stands.tasks.add(command.task_id)
            case _:
                stands.tasks.discard(command.task_id)


def _name(out: Out) -> str:
    return f"{out.work.task_id} at {out.work.occurrence_ts}"
