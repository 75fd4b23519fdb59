"""Sends reports and tells what the broker acknowledged of them.

Owns the producer and its thread; what goes into which message is outbox.py's to decide.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final, Protocol

from tickstream.clock import Clock
from tickstream.codec import encode_reports
from tickstream.errors import SendFailed
from tickstream.kafka import KafkaError, KafkaException, Message, Producer, place
from tickstream.model import Report, ReportKind, bucket_key
from tickstream.worker.events import Events
from tickstream.worker.outbox import Batch, Entry, Outbox
from tickstream.worker.run import Run

COALESCE_S: Final = 0.005
_SERVE_S: Final = 0.005
"""Rhythm of delivery callbacks while acknowledgements are awaited."""
_COLLECT: Final = 2_000
"""Reports taken in before some are sent, however fast more arrive."""


class Acknowledged(Protocol):
    """Hears of every message of reports that the broker has. Called from the reporter's thread."""

    def __call__(self, entries: Sequence[Entry], sent_at: float, offset: int, /) -> None:
        """`sent_at`: monotonic seconds; `offset`: of the message in `reports`."""
        ...


class Reporter:
    """One message a bucket and interval, sent again until it is acknowledged.

    Delivery rule: `acknowledged` hears of a report only after the broker acknowledged the message
    that holds it; so no commit ever passes a report that may be lost, and no lease is counted as
    renewed by a heartbeat that did not arrive.
    """

    def __init__(
        self,
        producer: Producer,
        topic: str,
        worker_id: str,
        clock: Clock,
        events: Events,
        acknowledged: Acknowledged,
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._worker_id = worker_id
        self._clock = clock
        self._events = events
        self._acknowledged = acknowledged
        self._inbox: SimpleQueue[Entry | None] = SimpleQueue()
        self._outbox = Outbox(COALESCE_S)
        self._in_flight = 0
        self._fatal: KafkaError | None = None
        self._give_up = threading.Event()
        self.told: Counter[tuple[str, ReportKind]] = Counter()
        """Acknowledged reports by queue and kind."""
        self.messages = 0
        """Acknowledged messages."""

    def put(self, run: Run, report: Report) -> None:
        """A report to be sent. Any thread."""
        self._inbox.put(Entry(run, report))

    def close(self) -> None:
        """Let `serve` return once everything put before is acknowledged."""
        self._inbox.put(None)

    def give_up(self) -> None:
        """Let `serve` return at once; what is not acknowledged will be delivered again as work."""
        self._give_up.set()
        self._inbox.put(None)

    def serve(self) -> None:
        """The thread of this reporter. Raises SendFailed when the producer cannot go on."""
        closing = False
        while not self._give_up.is_set():
            closing = self.turn(0.0 if closing and self._idle else self.wait_s()) or closing
            if closing and self._idle and self._inbox.empty():
                return

    def turn(self, wait_s: float | None) -> bool:
        """Once round the loop, waiting so long for a first report; whether `close` was called.

        Raises SendFailed when the producer cannot go on.
        """
        closing = self._collect(wait_s)
        for batch in self._outbox.take(self._clock.monotonic()):
            self._send(batch)
        self._serve_deliveries()
        if self._fatal is not None:
            raise SendFailed(
                f"reports can no longer be sent ({self._fatal.str()}); restart the worker, "
                "its work will be delivered again"
            )
        return closing

    @property
    def _idle(self) -> bool:
        return self._outbox.empty and not self._in_flight

    def wait_s(self) -> float | None:
        """How long nothing is to be done but to take in reports, seconds; None: for ever."""
        wait_s = self.next_send_s()
        if self._in_flight:
            return _SERVE_S if wait_s is None else min(wait_s, _SERVE_S)
        return wait_s

    def next_send_s(self) -> float | None:
        """How long nothing is to be sent, seconds; None: for ever. For who hears of deliveries by itself."""
        return self._outbox.wait_s(self._clock.monotonic())

    def _collect(self, wait_s: float | None) -> bool:
        """Move what has arrived to the outbox, waiting for the first; whether `close` was called."""
        closing = False
        for _ in range(_COLLECT):
            try:
                item = self._inbox.get(wait_s != 0.0, wait_s)
            except Empty:
                break
            wait_s = 0.0
            if item is None:
                closing = True
            else:
                self._outbox.add(item)
        return closing

    def _send(self, batch: Batch) -> None:
        key = bucket_key(batch.entries[0].report.task_id).encode()
        value = encode_reports(self._worker_id, [entry.report for entry in batch.entries])
        try:
            self._producer.produce(
                self._topic,
                value=value,
                key=key,
                partition=batch.bucket,
                on_delivery=partial(self._delivered, batch, self._clock.monotonic()),
            )
        except BufferError:
            self._refused(batch, "the producer's queue is full")
        except KafkaException as error:
            self._refused_by(batch, error.args[0])
        else:
            self._in_flight += 1

    def _serve_deliveries(self) -> None:
        """Have the delivery reports called back; a fatal error of the producer comes out of here."""
        try:
            self._producer.poll(0)
        except KafkaException as error:
            if error.args[0].fatal():
                self._fatal = error.args[0]
            else:
                self._events.alarm("producer_error", error.args[0].str())

    def _delivered(self, batch: Batch, sent_at: float, error: KafkaError | None, message: Message) -> None:
        self._in_flight -= 1
        if error is not None:
            self._refused_by(batch, error)
            return
        _, _, offset = place(message)
        self.messages += 1
        self.told.update((run.queue, report.kind) for run, report in batch.entries)
        self._acknowledged(batch.entries, sent_at, offset)

    def _refused_by(self, batch: Batch, error: KafkaError) -> None:
        if error.fatal():
            self._fatal = error
        self._refused(batch, error.str())

    def _refused(self, batch: Batch, reason: str) -> None:
        self._outbox.refused(batch, self._clock.monotonic())
        self._events.alarm(
            "reports_refused",
            f"{len(batch.entries)} reports were not acknowledged and will be sent again: {reason}",
            bucket=batch.bucket,
        )
