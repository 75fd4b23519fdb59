"""The ports of a lane on a real broker. Thin: no decision is made here.

Errors are translated by kafka.py; what comes out is LaneLost, RetryTransaction or BucketStopped.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from tickstream.dispatcher.ports import (
    Input,
    InputRecord,
    LogFacts,
    OutRecord,
    Side,
)
from tickstream.errors import (
    BrokerUnavailable,
    BucketStopped,
    LaneLost,
    LayoutMismatch,
    RetryTransaction,
)
from tickstream.kafka import (
    Admin,
    Consumer,
    EndProbe,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
    is_out_of_range,
    place,
    plain_producer,
    state_consumer,
    transaction_errors,
    transactional_producer,
    undelivered,
)
from tickstream.model import NEVER
from tickstream.settings import LaneSettings, Settings
from tickstream.topics import SIGNAL_PARTITIONS, VERDICT_PARTITIONS, TopicNames

MAX_INPUT_BYTES: Final = 512 * 1024
"""Of one poll: some three thousand commands in arrays. It bounds a transaction, and so how long a due
task waits behind an import."""
_INIT_TIMEOUT_S: Final = 20.0
_CONNECT_TIMEOUT_S: Final = 10.0


class KafkaTransactions:
    """A lane's two transactional producers."""

    def __init__(
        self, settings: Settings, names: TopicNames, layout: int, lane: int, limits: LaneSettings
    ) -> None:
        self._producers = {
            side: transactional_producer(settings, names.transactional_id(layout, lane, side.value), limits)
            for side in Side
        }
        # A record gives up after its own time-out; a little longer, and its report is here.
        self._flush_s = limits.message_timeout_ms / 1000 + 1
        self._marks: dict[int, int] = {}
        self._failed: KafkaError | None = None

    def connect(self) -> None:
        """Open the sockets of both, so that step 2 is nothing but its own round trips."""
        for producer in self._producers.values():
            with _unreachable():
                producer.list_topics(timeout=_CONNECT_TIMEOUT_S)

    def init(self, side: Side) -> None:
        with transaction_errors():
            self._producers[side].init_transactions(_INIT_TIMEOUT_S)

    def begin(self, side: Side) -> None:
        self._marks, self._failed = {}, None
        with transaction_errors():
            self._producers[side].begin_transaction()

    def produce(self, side: Side, records: Sequence[OutRecord]) -> None:
        producer = self._producers[side]
        with transaction_errors():
            for record in records:
                self._produce(producer, record)

    def flush(self, side: Side) -> None:
        with transaction_errors():
            left = self._producers[side].flush(self._flush_s)
        if self._failed is not None:
            raise undelivered(self._failed)
        if left:
            raise RetryTransaction(f"not every record was delivered: {left} are under way")

    def commit(self, side: Side) -> Mapping[int, int]:
        with transaction_errors():
            # -1 leaves the time to the transaction's own time-out.
            self._producers[side].commit_transaction(-1)
        return self._marks

    def abort(self, side: Side) -> None:
        with transaction_errors():
            self._producers[side].abort_transaction(-1)

    def close(self) -> None:
        """Let go of both; what is open is aborted by the next owner's init."""
        for producer in self._producers.values():
            # A fenced producer repeats its fatal error at every call; the lane has heard it.
            with contextlib.suppress(KafkaException):
                producer.purge(in_queue=True, in_flight=True, blocking=False)
        self._producers.clear()

    def _produce(self, producer: Producer, record: OutRecord) -> None:
        # Only the marks are asked after: a record that was not delivered fails the commit, which says why,
        # and a report of each would cost as much as producing it.
        delivered = None if record.marks is None else partial(self._marked, record.marks)
        while True:
            try:
                producer.produce(
                    record.topic,
                    record.value,
                    record.key,
                    record.partition,
                    on_delivery=delivered,
                    headers=list(record.headers) if record.headers else None,
                )
                return
            except BufferError:
                producer.poll(0.1)

    def _marked(self, bucket: int, error: KafkaError | None, message: Message[bytes, bytes]) -> None:
        if error is not None:
            self._failed = error
        else:
            _, _, self._marks[bucket] = place(message)


class KafkaInputs:
    """The lane's `commands` and `reports`, assigned by hand."""

    def __init__(self, settings: Settings, names: TopicNames, lane: int) -> None:
        self._consumer: Consumer = state_consumer(settings, f"{names.prefix}lane-{lane}-inputs")
        self._sources = {names.commands: Input.COMMANDS, names.reports: Input.REPORTS}
        self._topics = {source: topic for topic, source in self._sources.items()}
        self._assigned: list[TopicPartition] = []
        self._stops: list[BucketStopped] = []

    def assign(self, positions: Mapping[tuple[Input, int], tuple[int, int]]) -> None:
        added = [
            # An epoch lets the broker notice a log that was cut behind our back.
            TopicPartition(self._topics[source], bucket, offset, leader_epoch=epoch)
            if epoch != NEVER
            else TopicPartition(self._topics[source], bucket, offset)
            for (source, bucket), (offset, epoch) in positions.items()
        ]
        self._assigned += added
        self._consumer.incremental_assign(added)

    def poll(self, timeout_s: float, limit: int) -> Sequence[InputRecord]:
        if self._stops:
            # Kept until here, so that what was read beside it is not lost with it.
            raise self._stops.pop(0)
        first = self._consumer.poll(timeout_s)
        if first is None:
            return ()
        messages = [first]
        size, step = len(first.value() or b""), 4
        while len(messages) < limit and size < MAX_INPUT_BYTES:
            # Small steps that grow: one message may hold one command or hundreds, and what is taken
            # is applied in one transaction. With no time, `consume` takes what is there.
            step = min(
                step * 2, limit - len(messages), 1 + (MAX_INPUT_BYTES - size) * len(messages) // (size or 1)
            )
            more = self._consumer.consume(step, 0)
            if not more:
                break
            messages += more
            size += sum(len(m.value() or b"") for m in more)
        return [self._record(m) for m in messages if not self._passing(m)]

    def positions(self) -> Mapping[tuple[Input, int], int]:
        reached = self._consumer.position(self._assigned)
        return {(self._sources[tp.topic], tp.partition): tp.offset for tp in reached}

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()

    def _record(self, message: Message[bytes, bytes]) -> InputRecord:
        epoch = message.leader_epoch()
        topic, partition, offset = place(message)
        return InputRecord(
            self._sources[topic],
            partition,
            offset,
            NEVER if epoch is None else epoch,
            message.timestamp()[1],
            message.value(),
        )

    def _passing(self, message: Message[bytes, bytes]) -> bool:
        """Whether this is an event that needs nothing; raises when it needs something."""
        error = message.error()
        if error is None:
            return False
        if is_out_of_range(error):
            partition = message.partition()
            stopped = BucketStopped(
                -1 if partition is None else partition, f"{message.topic()}: {error.str()}"
            )
            self._stops.append(stopped)
            return True
        if error.fatal():
            raise LaneLost(error.str())
        return True


class KafkaEnds:
    """The end probe over the lane's inputs."""

    def __init__(self, admin: Admin, names: TopicNames, buckets: Sequence[int]) -> None:
        self._admin = admin
        self._sources = {names.commands: Input.COMMANDS, names.reports: Input.REPORTS}
        self._partitions = [(topic, bucket) for topic in self._sources for bucket in buckets]
        self._probe: EndProbe | None = None

    def ask(self) -> None:
        self._probe = self._admin.probe_ends(self._partitions)

    def pending(self) -> bool:
        return self._probe is not None

    def answer(self) -> Mapping[tuple[Input, int], int] | None:
        if self._probe is None or not self._probe.done():
            return None
        probe, self._probe = self._probe, None
        if probe.failed():
            return None
        return {(self._sources[topic], bucket): end for (topic, bucket), end in probe.ends().items()}


class KafkaReplies:
    """`verdicts` and `signals`. One per process, shared by its lanes. Best effort: a client sends again, and is answered again."""

    def __init__(
        self, settings: Settings, names: TopicNames, events: Callable[[Mapping[str, object]], None]
    ) -> None:
        self._settings = settings
        self._names = names
        self._events = events
        self._mutex = threading.Lock()
        self._producer = self._connect()

    def send(self, client_id: str, partition: int, value: bytes) -> None:
        if not 0 <= partition < VERDICT_PARTITIONS:
            return  # whoever sent the command named a partition where nobody can listen
        self._produce(self._names.verdicts, client_id.encode(), partition, value)

    def signal(self, run_id: bytes, value: bytes) -> None:
        partition = run_id[-1] % SIGNAL_PARTITIONS if run_id else 0
        self._produce(self._names.signals, run_id, partition, value)

    def _produce(self, topic: str, key: bytes, partition: int, value: bytes) -> None:
        producer = self._producer
        try:
            producer.poll(0)
            producer.produce(topic, value, key, partition)
        except BufferError:
            self._events({"event": "verdicts_dropped", "reason": "the queue to the broker is full"})
        except KafkaException as error:
            self._failed(producer, error.args[0])

    def close(self) -> None:
        """Send what is queued, briefly."""
        self._producer.flush(2)

    def _connect(self) -> Producer:
        return plain_producer(self._settings, f"{self._names.prefix}verdicts", linger_ms=1)

    def _failed(self, producer: Producer, error: KafkaError) -> None:
        self._events({"event": "alarm", "reason": f"verdicts could not be sent: {error.str()}"})
        with self._mutex:
            if error.fatal() and producer is self._producer:
                self._producer = self._connect()


class KafkaFacts:
    """Metadata of the cluster, shared by the lanes of a process."""

    def __init__(self, admin: Admin, names: TopicNames, buckets: int) -> None:
        self._admin = admin
        self._names = names
        self._buckets = buckets
        self._queues: frozenset[str] = frozenset()
        self._asked = float("-inf")

    def log(self) -> LogFacts:
        """Raises LaneLost when the broker cannot be asked."""
        names = self._names
        topics = {Input.COMMANDS: names.commands, Input.REPORTS: names.reports}
        try:
            ids = self._admin.topic_ids([*topics.values(), names.timers])
            starts = self._admin.starts(
                [(t, b) for t in (*topics.values(), names.timers) for b in range(self._buckets)]
            )
        except (BrokerUnavailable, LayoutMismatch) as error:
            raise LaneLost(str(error)) from error
        return LogFacts(
            {source: ids[topic] for source, topic in topics.items()},
            ids[names.timers],
            {(source, b): starts[topic, b] for source, topic in topics.items() for b in range(self._buckets)},
            {b: starts[names.timers, b] for b in range(self._buckets)},
        )

    def queues(self) -> frozenset[str]:
        return self._queues

    def refresh(self, max_age_s: float = 2.0) -> None:
        """Ask again when the answer is old. Called off the lanes' threads: it can block."""
        if time.monotonic() - self._asked < max_age_s:
            return
        self._queues = self._admin.layout().queues
        self._asked = time.monotonic()


class _unreachable:
    """Translate a broker that does not answer into the recovery it asks of a lane."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _type: object, error: BaseException | None, _tb: object) -> None:
        if isinstance(error, KafkaException):
            raise LaneLost(f"the broker does not answer: {error.args[0].str()}") from error
