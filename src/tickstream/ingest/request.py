"""What a caller asks, checked and turned into commands. Pure.

No I/O, no clock, no producer may enter here: a refusal has to come before anything is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Literal, NamedTuple, NoReturn, Unpack, cast

from tickstream.clock import ceil_ms
from tickstream.codec import ScheduleFrame
from tickstream.errors import InvalidInput, InvalidTaskId, NaiveDatetime, PayloadTooLarge
from tickstream.ingest.recurring import RECURRING, Recurring, recurrence_from
from tickstream.model import (
    DEFAULT_OPTIONS,
    DEFAULT_QUEUE,
    DEFAULT_TERMS,
    MOST_LEAD_MS,
    NEVER,
    NO_LIMIT,
    VERSION_HEADER,
    BoundCall,
    Command,
    IfExists,
    Options,
    QueueLimits,
    Recurrence,
    Retry,
    RunTerms,
    Verb,
    check_task_id,
    overridden,
)
from tickstream.model.retry import milliseconds
from tickstream.settings import MAX_COMMAND_BYTES, MAX_PAYLOAD_BYTES

IfExistsLike = IfExists | Literal["replace", "reject"]

_LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999, where datetime ends; catches seconds or µs passed for ms."""
_FRAMES_KEPT: Final = 1_000
NO_LEAD: Final = timedelta(0)
MESSAGE_OVERHEAD_BYTES: Final = 2_048
"""At most what the batch, the key and Kafka's own framing add to a command."""
MAX_ELEMENT_BYTES: Final = MAX_COMMAND_BYTES - MESSAGE_OVERHEAD_BYTES


class Item(NamedTuple):
    """One task for `schedule_many`: the arguments of `schedule`, with the same meaning."""

    task_id: str
    run_at: datetime | None = None
    run_at_ts: int | None = None
    payload: bytes | None = None
    handler: str = ""
    call: BoundCall | None = None
    queue: str | None = None
    labels: Mapping[str, str] | None = None
    if_exists: IfExistsLike = "replace"
    allow_past: bool = False
    terms: RunTerms | None = None
    """None: those of the call's handler; `overridden(…)` makes others."""
    recurrence: Recurrence | None = None
    """In place of an instant; `recurring(every=…, …)` makes one."""
    limit_key: str = ""
    lead: timedelta = NO_LEAD


class ScheduleRequest(Recurring, total=False):
    """The arguments of `schedule` beside the id: `Client.schedule` says what they mean."""

    run_at: datetime | None
    run_at_ts: int | None
    payload: bytes | None
    handler: str
    call: BoundCall | None
    queue: str | None
    labels: Mapping[str, str] | None
    if_exists: IfExistsLike
    allow_past: bool
    limit_key: str
    lead: timedelta
    lease: timedelta | None
    timeout: timedelta | None
    retry: Retry | None


_TERMS: Final = frozenset({"lease", "timeout", "retry"})
_ITEM: Final = frozenset(ScheduleRequest.__annotations__) - RECURRING - _TERMS


def item_of(task_id: str, **request: Unpack[ScheduleRequest]) -> Item:
    """The item that a call of `schedule` describes. Raises InvalidInput, and TypeError on an unknown name."""
    if request.keys() <= _ITEM:
        return Item(task_id, **cast("dict[str, Any]", request))
    unknown = request.keys() - ScheduleRequest.__annotations__.keys()
    if unknown:
        raise TypeError(f"schedule() has no argument {min(unknown)!r}")
    terms = terms_of(
        task_id, request.get("call"), request.get("lease"), request.get("timeout"), request.get("retry")
    )
    plain: dict[str, Any] = {name: value for name, value in request.items() if name in _ITEM}
    return Item(task_id, **plain, terms=terms, recurrence=recurrence_from(request))


def recurring(**asked: Unpack[Recurring]) -> Recurrence:
    """A recurrence for an Item, or for several: the arguments that `schedule` takes for it. Raises InvalidInput."""
    unknown = asked.keys() - RECURRING
    if unknown:
        raise TypeError(f"recurring() has no argument {min(unknown)!r}")
    recurrence = recurrence_from(asked)
    if recurrence is None:
        raise InvalidInput("a task recurs by one of every=, cron= and rrule=")
    return recurrence


Checked = tuple[str, int, ScheduleFrame, bytes]
"""A request that may be sent: task_id, when (ms, UTC), frame, payload. Plain, since there is one a task."""


class Requests:
    """Checks what callers ask; keeps the frames of the kinds of task it has seen."""

    def __init__(self) -> None:
        self._frames: dict[tuple[object, ...], ScheduleFrame] = {}

    def checked(
        self,
        task_id: str,
        run_at: datetime | None,
        run_at_ts: int | None,
        payload: bytes | None,
        handler: str,
        call: BoundCall | None,
        queue: str | None,
        labels: Mapping[str, str] | None,
        if_exists: IfExistsLike,
        allow_past: bool,
        terms: RunTerms | None = None,
        recurrence: Recurrence | None = None,
        limit_key: str = "",
        lead: timedelta = NO_LEAD,
    ) -> Checked:
        """One Item, checked. Raises InvalidInput and its kinds.

        Positional, in the order of Item: it is called once for every task there is.
        """
        check_task_id(task_id)
        if recurrence is None:
            when = instant_ms("run_at", run_at, run_at_ts)
        elif run_at is None and run_at_ts is None:
            when = NEVER
        else:
            raise InvalidInput(f"{task_id!r}: give either run_at=, or how it recurs, not both")
        version = 1
        if call is not None:
            if payload is not None or handler:
                raise InvalidInput(f"{task_id!r}: give either call=, or payload= and handler=, not both")
            handler, payload, version = call.handler, call.payload, call.version
            queue = queue or call.queue
            terms = terms or call.terms
        elif payload is None:
            raise InvalidInput(f"{task_id!r}: what shall run? Give call=handler.bind(…), or payload=bytes")
        if type(payload) is not bytes or len(payload) > MAX_PAYLOAD_BYTES:
            _refuse_payload(task_id, payload)
        if labels:
            options = _options(if_exists, allow_past, terms, recurrence, limit_key, lead)
            return task_id, when, _frame(handler, queue, labels, options, version), payload
        kind = handler, queue, if_exists, allow_past, terms, version, recurrence, limit_key, lead
        try:
            frame = self._frames[kind]
        except (KeyError, TypeError):
            options = _options(if_exists, allow_past, terms, recurrence, limit_key, lead)
            frame = _frame(handler, queue, {}, options, version)
            if len(self._frames) >= _FRAMES_KEPT:
                self._frames.clear()
            self._frames[kind] = frame
        return task_id, when, frame, payload


def _frame(
    handler: str, queue: str | None, labels: Mapping[str, str], options: Options, version: int
) -> ScheduleFrame:
    copied = dict(labels)
    headers = {} if version == 1 else {VERSION_HEADER: str(version)}
    try:
        return ScheduleFrame(queue or DEFAULT_QUEUE, options, handler, copied, headers)
    except (UnicodeEncodeError, AttributeError) as error:
        raise InvalidInput(
            f"handler={handler!r}, queue={queue!r}, labels={copied!r}: each of them is well-formed text"
        ) from error


def schedule_command(command_id: bytes, checked: Checked) -> Command:
    """A checked request as a command, for those that may be sent again."""
    task_id, when, frame, payload = checked
    return frame.command(command_id, task_id, when, payload)


def cancel_command(command_id: bytes, task_id: str, running: bool = False) -> Command:
    """The CANCEL command of a task. Raises InvalidTaskId."""
    options = DEFAULT_OPTIONS._replace(running=True) if running else DEFAULT_OPTIONS
    return Command(command_id, Verb.CANCEL, check_task_id(task_id), NEVER, "", options, b"")


def task_command(
    command_id: bytes, verb: Verb, task_id: str, when: int = NEVER, allow_past: bool = False
) -> Command:
    """A command about a task that stands. Raises InvalidTaskId."""
    options = DEFAULT_OPTIONS._replace(allow_past=True) if allow_past else DEFAULT_OPTIONS
    return Command(command_id, verb, check_task_id(task_id), when, "", options, b"")


def queue_command(command_id: bytes, verb: Verb, queue: str, limits: QueueLimits | None = None) -> Command:
    """A command about a queue, EVERY_QUEUE: about all of them; each bucket is to get one of its own."""
    options = DEFAULT_OPTIONS if limits is None else DEFAULT_OPTIONS._replace(limits=limits)
    return Command(command_id, verb, "", NEVER, queue, options, b"")


def queue_limits(running: int | None, starts: int | None, per: timedelta) -> QueueLimits:
    """Limits within each bucket; None: no limit. Raises InvalidInput."""
    for name, number in (("running", running), ("starts", starts)):
        if number is not None and (type(number) is not int or not 1 <= number < 2**31):
            raise InvalidInput(
                f"{name}={number!r}: a whole number from 1 on, or None for no limit; to stop a queue, pause it"
            )
    per_ms = milliseconds("per", per, timedelta(milliseconds=1))
    return QueueLimits(
        NO_LIMIT if running is None else running, NO_LIMIT if starts is None else starts, per_ms
    )


def resend_of(command: Command, offset: int) -> Command:
    """The same command to be sent again, when its first send lies at `offset`.

    A command that met no task left no trace, so only the offset keeps its repeat from undoing
    what was asked since.
    """
    return command._replace(options=command.options._replace(not_after=offset))


def check_size(task_id: str, element: bytes) -> None:
    """Raises PayloadTooLarge unless a message can carry the command."""
    if len(element) > MAX_ELEMENT_BYTES:
        raise PayloadTooLarge(
            f"the command for {task_id!r} (payload, labels, names)", len(element), MAX_ELEMENT_BYTES
        )


def instant_ms(name: str, moment: datetime | None, ts: int | None) -> int:
    """The one instant that is given, as ms since the epoch, UTC; parts of a ms round up.

    Up, because nothing may run before its instant. Raises InvalidInput when none or both are
    given or it lies outside 1970-9999, NaiveDatetime when `moment` has no time zone.
    """
    if moment is not None:
        if ts is not None:
            raise InvalidInput(f"give either {name}= or {name}_ts=, not both")
        try:
            if moment.utcoffset() is None:
                raise NaiveDatetime(name, moment)
            ts = ceil_ms(moment)
        except (AttributeError, TypeError) as error:
            raise InvalidInput(
                f"{name}={moment!r} is no datetime; for milliseconds there is {name}_ts="
            ) from error
    elif ts is None:
        raise InvalidInput(f"when? Give {name}=aware datetime, or {name}_ts=milliseconds since the epoch")
    elif type(ts) is not int:
        raise InvalidInput(f"{name}_ts={ts!r} is no whole number of milliseconds since the epoch")
    if not 0 <= ts <= _LAST_MS:
        raise InvalidInput(f"{name}_ts={ts} lies outside the years 1970-9999; it is in milliseconds, UTC")
    return ts


def seconds_of(name: str, span: timedelta) -> float:
    """`span` in seconds. Raises InvalidInput when it is none."""
    if not isinstance(span, timedelta):
        raise InvalidInput(f"{name}={span!r} is no timedelta; write timedelta(seconds=…)")
    return span.total_seconds()


def _refuse_payload(task_id: str, payload: object) -> NoReturn:
    if isinstance(payload, bytes):
        raise PayloadTooLarge(f"the payload of {task_id!r}", len(payload), MAX_PAYLOAD_BYTES)
    raise InvalidInput(
        f"{task_id!r}: payload is {type(payload).__name__}; a payload is bytes, encode it first"
    )


def _options(
    if_exists: IfExistsLike,
    allow_past: bool,
    terms: RunTerms | None,
    recurrence: Recurrence | None,
    limit_key: str,
    lead: timedelta,
) -> Options:
    """DEFAULT_OPTIONS itself when nothing differs: then a command carries none."""
    lead_ms = milliseconds("lead", lead, NO_LEAD)
    if lead_ms > MOST_LEAD_MS:
        raise InvalidInput(f"lead={lead}: at most {MOST_LEAD_MS // 1_000} seconds")
    if lead_ms and recurrence is not None:
        raise InvalidInput(f"lead={lead}: only a task that runs once is sent ahead; leave lead= out")
    if limit_key:
        try:
            check_task_id(limit_key)
        except InvalidTaskId as error:
            raise InvalidInput(
                f"limit_key={limit_key!r}: 1-255 bytes of NFC text without control characters"
            ) from error
    try:
        chosen = if_exists if isinstance(if_exists, IfExists) else IfExists(if_exists.upper())
    except (ValueError, AttributeError) as error:
        raise InvalidInput(f"if_exists={if_exists!r}: it is either 'replace' or 'reject'") from error
    options = Options(
        chosen,
        allow_past,
        terms=None if terms == DEFAULT_TERMS else terms,
        recurrence=recurrence,
        limit_key=limit_key,
        lead_ms=lead_ms,
    )
    return DEFAULT_OPTIONS if options == DEFAULT_OPTIONS else options


def terms_of(
    task_id: str,
    call: BoundCall | None,
    lease: timedelta | None,
    timeout: timedelta | None,
    retry: Retry | None,
) -> RunTerms | None:
    """What `schedule` was given in place of the handler's terms; None: nothing. Raises InvalidInput."""
    if lease is None and timeout is None and retry is None:
        return None
    if retry is not None and (retry.never or retry.when is not None):
        raise InvalidInput(
            f"{task_id!r}: a task carries attempts, backoff and cap; never= and when= are code, "
            "give them to the handler: @app.handler(retry=…)"
        )
    base = DEFAULT_TERMS if call is None or call.terms is None else call.terms
    return overridden(base, lease, timeout, retry)
