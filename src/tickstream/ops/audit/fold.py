"""The audit's own fold: the records of the topics, sorted by task and by bucket, as evidence.

It knows what the records say, not how they come about: only codec, model and topics may enter here.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

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
    split_timers_key,
)
from tickstream.model import NEVER, Options, Outcome, ReportKind, Rev, Verb, VerdictKind, bucket_of
from tickstream.topics import Layout, TopicNames

Partition = tuple[str, int]
"""A topic's name and a partition of it."""


class Asked(NamedTuple):
    """A command as it lies in its bucket's log."""

    rev: Rev
    verb: Verb
    when: int
    """run_at of a Schedule, else NEVER."""
    accepted_ms: int
    """Time at which the broker appended it."""
    queue: str
    options: Options
    command_id: bytes


class Dispatched(NamedTuple):
    """A committed Work record, and where it lies."""

    occurrence_ts: int
    attempt: int
    rev: Rev
    decided_ms: int
    work_number: int
    topic: str
    partition: int
    offset: int


class Ran(NamedTuple):
    """A run that a worker says it started, by a claim or an outcome, and that report's offset in its bucket."""

    occurrence_ts: int
    attempt: int
    run_id: bytes
    started_ms: int
    """NEVER where the report does not say."""
    offset: int


class Retry(NamedTuple):
    """A next attempt that a TaskState says is to come."""

    occurrence_ts: int
    attempt: int
    at_ms: int


class Ended(NamedTuple):
    """A History record, of an occurrence or of one attempt, and its offset in its bucket."""

    occurrence_ts: int
    attempt: int
    rev: Rev
    outcome: Outcome
    offset: int


class TaskEvidence:
    """Everything that the topics say of one task; each list in the order of its log."""

    __slots__ = ("asked", "dispatched", "ended", "ran", "retries", "waiting_for")

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.dispatched: list[Dispatched] = []
        self.ran: list[Ran] = []
        self.ended: list[Ended] = []
        self.waiting_for = NEVER
        """next_occurrence_ts of the last TaskState."""
        self.retries: tuple[Retry, ...] = ()
        """Of the last TaskState."""


class BucketTimeline:
    """The commits of one bucket in the order of the changelog, and how far each had come."""

    __slots__ = ("claims", "commands_item", "commands_offset", "progress_ms", "work_number")

    def __init__(self) -> None:
        self.progress_ms = array("q")
        """Time of each Progress record (CreateTime: just before its commit)."""
        self.commands_offset = array("q")
        self.commands_item = array("q")
        self.work_number = array("q")
        self.claims: list[tuple[int, int]] = []
        """Per Claim: how many Progress records came before it, and its time."""

    def work_number_past(self, rev: Rev) -> int | None:
        """work_number of the first Progress that has the command at `rev` behind it, None if none has."""
        at = bisect_left(self.commands_offset, rev.offset)
        while at < len(self.commands_offset):
            if (self.commands_offset[at], self.commands_item[at]) > rev:
                return self.work_number[at]
            at += 1
        return None


@dataclass(slots=True)
class Evidence:
    """What was read. `starts` and `ends`: the offsets between which each partition was read."""

    names: TopicNames
    layout: Layout
    starts: Mapping[Partition, int]
    tasks: dict[str, TaskEvidence] = field(default_factory=dict)
    timelines: dict[int, BucketTimeline] = field(default_factory=dict)
    answers: dict[bytes, VerdictKind] = field(default_factory=dict)
    """command_id → answer, as far as TaskStates remember one that is not plain acceptance."""
    misplaced: set[tuple[int, Rev]] = field(default_factory=set)
    """Commands that lie in another bucket than their task's."""
    first_decided_ms: dict[Partition, int] = field(default_factory=dict)
    """decided_ms of the oldest Work record that is still in each partition."""
    records: dict[str, int] = field(default_factory=dict)
    """Topic → records read."""
    unreadable: dict[str, int] = field(default_factory=dict)
    """Topic → records that `skip` was told of."""

    def bucket_of(self, task_id: str) -> int:
        """The bucket in which the task lives."""
        return bucket_of(task_id, self.layout.buckets)

    def purged(self, topic: str, bucket: int) -> bool:
        """Whether records of the partition are gone from the start of its log."""
        return self.starts.get((topic, bucket), 0) > 0

    def skip(self, topic: str) -> None:
        """Count a record that could not be read."""
        self.unreadable[topic] = self.unreadable.get(topic, 0) + 1

    def add(
        self, topic: str, partition: int, offset: int, at_ms: int, key: bytes | None, value: bytes | None
    ) -> None:
        """Fold one committed record in; `at_ms` is its timestamp. Raises UnknownSchema, MalformedValue."""
        self.records[topic] = self.records.get(topic, 0) + 1
        names = self.names
        if topic == names.commands:
            self._commands(partition, offset, at_ms, value)
        elif topic == names.reports:
            self._reports(offset, value)
        elif topic == names.timers:
            self._timers(partition, at_ms, key, value)
        elif topic == names.history:
            self._history(offset, value)
        else:
            self._work(topic, partition, offset, value)

    def _task(self, task_id: str) -> TaskEvidence:
        task = self.tasks.get(task_id)
        if task is None:
            task = self.tasks[task_id] = TaskEvidence()
        return task

    def _commands(self, bucket: int, offset: int, at_ms: int, value: bytes | None) -> None:
        for item, command in enumerate(decode_batch(value).commands):
            rev = Rev(offset, item)
            if self.bucket_of(command.task_id) != bucket:
                self.misplaced.add((bucket, rev))
                continue
            self._task(command.task_id).asked.append(
                Asked(
                    rev,
                    command.verb,
                    command.when,
                    at_ms,
                    sys.intern(command.queue),
                    command.options,
                    command.command_id,
                )
            )

    def _reports(self, offset: int, value: bytes | None) -> None:
        for report in decode_reports(value).reports:
            if report.kind in _STARTED:
                self._task(report.task_id).ran.append(
                    Ran(report.occurrence_ts, report.attempt, report.run_id, report.started_ms, offset)
                )

    def _timers(self, bucket: int, at_ms: int, key: bytes | None, value: bytes | None) -> None:
        kind, task_id = split_timers_key(key)
        if kind == STATE:
            self._state(task_id, value)
        elif kind == PROGRESS and value is not None:
            progress = decode_progress(value)
            timeline = self._timeline(bucket)
            timeline.progress_ms.append(at_ms)
            timeline.commands_offset.append(progress.commands.offset)
            timeline.commands_item.append(progress.commands.item)
            timeline.work_number.append(progress.work_number)
        elif kind == CLAIM and value is not None:
            timeline = self._timeline(bucket)
            timeline.claims.append((len(timeline.progress_ms), at_ms))

    def _timeline(self, bucket: int) -> BucketTimeline:
        return self.timelines.setdefault(bucket, BucketTimeline())

    def _state(self, task_id: str, value: bytes | None) -> None:
        if value is None:
            self._task(task_id).waiting_for = NEVER
            self._task(task_id).retries = ()
            return
        state = decode_state(value)
        task = self._task(task_id)
        task.waiting_for = state.next_occurrence_ts
        task.retries = tuple(
            Retry(run.occurrence_ts, run.attempt, run.retry_at_ms)
            for run in state.runs
            if run.retry_at_ms != NEVER
        )
        for recent in state.recent:
            if recent.kind not in PLAIN_ACCEPTANCE:
                self.answers[recent.command_id] = recent.kind

    def _work(self, topic: str, partition: int, offset: int, value: bytes | None) -> None:
        work = decode_work(value)
        self.first_decided_ms.setdefault((topic, partition), work.decided_ms)
        self._task(work.task_id).dispatched.append(
            Dispatched(
                work.occurrence_ts,
                work.attempt,
                work.rev,
                work.decided_ms,
                work.work_number,
                sys.intern(topic),
                partition,
                offset,
            )
        )

    def _history(self, offset: int, value: bytes | None) -> None:
        record = decode_history(value)
        self._task(record.task_id).ended.append(
            Ended(record.occurrence_ts, record.attempt, record.rev, record.outcome, offset)
        )


_STARTED: Final = frozenset({ReportKind.CLAIMED, ReportKind.SUCCEEDED, ReportKind.FAILED})
"""Reports of a run that was started; what is handed back was not, and heartbeats say nothing new."""
PLAIN_ACCEPTANCE: Final = (VerdictKind.SCHEDULED, VerdictKind.REPLACED)
"""What a Schedule is taken to have been answered unless something says otherwise: not kept."""
