"""The producer core: messages on their way into `commands`, and what became of them.

No validation and no verdict may enter here. One core for every kind of client: `send` returns at
once and the delivery callback resolves the handle, so an asynchronous client only has to await it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from tickstream.clock import Clock
from tickstream.errors import SendFailed
from tickstream.kafka import KafkaError, KafkaException, Message
from tickstream.model import Receipt

_POLL_EVERY: Final = 64
"""Sends between two looks at delivery reports. A thread of its own for them would fight the
sender for the interpreter's lock at every single report."""
_POLL_S: Final = 0.01
ACK_S: Final = 20.0
"""Longer than librdkafka keeps a message it cannot deliver (8 s): by then every fate is known."""

OnDelivery = Callable[[KafkaError | None, Message], None]


class ProducerPort(Protocol):
    """What the core needs of confluent_kafka.Producer."""

    def produce(
        self, topic: str, value: bytes, key: bytes, partition: int, on_delivery: OnDelivery, /
    ) -> None:
        """Queue a message. Raises BufferError when the queue is full."""
        ...

    def poll(self, timeout: float, /) -> int:
        """Serve delivery reports; wait at most `timeout` seconds for the first."""
        ...

    def flush(self, timeout: float, /) -> int:
        """Wait until the queue is empty; return what is left in it after `timeout` seconds."""
        ...


class Delivery:
    """One message on its way into a bucket of `commands`."""

    __slots__ = ("_core", "bucket", "error", "offset", "on_settled")

    def __init__(self, core: CommandProducer, bucket: int) -> None:
        self._core = core
        self.bucket = bucket
        self.offset = -1
        """Where the message lies, once it is acknowledged."""
        self.error = ""
        """Why the message was not acknowledged, once that is known."""
        self.on_settled: Callable[[], None] | None = None
        """Called once that is known, by whichever thread serves the delivery report."""

    def done(self) -> bool:
        """Whether it is known what became of it."""
        return self.offset >= 0 or self.error != ""

    def settle(self, error: KafkaError | None, message: Message) -> None:
        """The delivery callback."""
        if error is None:
            # An acknowledged message has an offset; the type allows for those that are not.
            self.offset = message.offset() or 0
        else:
            self.fail(error.str())
            self._core.note_failure(self)
        if self.on_settled is not None:
            self.on_settled()

    def fail(self, reason: str) -> None:
        """The message will not be acknowledged."""
        self.error = reason

    def receipt_of(self, item: int, timeout_s: float) -> Receipt:
        """The receipt of element `item` of the message. Raises SendFailed."""
        if not self.done() and not self._core.wait(self, timeout_s):
            raise SendFailed(
                f"bucket {self.bucket}: no acknowledgement in time ({timeout_s:.3g} s); "
                "the command may still get into the log"
            )
        if self.error:
            self._core.failure_seen(self)
            raise SendFailed(
                f"bucket {self.bucket}: the broker did not acknowledge the command ({self.error}); "
                "it may or may not be in the log"
            )
        return Receipt(self.bucket, self.offset, item)


class Submission(Delivery):
    """One command sent by `schedule`: a handle that the acknowledgement resolves."""

    __slots__ = ("command_id",)

    def __init__(self, core: CommandProducer, bucket: int, command_id: bytes) -> None:
        # Spelled out instead of super(): there is one of these for every task.
        self._core = core
        self.bucket = bucket
        self.offset = -1
        self.error = ""
        self.on_settled = None
        self.command_id = command_id
        """16 bytes, UUIDv7."""

    def receipt(self, timeout: float = 10.0) -> Receipt:
        """Wait for the acknowledgement, at most `timeout` seconds, and say where the command lies.

        Raises SendFailed when there is none: then the command may or may not be in the log.
        """
        return self.receipt_of(0, timeout)


class CommandProducer:
    """Sends messages to explicit partitions of `commands`. Thread-safe."""

    def __init__(self, producer: ProducerPort, topic: str, clock: Clock) -> None:
        self._producer = producer
        self._produce = producer.produce
        self._topic = topic
        self._clock = clock
        self._unpolled = 0
        self._failed: dict[int, Delivery] = {}

    def send(self, key: bytes, value: bytes, delivery: Delivery) -> None:
        """Queue `value` for the delivery's bucket; block while the queue is full.

        Raises SendFailed when the queue stays full or the producer is beyond use.
        """
        try:
            self._produce(self._topic, value, key, delivery.bucket, delivery.settle)
        except BufferError:
            self._send_when_there_is_room(key, value, delivery)
        except KafkaException as error:
            raise _refused(error) from error
        self._unpolled += 1
        if self._unpolled >= _POLL_EVERY:
            self._unpolled = 0
            self._producer.poll(0)

    def _send_when_there_is_room(self, key: bytes, value: bytes, delivery: Delivery) -> None:
        deadline = self._clock.monotonic() + ACK_S
        while self._clock.monotonic() < deadline:
            self._producer.poll(_POLL_S)
            try:
                return self._produce(self._topic, value, key, delivery.bucket, delivery.settle)
            except BufferError:
                continue
            except KafkaException as error:
                raise _refused(error) from error
        raise SendFailed(f"the producer's queue was full for {ACK_S:g} s; this command was not sent")

    def wait(self, delivery: Delivery, timeout_s: float) -> bool:
        """Serve delivery reports until this one is known; False when `timeout_s` passes first."""
        deadline = self._clock.monotonic() + timeout_s
        while not delivery.done():
            left = deadline - self._clock.monotonic()
            if left <= 0:
                return False
            # Short, because another thread may serve the report that is waited for here.
            self._producer.poll(min(left, _POLL_S))
        return True

    def poll(self) -> None:
        """Serve the delivery reports that are there."""
        self._producer.poll(0)

    def flush(self, timeout_s: float) -> None:
        """Wait until everything sent is acknowledged.

        Raises SendFailed when something is not, and nobody was told yet by its handle.
        """
        left = self._producer.flush(timeout_s)
        failed, self._failed = self._failed, {}
        if left:
            raise SendFailed(
                f"{left} messages were not acknowledged within {timeout_s:g} s; "
                "their commands may or may not be in the log"
            )
        for delivery in failed.values():
            raise SendFailed(
                f"{len(failed)} messages were not acknowledged (the first, in bucket {delivery.bucket}: "
                f"{delivery.error}); their commands may or may not be in the log"
            )

    def note_failure(self, delivery: Delivery) -> None:
        """Remember a failure until somebody is told of it."""
        self._failed[id(delivery)] = delivery

    def failure_seen(self, delivery: Delivery) -> None:
        """The caller was told by the handle."""
        self._failed.pop(id(delivery), None)


def _refused(error: KafkaException) -> SendFailed:
    return SendFailed(
        f"the producer took no command ({error.args[0].str()}); this one was not sent. "
        "Close this client and make another"
    )
