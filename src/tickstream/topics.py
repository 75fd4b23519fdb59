"""The topics as data: one table from which they are created, checked and documented.

No Kafka client may enter here; kafka.py carries the table out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tickstream.errors import InvalidInput, LayoutMismatch
from tickstream.model import DEFAULT_QUEUE
from tickstream.settings import MAX_COMMAND_BYTES, MAX_RECORD_BYTES

_HOUR: Final = 3_600_000
_DAY: Final = 24 * _HOUR
_QUEUE: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
TOMBSTONES_KEPT_MS: Final = 7 * _DAY
"""In the changelog: the longest that a local store may be out of date."""
VERDICT_PARTITIONS: Final = 4
SIGNAL_PARTITIONS: Final = 4
DEAD_LETTER_PARTITIONS: Final = 4


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic: its name, its number of partitions, what it is for, and its settings."""

    name: str
    partitions: int
    written_by: str
    what: str
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicNames:
    """The names of all topics and groups under one prefix."""

    prefix: str

    @property
    def commands(self) -> str:
        """Schedule, Cancel: from producers."""
        return f"{self.prefix}commands"

    @property
    def reports(self) -> str:
        """Outcomes of runs: from workers."""
        return f"{self.prefix}reports"

    @property
    def timers(self) -> str:
        """The changelog."""
        return f"{self.prefix}timers"

    @property
    def history(self) -> str:
        """Outcomes of occurrences."""
        return f"{self.prefix}history"

    @property
    def verdicts(self) -> str:
        """Answers to commands."""
        return f"{self.prefix}verdicts"

    @property
    def signals(self) -> str:
        """Requests to running work to stop."""
        return f"{self.prefix}signals"

    @property
    def dead_letter(self) -> str:
        """Work given up on; input that could not be decoded."""
        return f"{self.prefix}dead-letter"

    def work(self, queue: str) -> str:
        """Runs to be done."""
        return f"{self.prefix}work.{queue}"

    def lanes(self, layout: int) -> str:
        """The empty topic that allots lanes."""
        return f"{self.prefix}lanes.{layout}"

    def dispatcher_group(self, layout: int) -> str:
        """Consumer group of the dispatchers."""
        return f"{self.prefix}dispatcher.{layout}"

    def worker_group(self, queue: str) -> str:
        """Consumer group of the workers of a queue."""
        return f"{self.prefix}workers.{queue}"

    def transactional_id(self, layout: int, lane: int, side: str) -> str:
        """Of one of a lane's two producers; `side` is "a" or "b"."""
        return f"{self.prefix}lane.{layout}.{lane}.{side}"


def check_queue(queue: str) -> str:
    """Return `queue` when it can be part of a topic name. Raises InvalidInput."""
    if not _QUEUE.fullmatch(queue):
        raise InvalidInput(f"queue {queue!r}: a queue's name is 1-100 of A-Z a-z 0-9 _ -")
    return queue


def topic_table(
    names: TopicNames,
    *,
    buckets: int,
    lanes: int,
    layout: int = 0,
    queues: tuple[str, ...] = (DEFAULT_QUEUE,),
) -> tuple[Topic, ...]:
    """Every topic of an installation. Raises InvalidInput on impossible numbers or names."""
    if not 1 <= lanes <= buckets <= 65_535:
        raise InvalidInput(f"buckets={buckets}, lanes={lanes}: need 1 <= lanes <= buckets <= 65535")
    command = {"message.timestamp.type": "LogAppendTime", "max.message.bytes": str(MAX_COMMAND_BYTES)}
    large = {"max.message.bytes": str(MAX_RECORD_BYTES + 64 * 1024)}
    kept = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}

    def deleted(ms: int) -> dict[str, str]:
        return {"cleanup.policy": "delete", "retention.ms": str(ms)}

    return (
        Topic(names.commands, buckets, "clients", "Schedule, Cancel", {**command, **kept}),
        Topic(
            names.reports,
            buckets,
            "workers",
            "outcomes of runs",
            {**large, **kept, "message.timestamp.type": "LogAppendTime"},
        ),
        Topic(
            names.timers,
            buckets,
            "dispatchers",
            "the changelog: TaskSpec, TaskState, Progress, Claim",
            {
                **large,
                "cleanup.policy": "compact",
                "segment.ms": str(_HOUR),
                "segment.bytes": str(64 * 1024 * 1024),
                "min.cleanable.dirty.ratio": "0.2",
                "delete.retention.ms": str(TOMBSTONES_KEPT_MS),
            },
        ),
        *(
            Topic(
                names.work(check_queue(q)),
                buckets,
                "dispatchers",
                f"runs of queue {q}",
                {**large, **deleted(7 * _DAY)},
            )
            for q in queues
        ),
        Topic(
            names.history, buckets, "dispatchers", "outcomes of occurrences", {**large, **deleted(7 * _DAY)}
        ),
        Topic(
            names.verdicts,
            VERDICT_PARTITIONS,
            "dispatchers",
            "answers to commands",
            {**large, **deleted(_HOUR)},
        ),
        Topic(
            names.signals,
            SIGNAL_PARTITIONS,
            "dispatchers",
            "requests to running work to stop",
            {**large, **deleted(_HOUR)},
        ),
        Topic(
            names.dead_letter,
            DEAD_LETTER_PARTITIONS,
            "dispatchers",
            "given up, or unreadable",
            {**large, **deleted(30 * _DAY)},
        ),
        Topic(names.lanes(layout), lanes, "nobody", "allots lanes; empty for ever", deleted(_DAY)),
    )


@dataclass(frozen=True, slots=True)
class Layout:
    """What the cluster's metadata say of an installation."""

    buckets: int
    lanes: int
    generation: int
    queues: frozenset[str]


def layout_of(names: TopicNames, partitions: Mapping[str, int]) -> Layout:
    """The layout recorded in the cluster. `partitions`: topic name → partition count.

    B is the partition count of `timers`; L that of `lanes.<g>` with the highest g. Raises
    LayoutMismatch when topics are missing or disagree.
    """
    missing = [
        t
        for t in (
            names.commands,
            names.reports,
            names.timers,
            names.history,
            names.verdicts,
            names.signals,
            names.dead_letter,
        )
        if t not in partitions
    ]
    lanes_prefix = f"{names.prefix}lanes."
    generations = [
        int(t[len(lanes_prefix) :])
        for t in partitions
        if t.startswith(lanes_prefix) and t[len(lanes_prefix) :].isdigit()
    ]
    if missing or not generations:
        raise LayoutMismatch(
            f"topics are missing: {', '.join(missing) or names.lanes(0)}; create them with: tickstream topics create (prefix {names.prefix!r})"
        )
    buckets = partitions[names.timers]
    for topic in (names.commands, names.reports, names.history):
        if partitions[topic] != buckets:
            raise LayoutMismatch(
                f"{topic} has {partitions[topic]} partitions, {names.timers} has {buckets}: both must equal the number of buckets; "
                "another number of buckets needs a copy to a new prefix, never an added partition"
            )
    generation = max(generations)
    work_prefix = f"{names.prefix}work."
    queues = frozenset(t[len(work_prefix) :] for t in partitions if t.startswith(work_prefix))
    return Layout(buckets, partitions[names.lanes(generation)], generation, queues)
