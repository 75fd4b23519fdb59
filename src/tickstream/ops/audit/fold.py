"""The audit's own fold: each record of the topics as facts, handed to whoever sorts them by task.

It knows what the records say, not how they come about: only codec, model and topics may enter here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from tickstream.codec import (
    CLAIM,
    PROGRESS,
    STATE,
    decode_batch,
    decode_history,
    decode_progress,
    decode_reports,
    decode_state,
    decode_work,
    split_off_by,
    split_timers_key,
)
from tickstream.model import (
    NEVER,
    Command,
    IfExists,
    Outcome,
    Recurrence,
    ReportKind,
    Rev,
    Verb,
    VerdictKind,
    bucket_key,
    bucket_of_key,
)
from tickstream.ops.audit.facts import (
    Advanced,
    Asked,
    Claimed,
    Dispatched,
    Ended,
    Fact,
    Misplaced,
    Partition,
    Ran,
    Retry,
    Rule,
    SetAside,
    Stood,
)
from tickstream.ops.audit.history import BucketTimeline, TaskHistory
from tickstream.topics import Layout, TopicNames


class Sink(Protocol):
    """Whoever sorts facts."""

    def task(self, bucket: int, task_id: str, fact: Fact) -> None:
        """A fact of a task; facts of one partition come in its order."""

    def mark(self, bucket: int, mark: Advanced | Claimed) -> None:
        """A commit of a bucket, in the order of its changelog."""


class Fold:
    """Turns records into facts. `bucket_of_key`: the model's, or one that is faster."""

    def __init__(
        self,
        names: TopicNames,
        layout: Layout,
        sink: Sink,
        bucket_of_key: Callable[[bytes, int], int] = bucket_of_key,
    ) -> None:
        self.names = names
        self.layout = layout
        self.records: dict[str, int] = {}
        """Topic → records read."""
        self.unreadable: dict[str, int] = {}
        """Topic → records that `skip` was told of."""
        self.first_decided_ms: dict[Partition, int] = {}
        """decided_ms of the oldest Work record that is still in each partition."""
        self._sink = sink
        self._bucket_of_key = bucket_of_key
        self._commands_topic, self._reports_topic, self._timers_topic = (
            names.commands,
            names.reports,
            names.timers,
        )
        self._history_topic, self._dead_letter_topic = names.history, names.dead_letter

    def skip(self, topic: str) -> None:
        """Count a record that could not be read."""
        self.unreadable[topic] = self.unreadable.get(topic, 0) + 1

    def add(
        self, topic: str, partition: int, offset: int, at_ms: int, key: bytes | None, value: bytes | None
    ) -> None:
        """Fold one committed record in; `at_ms` is its timestamp. Raises UnknownSchema, MalformedValue.

        In `dead-letter` that says no more than: this is no command.
        """
        self.records[topic] = self.records.get(topic, 0) + 1
        if topic == self._commands_topic:
            self._commands(partition, offset, at_ms, value)
        elif topic == self._reports_topic:
            self._reports(partition, offset, value)
        elif topic == self._timers_topic:
            self._timers(partition, offset, at_ms, key, value)
        elif topic == self._history_topic:
            self._history(partition, offset, value)
        elif topic == self._dead_letter_topic:
            self._dead_letter(partition, offset, value)
        else:
            self._work(topic, partition, offset, value)

    def home(self, task_id: str) -> int:
        """The bucket in which the task lives."""
        return self._bucket_of_key(bucket_key(task_id).encode(), self.layout.buckets)

    def _commands(self, bucket: int, offset: int, at_ms: int, value: bytes | None) -> None:
        for item, command in enumerate(decode_batch(value).commands):
            if command.verb.of_queue:
                continue
            home = self.home(command.task_id)
            rev = Rev(offset, item)
            if home != bucket:
                self._sink.task(home, command.task_id, Misplaced(rev, bucket))
                continue
            options = command.options
            asked = Asked(
                rev,
                command.verb,
                command.when,
                at_ms,
                sys.intern(command.queue),
                command.command_id,
                options.if_exists is IfExists.REJECT,
                options.allow_past,
                options.not_after,
                options.recurrence is not None,
                options.lead_ms,
                bool(options.event),
                None if options.recurrence is None else _rule(options.recurrence),
            )
            self._sink.task(bucket, command.task_id, asked)
            split_off = _split_off(command)
            if split_off:
                self._sink.task(bucket, split_off, asked)

    def _reports(self, bucket: int, offset: int, value: bytes | None) -> None:
        for report in decode_reports(value).reports:
            if report.kind in _STARTED:
                ran = Ran(
                    report.occurrence_ts,
                    report.attempt,
                    report.run_id,
                    report.started_ms,
                    report.kind is ReportKind.SUCCEEDED,
                    offset,
                )
                self._sink.task(bucket, report.task_id, ran)

    def _timers(self, bucket: int, offset: int, at_ms: int, key: bytes | None, value: bytes | None) -> None:
        kind, task_id = split_timers_key(key)
        if kind == STATE:
            self._sink.task(bucket, task_id, _stood(offset, value))
        elif kind == PROGRESS and value is not None:
            progress = decode_progress(value)
            mark = Advanced(
                at_ms,
                Rev(progress.commands.offset, progress.commands.item),
                Rev(progress.reports.offset, progress.reports.item),
                progress.work_number,
                progress.history_number,
            )
            self._sink.mark(bucket, mark)
        elif kind == CLAIM and value is not None:
            self._sink.mark(bucket, Claimed(at_ms))

    def _work(self, topic: str, partition: int, offset: int, value: bytes | None) -> None:
        work = decode_work(value)
        self.first_decided_ms.setdefault((topic, partition), work.decided_ms)
        dispatched = Dispatched(
            work.rev,
            work.occurrence_ts,
            work.attempt,
            work.decided_ms,
            work.work_number,
            sys.intern(topic),
            partition,
            offset,
            work.not_before_ms,
        )
        self._sink.task(self.home(work.task_id), work.task_id, dispatched)

    def _history(self, bucket: int, offset: int, value: bytes | None) -> None:
        record = decode_history(value)
        ended = Ended(
            record.rev,
            record.occurrence_ts,
            record.attempt,
            record.outcome,
            record.number,
            record.error if record.outcome is Outcome.SKIPPED else "",
            record.through_ts,
            offset,
        )
        self._sink.task(bucket, record.task_id, ended)

    def _dead_letter(self, partition: int, offset: int, value: bytes | None) -> None:
        """A command that was set aside. What else lies there, such as work given up, is no batch of commands."""
        for command in decode_batch(value).commands:
            aside = SetAside(command.command_id, partition, offset)
            self._sink.task(self.home(command.task_id), command.task_id, aside)


def _rule(asked: Recurrence) -> Rule:
    return Rule(
        asked.kind.value,
        asked.rule,
        asked.zone,
        asked.start,
        asked.start_ms,
        asked.end_ms,
        asked.interval_ms,
        asked.rdate,
        asked.exdate,
    )


def _stood(offset: int, value: bytes | None) -> Stood:
    if value is None:
        return Stood(NEVER, NEVER, "", (), (), offset)
    state = decode_state(value)
    retries = tuple(
        Retry(run.occurrence_ts, run.attempt, run.retry_at_ms)
        for run in state.runs
        if run.retry_at_ms != NEVER
    )
    answers = tuple((r.command_id, r.kind) for r in state.recent if r.kind not in PLAIN_ACCEPTANCE)
    extras, waiting_for = state.extras, state.next_occurrence_ts
    due_ms = waiting_for if extras.fire_at_ms == NEVER else extras.fire_at_ms
    held = f"held by {extras.held}" if extras.held else ""
    parked = "faulted" if extras.faulted else "paused" if extras.paused else held
    return Stood(waiting_for, due_ms, parked, retries, answers, offset)


_STARTED: Final = frozenset({ReportKind.CLAIMED, ReportKind.SUCCEEDED, ReportKind.FAILED})
"""Reports of a run that was started; what is handed back was not, and heartbeats say nothing new."""
PLAIN_ACCEPTANCE: Final = (VerdictKind.SCHEDULED, VerdictKind.REPLACED)
"""What a Schedule is taken to have been answered unless something says otherwise: not kept."""


class Evidence(Fold):
    """Facts sorted in memory: for logs that fit there, such as a simulated one."""

    def __init__(
        self, names: TopicNames, layout: Layout, starts: Mapping[Partition, int] | None = None
    ) -> None:
        super().__init__(names, layout, self)
        self.starts = starts or {}
        """Offsets from which each partition was read."""
        self.tasks: dict[str, TaskHistory] = {}
        self.timelines: dict[int, BucketTimeline] = {}

    def task(self, bucket: int, task_id: str, fact: Fact) -> None:
        """Of Sink."""
        history = self.tasks.get(task_id)
        if history is None:
            history = self.tasks[task_id] = TaskHistory(task_id, bucket)
        history.add(fact)

    def mark(self, bucket: int, mark: Advanced | Claimed) -> None:
        """Of Sink."""
        self.timelines.setdefault(bucket, BucketTimeline()).add(mark)


def _split_off(command: Command) -> str:
    """The id of the task that a change of an event makes beside it; empty: none."""
    if command.verb is not Verb.CHANGE_EVENT:
        return ""
    uid = split_off_by(command.options.event)
    return f"{{{bucket_key(command.task_id)}}}{uid}" if uid else ""
