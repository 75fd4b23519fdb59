"""Two logs of one bucket put together into whole steps.

No Kafka, no database, no clock may enter here. A whole step ends at a Progress: all records of
`timers` up to it, together with all of `history` up to the number it names. What is beyond waits
here, bounded; the log that is ahead is then paused. Several whole steps in a row are taken as one,
of which only each task's last state has to be decoded.

Where a stretch without a Progress is longer than may wait (the compacted part of a changelog, of
which only the last Progress is left), it is taken in parts and the bucket counts as restoring
until its next whole step. Outcomes are never held back for that: a finished row that comes before
its task's state is the one shown, so even then a task is never in neither.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final, NamedTuple

import orjson

from tickstream import codec
from tickstream.calendar.stored import decode_booking
from tickstream.errors import CodecError
from tickstream.model import DEFAULT_TERMS, History, Progress, QueueState, TaskState
from tickstream.projection.fold import Step
from tickstream.projection.rows import (
    BookingChange,
    Columns,
    Definition,
    Owner,
    Payload,
    Position,
    QueueSetting,
)

WAITING_LIMIT: Final = 25_000
"""Records of one log of one bucket that may wait: more than a transaction of the dispatcher holds."""


SHOWN_BYTES: Final = 4_096
"""Of a payload that is kept: so many, as of a result."""


class _Spec(NamedTuple):
    offset: int
    task_id: str
    definition: Definition | None
    event: bytes
    at_ms: int


class _State(NamedTuple):
    offset: int
    task_id: str
    value: bytes | None


class _Mark(NamedTuple):
    """A Progress, and how many records of `timers` had been read before it."""

    records: int
    offset: int
    progress: Progress


class BucketBuffer:
    """What was read of one bucket and is not folded yet."""

    def __init__(
        self, bucket: int, position: Position, *, limit: int = WAITING_LIMIT, payloads: bool = False
    ) -> None:
        """`payloads`: keep what tasks hand to their handlers, too."""
        self.position = position
        self._bucket = bucket
        self._limit = limit
        self._payloads = payloads
        self._records: deque[_Spec | _State] = deque()
        self._taken = 0
        self._marks: deque[_Mark] = deque()
        self._outcomes: deque[tuple[int, History]] = deque()
        self._seen = position.history_number
        self._owner: Owner | None = None
        self._settings: list[tuple[str, QueueSetting]] = []

    def add_timers(self, offset: int, key: bytes | None, value: bytes | None, at_ms: int = 0) -> None:
        """A record of `timers`, stamped `at_ms`. Raises UnknownSchema or MalformedValue: the bucket must stop."""
        kind, task_id = codec.split_timers_key(key)
        if kind == codec.SPEC:
            definition, event = (
                (None, b"") if value is None else definition_of(value, payloads=self._payloads)
            )
            self._records.append(_Spec(offset, task_id, definition, event, at_ms))
        elif kind == codec.STATE:
            self._records.append(_State(offset, task_id, value))
        elif kind == codec.PROGRESS and value is not None:
            read = self._taken + len(self._records)
            self._marks.append(_Mark(read, offset, codec.decode_progress(value)))
        elif kind == codec.CLAIM and value is not None:
            self._owner = Owner(*codec.decode_claim(value))
        elif kind == codec.QUEUE:
            state = QueueState(task_id) if value is None else codec.decode_queue(value)
            self._settings.append((task_id, QueueSetting(state.paused, at_ms, state.limits)))

    def add_history(self, offset: int, value: bytes | None) -> None:
        """A record of `history`. Raises UnknownSchema or MalformedValue: the bucket must stop."""
        outcome = codec.decode_history(value)
        self._outcomes.append((offset, outcome))
        self._seen = max(self._seen, outcome.number)

    def take_owner(self) -> Owner | None:
        """The last Claim read since the last call: said at once, a bucket may stand still after it."""
        owner, self._owner = self._owner, None
        return owner

    def take_settings(self) -> list[tuple[str, QueueSetting]]:
        """What was set for queues, by name, since the last call; as `take_owner`."""
        settings, self._settings = self._settings, []
        return settings

    def awaited_number(self) -> int | None:
        """The last history number that a Progress here still waits for, None when none does."""
        if self._marks and self._marks[-1].progress.history_number > self._seen:
            return self._marks[-1].progress.history_number
        return None

    def history_gone(self, number: int) -> None:
        """`history` has been read to its end: what is not there up to `number` was deleted by age."""
        self._seen = max(self._seen, number)

    def holds_back_timers(self) -> bool:
        """Whether `timers` is ahead of `history` by all that may wait."""
        return bool(self._marks) and len(self._records) >= self._limit

    def holds_back_history(self) -> bool:
        """Whether `history` is ahead of `timers` by all that may wait."""
        return not self._marks and len(self._outcomes) >= self._limit

    def take(self) -> Step | None:
        """All whole steps there are as one; a part when too much waits; None when there is nothing."""
        mark = self._last_whole()
        if mark is not None:
            return self._whole(mark)
        if len(self._outcomes if self._marks else self._records) >= self._limit:
            return self._part()
        return None

    def _last_whole(self) -> _Mark | None:
        """Takes the marks that are reached; returns the last."""
        mark = None
        while self._marks and self._marks[0].progress.history_number <= self._seen:
            mark = self._marks.popleft()
        return mark

    def _whole(self, mark: _Mark) -> Step:
        progress = mark.progress
        count = 0
        for _, outcome in self._outcomes:
            if outcome.number > progress.history_number:
                break
            count += 1
        position = self._advanced(count)
        position = position._replace(
            timers=mark.offset + 1,
            history_number=max(position.history_number, progress.history_number),
            applied_before_ms=progress.applied_before_ms,
            commands_offset=progress.commands.offset,
            commands_item=progress.commands.item,
            tzdata=progress.tzdata,
            layout=progress.layout,
            # Outcomes that an earlier part took ahead may belong to a Progress still to come.
            restoring=position.history_number > progress.history_number,
        )
        return self._step(mark.records - self._taken, count, position)

    def _part(self) -> Step:
        """Everything but what a Progress that waits for `history` vouches for."""
        records = 0 if self._marks else len(self._records)
        position = self._advanced(len(self._outcomes))._replace(restoring=True)
        if records:
            position = position._replace(timers=self._records[-1].offset + 1)
        return self._step(records, len(self._outcomes), position)

    def _advanced(self, outcomes: int) -> Position:
        if not outcomes:
            return self.position
        offset, last = self._outcomes[outcomes - 1]
        return self.position._replace(history=offset + 1, history_number=last.number)

    def _step(self, records: int, outcomes: int, position: Position) -> Step:
        definitions: dict[str, list[Definition | None]] = {}
        states: dict[str, bytes | None] = {}
        bookings: dict[str, BookingChange] = {}
        for record in islice(self._records, records):
            if isinstance(record, _Spec):
                definitions.setdefault(record.task_id, []).append(record.definition)
                if record.task_id.startswith("{"):
                    bookings[record.task_id] = BookingChange(record.event, record.at_ms, record.offset)
            else:
                states[record.task_id] = record.value
        decoded = {task_id: _state(value) for task_id, value in states.items()}
        for _ in range(records):
            self._records.popleft()
        taken = [self._outcomes.popleft()[1] for _ in range(outcomes)]
        self._taken += records
        self.position = position
        return Step(self._bucket, definitions, decoded, taken, position, bookings)


def _state(value: bytes | None) -> TaskState | None:
    return None if value is None else codec.decode_state(value)._replace(recent=())


def definition_of(value: bytes, *, payloads: bool = False) -> tuple[Definition, bytes]:
    """What a listing needs of an encoded TaskSpec, and the calendar's event that it is, checked; empty: none.

    Raises UnknownSchema or MalformedValue.

    The body is the producer's: one that cannot be read leaves handler and labels empty, as it
    leaves the dispatcher untroubled. Of the payload only size and form are kept, its text with `payloads`.
    """
    spec = codec.decode_spec(value)
    command = codec.decode_command(spec.command)
    payload: Payload | None = None
    try:
        body = codec.decode_body(command.body)
    except CodecError:
        columns = Columns(command.queue, "", {})
    else:
        columns = Columns(command.queue, body.handler, body.labels)
        payload = _payload(body.payload, payloads)
    options, event = command.options, command.options.event
    if event and decode_booking(event).reminder is not None:
        event = b""  # a reminder takes no time, and is no event of its own
    terms = options.terms or DEFAULT_TERMS
    return Definition(spec.rev, columns, terms.lease_ms, options.recurrence, payload), event


def _payload(payload: bytes, kept: bool) -> Payload:
    beginning = payload[:SHOWN_BYTES]
    try:
        payload.decode()
    except UnicodeDecodeError:
        return Payload(len(payload), "bytes", beginning.hex(" ") if kept else None)
    try:
        orjson.loads(payload)
    except orjson.JSONDecodeError:
        form = "text"
    else:
        form = "json"
    # A character that is cut in two at the end is left out.
    return Payload(len(payload), form, beginning.decode(errors="ignore") if kept else None)
