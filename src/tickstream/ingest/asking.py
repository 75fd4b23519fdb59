"""Waiting for verdicts: the same command is sent again until it is answered or time is up.

How messages are sent is in producer.py, how answers are read in verdicts.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import Final

from tickstream.clock import Clock
from tickstream.errors import VerdictTimeout
from tickstream.ingest.producer import Delivery
from tickstream.ingest.verdicts import VerdictTail
from tickstream.model import Command, Receipt, Verdict

_TURN_S: Final = 0.05
RESEND_S: Final = 2.0
"""A verdict is sent once, after the commit; a dispatcher that dies in between leaves it unsent."""


class Question:
    """A command whose verdict is waited for."""

    __slots__ = ("command", "deadline", "delivery", "item", "resend_at", "timeout_s")

    def __init__(self, command: Command, delivery: Delivery, item: int, timeout_s: float) -> None:
        """`item`: the command's place in its message."""
        self.command = command
        self.delivery = delivery
        self.item = item
        self.timeout_s = timeout_s
        self.deadline = inf
        """On the monotonic clock (s); it runs from the first send."""
        self.resend_at = inf

    def sent(self, now: float) -> None:
        """Its message was sent, the first time, at `now` of the monotonic clock."""
        self.deadline = now + self.timeout_s
        self.resend_at = now + RESEND_S


class Asking:
    """Gets verdicts on commands that are sent, asking again for those that stay unanswered."""

    def __init__(
        self,
        tail: VerdictTail,
        resend: Callable[[list[Question], int], None],
        poll: Callable[[], None],
        clock: Clock,
    ) -> None:
        """`resend` sends the commands of acknowledged questions once more; `poll` serves delivery reports."""
        self.reply = tail.partition
        """Where the answers to a command have to be sent."""
        self._tail = tail
        self._resend = resend
        self._poll = poll
        self._clock = clock

    def expect(self, command_id: bytes) -> None:
        """Keep the verdict on this command when it comes. Call before the command is sent."""
        self._tail.expect(command_id)

    def forget(self, command_id: bytes) -> None:
        """The verdict is no longer wanted."""
        self._tail.forget(command_id)

    def is_answered(self, command_id: bytes) -> bool:
        """Whether the verdict is there."""
        return self._tail.verdict(command_id, 0) is not None

    def arrives(self, command_id: bytes, timeout_s: float) -> bool:
        """Wait for the verdict on a command that is not asked again; False when `timeout_s` passes first."""
        # In short turns, because what was sent has to be served by the one who waits.
        deadline = self._clock.monotonic() + timeout_s
        while (left := deadline - self._clock.monotonic()) > 0:
            self._poll()
            if self._tail.verdict(command_id, min(left, _TURN_S)) is not None:
                return True
        return False

    def verdict(self, question: Question, others: Iterable[Question] = ()) -> Verdict:
        """The verdict on a question that was sent; meanwhile `others` are asked again, too.

        Raises SendFailed when the first send is not acknowledged in time, else VerdictTimeout
        with the receipt.
        """
        receipt = self._receipt(question)
        while True:
            until = min(question.deadline, question.resend_at)
            left = max(0.0, until - self._clock.monotonic())
            verdict = self._tail.verdict(question.command.command_id, left)
            if verdict is not None:
                return verdict
            now = self._clock.monotonic()
            if now >= question.deadline:
                raise VerdictTimeout(question.command.task_id, receipt, question.timeout_s)
            self._ask_again([question, *others], now)

    def _receipt(self, question: Question) -> Receipt:
        left = max(0.0, question.deadline - self._clock.monotonic())
        return question.delivery.receipt_of(question.item, left)

    def _ask_again(self, questions: list[Question], now: float) -> None:
        self._poll()
        due = [q for q in questions if q.resend_at <= now and q.delivery.offset >= 0]
        due = [q for q in due if not self.is_answered(q.command.command_id)]
        for question in due:
            question.resend_at = now + RESEND_S
        if due:
            self._resend(due, self.reply)
