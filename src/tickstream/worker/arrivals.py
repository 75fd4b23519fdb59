"""What a record of `work.<queue>` is: a run, or something that this worker cannot do.

No consumer and no thread may enter here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tickstream.codec import decode_body, decode_work
from tickstream.errors import CodecError, UnknownHandler, UnknownSchema
from tickstream.model import Body, Work
from tickstream.worker.app import MAX_NAME_BYTES
from tickstream.worker.events import Events
from tickstream.worker.run import Callee, Owner, Refusal, Run, cut

_NO_BODY: Final = Body("", b"", {}, {})


class Arrivals:
    """Makes runs of the records of one queue."""

    def __init__(self, queue: str, handlers: Mapping[str, Callee], owner: Owner, events: Events) -> None:
        self._queue = queue
        self._handlers = handlers
        self._owner = owner
        self._events = events

    def run_of(self, value: bytes | None, partition: int, offset: int, fetched_ms: int) -> tuple[Run, bool]:
        """The run, and whether it can be done here; if not, it is another worker's.

        One whose body nobody can read is done here: it fails with the reason. Raises UnknownSchema
        or MalformedValue when the record itself cannot be read.
        """
        work = decode_work(value)
        body, callee, ours = self._read(work)
        return Run(self._owner, partition, offset, work, body, callee, fetched_ms, self._queue), ours

    def _read(self, work: Work) -> tuple[Body, Callee, bool]:
        try:
            body = decode_body(work.body)
        except UnknownSchema as error:
            self._alarm("newer_body", work.task_id, error)
            return _NO_BODY, Refusal("?", error), False
        except CodecError as error:
            self._alarm("undecodable_body", work.task_id, error)
            return _NO_BODY, Refusal("?", error), True
        callee = self._handlers.get(body.handler)
        if callee is not None:
            return body, callee, True
        unknown = UnknownHandler(body.handler, tuple(self._handlers))
        self._alarm("unknown_handler", work.task_id, unknown)
        return body, Refusal(cut(body.handler, MAX_NAME_BYTES), unknown), False

    def _alarm(self, kind: str, task_id: str, reason: Exception) -> None:
        self._events.alarm(kind, f"task {task_id!r}: {reason}", queue=self._queue)
