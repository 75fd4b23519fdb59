"""Reads everything an audit needs from a live cluster, between the log starts and the ends of one moment.

I/O only: what the records mean is fold.py's, what they must be is checks.py's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from tickstream.clock import Clock
from tickstream.errors import BrokerUnavailable, CodecError, InvalidInput
from tickstream.kafka import (
    Admin,
    Consumer,
    Message,
    TopicPartition,
    is_out_of_range,
    partitioner,
    state_consumer,
)
from tickstream.ops.audit.facts import (
    Advanced,
    Claimed,
    Fact,
    Partition,
    pack,
    pack_mark,
    unpack,
    unpack_mark,
)
from tickstream.ops.audit.fold import Fold
from tickstream.ops.audit.history import Bounds, BucketTimeline, TaskHistory
from tickstream.ops.audit.journal import Kill, entries
from tickstream.ops.audit.report import Report
from tickstream.ops.audit.scratch import Scratch
from tickstream.ops.audit.verdict import Court, Terms, windows_of
from tickstream.settings import Settings
from tickstream.topics import Layout, TopicNames, layout_of

GRACE_MS: Final = 5_000
SESSION_MS: Final = 6_000
STALL_S: Final = 60.0
"""Longer than a broker takes to abort the transaction of a dead owner (its timeout plus a scan)."""
_BATCH: Final = 1_000
_WAIT_S: Final = 0.1
_BUCKET_DIGITS: Final = 5
_AHEAD_KBYTES: Final = 8 * 1_024
"""Python reads more slowly than librdkafka fetches: with its defaults 300 MB of records wait to be read."""

ReadProgress = Callable[[int, int], None]
"""Called with (offsets passed, offsets to pass), about ten times a second while reading."""


@dataclass(frozen=True, slots=True)
class Span:
    """What of the logs is read. Times in ms, None: to that side all of it."""

    since_ms: int | None = None
    until_ms: int | None = None


def audit(
    settings: Settings,
    *,
    journal: Path | None,
    clock: Clock,
    grace_ms: int = GRACE_MS,
    session_ms: int = SESSION_MS,
    late_ms: int | None = None,
    span: Span = Span(),
    scratch: Path | None = None,
    progress: ReadProgress | None = None,
) -> Report:
    """Audit the installation under `settings.prefix` as of now, or as of `span.until_ms`.

    `journal`: a client's own record of its run, see journal.py. `grace_ms`: how long something may be
    due before its missing work is a loss. `session_ms`: of the dispatchers' group. `late_ms`: what is
    dispatched or started later than that is a fault. `scratch`: a directory for what is read, sorted by
    task; the system's one for temporary files unless given.

    Raises InvalidInput on an unreadable journal or a scratch directory without room, LayoutMismatch when
    the topics are not all there, BrokerUnavailable when they cannot be read to their ends, and CodecError
    on a record of a dispatcher that this release cannot read: then nothing can be vouched for.
    """
    directory = Path(tempfile.gettempdir()) if scratch is None else scratch
    with _Sorter(Scratch(directory), Scratch(directory)) as sorter:
        # In this order: what the journal holds was acked before the ends are asked, and what is due by
        # `as_of_ms` less the grace had its chance to be in them.
        kept = _Journal(journal)
        now_ms = clock.wall_ms()
        as_of_ms = now_ms if span.until_ms is None else min(now_ms, span.until_ms)
        terms = Terms(as_of_ms, grace_ms, session_ms, late_ms)

        admin, names = Admin(settings), TopicNames(settings.prefix)
        counts = admin.partitions()
        layout = layout_of(names, counts)
        starts, ends = _bounds(admin, _partitions(names, layout, counts), span)
        fold = Fold(names, layout, sorter, partitioner())
        kills_ms = kept.sort_into(sorter, fold)
        consumer = state_consumer(
            settings, "tickstream-audit", ahead_kbytes=_AHEAD_KBYTES, fetch_bytes=_AHEAD_KBYTES * 1_024
        )
        try:
            _Reading(consumer, fold, starts, ends, clock, progress or _silent).run()
        finally:
            consumer.close()

        moved, windows = windows_of(sorter.timelines(), kills_ms, lanes=layout.lanes, session_ms=session_ms)
        court = Court(
            Bounds(
                names,
                layout,
                starts,
                terms.cutoff_ms,
                late_ms,
                windows,
                fold.first_decided_ms,
                {} if span.until_ms is None else ends,
            )
        )
        for history, timeline in sorter.cases():
            court.hear(history, timeline)
        return court.report(terms, fold, moved)


def _partitions(names: TopicNames, layout: Layout, counts: Mapping[str, int]) -> list[Partition]:
    topics = (names.commands, names.reports, names.timers, names.history, names.dead_letter)
    work = (names.work(queue) for queue in sorted(layout.queues))
    return [(topic, p) for topic in (*topics, *work) for p in range(counts[topic])]


def _bounds(
    admin: Admin, partitions: Sequence[Partition], span: Span
) -> tuple[dict[Partition, int], dict[Partition, int]]:
    """The offsets from which, and to before which, each partition is read."""
    starts = admin.starts(partitions)
    ends = admin.ends(partitions)
    if span.since_ms is not None:
        first = admin.offsets_at(partitions, span.since_ms)
        starts = {p: max(start, first.get(p, ends[p])) for p, start in starts.items()}
    if span.until_ms is not None:
        beyond = admin.offsets_at(partitions, span.until_ms)
        ends = {p: min(end, beyond.get(p, end)) for p, end in ends.items()}
    return starts, ends


class _Journal:
    """A client's journal as long as it is now: what is written to it later is not looked at."""

    def __init__(self, path: Path | None) -> None:
        """Raises InvalidInput."""
        self._path = path
        try:
            self._bytes = path.stat().st_size if path else 0
        except OSError as error:
            raise InvalidInput(f"journal {path}: {error}") from error

    def sort_into(self, sorter: _Sorter, fold: Fold) -> tuple[int, ...]:
        """Hand on what was acked; when dispatchers were killed, ascending. Raises InvalidInput."""
        if self._path is None:
            return ()
        kills_ms = []
        try:
            with self._path.open("rb") as file:
                for entry in entries(self._lines(file)):
                    if isinstance(entry, Kill):
                        kills_ms += [entry.at_ms] if entry.role == "dispatcher" else []
                    else:
                        sorter.task(fold.home(entry.task_id), entry.task_id, entry)
        except (OSError, UnicodeDecodeError, ValueError) as error:
            raise InvalidInput(f"journal {self._path}: {error}") from error
        return tuple(sorted(kills_ms))

    def _lines(self, file: IO[bytes]) -> Iterator[str]:
        left = self._bytes
        while left > 0 and (line := file.readline(left)):
            left -= len(line)
            yield line.decode()


class _Sorter:
    """Facts sorted by task, and commits by bucket, on disk."""

    def __init__(self, tasks: Scratch, marks: Scratch) -> None:
        self._tasks = tasks
        self._marks = marks

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tasks.close()
        self._marks.close()

    def task(self, bucket: int, task_id: str, fact: Fact) -> None:
        """Of Sink. Tasks sort by bucket first, as the timelines do."""
        self._tasks.add(_bucket_key(bucket) + task_id.encode(), pack(fact))

    def mark(self, bucket: int, mark: Advanced | Claimed) -> None:
        """Of Sink."""
        self._marks.add(_bucket_key(bucket), pack_mark(mark))

    def timelines(self) -> Iterator[tuple[int, BucketTimeline]]:
        """Of each bucket that has one, ascending."""
        for key, marks in self._marks.groups():
            yield int(key), BucketTimeline(map(unpack_mark, marks))

    def cases(self) -> Iterator[tuple[TaskHistory, BucketTimeline]]:
        """Every task with its bucket's timeline."""
        timelines, at, timeline = self.timelines(), -1, BucketTimeline()
        following = next(timelines, None)
        for key, facts in self._tasks.groups():
            bucket = int(key[:_BUCKET_DIGITS])
            if bucket != at:
                at, timeline = bucket, BucketTimeline()
                while following is not None and following[0] < bucket:
                    following = next(timelines, None)
                if following is not None and following[0] == bucket:
                    timeline = following[1]
            yield TaskHistory(key[_BUCKET_DIGITS:].decode(), bucket, map(unpack, facts)), timeline


def _bucket_key(bucket: int) -> bytes:
    return b"%0*d" % (_BUCKET_DIGITS, bucket)


class _Reading:
    """One pass over the partitions, each from its start to its end.

    A partition is read when the consumer's position has reached its end: positions also pass the
    control records and aborted transactions that a read_committed consumer never hands out.
    """

    def __init__(
        self,
        consumer: Consumer,
        fold: Fold,
        starts: Mapping[Partition, int],
        ends: Mapping[Partition, int],
        clock: Clock,
        progress: ReadProgress,
    ) -> None:
        self._consumer = consumer
        self._fold = fold
        self._starts = starts
        self._ends = ends
        self._at = {p: start for p, start in starts.items() if start < ends[p]}
        self._total = sum(ends[p] - start for p, start in self._at.items())
        self._clock = clock
        self._progress = progress
        names = fold.names
        self._from_clients = (names.commands, names.reports)

    def run(self) -> None:
        """Read to the ends. Raises BrokerUnavailable when no partition comes forward for `STALL_S`."""
        self._consumer.assign([TopicPartition(t, p, start) for (t, p), start in self._at.items()])
        moved_at = self._clock.monotonic()
        left = self._total
        while self._at:
            for message in self._consumer.consume(_BATCH, _WAIT_S):
                self._take(message)
            self._advance()
            still_left = sum(self._ends[p] - at for p, at in self._at.items())
            now = self._clock.monotonic()
            if still_left < left:
                left, moved_at = still_left, now
                self._progress(self._total - left, self._total)
            elif now - moved_at > STALL_S:
                raise BrokerUnavailable(self._stalled())

    def _advance(self) -> None:
        """Note the positions, and let go of the partitions that are read."""
        done: list[TopicPartition] = []
        for tp in self._consumer.position([TopicPartition(t, p) for t, p in self._at]):
            partition = (tp.topic, tp.partition)
            # Negative until the first record was handed out.
            self._at[partition] = max(self._at[partition], tp.offset)
            if self._at[partition] >= self._ends[partition]:
                done.append(TopicPartition(tp.topic, tp.partition))
                del self._at[partition]
        if done:
            # Or a live tail would go on being fetched to no end.
            self._consumer.incremental_unassign(done)

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            if is_out_of_range(error):
                raise BrokerUnavailable(
                    f"{message.topic()}[{message.partition()}] was purged while it was read; run the audit again"
                )
            if error.fatal() or not error.retriable():
                raise BrokerUnavailable(f"reading {message.topic()}[{message.partition()}]: {error.str()}")
            return
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        # The types allow for errors, which alone have no place in a log.
        assert topic is not None
        assert partition is not None
        assert offset is not None
        if offset >= self._ends[topic, partition]:
            return
        try:
            self._fold.add(topic, partition, offset, message.timestamp()[1], message.key(), message.value())
        except CodecError as unreadable:
            # Anyone may write rubbish there, and a dispatcher sets it aside whole; elsewhere only dispatchers write.
            if topic in self._from_clients:
                self._fold.skip(topic)
            elif topic != self._fold.names.dead_letter:
                raise CodecError(f"{topic}[{partition}]@{offset}: {unreadable}") from unreadable

    def _stalled(self) -> str:
        (topic, partition), at = next(iter(self._at.items()))
        end = self._ends[topic, partition]
        return (
            f"{topic}[{partition}] could be read only to offset {at} of {end}, and nothing came for {STALL_S:g} s; "
            "is a transaction open there, or a broker down?"
        )


def _silent(_passed: int, _total: int) -> None:
    return None
