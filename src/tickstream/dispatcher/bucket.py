"""One bucket's share of one transaction: inputs and due entries in, everything to be written out.

Pure given its view of the store. Changes are kept in an overlay, so that a transaction that
aborts leaves nothing behind: the object is dropped and the same inputs are decided again.
"""

from __future__ import annotations

from tickstream.codec import decode_batch, decode_reports, encode_batch, encode_reports
from tickstream.dispatcher.calendar import Calendars
from tickstream.dispatcher.decision import (
    NO_TASK,
    Answer,
    Decision,
    Ended,
    Lease,
    Rules,
    Sent,
    Task,
    faulted,
    leases_of,
)
from tickstream.dispatcher.engine import apply_command, apply_due
from tickstream.dispatcher.gates import Gates
from tickstream.dispatcher.leases import Expired
from tickstream.dispatcher.moving import look_again, parked, with_zones
from tickstream.dispatcher.outcome import BucketOutcome, DeadLetter, Reply, TaskView
from tickstream.dispatcher.queues import apply_queue_command
from tickstream.dispatcher.runs import apply_expiry, apply_report
from tickstream.errors import CodecError
from tickstream.model import (
    MAX_TASK_ID_BYTES,
    NEVER,
    Command,
    DeadReason,
    DueEntry,
    History,
    InputPosition,
    Outcome,
    Progress,
    Receipt,
    Report,
    ReportKind,
    Rev,
    Signal,
    Verdict,
    VerdictKind,
    Work,
    bucket_key,
)
from tickstream.settings import MAX_COMMAND_BYTES


class BucketTurn:
    """Collects what a bucket's inputs and due entries come to, on an overlay over the store."""

    def __init__(
        self,
        bucket: int,
        buckets: int,
        view: TaskView,
        progress: Progress,
        rules: Rules,
        gates: Gates,
        now_ms: int,
    ) -> None:
        self._bucket = bucket
        self._buckets = buckets
        self._view = view
        self._progress = progress
        self._work_number = progress.work_number
        self._history_number = progress.history_number
        self._gates = gates.turn(now_ms)
        self._calendars = Calendars(bucket, view, self._task)
        self._rules = with_zones(rules, progress)._replace(gates=self._gates, calendars=self._calendars)
        self._now_ms = now_ms
        self._before: dict[str, Task] = {}
        self._after: dict[str, Task] = {}
        self._work: list[tuple[str, Work]] = []
        self._history: list[History] = []
        self._dead: list[DeadLetter] = []
        self._replies: list[Reply] = []
        self._stale: list[DueEntry] = []
        self._leases: list[Lease] = []
        self._heartbeats: list[Report] = []
        self._signals: list[Signal] = []
        self._alarms: list[str] = []
        self._notices: list[dict[str, object]] = []

    # ------------------------------------------------------------------ inputs

    def commands(
        self,
        offset: int,
        leader_epoch: int,
        appended_ms: int,
        value: bytes | None,
        *,
        until: int | None = None,
        given_up: str = "",
    ) -> None:
        """One message of `commands`, from the element on which the position stands to before `until`.

        `given_up`: why its elements are put aside instead of applied.
        """
        position = self._progress.commands
        first = position.item if position.offset == offset else 0
        try:
            batch = decode_batch(value)
        except CodecError as error:
            self._unreadable("commands", offset, value, error)
        else:
            elements = zip(batch.commands[first:until], batch.encoded[first:until], strict=True)
            for item, (command, encoded) in enumerate(elements, first):
                sent = Sent(command, encoded, Rev(offset, item), appended_ms)
                if given_up:
                    letter = encode_batch(batch.client_id, batch.reply, [encoded])
                    answer = self._put_aside(sent, letter, given_up)
                else:
                    answer = self._command(sent)
                if batch.reply >= 0:
                    self._replies.append(
                        Reply(batch.client_id, batch.reply, self._verdict(command, answer, offset, item))
                    )
        after = (offset + 1, 0) if until is None else (offset, until)
        self._progress = self._progress._replace(
            commands=InputPosition(position.topic_id, *after, leader_epoch)
        )

    def reports(
        self,
        offset: int,
        leader_epoch: int,
        value: bytes | None,
        *,
        until: int | None = None,
        given_up: str = "",
    ) -> None:
        """One message of `reports`; as for `commands`."""
        position = self._progress.reports
        first = position.item if position.offset == offset else 0
        try:
            batch = decode_reports(value)
        except CodecError as error:
            self._unreadable("reports", offset, value, error)
        else:
            for report in batch.reports[first:until]:
                if given_up:
                    letter = encode_reports(batch.worker, [report])
                    self._letter(report.task_id, letter, given_up, "reports")
                    self._fault(report.task_id, given_up)
                else:
                    self._report(report, batch.worker)
        after = (offset + 1, 0) if until is None else (offset, until)
        self._progress = self._progress._replace(
            reports=InputPosition(position.topic_id, *after, leader_epoch)
        )

    def due(self, entry: DueEntry, *, given_up: str = "") -> None:
        """One due entry that the store had when the batch was taken; its task is parked if `given_up`."""
        if given_up:
            if not self._fault(entry.task_id, given_up):
                self._stale.append(entry)
            return
        decision = apply_due(
            self._task(entry.task_id), entry, self._now_ms, self._progress.applied_before_ms, self._rules
        )
        if decision.stale and entry.task_id not in self._after:
            # Nothing of this batch explains it, so no change of a task will take it away.
            self._stale.append(entry)
        self._take(entry.task_id, decision)

    def moves(self, task_id: str, *, given_up: str = "") -> None:
        """A task that other zone data placed is looked at anew; it is parked if `given_up`."""
        if given_up:
            self._fault(task_id, given_up)
            return
        task = self._task(task_id)
        if task.state is not None:
            self._take(task_id, look_again(task_id, task, self._now_ms, self._rules))

    def placed(self) -> None:
        """Nothing is left that older zone data placed."""
        self._progress = self._progress._replace(tzdata_before="")

    def expired(self, lease: Expired, *, given_up: str = "") -> None:
        """One lease that an end probe licensed to expire; its task is parked if `given_up`."""
        if given_up:
            self._fault(lease.task_id, given_up)
            return
        task = self._task(lease.task_id)
        decision = apply_expiry(
            task, lease.occurrence_ts, lease.attempt, lease.holder, self._now_ms, self._rules
        )
        self._take(lease.task_id, decision)

    def outcome(self) -> BucketOutcome:
        """Everything to be written."""
        return BucketOutcome(
            self._bucket,
            self._before,
            self._after,
            self._work,
            self._history,
            self._dead,
            self._replies,
            self._stale,
            self._leases,
            self._heartbeats,
            self._signals,
            self._alarms,
            self._notices,
            self._gates,
            self._progress._replace(work_number=self._work_number, history_number=self._history_number),
        )

    # ------------------------------------------------------------------ inside

    def _command(self, sent: Sent) -> Answer:
        command = sent.command
        if len(sent.encoded) > MAX_COMMAND_BYTES or len(command.task_id.encode()) > MAX_TASK_ID_BYTES:
            # Compressed, such a message passes the topic's limit; what follows from it would not.
            return Answer(
                VerdictKind.REJECTED,
                "",
                detail=f"the command has {len(sent.encoded)} bytes, its task_id {len(command.task_id.encode())}: "
                f"the limits are {MAX_COMMAND_BYTES} and {MAX_TASK_ID_BYTES}",
            )
        if command.verb.of_queue:
            state, answer = apply_queue_command(self._gates.state(command.queue), command, self._rules)
            self._gates.set(state)
            return answer
        home = self._rules.bucket_of_key(bucket_key(command.task_id).encode(), self._buckets)
        if home != self._bucket:
            return Answer(
                VerdictKind.REJECTED,
                "",
                detail=f"the command lies in bucket {self._bucket}, its task lives in {home}: produce with Kafka's "
                "default (murmur2) partitioner over the bucket key",
            )
        decision = apply_command(self._task(command.task_id), sent, self._now_ms, self._rules)
        self._take(command.task_id, decision)
        assert decision.answer is not None
        return decision.answer

    def _report(self, report: Report, worker: str) -> None:
        if report.kind is ReportKind.HEARTBEAT:
            self._heartbeats.append(report)
            return
        task = self._task(report.task_id)
        self._take(report.task_id, apply_report(task, report, worker, self._now_ms, self._rules))

    # ------------------------------------------------------------------ what cannot be applied

    def _put_aside(self, sent: Sent, letter: bytes, why: str) -> Answer:
        """A command on which the dispatcher itself failed: kept whole, answered, and its task is as it was."""
        self._letter(sent.command.task_id, letter, why, "commands")
        detail = (
            f"the dispatcher failed on this command ({why}); it is kept in dead-letter and can be replayed"
        )
        return Answer(VerdictKind.REJECTED, "", detail=detail)

    def _fault(self, task_id: str, why: str) -> bool:
        """Park a task on which the dispatcher itself failed. Returns whether there is one."""
        task = self._task(task_id)
        if task.state is None:
            return False
        self._after[task_id] = Task(task.spec, faulted(task.state, why))
        self._alarms.append(parked(task_id, why))
        return True

    def _letter(self, task_id: str, value: bytes, why: str, source: str) -> None:
        self._dead.append(DeadLetter(task_id, value, DeadReason.FAULT, why, source))
        self._alarms.append(f"an element of {source} for task {task_id!r} lies in dead-letter: {why}")

    def _task(self, task_id: str) -> Task:
        task = self._after.get(task_id)
        if task is None:
            state = self._view.state(self._bucket, task_id)
            # A spec without a state stands for nothing: there is none to look for.
            task = NO_TASK if state is None else Task(self._view.spec(self._bucket, task_id), state)
            self._before.setdefault(task_id, task)
        return task

    def _take(self, task_id: str, decision: Decision) -> None:
        before = self._after.get(task_id) or self._before[task_id]
        if decision.task is not before:
            self._after[task_id] = decision.task
            self._gates.moved(before.state, decision.task.state)
            self._calendars.moved(before, decision.task)
            if before.state is not None and before.state.extras.faulted:
                # Resumed, if it is well now: its runs are waited for again.
                self._leases.extend(leases_of(task_id, decision.task))
        if decision.dispatch:
            run, queue, terms, body, skipped, not_before_ms = decision.dispatch
            if run.attempt == 1:
                self._gates.dispatched(queue)
            self._work_number += 1
            work = Work(
                self._bucket,
                self._work_number,
                task_id,
                run.occurrence_ts,
                run.attempt,
                run.rev,
                run.decided_ms,
                terms.lease_ms,
                terms.timeout_ms,
                body,
                not_before_ms,
                last=run.failures + 1 >= terms.attempts,
                skipped=skipped,
            )
            self._work.append((queue, work))
        if decision.lease:
            self._leases.append(decision.lease)
        self._signals.extend(decision.signals)
        if decision.alarm:
            self._alarms.append(decision.alarm)
        for ended in decision.also_ended:
            self._end(task_id, ended)
        if decision.ended:
            self._end(task_id, decision.ended)
        for other_id, other in decision.follow:
            self._take(other_id, other)

    def _end(self, task_id: str, ended: Ended) -> None:
        self._history_number += 1
        if ended.outcome is Outcome.CONFLICT:
            notice = {"event": "conflict_found", "bucket": self._bucket, "task_id": task_id}
            self._notices.append({**notice, "occurrence_ts": ended.occurrence_ts, "reason": ended.error})
        report = ended.report
        self._history.append(
            History(
                self._history_number,
                task_id,
                ended.occurrence_ts,
                ended.attempt,
                ended.rev,
                ended.outcome,
                self._now_ms,
                ended.queue,
                report.handler if report else "",
                ended.worker,
                report.run_id if report else b"",
                ended.decided_ms,
                report.fetched_ms if report else NEVER,
                report.started_ms if report else NEVER,
                report.ended_ms if report else NEVER,
                ended.error,
                report.result if report else b"",
                ended.through_ts,
                ended.occurrences,
            )
        )
        if ended.body:
            letter = DeadLetter(task_id, ended.body, DeadReason.GAVE_UP, ended.error, "work", ended.queue)
            self._dead.append(letter)

    def _verdict(self, command: Command, answer: Answer, offset: int, item: int) -> Verdict:
        return Verdict(
            command.command_id,
            answer.kind,
            command.task_id,
            Receipt(self._bucket, offset, item),
            answer.phase,
            answer.occurrence_ts,
            answer.detail,
            answer.in_flight,
            answer.found,
        )

    def _unreadable(self, topic: str, offset: int, value: bytes | None, error: CodecError) -> None:
        where = f"{topic} bucket {self._bucket} offset {offset}: {error}"
        self._dead.append(DeadLetter("", value or b"", DeadReason.UNDECODABLE, where, topic))
        self._alarms.append(where)
