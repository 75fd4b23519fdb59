"""From a command to a message in the right bucket, and the same again for what stays unanswered.

No waiting for verdicts may enter here.
"""

from __future__ import annotations

from collections.abc import Callable

from tickstream.clock import Clock
from tickstream.codec import BATCH_END, ONE_ELEMENT, batch_head, batch_of_elements, element_of, encode_command
from tickstream.ingest.asking import Question
from tickstream.ingest.layout import LayoutWatch
from tickstream.ingest.producer import CommandProducer, Delivery, Submission
from tickstream.ingest.request import MAX_ELEMENT_BYTES, Checked, check_size, resend_of
from tickstream.model import Command, bucket_key

NO_REPLY = -1
ARRAY_ITEMS = 256
"""Commands in one message: enough to share its price, few enough that a lane takes turns."""
ARRAY_BYTES = MAX_ELEMENT_BYTES // 2


class Array(Delivery):
    """A message that fills with commands of one bucket until it is sent."""

    __slots__ = ("elements", "key", "questions", "size")

    def __init__(self, core: CommandProducer, bucket: int, key: bytes) -> None:
        super().__init__(core, bucket)
        self.key = key
        self.elements: list[bytes] = []
        self.size = 0
        self.questions: list[Question] = []
        """Those of its commands whose verdict is waited for; empty when nobody waits."""

    def has_room(self, element: bytes) -> bool:
        """Whether one more command fits; one that is large by itself travels alone."""
        return not self.elements or (
            len(self.elements) < ARRAY_ITEMS and self.size + len(element) <= ARRAY_BYTES
        )

    def add(self, element: bytes) -> int:
        """Take a command; return its place in the array."""
        self.elements.append(element)
        self.size += len(element)
        return len(self.elements) - 1


class CommandSender:
    """Puts commands where they belong, in the name of one client.

    `bucket_of_key`: `model.bucket_of_key`, or what computes the same.
    """

    def __init__(
        self,
        core: CommandProducer,
        layout: LayoutWatch,
        client_id: str,
        clock: Clock,
        bucket_of_key: Callable[[bytes, int], int],
    ) -> None:
        self.core = core
        self._layout = layout
        self._client_id = client_id
        self._head = batch_head(client_id, NO_REPLY)
        self._monotonic = clock.monotonic
        self._bucket_of_key = bucket_of_key

    def element_of(self, command_id: bytes, request: Checked) -> tuple[int, bytes, bytes]:
        """(bucket, key, element) of a checked request.

        Raises UnknownQueue, PayloadTooLarge, BrokerUnavailable, LayoutMismatch.
        """
        task_id, when, frame, payload = request
        layout = self._layout
        # check_queue would see the same; a call less, since this runs for every task there is.
        if frame.queue not in layout.queues or self._monotonic() >= layout.stale_at:
            layout.check_queue(frame.queue)
        encoded_id = task_id.encode()
        element = frame.element(command_id, encoded_id, when, payload)
        if len(element) > MAX_ELEMENT_BYTES:
            check_size(task_id, element)
        key = bucket_key(task_id).encode() if "{" in task_id else encoded_id
        return self._bucket_of_key(key, layout.buckets), key, element

    def locate(self, command: Command) -> tuple[int, bytes, bytes]:
        """(bucket, key, element) of a command; the cluster is not asked about it again."""
        key = bucket_key(command.task_id).encode()
        return self._bucket_of_key(key, self._layout.buckets), key, element_of(encode_command(command))

    def send(self, command_id: bytes, located: tuple[int, bytes, bytes], reply: int) -> Submission:
        """Send one element; `reply`: partition of `verdicts`, or NO_REPLY. Raises SendFailed."""
        bucket, key, element = located
        submission = Submission(self.core, bucket, command_id)
        head = self._head if reply == NO_REPLY else batch_head(self._client_id, reply)
        self.core.send(key, head + ONE_ELEMENT + element + BATCH_END, submission)
        return submission

    def array(self, bucket: int, key: bytes) -> Array:
        """An empty message for `bucket`; `key` is that of its first command."""
        return Array(self.core, bucket, key)

    def send_array(self, array: Array, reply: int) -> None:
        """Send a message of several commands. Raises SendFailed."""
        value = batch_of_elements(self._client_id, reply, array.elements)
        array.elements = []
        self.core.send(array.key, value, array)
        self.core.poll()
        if array.questions:
            now = self._monotonic()
            for question in array.questions:
                question.sent(now)

    def resend(self, questions: list[Question], reply: int) -> None:
        """Send acknowledged, unanswered commands once more, as arrays per bucket.

        Raises SendFailed.
        """
        arrays: dict[int, Array] = {}
        for question in questions:
            again = resend_of(question.command, question.delivery.offset)
            _, key, element = self.locate(again)
            bucket = question.delivery.bucket
            array = arrays.get(bucket)
            if array is not None and not array.has_room(element):
                self.send_array(array, reply)
                array = None
            if array is None:
                array = arrays[bucket] = self.array(bucket, key)
            array.add(element)
        for array in arrays.values():
            self.send_array(array, reply)
