"""The answers: one partition of `verdicts`, read from the end by a thread.

Nothing is sent from here; who asks again, and when, is in asking.py.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final, Protocol

from tickstream.codec import decode_verdicts
from tickstream.errors import BrokerUnavailable, CodecError
from tickstream.kafka import KafkaError, Message
from tickstream.model import Verdict

_log = logging.getLogger(__name__)
_POLL_S: Final = 0.1


class VerdictSource(Protocol):
    """A consumer that is assigned to one partition of `verdicts`, at its end."""

    def poll(self, timeout: float, /) -> Message | None:
        """The next message, or None after `timeout` seconds."""
        ...

    def close(self) -> None:
        """Leave; no further poll."""
        ...


class VerdictTail:
    """Collects the verdicts that are expected; all others are somebody else's.

    Answers are addressed to a client_id and, within it, to a command_id; other clients' answers
    lie in the same partition.
    """

    def __init__(
        self,
        source: VerdictSource,
        partition: int,
        client_id: str,
        lost_place: Callable[[KafkaError], bool],
        to_end: Callable[[], None],
    ) -> None:
        """`lost_place` says whether an error means that the position lies outside the log; `to_end`
        assigns the source to the end again: what was missed is answered again on a re-send."""
        self.partition = partition
        self._source = source
        self._client_id = client_id
        self._lost_place = lost_place
        self._to_end = to_end
        self._misplaced = False
        self._answers: dict[bytes, Verdict | None] = {}
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"verdicts-{client_id}", daemon=True)
        self._thread.start()

    def expect(self, command_id: bytes) -> None:
        """Keep the verdict on this command when it comes. Call before the command is sent."""
        with self._changed:
            self._answers.setdefault(command_id, None)

    def forget(self, command_id: bytes) -> None:
        """The verdict is no longer wanted."""
        with self._changed:
            self._answers.pop(command_id, None)

    def verdict(self, command_id: bytes, timeout_s: float) -> Verdict | None:
        """The verdict on an expected command, or None when `timeout_s` passes first."""
        with self._changed:
            self._changed.wait_for(lambda: self._answers.get(command_id) is not None, timeout_s)
            return self._answers.get(command_id)

    def close(self) -> None:
        """End the thread and the consumer."""
        self._stop.set()
        self._thread.join()
        self._source.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._source.poll(_POLL_S)
            if self._misplaced:
                self._find_end()
            if message is not None:
                self._take(message)

    def _find_end(self) -> None:
        try:
            self._to_end()
        except BrokerUnavailable as error:
            _log.warning("verdicts partition %d: %s; asked again", self.partition, error)
        else:
            self._misplaced = False

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            _log.warning("verdicts partition %d: %s", self.partition, error.str())
            self._misplaced = self._misplaced or self._lost_place(error)
            return
        try:
            batch = decode_verdicts(message.value())
        except CodecError as unreadable:
            _log.warning("verdicts %d:%s: %s", self.partition, message.offset(), unreadable)
            return
        if batch.client_id != self._client_id:
            return
        with self._changed:
            for verdict in batch.verdicts:
                if self._answers.get(verdict.command_id, verdict) is None:
                    self._answers[verdict.command_id] = verdict
            self._changed.notify_all()
