"""Requests to stop running work: the topic `signals`, read from its end.

Best effort by design: what is missed is made good by leases, fences and timeouts. What a signal does
to a run is keeper.py's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from tickstream.codec import decode_signal
from tickstream.errors import BrokerUnavailable, CodecError
from tickstream.kafka import KafkaException, Message, TopicPartition, end_of, state_consumer
from tickstream.model import Signal
from tickstream.settings import Settings
from tickstream.topics import SIGNAL_PARTITIONS, TopicNames
from tickstream.worker.events import Events

_POLL_S: Final = 0.1
_AGAIN_S: Final = 1.0
"""Before the ends are asked for again."""


class SignalTail:
    """The consumer of `signals`; `serve` is its thread."""

    def __init__(
        self, settings: Settings, worker_id: str, heard: Callable[[Signal], None], events: Events
    ) -> None:
        """Resolves the ends: what is sent from now on is heard. Raises BrokerUnavailable."""
        self._topic = TopicNames(settings.prefix).signals
        self._heard = heard
        self._events = events
        self._stop = threading.Event()
        self._consumer = state_consumer(settings, worker_id, isolation="read_uncommitted")
        try:
            self._to_end()
        except BrokerUnavailable:
            self._consumer.close()
            raise

    def serve(self) -> None:
        """The thread of this tail, until `close`."""
        try:
            while not self._stop.is_set():
                message = self._consumer.poll(_POLL_S)
                if message is not None:
                    self._take(message)
        finally:
            self._consumer.close()

    def close(self) -> None:
        """Let `serve` return."""
        self._stop.set()

    def _to_end(self) -> None:
        ends = [
            TopicPartition(self._topic, p, end_of(self._consumer, self._topic, p))
            for p in range(SIGNAL_PARTITIONS)
        ]
        self._consumer.assign(ends)

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            # A place outside the log, a broker that was away: only what comes is of interest.
            self._complain(error.str())
            self._find_end()
            return
        try:
            signal = decode_signal(message.value())
        except CodecError as unreadable:
            self._complain(str(unreadable))
            return
        self._heard(signal)

    def _find_end(self) -> None:
        while not self._stop.wait(_AGAIN_S):
            try:
                self._to_end()
            except (BrokerUnavailable, KafkaException) as error:
                self._complain(str(error))
            else:
                return

    def _complain(self, reason: str) -> None:
        self._events.alarm("signals", f"{self._topic}: {reason}; requests to stop may be missed meanwhile")
