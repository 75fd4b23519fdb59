"""Faults of decisions, workers and the projection (mutation.py)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from tests.sim.mutation import instead, mutant
from tickstream.dispatcher import bucket, cancelling, defining, engine, runs
from tickstream.dispatcher.decision import Decision, Task
from tickstream.model import NEVER, Report, VerdictKind
from tickstream.projection.steps import BucketBuffer
from tickstream.worker.ledger import OffsetLedger
from tickstream.worker.outbox import Outbox

# --------------------------------------------------------------------------- decisions


@mutant("G6", "a command sent again is a new command")
def _no_dedupe() -> AbstractContextManager[object]:
    return instead(engine, "remembered", lambda task, command_id: None)


@mutant("G6", "a new definition forgets the commands before it")
def _forgetful() -> AbstractContextManager[object]:
    return instead(defining, "recent_of", lambda task: ())


@mutant("G2", "a Cancel of what is due already is answered and ignored")
def _ignored_cancel() -> AbstractContextManager[object]:
    real = engine.cancel

    def cancel(task: Task, sent: Any, now_ms: int, rules: Any) -> Decision:
        decision = real(task, sent, now_ms, rules)
        due = task.state is not None and NEVER < task.state.next_occurrence_ts <= now_ms + 300
        return decision._replace(task=task, ended=None) if due else decision

    return instead(engine, "cancel", cancel)


@mutant("G2", "a Cancel of what is in flight is answered `cancelled`")
def _late_cancel() -> AbstractContextManager[object]:
    real = cancelling._in_flight

    def cancel(*arguments: Any) -> Decision:
        decision = real(*arguments)
        assert decision.answer is not None
        return decision._replace(answer=decision.answer._replace(kind=VerdictKind.CANCELLED))

    return instead(cancelling, "_in_flight", cancel)


@mutant("G4", "an instant that ran is taken again")
def _runs_again() -> AbstractContextManager[object]:
    real = engine._schedule

    def schedule(task: Task, *rest: Any) -> Decision:
        if task.state is not None and not task.state.runs:
            task = Task(task.spec, task.state._replace(last_occurrence_ts=NEVER))
        return real(task, *rest)

    return instead(engine, "_schedule", schedule)


@mutant("G1", "what is late by a second is dropped without a word")
def _dropped() -> AbstractContextManager[object]:
    real = engine._fire

    def fire(task: Task, spec: Any, state: Any, now_ms: int, rules: Any) -> Decision:
        decision = real(task, spec, state, now_ms, rules)
        late = now_ms - state.next_occurrence_ts > 1_000
        if not late:
            return decision
        return Decision(Task(task.spec, state._replace(next_occurrence_ts=NEVER)))

    return instead(engine, "_fire", fire)


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

    return instead(bucket, "apply_report", apply)


@mutant("G5", "a success counts although the next attempt is out")
def _any_success() -> AbstractContextManager[object]:
    return instead(runs, "_may_succeed", lambda run, report: True)


@mutant("G5", "an end is recorded, and the run kept")
def _kept() -> AbstractContextManager[object]:
    real = runs._succeeded

    def succeeded(task: Task, *rest: Any) -> Decision:
        return real(task, *rest)._replace(task=task)

    return instead(runs, "_succeeded", succeeded)


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

    return instead(runs, "_lost", lost)


# --------------------------------------------------------------------------- worker and projection


@mutant("G5", "a worker commits what it has only read")
def _commit_at_once() -> AbstractContextManager[object]:
    real = OffsetLedger.take

    def take(self: OffsetLedger, partition: int, offset: int) -> None:
        real(self, partition, offset)
        self.done(partition, offset)

    return instead(OffsetLedger, "take", take)


@mutant("G5", "a report that was not acknowledged is not sent again")
def _not_again() -> AbstractContextManager[object]:
    real = Outbox.refused

    def refused(self: Outbox, batch: Any, now: float) -> None:
        real(self, batch, now)
        self._refused.clear()
        for run, report in batch.entries:
            run.owner.acked(run, report.kind)

    return instead(Outbox, "refused", refused)


@mutant("G7", "a step of the projection does not wait for its outcomes")
def _half_steps() -> AbstractContextManager[object]:
    def last_whole(self: Any) -> Any:
        mark = None
        while self._marks:
            mark = self._marks.popleft()
        return mark

    return instead(BucketBuffer, "_last_whole", last_whole)


@mutant("G7", "a projection's position is what it has read, not what it has folded")
def _read_not_folded() -> AbstractContextManager[object]:
    real = BucketBuffer._whole

    def whole(self: Any, mark: Any) -> Any:
        step = real(self, mark)
        if self._records:
            self.position = step.position._replace(timers=self._records[-1].offset + 1)
            return step._replace(position=self.position)
        return step

    return instead(BucketBuffer, "_whole", whole)
