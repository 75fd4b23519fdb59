"""Everything that the topics say of one task, and the commits of its bucket: what the checks are given.

Values and look-ups, no judgement. Only model and topics may enter here.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tickstream.model import NEVER, Rev, VerdictKind, is_reminder_id
from tickstream.ops.audit.facts import (
    Acked,
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
    SetAside,
    Stood,
)
from tickstream.topics import Layout, TopicNames


class TaskHistory:
    """All facts of one task; each list in the order of its log."""

    __slots__ = (
        "acked",
        "answers",
        "asked",
        "bucket",
        "dispatched",
        "due_ms",
        "ended",
        "ever_parked",
        "misplaced",
        "parked",
        "ran",
        "retries",
        "set_aside",
        "state_offset",
        "task_id",
        "waiting_for",
    )

    def __init__(self, task_id: str, bucket: int, facts: Iterable[Fact] = ()) -> None:
        self.task_id = task_id
        self.bucket = bucket
        self.acked: list[Acked] = []
        self.asked: list[Asked] = []
        self.misplaced: list[Misplaced] = []
        self.set_aside: list[SetAside] = []
        self.dispatched: list[Dispatched] = []
        self.ran: list[Ran] = []
        self.ended: list[Ended] = []
        self.answers: dict[bytes, VerdictKind] = {}
        """command_id → answer, as far as TaskStates remember one that is not plain acceptance."""
        self.waiting_for = NEVER
        """next_occurrence_ts of the last TaskState."""
        self.due_ms = NEVER
        """When that is to be dispatched."""
        self.parked = ""
        """Why the last TaskState has it not dispatched, due or not; empty: it will be."""
        self.ever_parked = False
        self.retries: tuple[Retry, ...] = ()
        """Of the last TaskState."""
        self.state_offset = NEVER
        """Of the last TaskState, NEVER: none was read."""
        for fact in facts:
            self.add(fact)

    @property
    def moves(self) -> bool:
        """Whether an occurrence may be due elsewhere than at its own instant: of a calendar's event, or a reminder."""
        return is_reminder_id(self.task_id) or any(command.event for command in self.asked)

    def due_of(self, work: Dispatched) -> int:
        """When the occurrence of a Work record was due."""
        return work.not_before_ms if work.not_before_ms != NEVER and self.moves else work.occurrence_ts

    def add(self, fact: Fact) -> None:
        """Take in the next fact; facts of one partition come in its order."""
        if isinstance(fact, Stood):
            self.waiting_for = fact.waiting_for
            self.due_ms = fact.due_ms
            self.parked = fact.parked
            self.ever_parked |= bool(fact.parked)
            self.retries = fact.retries
            self.state_offset = fact.offset
            self.answers.update(fact.answers)
        else:
            getattr(self, _LIST[type(fact)]).append(fact)


_LIST: Final[dict[type, str]] = {
    Acked: "acked",
    Asked: "asked",
    Misplaced: "misplaced",
    SetAside: "set_aside",
    Dispatched: "dispatched",
    Ran: "ran",
    Ended: "ended",
}


class BucketTimeline:
    """The commits of one bucket in the order of the changelog, and how far each had come."""

    __slots__ = (
        "claims",
        "commands_item",
        "commands_offset",
        "history_number",
        "progress_ms",
        "reports_offset",
        "work_number",
    )

    def __init__(self, marks: Iterable[Advanced | Claimed] = ()) -> None:
        self.progress_ms = array("q")
        self.commands_offset = array("q")
        self.commands_item = array("q")
        self.reports_offset = array("q")
        self.work_number = array("q")
        self.history_number = array("q")
        self.claims: list[tuple[int, int]] = []
        """Per Claim: how many Progress records came before it, and its time."""
        for mark in marks:
            self.add(mark)

    def add(self, mark: Advanced | Claimed) -> None:
        """Take in the next record of the changelog."""
        if isinstance(mark, Claimed):
            self.claims.append((len(self.progress_ms), mark.at_ms))
            return
        self.progress_ms.append(mark.at_ms)
        self.commands_offset.append(mark.commands.offset)
        self.commands_item.append(mark.commands.item)
        self.reports_offset.append(mark.reports.offset)
        self.work_number.append(mark.work_number)
        self.history_number.append(mark.history_number)

    def work_number_past(self, rev: Rev) -> int | None:
        """work_number of the first Progress that has the command at `rev` behind it, None if none has."""
        at = bisect_left(self.commands_offset, rev.offset)
        while at < len(self.commands_offset):
            if (self.commands_offset[at], self.commands_item[at]) > rev:
                return self.work_number[at]
            at += 1
        return None

    def work_number_with(self, history_number: int) -> int | None:
        """work_number of the first Progress that has that History record behind it, None if none has."""
        at = bisect_left(self.history_number, history_number)
        return self.work_number[at] if at < len(self.work_number) else None

    def reports_applied(self, before_ms: int) -> int:
        """Offset below which every report was applied at that instant."""
        for at in range(len(self.progress_ms) - 1, -1, -1):
            if self.progress_ms[at] <= before_ms:
                return self.reports_offset[at]
        return 0


@dataclass(frozen=True, slots=True)
class Bounds:
    """What was read, and what may be demanded of it."""

    names: TopicNames
    layout: Layout
    starts: Mapping[Partition, int]
    """Offsets from which each partition was read."""
    cutoff_ms: int
    """What was due at or before this instant must have been dispatched."""
    late_ms: int | None = None
    """What is dispatched or started later than that is late; None: nothing is."""
    windows: tuple[tuple[int, int], ...] = ()
    """First and last ms of times in which lateness is not counted."""
    first_decided_ms: Mapping[Partition, int] = field(default_factory=dict)
    """decided_ms of the oldest Work record that is still in each partition."""
    ends: Mapping[Partition, int] = field(default_factory=dict)
    """Offsets before which reading stopped on purpose; empty: everything was read."""

    def holds(self, topic: str, partition: int, offset: int) -> bool:
        """Whether the record would have been read, were it there."""
        place = (topic, partition)
        return self.starts.get(place, 0) <= offset < self.ends.get(place, offset + 1)

    def cut(self, topic: str, bucket: int) -> bool:
        """Whether records lie, or lay, before what was read of the partition."""
        return self.starts.get((topic, bucket), 0) > 0

    def any_work_cut(self) -> bool:
        """Whether that is so of any partition of any queue."""
        work = self.names.work("")
        return any(offset for (topic, _), offset in self.starts.items() if topic.startswith(work))

    def excluded(self, at_ms: int) -> bool:
        """Whether the instant lies in a window."""
        return any(first <= at_ms <= last for first, last in self.windows)


@dataclass(slots=True)
class Case:
    """One task before the checks."""

    history: TaskHistory
    timeline: BucketTimeline
    bounds: Bounds

    # ------------------------------------------------------------------ where to look

    def command_at(self, rev: Rev, bucket: int | None = None) -> str:
        """The place of a command."""
        where = self.history.bucket if bucket is None else bucket
        return f"{self.bounds.names.commands}[{where}]@{rev.offset}:{rev.item}"

    def report_at(self, offset: int) -> str:
        """The place of a report."""
        return f"{self.bounds.names.reports}[{self.history.bucket}]@{offset}"

    def history_at(self, end: Ended) -> str:
        """The place of an outcome."""
        return f"{self.bounds.names.history}[{self.history.bucket}]@{end.offset}"

    def state_at(self) -> str:
        """The place of the last TaskState."""
        return f"{self.bounds.names.timers}[{self.history.bucket}]@{self.history.state_offset}"

    @staticmethod
    def work_at(work: Dispatched) -> str:
        """The place of a Work record."""
        return f"{work.topic}[{work.partition}]@{work.offset}"
