"""The offsets of one queue: what the ledger allows is committed, and once more if that failed.

Only the reader's thread may enter here; which offsets are allowed is ledger.py's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from tickstream.clock import Clock
from tickstream.kafka import Consumer, KafkaError, KafkaException, TopicPartition
from tickstream.worker.events import Events
from tickstream.worker.ledger import OffsetLedger

COMMIT_S: Final = 0.2


class Commits:
    """Commits positions of one topic through its consumer."""

    def __init__(self, queue: str, topic: str, ledger: OffsetLedger, clock: Clock, events: Events) -> None:
        self._queue = queue
        self._topic = topic
        self._ledger = ledger
        self._clock = clock
        self._events = events
        self._next = 0.0

    def if_due(self, consumer: Consumer) -> None:
        """Commit what may be, five times a second at most, without waiting for the answer."""
        now = self._clock.monotonic()
        if now < self._next:
            return
        self._next = now + COMMIT_S
        if positions := self._ledger.to_commit():
            self._ledger.committed(positions)
            self._commit(consumer, positions, wait=False)

    def now(self, consumer: Consumer, partitions: Collection[int]) -> None:
        """Commit what may be of these, and wait for the answer."""
        positions = {p: position for p, position in self._ledger.to_commit().items() if p in partitions}
        if positions:
            self._ledger.committed(positions)
            self._commit(consumer, positions, wait=True)

    def _commit(self, consumer: Consumer, positions: Mapping[int, int], *, wait: bool) -> None:
        offsets = [TopicPartition(self._topic, p, position) for p, position in positions.items()]
        try:
            if wait:
                self.answered(None, consumer.commit(offsets=offsets, asynchronous=False) or [])
            else:
                consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as error:
            self.answered(error.args[0], offsets)

    def answered(self, error: KafkaError | None, offsets: Sequence[TopicPartition]) -> None:
        """A commit that failed is repeated at the next occasion; until then work may come twice."""
        failed = [tp.partition for tp in offsets if error is not None or tp.error is not None]
        if failed:
            self._ledger.commit_failed(failed)
            reason = error or next(tp.error for tp in offsets if tp.error is not None)
            self._events.emit(
                "commit_failed", queue=self._queue, partitions=sorted(failed), reason=reason.str()
            )
