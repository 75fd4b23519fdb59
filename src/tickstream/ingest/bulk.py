"""`schedule_many`: arrays per bucket, bounded memory, one result per item.

What an item must look like is in request.py; nothing of it is decided here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from tickstream.errors import InvalidInput, SendFailed, TickstreamError, VerdictTimeout
from tickstream.ingest.asking import Asking, Question
from tickstream.ingest.ids import CommandIds
from tickstream.ingest.pace import Pace
from tickstream.ingest.producer import ACK_S
from tickstream.ingest.request import Checked, Item, Requests, schedule_command
from tickstream.ingest.sender import NO_REPLY, Array, CommandSender
from tickstream.model import Receipt, Verdict

WINDOW: Final = 16_384
"""Items read from the input whose result has not been yielded yet, at most."""


class ItemResult(NamedTuple):
    """What became of one item of `schedule_many`: a receipt or an error, a verdict if waited for."""

    position: int
    """Place in the input, from 0."""
    task_id: str
    receipt: Receipt | None
    error: TickstreamError | None
    """InvalidInput: not sent. SendFailed: may or may not be in the log. VerdictTimeout: accepted."""
    verdict: Verdict | None


_Sent = tuple[int, str, Array, int, Question | None]
"""An item on its way: position, task_id, array, place in it, and its question when a verdict is
waited for. Plain, since there is one an item."""


class BulkSchedule:
    """One run over the items of one `schedule_many`."""

    def __init__(
        self,
        sender: CommandSender,
        requests: Requests,
        ids: CommandIds,
        asking: Asking | None = None,
        timeout_s: float = 0.0,
        pace: Pace | None = None,
    ) -> None:
        """With `asking`, every item waits for its verdict, at most `timeout_s` from its first send.

        With `pace`, the import keeps to it.
        """
        self._sender = sender
        self._requests = requests
        self._ids = ids
        self._asking = asking
        self._timeout_s = timeout_s
        self._pace = pace
        self._reply = NO_REPLY if asking is None else asking.reply
        self._arrays: dict[int, Array] = {}
        self._pending: deque[_Sent | ItemResult] = deque()

    def run(self, items: Iterable[Item]) -> Iterator[ItemResult]:
        """One result per item, in the order of the input.

        When the input or the cluster fails on the way, the results of what was taken come first
        and the error after them.
        """
        try:
            yield from self._results(items)
        finally:
            for entry in self._pending:
                self._forget(entry)
            if self._pace is not None:
                self._pace.close()

    def _results(self, items: Iterable[Item]) -> Iterator[ItemResult]:
        abandoned = False
        try:
            for position, item in enumerate(items):
                if self._take(position, item):
                    yield from self._settled()
                if len(self._pending) >= WINDOW:
                    self._send_all()
                    yield from self._down_to(WINDOW // 2)
        except GeneratorExit:
            abandoned = True
            raise
        finally:
            if not abandoned:
                self._send_all()
                yield from self._down_to(0)

    def _take(self, position: int, item: Item) -> bool:
        """Put one item into its array; True when that sent one."""
        try:
            request = self._requests.checked(*item)
            command_id = self._ids.next()
            bucket, key, element = self._sender.element_of(command_id, request)
        except InvalidInput as error:
            self._pending.append(ItemResult(position, item.task_id, None, error, None))
            return False
        if self._pace is not None and self._pace.marks(bucket, command_id):
            return self._mark(position, item.task_id, bucket, key, element, self._pace)
        array = self._arrays.get(bucket)
        full = array is not None and not array.has_room(element)
        if array is None or full:
            if array is not None:
                self._send(array, self._reply)
            array = self._arrays[bucket] = self._sender.array(bucket, key)
        place = array.add(element)
        question = None
        if self._asking is not None:
            question = self._ask(self._asking, command_id, request, array, place)
        self._pending.append((position, item.task_id, array, place, question))
        return full

    def _mark(self, position: int, task_id: str, bucket: int, key: bytes, element: bytes, pace: Pace) -> bool:
        """Send one item alone, behind all that its bucket was given, and ask for its verdict."""
        before = self._arrays.pop(bucket, None)
        if before is not None:
            self._send(before, self._reply)
        array = self._sender.array(bucket, key)
        place = array.add(element)
        self._pending.append((position, task_id, array, place, None))
        self._send(array, pace.reply)
        return True

    def _ask(self, asking: Asking, command_id: bytes, request: Checked, array: Array, place: int) -> Question:
        command = schedule_command(command_id, request)
        question = Question(command, array, place, self._timeout_s)
        asking.expect(command.command_id)
        array.questions.append(question)
        return question

    def _send_all(self) -> None:
        arrays, self._arrays = self._arrays, {}
        for array in arrays.values():
            self._send(array, self._reply)

    def _send(self, array: Array, reply: int) -> None:
        """Send one array; a failure becomes the result of each of its items."""
        try:
            self._sender.send_array(array, reply)
        except SendFailed as error:
            array.fail(str(error))

    def _settled(self) -> Iterator[ItemResult]:
        """The results at the head that are there without waiting."""
        while self._pending and self._is_settled(self._pending[0]):
            yield self._result(self._pending.popleft())

    def _down_to(self, left: int) -> Iterator[ItemResult]:
        """Results, waited for, until only `left` items are pending."""
        while len(self._pending) > left:
            yield self._result(self._pending.popleft())

    def _is_settled(self, entry: _Sent | ItemResult) -> bool:
        if isinstance(entry, ItemResult):
            return True
        _, _, array, _, question = entry
        if self._asking is None or question is None:
            return array.done()
        return self._asking.is_answered(question.command.command_id)

    def _result(self, entry: _Sent | ItemResult) -> ItemResult:
        if isinstance(entry, ItemResult):
            return entry
        position, task_id, array, place, question = entry
        if question is None and array.offset >= 0:
            return ItemResult(position, task_id, Receipt(array.bucket, array.offset, place), None, None)
        receipt, verdict = None, None
        try:
            receipt = array.receipt_of(place, ACK_S)
            if self._asking is not None and question is not None:
                verdict = self._asking.verdict(question, self._questions())
        except (SendFailed, VerdictTimeout) as error:
            return ItemResult(position, task_id, receipt, error, None)
        finally:
            self._forget(entry)
        return ItemResult(position, task_id, receipt, None, verdict)

    def _questions(self) -> Iterator[Question]:
        """Those of the items behind the head."""
        for entry in self._pending:
            if not isinstance(entry, ItemResult) and entry[4] is not None:
                yield entry[4]

    def _forget(self, entry: _Sent | ItemResult) -> None:
        if self._asking is not None and not isinstance(entry, ItemResult) and entry[4] is not None:
            self._asking.forget(entry[4].command.command_id)
