"""Deliberate faults of the protocol, one line each, and the promise that each breaks.

A mutant is a patch of the real code while histories run. It is caught when the auditor names the
promise that stands here beforehand; a crash does not count. `make sim-mutants` prints the table.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from tickstream.dispatcher import bucket, engine, lane, runs, takeover
from tickstream.dispatcher.decision import Decision, Ended, Task
from tickstream.dispatcher.freshness import Freshness
from tickstream.dispatcher.lane import Lane, OwnedBucket
from tickstream.dispatcher.leases import LeaseBook
from tickstream.dispatcher.ports import Input, Side
from tickstream.dispatcher.records import EncodedOutcome
from tickstream.dispatcher.takeover import TakeOver
from tickstream.model import NEVER, Outcome, Report, VerdictKind
from tickstream.projection.steps import BucketBuffer
from tickstream.testing.sim.lane_ports import SimTransactions
from tickstream.testing.sim.store import MemoryStore
from tickstream.testing.sim.transactions import Broker, Credentials
from tickstream.worker.ledger import OffsetLedger
from tickstream.worker.outbox import Outbox

Patch = Callable[[], AbstractContextManager[object]]
MS_EARLY: Final = 400


class Mutant(NamedTuple):
    """One fault."""

    name: str
    promise: str
    """The one that the auditor has to name."""
    apply: Patch


MUTANTS: Final[list[Mutant]] = []


def mutant(promise: str, name: str) -> Callable[[Patch], Patch]:
    """Register a fault."""

    def register(apply: Patch) -> Patch:
        MUTANTS.append(Mutant(name, promise, apply))
        return apply

    return register


def _instead(owner: Any, name: str, new: object) -> AbstractContextManager[object]:
    return patch.object(owner, name, new)


# --------------------------------------------------------------------------- take-over


def _unfenced(side: Side) -> AbstractContextManager[object]:
    """`init` on that side gets the epoch there is, aborts nothing and fences nobody."""
    real = SimTransactions.init

    def init(self: SimTransactions, which: Side) -> None:
        broker: Broker = self._site.broker
        own = broker._ids.get(self._ids[which])
        if which is side and own is not None:
            self._held[which] = Credentials(self._ids[which], own.pid, own.epoch)
        else:
            real(self, which)

    return _instead(SimTransactions, "init", init)


@mutant("G2", "init on a fences nobody")
def _a_unfenced() -> AbstractContextManager[object]:
    return _unfenced(Side.A)


@mutant("G2", "init on b fences nobody")
def _b_unfenced() -> AbstractContextManager[object]:
    return _unfenced(Side.B)


@mutant("G2", "b is initialised after the restore, when first used")
def _b_late() -> AbstractContextManager[object]:
    real_init, real_begin = SimTransactions.init, SimTransactions.begin

    def init(self: SimTransactions, side: Side) -> None:
        if side is Side.A:
            real_init(self, side)

    def begin(self: SimTransactions, side: Side) -> None:
        if side not in self._held:
            real_init(self, side)
        real_begin(self, side)

    stack = ExitStack()
    stack.enter_context(_instead(SimTransactions, "init", init))
    stack.enter_context(_instead(SimTransactions, "begin", begin))
    return stack


@mutant("G2", "mixed order of the inits, and the ids used as they come")
def _mixed() -> AbstractContextManager[object]:
    real, dice = SimTransactions.init, random.Random(0)

    def init(self: SimTransactions, side: Side) -> None:
        odd = self._site.process.name.endswith("1")
        real(self, side.other if odd else side)

    def other(self: Side) -> Side:
        return dice.choice((Side.A, Side.B))

    stack = ExitStack()
    stack.enter_context(_instead(SimTransactions, "init", init))
    stack.enter_context(_instead(lane.Lane, "_reply", _then_any_side(other)))
    return stack


def _then_any_side(other: Callable[[Side], Side]) -> Callable[..., None]:
    real = Lane._reply

    def reply(self: Lane, outcomes: list[Any]) -> None:
        real(self, outcomes)
        # The lane takes the other side of this one next.
        self.side = other(self.side)

    return reply


def _ends_at(point: str) -> AbstractContextManager[object]:
    """The end of the changelog is what it was when the take-over passed `point`, not the Claim."""
    real_steps, real_claim = TakeOver.steps, TakeOver._claim
    ends: dict[int, dict[int, int]] = {}

    def steps(self: TakeOver) -> Generator[str, None, dict[int, OwnedBucket]]:
        inner = real_steps(self)
        try:
            while True:
                passed = next(inner)
                if passed == point:
                    site = self.ports.inputs._site  # type: ignore[attr-defined]
                    partitions = site.broker.partitions
                    ends[id(self)] = {
                        b: partitions[self.names.timers, b].stable - 1 for b in self.lane_buckets
                    }
                yield passed
        except StopIteration as done:
            value: dict[int, OwnedBucket] = done.value
            return value

    def claim(self: TakeOver) -> Generator[str, None, dict[int, int]]:
        yield from real_claim(self)
        return ends.pop(id(self))

    stack = ExitStack()
    stack.enter_context(_instead(TakeOver, "steps", steps))
    stack.enter_context(_instead(TakeOver, "_claim", claim))
    return stack


@mutant("G4", "restored to the end as it was before the inits")
def _end_before() -> AbstractContextManager[object]:
    return _ends_at("takeover.connected")


@mutant("G4", "restored to the end as it was between the inits")
def _end_between() -> AbstractContextManager[object]:
    return _ends_at("takeover.a_initialised")


@mutant("G4", "the store as it lies there is taken for the whole changelog")
def _no_restore() -> AbstractContextManager[object]:
    real = TakeOver._open

    def opened(self: TakeOver, claims: dict[int, int], facts: Any) -> Any:
        restoring = real(self, claims, facts)
        for stretch in restoring.values():
            if stretch.read_to != NEVER:
                stretch.claim_offset = 0
        return restoring

    def restore(self: TakeOver, restoring: Any, facts: Any) -> Iterator[str]:
        fresh = {b: s for b, s in restoring.items() if s.read_to == NEVER}
        if fresh:
            yield from real_restore(self, fresh, facts)
        yield "takeover.restoring"

    real_restore = TakeOver._restore
    stack = ExitStack()
    stack.enter_context(_instead(TakeOver, "_open", opened))
    stack.enter_context(_instead(TakeOver, "_restore", restore))
    return stack


def _inputs_from(place: str) -> AbstractContextManager[object]:
    real = TakeOver._progress

    def progress(self: TakeOver, number: int, stretch: Any, facts: Any) -> Any:
        found = real(self, number, stretch, facts)
        site = self.ports.inputs._site  # type: ignore[attr-defined]
        partition = site.broker.partitions[self.names.commands, number]
        offset = partition.start if place == "start" else partition.end
        return found._replace(commands=found.commands._replace(offset=offset, item=0))

    return _instead(TakeOver, "_progress", progress)


@mutant("G2", "commands are read from the earliest offset after a take-over")
def _earliest() -> AbstractContextManager[object]:
    return _inputs_from("start")


@mutant("G1", "commands are read from the latest offset after a take-over")
def _latest() -> AbstractContextManager[object]:
    return _inputs_from("end")


@mutant("G5", "no leases after a take-over")
def _no_leases() -> AbstractContextManager[object]:
    return _instead(TakeOver, "_lease_again", lambda self, number: None)


# --------------------------------------------------------------------------- one transaction


@mutant("G1", "the store is written before the commit")
def _store_first() -> AbstractContextManager[object]:
    real = Lane._decided

    def decided(self: Lane, batch: Any) -> Any:
        outcomes, encoded = real(self, batch)
        at = {o.bucket: self.owned[o.bucket].next_offset - 1 for o in outcomes}
        self._apply(outcomes, encoded, at)
        return outcomes, encoded

    return _instead(Lane, "_decided", decided)


def _without(keep: Callable[[Any, str], bool]) -> AbstractContextManager[object]:
    """Leave records out of every transaction."""
    real = Lane._commit

    def commit(self: Lane, encoded: list[EncodedOutcome]) -> Any:
        left = [e._replace(records=[r for r in e.records if keep(r, self.names.timers)]) for e in encoded]
        return real(self, left)

    return _instead(Lane, "_commit", commit)


@mutant("G1", "Progress does not say how far commands are applied")
def _no_progress() -> AbstractContextManager[object]:
    real = bucket.BucketTurn.outcome

    def outcome(self: Any) -> Any:
        found = real(self)
        start = found.progress.commands._replace(offset=0, item=0)
        return found._replace(progress=found.progress._replace(commands=start))

    return _instead(bucket.BucketTurn, "outcome", outcome)


@mutant("G4", "work is left out of a transaction when it is large")
def _no_work() -> AbstractContextManager[object]:
    def keep(record: Any, _timers: str) -> bool:
        return ".work." not in record.topic or record.partition != 1

    return _without(keep)


@mutant("G7", "history is left out now and then")
def _no_history() -> AbstractContextManager[object]:
    return _without(
        lambda record, _timers: not (record.topic.endswith("history") and len(record.key or b"") == 3)
    )


@mutant("G2", "verdicts are sent before the commit")
def _verdict_first() -> AbstractContextManager[object]:
    replies = Lane._reply

    def decided(self: Lane, batch: Any) -> Any:
        outcomes, encoded = real_decided(self, batch)
        replies(self, outcomes)
        return outcomes, encoded

    real_decided = Lane._decided
    stack = ExitStack()
    stack.enter_context(_instead(Lane, "_decided", decided))
    stack.enter_context(_instead(Lane, "_reply", lambda self, outcomes: None))
    return stack


@mutant("G3", "what is due soon is dispatched now")
def _too_soon() -> AbstractContextManager[object]:
    real_due, real_apply = MemoryStore.due, engine.apply_due

    def due(self: MemoryStore, number: int, until_ms: int, limit: int, *, since_ms: int = 0) -> Any:
        return real_due(self, number, until_ms + MS_EARLY, limit, since_ms=since_ms)

    def apply_due(task: Task, entry: Any, now_ms: int, applied: int, rules: Any) -> Decision:
        decision = real_apply(task, entry, now_ms + MS_EARLY, applied, rules)
        if decision.dispatch is None:
            return decision
        run = decision.dispatch.run._replace(decided_ms=now_ms)
        return decision._replace(dispatch=decision.dispatch._replace(run=run))

    stack = ExitStack()
    stack.enter_context(_instead(MemoryStore, "due", due))
    stack.enter_context(_instead(bucket, "apply_due", apply_due))
    return stack


# --------------------------------------------------------------------------- freshness and leases


@mutant("G7", "T is the time of day")
def _t_is_now() -> AbstractContextManager[object]:
    return _instead(Freshness, "applied_before_ms", lambda self, number: self._clock.wall_ms())


@mutant("G7", "an idle lane writes no Progress")
def _silent() -> AbstractContextManager[object]:
    real = Freshness.drive

    def drive(self: Freshness, *arguments: Any) -> bool:
        real(self, *arguments)
        return False

    return _instead(Freshness, "drive", drive)


@mutant("G5", "a lease expires without a probe")
def _no_probe() -> AbstractContextManager[object]:
    real = Lane._take

    def take(self: Lane) -> Any:
        now = self.clock.monotonic()
        self._freshness.licensed = dict.fromkeys(self.owned, now)
        return real(self)

    return _instead(Lane, "_take", take)


@mutant("G5", "heartbeats renew nothing")
def _no_renewal() -> AbstractContextManager[object]:
    return _instead(LeaseBook, "renew", lambda self, number, report, now: None)


# --------------------------------------------------------------------------- decisions


@mutant("G6", "a command sent again is a new command")
def _no_dedupe() -> AbstractContextManager[object]:
    return _instead(engine, "_remembered", lambda task, command_id: None)


@mutant("G6", "a new definition forgets the commands before it")
def _forgetful() -> AbstractContextManager[object]:
    return _instead(engine, "recent_of", lambda task: ())


@mutant("G2", "a Cancel of what is due already is answered and ignored")
def _ignored_cancel() -> AbstractContextManager[object]:
    real = engine._cancel

    def cancel(task: Task, command: Any, now_ms: int, rules: Any) -> Decision:
        decision = real(task, command, now_ms, rules)
        due = task.state is not None and NEVER < task.state.next_occurrence_ts <= now_ms + 300
        return decision._replace(task=task, ended=None) if due else decision

    return _instead(engine, "_cancel", cancel)


@mutant("G2", "a Cancel of what is in flight is answered `cancelled`")
def _late_cancel() -> AbstractContextManager[object]:
    real = engine._cancel_in_flight

    def cancel(*arguments: Any) -> Decision:
        decision = real(*arguments)
        assert decision.answer is not None
        return decision._replace(answer=decision.answer._replace(kind=VerdictKind.CANCELLED))

    return _instead(engine, "_cancel_in_flight", cancel)


@mutant("G4", "an instant that ran is taken again")
def _runs_again() -> AbstractContextManager[object]:
    real = engine._schedule

    def schedule(task: Task, sent: Any, rules: Any) -> Decision:
        if task.state is not None and not task.state.runs:
            task = Task(task.spec, task.state._replace(last_occurrence_ts=NEVER))
        return real(task, sent, rules)

    return _instead(engine, "_schedule", schedule)


@mutant("G1", "what is late by a second is dropped without a word")
def _dropped() -> AbstractContextManager[object]:
    real = engine._fire

    def fire(task: Task, spec: Any, state: Any, now_ms: int, rules: Any) -> Decision:
        decision = real(task, spec, state, now_ms, rules)
        late = now_ms - state.next_occurrence_ts > 1_000
        if not late:
            return decision
        return Decision(Task(task.spec, state._replace(next_occurrence_ts=NEVER)))

    return _instead(engine, "_fire", fire)


@mutant("G5", "a failure counts from a run that another displaced")
def _any_failure() -> AbstractContextManager[object]:
    real = runs.apply_report

    def apply(task: Task, report: Report, *rest: Any) -> Decision:
        if task.state is not None:
            mine = tuple(
                r._replace(holder=report.run_id) if r.holder and r.attempt == report.attempt else r
                for r in task.state.runs
            )
            if mine != task.state.runs and report.kind.value in ("FAILED", "RELEASED"):
                task = Task(task.spec, task.state._replace(runs=mine))
        return real(task, report, *rest)

    return _instead(bucket, "apply_report", apply)


@mutant("G5", "a success counts although the next attempt is out")
def _any_success() -> AbstractContextManager[object]:
    return _instead(runs, "_may_succeed", lambda run, report: True)


@mutant("G5", "an end is recorded, and the run kept")
def _kept() -> AbstractContextManager[object]:
    real = runs._succeeded

    def succeeded(task: Task, *rest: Any) -> Decision:
        return real(task, *rest)._replace(task=task)

    return _instead(runs, "_succeeded", succeeded)


@mutant("G4", "the next attempt has the number of the last")
def _same_attempt() -> AbstractContextManager[object]:
    real = runs._lost

    def lost(*arguments: Any, **named: Any) -> Decision:
        decision = real(*arguments, **named)
        if decision.task.state is None:
            return decision
        again = tuple(
            r._replace(attempt=max(1, r.attempt - 1)) if r.retry_at_ms != NEVER else r
            for r in decision.task.state.runs
        )
        return decision._replace(task=Task(decision.task.spec, decision.task.state._replace(runs=again)))

    return _instead(runs, "_lost", lost)


@mutant("G5", "a second end is recorded for what was given up")
def _second_end() -> AbstractContextManager[object]:
    real = runs.apply_report

    def apply(task: Task, report: Report, worker: str, now_ms: int, rules: Any) -> Decision:
        decision = real(task, report, worker, now_ms, rules)
        state = task.state
        ended = state is not None and state.outcome is Outcome.DEAD and report.kind.value == "SUCCEEDED"
        if decision.ended is None and ended and state is not None:
            end = Ended(
                report.occurrence_ts, report.attempt, state.rev, Outcome.SUCCEEDED, "", NEVER, report, worker, "", b""
            )  # fmt: skip
            return decision._replace(ended=end)
        return decision

    return _instead(bucket, "apply_report", apply)


# --------------------------------------------------------------------------- worker and projection


@mutant("G5", "a worker commits what it has only read")
def _commit_at_once() -> AbstractContextManager[object]:
    real = OffsetLedger.take

    def take(self: OffsetLedger, partition: int, offset: int) -> None:
        real(self, partition, offset)
        self.done(partition, offset)

    return _instead(OffsetLedger, "take", take)


@mutant("G5", "a report that was not acknowledged is not sent again")
def _not_again() -> AbstractContextManager[object]:
    real = Outbox.refused

    def refused(self: Outbox, batch: Any, now: float) -> None:
        real(self, batch, now)
        self._refused.clear()
        for run, report in batch.entries:
            run.owner.acked(run, report.kind)

    return _instead(Outbox, "refused", refused)


@mutant("G7", "a step of the projection does not wait for its outcomes")
def _half_steps() -> AbstractContextManager[object]:
    def last_whole(self: Any) -> Any:
        mark = None
        while self._marks:
            mark = self._marks.popleft()
        return mark

    return _instead(BucketBuffer, "_last_whole", last_whole)


@mutant("G7", "a projection's position is what it has read, not what it has folded")
def _read_not_folded() -> AbstractContextManager[object]:
    real = BucketBuffer._whole

    def whole(self: Any, mark: Any) -> Any:
        step = real(self, mark)
        if self._records:
            self.position = step.position._replace(timers=self._records[-1].offset + 1)
            return step._replace(position=self.position)
        return step

    return _instead(BucketBuffer, "_whole", whole)


@contextmanager
def applied(fault: Mutant) -> Iterator[None]:
    """The code with this fault in it."""
    with fault.apply():
        yield


__all__ = ["MUTANTS", "Input", "Mapping", "Mutant", "applied", "takeover"]
