"""What becomes of runs: claims, outcomes, hand-backs, expired leases, and the next attempt.

Pure, like engine.py. The rules (docs/protocol.md, "Runs and leases"): a run is held by whoever
claimed its attempt last; Failed and Released count from the holder, or from anybody while there
is none; Succeeded is the end unless the next attempt is out already.
"""

from __future__ import annotations

import zlib
from typing import Final

from tickstream.codec import decode_command
from tickstream.dispatcher.decision import (
    Decision,
    Ended,
    Lease,
    Rules,
    Task,
    replaced_run,
    settle,
    terms_of,
)
from tickstream.model import (
    DEFAULT_TERMS,
    NEVER,
    NO_RETRY,
    Command,
    Outcome,
    Report,
    ReportKind,
    RunState,
    RunTerms,
    Signal,
    SignalKind,
    TaskState,
    idempotency_key,
)

RELEASE_MS: Final = (250, 10_000)
"""Pause before work that was handed back is dispatched again: the first, doubling to the last."""
_JITTER: Final = 0.2
"""Part of a backoff that is spread, so that what failed together does not come back together."""


def apply_report(task: Task, report: Report, worker: str, now_ms: int, rules: Rules) -> Decision:
    """Apply a worker's word on a run. One that names no run in flight changes nothing."""
    state = task.state
    run = state and next((r for r in state.runs if r.occurrence_ts == report.occurrence_ts), None)
    if state is None or run is None:
        return Decision(task)
    match report.kind:
        case ReportKind.CLAIMED if _is_out(run, report):
            return _claimed(task, state, run, report, worker)
        case ReportKind.SUCCEEDED if _may_succeed(run, report):
            return _succeeded(task, state, run, report, worker, now_ms, rules)
        case ReportKind.FAILED if _is_out(run, report) and run.holder in (b"", report.run_id):
            return _failed(task, state, run, report, worker, now_ms, rules)
        case ReportKind.RELEASED if _is_out(run, report) and run.holder in (b"", report.run_id):
            return _released(task, state, run, report.retry_ms, now_ms, rules)
    return Decision(task)


def apply_expiry(
    task: Task, occurrence_ts: int, attempt: int, holder: bytes, now_ms: int, rules: Rules
) -> Decision:
    """The lease of a claimed run ended; an end probe licensed that nothing of it is under way."""
    state = task.state
    run = state and next((r for r in state.runs if r.occurrence_ts == occurrence_ts), None)
    if state is None or run is None or (run.attempt, run.holder) != (attempt, holder):
        return Decision(task)
    error = f"LeaseExpired: {run.worker} was not heard of in time"
    return _lost(task, state, run, Outcome.LEASE_EXPIRED, None, error, now_ms, now_ms, rules)


def backoff_ms(terms: RunTerms, failures: int, seed: str) -> int:
    """Pause before the attempt after the `failures`-th failure: doubling, capped, spread by `seed`.

    The same for the same seed: a decision that is made again after an abort comes out alike.
    """
    pause = min(terms.backoff_cap_ms, terms.backoff_ms << min(failures - 1, 40))
    share = zlib.crc32(f"{seed}#{failures}".encode()) / 2**32
    return int(pause * (1 - _JITTER * share))


# --------------------------------------------------------------------------- the moves


def _claimed(task: Task, state: TaskState, run: RunState, report: Report, worker: str) -> Decision:
    """The claimant becomes the holder; whom it displaces is told, best effort."""
    if run.holder == report.run_id:
        return Decision(task)
    signals: tuple[Signal, ...] = ()
    if run.holder:
        told = Signal(run.holder, SignalKind.SUPERSEDED, report.task_id, run.occurrence_ts, run.attempt)
        signals = (told,)
    if run.stopping:
        stop = Signal(report.run_id, SignalKind.CANCELLED, report.task_id, run.occurrence_ts, run.attempt)
        signals += (stop,)
    held = run._replace(holder=report.run_id, worker=worker, releases=0, started_ms=report.started_ms)
    command = _definition(task, run)
    terms = terms_of(command) if command else DEFAULT_TERMS
    lease = Lease(report.task_id, run.occurrence_ts, run.attempt, report.run_id, terms.lease_ms)
    return Decision(Task(task.spec, replaced_run(state, run, held)), lease=lease, signals=signals)


def _succeeded(
    task: Task, state: TaskState, run: RunState, report: Report, worker: str, now_ms: int, rules: Rules
) -> Decision:
    command = _definition(task, run)
    ended = Ended(
        run.occurrence_ts,
        report.attempt,
        run.rev,
        Outcome.SUCCEEDED,
        command.queue if command else "",
        run.decided_ms,
        report,
        worker,
        "",
        b"",
    )
    left = replaced_run(state, run, None)
    return Decision(settle(task, left, Outcome.SUCCEEDED, now_ms, rules), ended=ended)


def _failed(
    task: Task, state: TaskState, run: RunState, report: Report, worker: str, now_ms: int, rules: Rules
) -> Decision:
    held = run._replace(worker=worker)
    if report.retry_ms == NO_RETRY:
        return _dead(task, state, run, held, report, report.error, now_ms, rules)
    command = _definition(task, run)
    seed = idempotency_key(report.task_id, run.occurrence_ts)
    terms = terms_of(command) if command else DEFAULT_TERMS
    pause = report.retry_ms if report.retry_ms >= 0 else backoff_ms(terms, run.failures + 1, seed)
    at_ms = now_ms + pause
    return _lost(
        task, state, held, Outcome.ATTEMPT_FAILED, report, report.error, at_ms, now_ms, rules, old=run
    )


def _released(
    task: Task, state: TaskState, run: RunState, pause_ms: int, now_ms: int, rules: Rules
) -> Decision:
    """Handed back unstarted: the next attempt elsewhere, and no failure.

    `pause_ms`: before that; NEVER: it doubles from one time to the next.
    """
    if _definition(task, run) is None:
        left = replaced_run(state, run, None)
        return Decision(settle(task, left, Outcome.CANCELLED, now_ms, rules), ended=_cancelled(run))
    first, longest = RELEASE_MS
    pause = pause_ms if pause_ms >= 0 else min(longest, first << min(run.releases, 10))
    waiting = run._replace(
        attempt=run.attempt + 1,
        holder=b"",
        worker="",
        started_ms=NEVER,
        releases=run.releases + (pause_ms < 0),
        retry_at_ms=now_ms + pause,
    )
    return Decision(Task(task.spec, replaced_run(state, run, waiting)))


def _lost(
    task: Task,
    state: TaskState,
    run: RunState,
    outcome: Outcome,
    report: Report | None,
    error: str,
    at_ms: int,
    now_ms: int,
    rules: Rules,
    *,
    old: RunState | None = None,
) -> Decision:
    """An attempt failed or expired: the next one at `at_ms`, or the end of the work."""
    old = old or run
    command = _definition(task, run)
    if command is None or run.failures + 1 >= terms_of(command).attempts:
        return _dead(task, state, old, run, report, error, now_ms, rules)
    ended = Ended(
        run.occurrence_ts,
        run.attempt,
        run.rev,
        outcome,
        command.queue,
        run.decided_ms,
        report,
        run.worker,
        error,
        b"",
    )
    waiting = run._replace(
        attempt=run.attempt + 1,
        holder=b"",
        worker="",
        started_ms=NEVER,
        failures=run.failures + 1,
        releases=0,
        retry_at_ms=at_ms,
    )
    return Decision(Task(task.spec, replaced_run(state, old, waiting)), ended=ended)


def _dead(
    task: Task,
    state: TaskState,
    old: RunState,
    run: RunState,
    report: Report | None,
    error: str,
    now_ms: int,
    rules: Rules,
) -> Decision:
    command = _definition(task, run)
    ended = Ended(
        run.occurrence_ts,
        run.attempt,
        run.rev,
        Outcome.DEAD,
        command.queue if command else "",
        run.decided_ms,
        report,
        run.worker,
        error,
        command.body if command else b"",
    )
    left = replaced_run(state, old, None)
    return Decision(settle(task, left, Outcome.DEAD, now_ms, rules), ended=ended)


def _cancelled(run: RunState) -> Ended:
    """The end of a run that nobody started and whose definition is gone."""
    return Ended(
        run.occurrence_ts, run.attempt, run.rev, Outcome.CANCELLED, "", run.decided_ms, None, "", "", b""
    )


# --------------------------------------------------------------------------- who may say what


def _is_out(run: RunState, report: Report) -> bool:
    """Whether the report speaks of the attempt that is out now."""
    return run.retry_at_ms == NEVER and run.attempt == report.attempt


def _may_succeed(run: RunState, report: Report) -> bool:
    """From any run of the attempt that was dispatched last, also while the next one waits."""
    dispatched = run.attempt if run.retry_at_ms == NEVER else run.attempt - 1
    return report.attempt == dispatched


def _definition(task: Task, run: RunState) -> Command | None:
    """The command that the run was dispatched under, None when it is replaced, cancelled or to stop since."""
    if task.spec is None or task.spec.rev != run.rev or run.stopping:
        return None
    return decode_command(task.spec.command)
