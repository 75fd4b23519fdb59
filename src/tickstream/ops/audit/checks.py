"""The promises as constraints over one task's history, one small check each, in the manner of a Jepsen checker.

A check says what must never be seen in the topics; it knows nothing of how a dispatcher avoids it.
Each yields one Example per case. What is counted and is no fault is in counts.py. Only model may
enter here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tickstream.model import NEVER, Outcome, Rev, Verb, VerdictKind, is_reminder_id
from tickstream.ops.audit.facts import Acked, Asked, Dispatched, Ended
from tickstream.ops.audit.fates import Fates, find_command
from tickstream.ops.audit.history import Case
from tickstream.ops.audit.lateness import first_starts
from tickstream.ops.audit.report import Example

# --------------------------------------------------------------------------- G1, G4: nothing is lost


def lost_schedule(case: Case, command: Asked) -> Example:
    """A Schedule whose fate is LOST, with what the changelog says of it."""
    if case.timeline.work_number_past(command.rev) is None:
        state = "no Progress has it behind itself: not applied yet"
    elif case.history.waiting_for == command.when:
        state = f"{case.bounds.names.timers} still has it waiting"
    else:
        state = "applied, and waiting no more"
    what = f"accepted, due, no work; {state}"
    return Example(case.history.task_id, command.when, what, (case.command_at(command.rev),))


def overdue(case: Case) -> Iterator[Example]:
    """What the last TaskState has waiting long past its instant.

    An occurrence of a task that recurs, or whose command is purged, so that only the state speaks; and
    a further attempt, without which its occurrence has no end.
    """
    history, cutoff_ms = case.history, case.bounds.cutoff_ms
    if history.parked:
        return
    waiting = history.waiting_for
    only_the_state = all(command.recurs or command.verb is not Verb.SCHEDULE for command in history.asked)
    due = waiting != NEVER and history.due_ms <= cutoff_ms and only_the_state
    if due and all(work.occurrence_ts != waiting for work in history.dispatched):
        yield Example(history.task_id, waiting, "waiting, due, no work", (case.state_at(),))
    for retry in history.retries:
        if retry.at_ms <= cutoff_ms:
            what = f"attempt {retry.attempt} waits since {retry.at_ms}, no work"
            yield Example(history.task_id, retry.occurrence_ts, what, (case.state_at(),))


def missing_receipts(case: Case) -> Iterator[Example]:
    """A command that was acked to a client and is not where its receipt says (unless it was not read, or purged since)."""
    topic = case.bounds.names.commands
    for entry in case.history.acked:
        receipt = entry.receipt
        place = Rev(receipt.offset, receipt.item)
        unread = not case.bounds.holds(topic, receipt.bucket, receipt.offset)
        elsewhere = any((m.bucket, m.rev) == (receipt.bucket, place) for m in case.history.misplaced)
        if not unread and not elsewhere and not _is_there(case, entry):
            where = case.command_at(place, receipt.bucket)
            yield Example(entry.task_id, entry.run_at_ms, "acked, and not in the log", (where,))


def _is_there(case: Case, entry: Acked) -> bool:
    command = find_command(case.history, entry)
    return command is not None and command.when == entry.run_at_ms


# --------------------------------------------------------------------------- G4: one work record, and for a reason


def surplus_work(case: Case) -> Iterator[Example]:
    """More than one committed Work record of one (task, occurrence, attempt): one case per surplus record."""
    groups: dict[tuple[int, int], list[Dispatched]] = defaultdict(list)
    for work in case.history.dispatched:
        groups[work.occurrence_ts, work.attempt].append(work)
    for (occurrence_ts, attempt), works in groups.items():
        what = f"{len(works)} work records of attempt {attempt}"
        records = tuple(map(case.work_at, works))
        yield from [Example(case.history.task_id, occurrence_ts, what, records)] * (len(works) - 1)


def unasked_work(case: Case) -> Iterator[Example]:
    """Work that no command asked for, or an attempt that no attempt went before."""
    history, bounds = case.history, case.bounds
    commands = {command.rev: command for command in history.asked}
    attempts = {(work.occurrence_ts, work.attempt) for work in history.dispatched}
    for work in history.dispatched:
        if work.decided_ms > bounds.cutoff_ms:
            continue  # its command may lie beyond the end that was read
        command = commands.get(work.rev)
        what = ""
        asked_for = command is not None or is_reminder_id(
            history.task_id
        )  # a reminder's definition is its event's
        if not asked_for and bounds.holds(bounds.names.commands, history.bucket, work.rev.offset):
            what = "work of a definition that no command made"
        elif command is not None and command.verb is Verb.CANCEL:
            what = "work of a definition that is a Cancel"
        elif (
            work.attempt > 1
            and (work.occurrence_ts, work.attempt - 1) not in attempts
            and not bounds.any_work_cut()
        ):
            what = f"attempt {work.attempt} without attempt {work.attempt - 1}"
        if what:
            records = (case.work_at(work), case.command_at(work.rev))
            yield Example(history.task_id, work.occurrence_ts, what, records)


def unreasoned_skips(case: Case) -> Iterator[Example]:
    """An occurrence that is recorded as skipped, and no word why; or that was dispatched all the same.

    Of a skip of several only the first and the last are known to be occurrences of the rule.
    """
    by_occurrence = _by_occurrence(case)
    for end in case.history.ended:
        if end.outcome is not Outcome.SKIPPED:
            continue
        works = [
            w for at in {end.occurrence_ts, end.through_ts} for w in by_occurrence.get((at, end.rev), ())
        ]
        what = "skipped, and dispatched all the same" if works else "skipped without a reason"
        if works or not end.reason:
            records = (case.history_at(end), *map(case.work_at, works))
            yield Example(case.history.task_id, end.occurrence_ts, what, records)


# --------------------------------------------------------------------------- G5: one end


def surplus_outcomes(case: Case) -> Iterator[Example]:
    """More than one end of one occurrence, or of one attempt of it: one case per surplus record.

    An attempt that failed or lost its lease has ended, and its occurrence has not; a success that
    comes after all, before the next attempt is dispatched, ends the occurrence.
    The same instant may be cancelled before its dispatch, asked for again, and then run or be
    cancelled again: such a cancellation counts once per definition (rev).
    """
    if len(case.history.ended) < 2:
        return
    attempts: dict[tuple[int, int, Rev], list[Ended]] = defaultdict(list)
    occurrences: dict[int, list[Ended]] = defaultdict(list)
    for end in case.history.ended:
        if end.outcome.terminal:
            occurrences[end.occurrence_ts].append(end)
        elif end.outcome is not Outcome.MOVED:
            attempts[end.occurrence_ts, end.attempt, end.rev].append(end)
    for (occurrence_ts, attempt, _), ends in attempts.items():
        yield from _ends(case, occurrence_ts, f"{len(ends)} ends of attempt {attempt}", ends, len(ends) - 1)
    for occurrence_ts, ends in occurrences.items():
        yield from _ends(case, occurrence_ts, f"{len(ends)} terminal outcomes", ends, _surplus(ends))


def _ends(case: Case, occurrence_ts: int, what: str, ends: list[Ended], count: int) -> list[Example]:
    return [Example(case.history.task_id, occurrence_ts, what, tuple(map(case.history_at, ends)))] * count


def _surplus(ends: list[Ended]) -> int:
    executed = [end for end in ends if not _cancelled_undispatched(end)]
    definitions = {end.rev for end in ends if _cancelled_undispatched(end)}
    # A definition that was cancelled before its dispatch can have no other outcome.
    allowed = len(definitions - {end.rev for end in executed}) + min(1, len(executed))
    return len(ends) - allowed


def missing_outcomes(case: Case) -> Iterator[Example]:
    """A success that was reported and applied, and no outcome of its occurrence.

    Unless the next attempt was dispatched: then the success may have come too late to count.
    """
    history, bounds = case.history, case.bounds
    if bounds.cut(bounds.names.history, history.bucket) or history.parked:
        return
    # Progress and outcome are committed together; but what is as young as the grace may be half read.
    applied = case.timeline.reports_applied(bounds.cutoff_ms)
    ended = {end.occurrence_ts for end in history.ended if end.outcome.terminal}
    attempts = {(work.occurrence_ts, work.attempt) for work in history.dispatched}
    told: set[int] = set()
    for run in history.ran:
        of = (run.occurrence_ts, run.attempt)
        overtaken = (run.occurrence_ts, run.attempt + 1) in attempts
        counts = run.succeeded and run.offset < applied and of in attempts and not overtaken
        if counts and run.occurrence_ts not in ended | told:
            told.add(run.occurrence_ts)
            what = f"attempt {run.attempt} succeeded, and no outcome is recorded"
            yield Example(history.task_id, run.occurrence_ts, what, (case.report_at(run.offset),))


def attempts_after_the_end(case: Case) -> Iterator[Example]:
    """An attempt dispatched after its occurrence had ended.

    After: numbered above the first Progress that has the outcome behind itself. A second record of an
    attempt that had been made is a duplicate instead.
    """
    by_occurrence = _by_occurrence(case)
    for end in case.history.ended:
        if not end.outcome.terminal or end.attempt == 0:
            continue
        last_number = case.timeline.work_number_with(end.number)
        for work in by_occurrence.get((end.occurrence_ts, end.rev), ()):
            later = last_number is not None and work.work_number > last_number
            if later and work.attempt > end.attempt:
                what = f"attempt {work.attempt} was dispatched after the end"
                records = (case.history_at(end), case.work_at(work))
                yield Example(case.history.task_id, end.occurrence_ts, what, records)


# --------------------------------------------------------------------------- G3: nothing is early


def early(case: Case) -> Iterator[Example]:
    """An occurrence that was dispatched or started before its instant; one case each.

    Work may be sent ahead if it says that it is not to be started before; started it may not be.

    The start is taken from the worker's clock: one that is behind the dispatcher's shows here too.
    """
    found: dict[int, list[str]] = defaultdict(list)
    # Only the first attempt says where its occurrence was moved to.
    due = {w.occurrence_ts: case.history.due_of(w) for w in case.history.dispatched if w.attempt == 1}
    for work in case.history.dispatched:
        if max(work.decided_ms, work.not_before_ms) < due.get(work.occurrence_ts, work.occurrence_ts):
            found[work.occurrence_ts].append(case.work_at(work))
    for run in case.history.ran:
        if NEVER < run.started_ms < due.get(run.occurrence_ts, run.occurrence_ts):
            found[run.occurrence_ts].append(case.report_at(run.offset))
    for occurrence_ts, records in found.items():
        yield Example(case.history.task_id, occurrence_ts, "before its instant", tuple(records))


# --------------------------------------------------------------------------- G2: in order, in time, and a word kept


def late(case: Case) -> Iterator[Example]:
    """An occurrence whose first attempt was dispatched, or first run started, beyond the bound.

    Counted from its instant, or from its command's acceptance where that came later. Not of a task that
    was paused, or held at a gate: that is what was asked for.
    """
    bound = case.bounds.late_ms
    if bound is None or case.history.ever_parked:
        return
    accepted = {command.rev: command.accepted_ms for command in case.history.asked}
    started = first_starts(case.history)
    for work in case.history.dispatched:
        instant = case.history.due_of(work)
        due_ms = max(instant, accepted.get(work.rev, instant))
        if work.attempt > 1 or case.bounds.excluded(due_ms):
            continue
        start_ms = started.get(work.occurrence_ts, work.decided_ms)
        if max(work.decided_ms, start_ms) - due_ms > bound:
            what = f"dispatched {work.decided_ms - due_ms} ms after it was due"
            if work.occurrence_ts in started:
                what += f", started {start_ms - due_ms} ms after"
            yield Example(case.history.task_id, work.occurrence_ts, what, (case.work_at(work),))


def out_of_order(case: Case) -> Iterator[Example]:
    """A definition dispatched for the first time after a later definition of the task was."""
    newest: Dispatched | None = None
    firsts = (work for work in case.history.dispatched if work.attempt == 1)
    for work in sorted(firsts, key=lambda work: work.work_number):
        if newest is not None and work.rev < newest.rev:
            what = "dispatched after a definition that was made later"
            records = (case.work_at(newest), case.work_at(work))
            yield Example(case.history.task_id, work.occurrence_ts, what, records)
        else:
            newest = work


def cancelled_yet_ran(case: Case, fates: Fates) -> Iterator[Example]:
    """Work of a definition of which the system said that it is cancelled; one case per occurrence."""
    if not case.history.dispatched:
        return
    found: dict[int, list[str]] = defaultdict(list)
    for cancel, work in _work_despite_cancel(case, fates):
        found[work.occurrence_ts] += [case.command_at(cancel.rev), case.work_at(work)]
    for end, work in _work_despite_history(case):
        found[work.occurrence_ts] += [case.history_at(end), case.work_at(work)]
    for occurrence_ts, records in found.items():
        what = "cancelled, and dispatched all the same"
        yield Example(case.history.task_id, occurrence_ts, what, tuple(dict.fromkeys(records)))


def _work_despite_cancel(case: Case, fates: Fates) -> Iterator[tuple[Asked, Dispatched]]:
    """Every Cancel answered `cancelled` with each Work record that breaks the answer's word.

    That is: work of the one instant that stood when the Cancel came, whenever it was dispatched; and
    first attempts of any definition before the Cancel, numbered above the first Progress that has
    the Cancel behind itself. Earlier definitions may rightly have been dispatched before it.
    """
    for cancel, definition in fates.effective_cancels():
        if fates.verdict_of(cancel) is not VerdictKind.CANCELLED:
            continue
        last_number = case.timeline.work_number_past(cancel.rev)
        for work in case.history.dispatched:
            # What was triggered beside the instant asked for is not what the Cancel was about.
            # Of a task that recurs, it is about the occurrences to come.
            of_definition = definition is not None and (
                work.rev == definition.rev and definition.when == work.occurrence_ts
            )
            after_cancel = (
                last_number is not None
                and work.attempt == 1
                and work.rev < cancel.rev
                and work.work_number > last_number
            )
            if of_definition or after_cancel:
                yield cancel, work


def _work_despite_history(case: Case) -> Iterator[tuple[Ended, Dispatched]]:
    """Every outcome `cancelled` of a never dispatched occurrence, with its work under the same definition."""
    by_occurrence = _by_occurrence(case)
    for end in filter(_cancelled_undispatched, case.history.ended):
        for work in by_occurrence.get((end.occurrence_ts, end.rev), ()):
            yield end, work


def _by_occurrence(case: Case) -> dict[tuple[int, Rev], list[Dispatched]]:
    """The work of each occurrence under each definition: a task may have had thousands."""
    found: dict[tuple[int, Rev], list[Dispatched]] = defaultdict(list)
    for work in case.history.dispatched:
        found[work.occurrence_ts, work.rev].append(work)
    return found


def _cancelled_undispatched(end: Ended) -> bool:
    return end.outcome is Outcome.CANCELLED and end.attempt == 0
