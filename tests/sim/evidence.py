"""What the simulated log holds, committed and decoded: the auditor's own view, grown as the log grows.

It knows records and true time, nothing of how they came about: only codec, model and the log may enter.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from tickstream.codec import (
    PROGRESS,
    SPEC,
    STATE,
    decode_batch,
    decode_command,
    decode_history,
    decode_progress,
    decode_reports,
    decode_spec,
    decode_state,
    decode_verdicts,
    decode_work,
    split_timers_key,
)
from tickstream.model import NEVER, Command, History, Outcome, Progress, Report, Rev, TaskState, Verdict, Work
from tickstream.testing.sim.log import COMMIT, Partition, Record
from tickstream.testing.sim.transactions import Broker, Txn
from tickstream.topics import TopicNames

FATES = frozenset({Outcome.SUCCEEDED, Outcome.DEAD, Outcome.CANCELLED})


class Sent(NamedTuple):
    """A command where it lies."""

    bucket: int
    offset: int
    item: int
    command: Command
    record: Record


class Said(NamedTuple):
    """A worker's word where it lies."""

    offset: int
    report: Report
    worker: str
    record: Record


class Out(NamedTuple):
    """A committed Work record."""

    work: Work
    partition: int
    record: Record


class End(NamedTuple):
    """A committed History record."""

    bucket: int
    history: History
    record: Record


class Mark(NamedTuple):
    """A committed Progress."""

    progress: Progress
    record: Record


class Change(NamedTuple):
    """A committed record of a task in the changelog."""

    offset: int
    kind: bytes
    task_id: str
    value: object
    """TaskSpec's rev, TaskState, or None for a tombstone."""


def decided_us(record: Record) -> int:
    """When the record's transaction was decided."""
    assert isinstance(record.txn, Txn)
    return record.txn.ended_us


class Evidence:
    """Everything committed so far."""

    def __init__(self, names: TopicNames, queue: str, buckets: int) -> None:
        self.names = names
        self.buckets = buckets
        self._work_topic = names.work(queue)
        self._timers_topic, self._history_topic = names.timers, names.history
        self._commands_topic, self._reports_topic = names.commands, names.reports
        self._verdicts_topic = names.verdicts
        self._topics = (
            names.commands,
            names.reports,
            names.timers,
            self._work_topic,
            names.history,  # after the work that it ends
            names.verdicts,
        )
        self._logs: list[Partition] = []
        self.commands: dict[int, list[Sent]] = defaultdict(list)
        self.reports: dict[int, list[Said]] = defaultdict(list)
        self.works: list[Out] = []
        self.ends: list[End] = []
        self.marks: dict[int, list[Mark]] = defaultdict(list)
        self.changes: dict[int, list[Change]] = defaultdict(list)
        self.states: dict[str, TaskState] = {}
        self.verdicts: list[Verdict] = []
        self.definitions: dict[tuple[int, Rev], Command] = {}
        """By bucket and rev, what a task was asked to do."""
        self._read: dict[tuple[str, int], int] = defaultdict(int)
        self._unended: set[tuple[str, int]] = set()

    def grow(self, broker: Broker) -> None:
        """Take in what has become stable."""
        if not self._logs:
            by_topic = sorted(broker.partitions.values(), key=lambda p: p.number)
            self._logs = [p for topic in self._topics for p in by_topic if p.topic == topic]
        for partition in self._logs:
            if self._read[partition.topic, partition.number] < partition.stable:
                self._grow(partition.topic, partition)

    def pending(self, broker: Broker) -> list[str]:
        """What is still to be done, by the logs alone."""
        self.grow(broker)
        names = self.names
        found = []
        for bucket in range(self.buckets):
            marks, end = self.marks[bucket], broker.partitions[names.commands, bucket].end
            reached = marks[-1].progress.commands.offset if marks else 0
            if reached < end:
                found.append(f"commands[{bucket}] is applied to {reached} of {end}")
        for task_id, state in self.states.items():
            if state.next_occurrence_ts != NEVER and not state.extras.paused:
                found.append(f"{task_id} waits for {state.next_occurrence_ts}")
            if state.extras.queued and not state.extras.paused:
                found.append(f"{task_id} has {state.extras.queued} waiting")
            found += [f"{task_id}: attempt {r.attempt} of {r.occurrence_ts} is in flight" for r in state.runs]
        found += [f"{task}: no end of {occurrence}" for task, occurrence in sorted(self._unended)]
        return found

    def _grow(self, topic: str, partition: Partition) -> None:
        place = (topic, partition.number)
        start, stable = self._read[place], partition.stable
        self._read[place] = stable
        for record in partition.archive[start:stable]:
            if record.control or record.aborted:
                continue
            assert record.txn is None or record.txn.outcome == COMMIT  # type: ignore[attr-defined]
            self._add(topic, partition.number, record)

    def _add(self, topic: str, partition: int, record: Record) -> None:
        if topic == self._timers_topic:
            self._timers(partition, record)
        elif topic == self._commands_topic:
            batch = decode_batch(record.value)
            self.commands[partition] += [
                Sent(partition, record.offset, item, command, record)
                for item, command in enumerate(batch.commands)
            ]
        elif topic == self._reports_topic:
            spoken = decode_reports(record.value)
            self.reports[partition] += [Said(record.offset, r, spoken.worker, record) for r in spoken.reports]
        elif topic == self._history_topic:
            history = decode_history(record.value)
            self.ends.append(End(partition, history, record))
            if history.outcome in FATES:
                self._unended.discard((history.task_id, history.occurrence_ts))
        elif topic == self._verdicts_topic:
            self.verdicts += decode_verdicts(record.value).verdicts
        else:
            work = decode_work(record.value)
            self.works.append(Out(work, partition, record))
            self._unended.add((work.task_id, work.occurrence_ts))

    def _timers(self, bucket: int, record: Record) -> None:
        kind, task_id = split_timers_key(record.key)
        value = record.value
        if kind == STATE:
            state = None if value is None else decode_state(value)
            self.changes[bucket].append(Change(record.offset, kind, task_id, state))
            if state is None:
                self.states.pop(task_id, None)
            else:
                self.states[task_id] = state
        elif kind == SPEC:
            spec = None if value is None else decode_spec(value)
            self.changes[bucket].append(
                Change(record.offset, kind, task_id, None if spec is None else spec.rev)
            )
            if spec is not None:
                self.definitions[bucket, spec.rev] = decode_command(spec.command)
        elif kind == PROGRESS and value is not None:
            self.marks[bucket].append(Mark(decode_progress(value), record))
