"""Commands that are made already, sent together: all of a window before the first verdict is waited for.

What they ask is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Final

from tickstream.clock import Clock
from tickstream.errors import SendFailed, TickstreamError, VerdictTimeout
from tickstream.ingest.asking import Asking, Question
from tickstream.ingest.layout import LayoutWatch
from tickstream.ingest.request import check_size
from tickstream.ingest.sender import CommandSender
from tickstream.model import Command, Verdict

WINDOW: Final = 1_000
"""Commands whose verdict is waited for at a time."""

Located = tuple[Command, tuple[int, bytes, bytes]]
"""A command with its bucket, key and element."""


class Together:
    """Sends commands, and gives back an answer for each, in their order."""

    def __init__(
        self, layout: LayoutWatch, sender: CommandSender, answers: Callable[[], Asking], clock: Clock
    ) -> None:
        self._layout = layout
        self._sender = sender
        self._answers = answers
        self._clock = clock

    def send(self, commands: Sequence[Command], timeout: timedelta) -> Iterator[Verdict | TickstreamError]:
        """Each command's verdict, or what kept it: SendFailed (perhaps not in the log), VerdictTimeout (accepted).

        `timeout`: for each window of them. Nothing is sent unless all can be: raises PayloadTooLarge,
        BrokerUnavailable, LayoutMismatch.
        """
        self._layout.check()
        located = [(command, self._sender.locate(command)) for command in commands]
        for command, (_, _, element) in located:
            check_size(command.task_id, element)
        return self.located(located, timeout)

    def located(self, commands: Sequence[Located], timeout: timedelta) -> Iterator[Verdict | TickstreamError]:
        """The same for commands whose bucket is chosen."""
        for first in range(0, len(commands), WINDOW):
            yield from self._window(commands[first : first + WINDOW], timeout.total_seconds())

    def _window(self, commands: Sequence[Located], timeout_s: float) -> Iterator[Verdict | TickstreamError]:
        asking = self._answers()
        questions: list[Question] = []
        try:
            for command, located in commands:
                asking.expect(command.command_id)
                submission = self._sender.send(command.command_id, located, asking.reply)
                question = Question(command, submission, 0, timeout_s)
                question.sent(self._clock.monotonic())
                questions.append(question)
            for question in questions:
                try:
                    yield asking.verdict(question, questions)
                except (SendFailed, VerdictTimeout) as error:
                    yield error
        finally:
            for command, _ in commands:
                asking.forget(command.command_id)
