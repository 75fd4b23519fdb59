"""The promises as constraints over the evidence, one small check each, in the manner of a Jepsen checker.

A check says what must never be seen in the topics; it knows nothing of how a dispatcher avoids it.
Each yields one Example per case. Only codec, model and topics may enter here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tickstream.model import NEVER, Outcome, Rev, VerdictKind
from tickstream.ops.audit.fates import Judge, find_command
from tickstream.ops.audit.fold import Asked, Dispatched, Ended, Evidence, TaskEvidence
from tickstream.ops.audit.journal import Acked, Journal
from tickstream.ops.audit.report import Example

# --------------------------------------------------------------------------- G1, G4: nothing is lost


def lost_schedule(judge: Judge, task_id: str, task: TaskEvidence, command: Asked) -> Example:
    """A Schedule whose fate is LOST, with what the changelog says of it."""
    evidence = judge.evidence
    bucket = evidence.bucket_of(task_id)
    timeline = evidence.timelines.get(bucket)
    if timeline is None or timeline.work_number_past(command.rev) is None:
        state = "no Progress has it behind itself: not applied yet"
    elif task.waiting_for == command.when:
        state = f"{evidence.names.timers} still has it waiting"
    else:
        state = "applied, and waiting no more"
    return Example(
        task_id,
        command.when,
        f"accepted, due, no work; {state}",
        (_command_at(evidence, bucket, command.rev),),
    )


def overdue_without_command(judge: Judge) -> Iterator[Example]:
    """A task that waits for an instant long past, where its command is purged and only the state speaks."""
    evidence = judge.evidence
    for task_id, task in evidence.tasks.items():
        due = NEVER < task.waiting_for <= judge.cutoff_ms
        if due and not task.asked and all(w.occurrence_ts != task.waiting_for for w in task.dispatched):
            where = f"{evidence.names.timers}[{evidence.bucket_of(task_id)}]"
            yield Example(task_id, task.waiting_for, "waiting, due, no work", (where,))


def overdue_retries(judge: Judge) -> Iterator[Example]:
    """An attempt that a TaskState has waiting for its time long past it: an occurrence left without its end."""
    evidence = judge.evidence
    for task_id, task in evidence.tasks.items():
        for retry in task.retries:
            if retry.at_ms <= judge.cutoff_ms:
                where = f"{evidence.names.timers}[{evidence.bucket_of(task_id)}]"
                what = f"attempt {retry.attempt} waits since {retry.at_ms}, no work"
                yield Example(task_id, retry.occurrence_ts, what, (where,))


def missing_receipts(evidence: Evidence, journal: Journal) -> Iterator[Example]:
    """A command that was acked to a client and is not where its receipt says (unless purged since)."""
    topic = evidence.names.commands
    for entry in journal.acked:
        receipt = entry.receipt
        place = Rev(receipt.offset, receipt.item)
        purged = receipt.offset < evidence.starts.get((topic, receipt.bucket), 0)
        if (
            not purged
            and (receipt.bucket, place) not in evidence.misplaced
            and not _is_there(evidence, entry)
        ):
            where = _command_at(evidence, receipt.bucket, place)
            yield Example(entry.task_id, entry.run_at_ms, "acked, and not in the log", (where,))


def _is_there(evidence: Evidence, entry: Acked) -> bool:
    command = find_command(evidence, entry)
    return command is not None and command.when == entry.run_at_ms


# --------------------------------------------------------------------------- G4, G5: nothing happens twice


def surplus_work(evidence: Evidence) -> Iterator[Example]:
    """More than one committed Work record of one (task, occurrence, attempt): one case per surplus record."""
    for task_id, task in evidence.tasks.items():
        if len(task.dispatched) < 2:
            continue
        groups: dict[tuple[int, int], list[Dispatched]] = defaultdict(list)
        for work in task.dispatched:
            groups[work.occurrence_ts, work.attempt].append(work)
        for (occurrence_ts, attempt), works in groups.items():
            what = f"{len(works)} work records of attempt {attempt}"
            case = Example(task_id, occurrence_ts, what, tuple(map(_work_at, works)))
            yield from [case] * (len(works) - 1)


def surplus_outcomes(evidence: Evidence) -> Iterator[Example]:
    """More than one end of one occurrence, or of one attempt of it: one case per surplus record.

    An attempt that failed or lost its lease has ended, and its occurrence has not; a success that
    comes after all, before the next attempt is dispatched, ends the occurrence.
    The same instant may be cancelled before its dispatch, asked for again, and then run or be
    cancelled again: such a cancellation counts once per definition (rev).
    """
    for task_id, task in evidence.tasks.items():
        if len(task.ended) < 2:
            continue
        yield from _surplus_attempts(evidence, task_id, task)
        groups: dict[int, list[Ended]] = defaultdict(list)
        for end in task.ended:
            if end.outcome.terminal:
                groups[end.occurrence_ts].append(end)
        for occurrence_ts, ends in groups.items():
            records = tuple(_history_at(evidence, task_id, end) for end in ends)
            case = Example(task_id, occurrence_ts, f"{len(ends)} terminal outcomes", records)
            yield from [case] * _surplus(ends)


def _surplus_attempts(evidence: Evidence, task_id: str, task: TaskEvidence) -> Iterator[Example]:
    groups: dict[tuple[int, int, Rev], list[Ended]] = defaultdict(list)
    for end in task.ended:
        if not end.outcome.terminal:
            groups[end.occurrence_ts, end.attempt, end.rev].append(end)
    for (occurrence_ts, attempt, _), ends in groups.items():
        records = tuple(_history_at(evidence, task_id, end) for end in ends)
        case = Example(task_id, occurrence_ts, f"{len(ends)} ends of attempt {attempt}", records)
        yield from [case] * (len(ends) - 1)


def _surplus(ends: list[Ended]) -> int:
    executed = [end for end in ends if not _cancelled_undispatched(end)]
    definitions = {end.rev for end in ends if _cancelled_undispatched(end)}
    # A definition that was cancelled before its dispatch can have no other outcome.
    allowed = len(definitions - {end.rev for end in executed}) + min(1, len(executed))
    return len(ends) - allowed


def redelivered(evidence: Evidence) -> Iterator[Example]:
    """Runs beyond the first of one attempt: at-least-once at work (G5), no fault."""
    for task_id, task in evidence.tasks.items():
        if len(task.ran) < 2:
            continue
        groups: dict[tuple[int, int], dict[bytes, int]] = defaultdict(dict)
        for run in task.ran:
            groups[run.occurrence_ts, run.attempt].setdefault(run.run_id, run.offset)
        for (occurrence_ts, attempt), runs in groups.items():
            what = f"{len(runs)} runs of attempt {attempt}"
            records = tuple(_report_at(evidence, task_id, offset) for offset in runs.values())
            yield from [Example(task_id, occurrence_ts, what, records)] * (len(runs) - 1)


def retried(evidence: Evidence) -> Iterator[Example]:
    """Attempts beyond the first, whatever ended the one before (failed, expired, handed back): no fault."""
    for task_id, task in evidence.tasks.items():
        for work in task.dispatched:
            if work.attempt > 1:
                what = f"attempt {work.attempt}"
                yield Example(task_id, work.occurrence_ts, what, (_work_at(work),))


def expired(evidence: Evidence) -> Iterator[Example]:
    """Attempts whose lease expired and that were not the last: a worker died or hung, no fault."""
    for task_id, task in evidence.tasks.items():
        for end in task.ended:
            if end.outcome is Outcome.LEASE_EXPIRED:
                what = f"the lease of attempt {end.attempt} expired"
                yield Example(task_id, end.occurrence_ts, what, (_history_at(evidence, task_id, end),))


# --------------------------------------------------------------------------- G3: nothing is early


def early(evidence: Evidence) -> Iterator[Example]:
    """An occurrence that was dispatched or started before its instant; one case each.

    The start is taken from the worker's clock: one that is behind the dispatcher's shows here too.
    """
    for task_id, task in evidence.tasks.items():
        found: dict[int, list[str]] = defaultdict(list)
        for work in task.dispatched:
            if work.decided_ms < work.occurrence_ts:
                found[work.occurrence_ts].append(_work_at(work))
        for run in task.ran:
            if NEVER < run.started_ms < run.occurrence_ts:
                found[run.occurrence_ts].append(_report_at(evidence, task_id, run.offset))
        for occurrence_ts, records in found.items():
            yield Example(task_id, occurrence_ts, "before its instant", tuple(records))


# --------------------------------------------------------------------------- G2: cancelled stays cancelled


def cancelled_yet_ran(judge: Judge) -> Iterator[Example]:
    """Work of a definition of which the system said that it is cancelled; one case per occurrence."""
    for task_id, task in judge.evidence.tasks.items():
        if not task.dispatched:
            continue
        found: dict[int, list[str]] = defaultdict(list)
        for cancel, work in _work_despite_cancel(judge, task_id, task):
            found[work.occurrence_ts] += [
                _command_at(judge.evidence, judge.evidence.bucket_of(task_id), cancel.rev),
                _work_at(work),
            ]
        for end, work in _work_despite_history(task):
            found[work.occurrence_ts] += [_history_at(judge.evidence, task_id, end), _work_at(work)]
        for occurrence_ts, records in found.items():
            what = "cancelled, and dispatched all the same"
            yield Example(task_id, occurrence_ts, what, tuple(dict.fromkeys(records)))


def _work_despite_cancel(
    judge: Judge, task_id: str, task: TaskEvidence
) -> Iterator[tuple[Asked, Dispatched]]:
    """Every Cancel answered `cancelled` with each Work record that breaks the answer's word.

    That is: work of the definition that stood when the Cancel came, whenever it was dispatched; and
    first attempts of any definition before the Cancel, numbered above the first Progress that has
    the Cancel behind itself. Earlier definitions may rightly have been dispatched before it.
    """
    timeline = judge.evidence.timelines.get(judge.evidence.bucket_of(task_id))
    for cancel, definition in judge.effective_cancels(task_id, task):
        if judge.verdicts.of(cancel) is not VerdictKind.CANCELLED:
            continue
        last_number = timeline.work_number_past(cancel.rev) if timeline else None
        for work in task.dispatched:
            of_definition = definition is not None and work.rev == definition.rev
            after_cancel = (
                last_number is not None
                and work.attempt == 1
                and work.rev < cancel.rev
                and work.work_number > last_number
            )
            if of_definition or after_cancel:
                yield cancel, work


def _work_despite_history(task: TaskEvidence) -> Iterator[tuple[Ended, Dispatched]]:
    """Every outcome `cancelled` of a never dispatched occurrence, with its work under the same definition."""
    for end in filter(_cancelled_undispatched, task.ended):
        for work in task.dispatched:
            if (work.occurrence_ts, work.rev) == (end.occurrence_ts, end.rev):
                yield end, work


def _cancelled_undispatched(end: Ended) -> bool:
    return end.outcome is Outcome.CANCELLED and end.attempt == 0


# --------------------------------------------------------------------------- where to look


def _command_at(evidence: Evidence, bucket: int, rev: Rev) -> str:
    return f"{evidence.names.commands}[{bucket}]@{rev.offset}:{rev.item}"


def _report_at(evidence: Evidence, task_id: str, offset: int) -> str:
    return f"{evidence.names.reports}[{evidence.bucket_of(task_id)}]@{offset}"


def _history_at(evidence: Evidence, task_id: str, end: Ended) -> str:
    return f"{evidence.names.history}[{evidence.bucket_of(task_id)}]@{end.offset}"


def _work_at(work: Dispatched) -> str:
    return f"{work.topic}[{work.partition}]@{work.offset}"
