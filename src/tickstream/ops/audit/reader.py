"""Reads everything an audit needs from a live cluster, between the log starts and the ends of one moment.

I/O only: what the records mean is fold.py's, what they must be is checks.py's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tickstream.clock import Clock
from tickstream.errors import BrokerUnavailable, CodecError, InvalidInput
from tickstream.kafka import Admin, Consumer, Message, TopicPartition, is_out_of_range, state_consumer
from tickstream.ops.audit.fold import Evidence, Partition
from tickstream.ops.audit.journal import Journal, parse_journal
from tickstream.ops.audit.report import Report
from tickstream.ops.audit.verdict import judge
from tickstream.settings import Settings
from tickstream.topics import Layout, TopicNames, layout_of

GRACE_MS: Final = 5_000
SESSION_MS: Final = 6_000
STALL_S: Final = 60.0
"""Longer than a broker takes to abort the transaction of a dead owner (its timeout plus a scan)."""
_BATCH: Final = 1_000
_WAIT_S: Final = 0.1

ReadProgress = Callable[[int, int], None]
"""Called with (offsets passed, offsets to pass), about ten times a second while reading."""


def audit(
    settings: Settings,
    *,
    journal: Path | None,
    clock: Clock,
    grace_ms: int = GRACE_MS,
    session_ms: int = SESSION_MS,
    progress: ReadProgress | None = None,
) -> Report:
    """Audit the installation under `settings.prefix` as of now.

    `journal`: a client's own record of its run, see journal.py. `grace_ms`: how long something may be
    due before its missing work is a loss. `session_ms`: of the dispatchers' group.

    Raises InvalidInput on an unreadable journal, LayoutMismatch when the topics are not all there,
    BrokerUnavailable when they cannot be read to their ends, and CodecError on a record of a dispatcher
    that this release cannot read: then nothing can be vouched for.
    """
    # In this order: what the journal holds was acked before the ends are asked, and what is due by
    # `as_of_ms` less the grace had its chance to be in them.
    kept = Journal() if journal is None else _read_journal(journal)
    as_of_ms = clock.wall_ms()
    evidence = read_evidence(settings, clock, progress or _silent)
    return judge(evidence, kept, as_of_ms=as_of_ms, grace_ms=grace_ms, session_ms=session_ms)


def read_evidence(settings: Settings, clock: Clock, progress: ReadProgress) -> Evidence:
    """Every committed record of the installation's topics, folded. Raises as `audit` does."""
    admin = Admin(settings)
    names = TopicNames(settings.prefix)
    counts = admin.partitions()
    layout = layout_of(names, counts)
    partitions = _partitions(names, layout, counts)
    starts = admin.starts(partitions)
    ends = admin.ends(partitions)
    evidence = Evidence(names, layout, starts)
    consumer = state_consumer(settings, "tickstream-audit")
    try:
        _Reading(consumer, evidence, starts, ends, clock, progress).run()
    finally:
        consumer.close()
    return evidence


def _partitions(names: TopicNames, layout: Layout, counts: Mapping[str, int]) -> list[Partition]:
    topics = (names.commands, names.reports, names.timers, names.history)
    work = (names.work(queue) for queue in sorted(layout.queues))
    return [(topic, p) for topic in (*topics, *work) for p in range(counts[topic])]


class _Reading:
    """One pass over the partitions, each from its start to its end.

    A partition is read when the consumer's position has reached its end: positions also pass the
    control records and aborted transactions that a read_committed consumer never hands out.
    """

    def __init__(
        self,
        consumer: Consumer,
        evidence: Evidence,
        starts: Mapping[Partition, int],
        ends: Mapping[Partition, int],
        clock: Clock,
        progress: ReadProgress,
    ) -> None:
        self._consumer = consumer
        self._evidence = evidence
        self._starts = starts
        self._ends = ends
        self._at = {p: start for p, start in starts.items() if start < ends[p]}
        self._total = sum(ends[p] - start for p, start in self._at.items())
        self._clock = clock
        self._progress = progress
        names = evidence.names
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
            self._evidence.add(
                topic, partition, offset, message.timestamp()[1], message.key(), message.value()
            )
        except CodecError as unreadable:
            # Anyone may write rubbish there, and a dispatcher sets it aside whole; elsewhere only dispatchers write.
            if topic in self._from_clients:
                self._evidence.skip(topic)
            else:
                raise CodecError(f"{topic}[{partition}]@{offset}: {unreadable}") from unreadable

    def _stalled(self) -> str:
        (topic, partition), at = next(iter(self._at.items()))
        end = self._ends[topic, partition]
        return (
            f"{topic}[{partition}] could be read only to offset {at} of {end}, and nothing came for {STALL_S:g} s; "
            "is a transaction open there, or a broker down?"
        )


def _read_journal(path: Path) -> Journal:
    try:
        with path.open(encoding="utf-8") as lines:
            return parse_journal(lines)
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise InvalidInput(f"journal {path}: {error}") from error


def _silent(_passed: int, _total: int) -> None:
    return None
