"""From a command to a message in the right bucket, and the same again for what stays unanswered.

No waiting for verdicts may enter here.
"""

from __future__ import annotations

from tickstream.clock import Clock
from tickstream.codec import encode_batch, encode_command
from tickstream.ingest.asking import Question
from tickstream.ingest.layout import LayoutWatch
from tickstream.ingest.producer import CommandProducer, Delivery, Submission
from tickstream.ingest.request import MAX_ENCODED_BYTES, check_size, resend_of
from tickstream.model import Command, Verb, bucket_key, bucket_of_key

NO_REPLY = -1
ARRAY_ITEMS = 256
"""Commands in one message: enough to share its price, few enough that a lane takes turns."""
ARRAY_BYTES = MAX_ENCODED_BYTES // 2


class Array(Delivery):
    """A message that fills with commands of one bucket until it is sent."""

    __slots__ = ("encoded", "key", "questions", "size")

    def __init__(self, core: CommandProducer, bucket: int, key: bytes) -> None:
        super().__init__(core, bucket)
        self.key = key
        self.encoded: list[bytes] = []
        self.size = 0
        self.questions: list[Question] = []
        """Those of its commands whose verdict is waited for; empty when nobody waits."""

    def has_room(self, encoded: bytes) -> bool:
        """Whether one more command fits; one that is large by itself travels alone."""
        return not self.encoded or (
            len(self.encoded) < ARRAY_ITEMS and self.size + len(encoded) <= ARRAY_BYTES
        )

    def add(self, encoded: bytes) -> int:
        """Take a command; return its place in the array."""
        self.encoded.append(encoded)
        self.size += len(encoded)
        return len(self.encoded) - 1


class CommandSender:
    """Puts commands where they belong, in the name of one client."""

    def __init__(self, core: CommandProducer, layout: LayoutWatch, client_id: str, clock: Clock) -> None:
        self.core = core
        self._clock = clock
        self._layout = layout
        self._client_id = client_id

    def encode(self, command: Command) -> tuple[int, bytes, bytes]:
        """(bucket, key, encoded command), all checks made.

        Raises UnknownQueue, PayloadTooLarge, BrokerUnavailable, LayoutMismatch.
        """
        layout = self._layout
        if command.verb is Verb.SCHEDULE:
            layout.check_queue(command.queue)
        else:
            layout.check()
        key = bucket_key(command.task_id).encode()
        return bucket_of_key(key, layout.buckets), key, check_size(command, encode_command(command))

    def send(self, command: Command, reply: int) -> Submission:
        """Send one command; `reply`: partition of `verdicts`, or NO_REPLY. Raises as `encode`, SendFailed."""
        bucket, key, encoded = self.encode(command)
        submission = Submission(self.core, bucket, command.command_id)
        self.core.send(key, encode_batch(self._client_id, reply, (encoded,)), submission)
        return submission

    def array(self, bucket: int, key: bytes) -> Array:
        """An empty message for `bucket`; `key` is that of its first command."""
        return Array(self.core, bucket, key)

    def send_array(self, array: Array, reply: int) -> None:
        """Send a message of several commands. Raises SendFailed."""
        value = encode_batch(self._client_id, reply, array.encoded)
        array.encoded = []
        self.core.send(array.key, value, array)
        if array.questions:
            now = self._clock.monotonic()
            for question in array.questions:
                question.sent(now)

    def resend(self, questions: list[Question], reply: int) -> None:
        """Send acknowledged, unanswered commands once more, as arrays per bucket. Raises SendFailed."""
        arrays: dict[int, Array] = {}
        for question in questions:
            command = resend_of(question.command, question.delivery.offset)
            bucket, key, encoded = self.encode(command)
            array = arrays.get(bucket)
            if array is not None and not array.has_room(encoded):
                self.send_array(array, reply)
                array = None
            if array is None:
                array = arrays[bucket] = self.array(bucket, key)
            array.add(encoded)
        for array in arrays.values():
            self.send_array(array, reply)
