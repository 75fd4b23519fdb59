"""Commands, their batches and bodies: written by hand, since a client encodes one for every task.

Reading is compiled, but for options, which few have, and for bodies. No other record may enter here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast

from tickstream.codec.avro import (
    AVRO_LENGTHS,
    HEADER_BYTES,
    Schema,
    avro_bytes,
    avro_long,
    avro_map,
    avro_text,
    read_long,
    schemaless_reader,
)
from tickstream.codec.compiled import read_whole, reader
from tickstream.errors import MalformedValue
from tickstream.model import (
    DEFAULT_OPTIONS,
    NEVER,
    Body,
    Command,
    IfExists,
    Misfire,
    Options,
    Overlap,
    QueueLimits,
    Recurrence,
    RecurrenceKind,
    Rev,
    RunTerms,
    Verb,
)

_COMMAND: Final = Schema("Command")
_COMMAND_BATCH: Final = Schema("CommandBatch")
_BODY: Final = Schema("Body")
_RECURRENCE: Final = Schema("Recurrence")
_OPTIONS: Final = Schema("Options")
# An enum is the number of its symbol, in the order in which the schema and the class have them.
_VERB_BYTES: Final = {verb: avro_long(number) for number, verb in enumerate(Verb)}
_VERB_SCHEDULE: Final = _VERB_BYTES[Verb.SCHEDULE]
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class CommandBatch(NamedTuple):
    """A decoded message of `commands`."""

    client_id: str
    reply: int
    """Partition of `verdicts` to answer to, -1 when no answer is wanted."""
    commands: tuple[Command, ...]
    encoded: tuple[bytes, ...]
    """Of each command, its own bytes in single-object encoding: what a TaskSpec keeps."""


def encode_command(command: Command) -> bytes:
    """One command in single-object encoding; `encode_batch` and TaskSpec take it as it is.

    Written by hand, like the batch and the body around it: a client encodes one for every task,
    and this is a fifth of the price of fastavro's writer. A record is its fields one after another.
    Raises MalformedValue unless command_id has 16 bytes.
    """
    if len(command.command_id) != 16:
        raise MalformedValue(f"command_id {command.command_id!r} has not 16 bytes")
    return b"".join(
        (
            _COMMAND.header,
            command.command_id,
            _VERB_BYTES[command.verb],
            avro_text(command.task_id),
            avro_long(command.when),
            avro_text(command.queue),
            b"\x00" if command.options is DEFAULT_OPTIONS else _options(command.options),
            avro_bytes(command.body),
        )
    )


def _options(options: Options) -> bytes:
    """The second branch of the union, and its fields."""
    terms, limits, recurrence = options.terms, options.limits, options.recurrence
    rev_offset, rev_item = options.if_rev or (NEVER, 0)
    return b"".join(
        (
            b"\x02",
            b"\x00" if options.if_exists is IfExists.REPLACE else b"\x02",
            b"\x01" if options.allow_past else b"\x00",
            avro_long(options.not_after),
            b"\x01" if options.running else b"\x00",
            b"\x00" if terms is None else b"\x02" + b"".join(avro_long(field) for field in terms),
            avro_text(options.limit_key),
            avro_long(options.lead_ms),
            avro_long(rev_offset),
            avro_long(rev_item),
            b"\x00" if limits is None else b"\x02" + b"".join(avro_long(field) for field in limits),
            b"\x00" if recurrence is None else b"\x02" + _recurrence(recurrence),
            avro_bytes(options.event),
        )
    )


def _recurrence(recurrence: Recurrence) -> bytes:
    datum = recurrence._asdict()
    for name in ("kind", "misfire", "overlap"):
        datum[name] = datum[name].value
    return _RECURRENCE.datum(datum)


def _options_at(data: bytes, at: int) -> tuple[Options, int]:
    """By fastavro: few commands have them."""
    source = BytesIO(data)
    source.seek(at)
    return _read_options(schemaless_reader(source, _OPTIONS.parsed, None)), source.tell()


_command_at: Final = reader(
    _COMMAND,
    "Command(command_id, verb, task_id, when, queue, DEFAULT_OPTIONS if options is None else options, body)",
    {"Command": Command, "Verb": Verb, "DEFAULT_OPTIONS": DEFAULT_OPTIONS, "Options": _options_at},
)


def _read_options(datum: dict[str, Any]) -> Options:
    terms, limits, recurrence = datum["terms"], datum["limits"], datum["recurrence"]
    rev_offset = datum["if_rev_offset"]
    return Options(
        IfExists(datum["if_exists"]),
        datum["allow_past"],
        datum["not_after"],
        datum["running"],
        None if terms is None else RunTerms(**terms),
        datum["limit_key"],
        datum["lead_ms"],
        None if rev_offset == NEVER else Rev(rev_offset, datum["if_rev_item"]),
        None if limits is None else QueueLimits(**limits),
        None if recurrence is None else _read_recurrence(recurrence),
        datum["event"],
    )


def _read_recurrence(datum: dict[str, Any]) -> Recurrence:
    datum["kind"] = RecurrenceKind(datum["kind"])
    datum["misfire"] = Misfire(datum["misfire"])
    datum["overlap"] = Overlap(datum["overlap"])
    datum["rdate"] = tuple(datum["rdate"])
    datum["exdate"] = tuple(datum["exdate"])
    return Recurrence(**datum)


def decode_command(value: bytes) -> Command:
    """What `encode_command` wrote. Raises UnknownSchema or MalformedValue."""
    return cast(Command, read_whole(_COMMAND, _command_at, value))


def command_id_of(encoded: bytes) -> bytes:
    """The command_id alone: it stands in front. Raises UnknownSchema or MalformedValue."""
    return _COMMAND.checked(encoded)[HEADER_BYTES : HEADER_BYTES + 16]


class ScheduleFrame:
    """What many SCHEDULE commands have in common, encoded once: queue, options, handler, labels, headers.

    `element` is encode_command for the hot path of a client, without a Command and a Body in between.
    """

    __slots__ = (
        "_after_payload",
        "_after_when",
        "_around_payload",
        "_before_payload",
        "handler",
        "headers",
        "labels",
        "options",
        "queue",
    )

    def __init__(
        self,
        queue: str,
        options: Options,
        handler: str,
        labels: Mapping[str, str],
        headers: Mapping[str, str] = _NONE,
    ) -> None:
        self.queue = queue
        self.options = options
        self.handler = handler
        self.labels = labels
        self.headers = headers
        encoded_options = b"\x00" if options is DEFAULT_OPTIONS else _options(options)
        self._after_when = avro_text(queue) + encoded_options
        self._before_payload = _BODY.header + avro_text(handler)
        self._after_payload = avro_map(headers) + avro_map(labels)
        self._around_payload = len(self._before_payload) + len(self._after_payload)

    def element(self, command_id: bytes, task_id: bytes, when: int, payload: bytes) -> bytes:
        """One command as an element of a batch. `command_id`: 16 bytes; `task_id`: in UTF-8."""
        size = AVRO_LENGTHS[len(payload)]
        return b"".join(
            (
                command_id,
                _VERB_SCHEDULE,
                AVRO_LENGTHS[len(task_id)],
                task_id,
                avro_long(when),
                self._after_when,
                AVRO_LENGTHS[self._around_payload + len(size) + len(payload)],
                self._before_payload,
                size,
                payload,
                self._after_payload,
            )
        )

    def command(self, command_id: bytes, task_id: str, when: int, payload: bytes) -> Command:
        """The same command as a value."""
        body = encode_body(Body(self.handler, payload, dict(self.headers), dict(self.labels)))
        return Command(command_id, Verb.SCHEDULE, task_id, when, self.queue, self.options, body)


def encode_batch(client_id: str, reply: int, encoded: Sequence[bytes]) -> bytes:
    """A CommandBatch around commands that are encoded already, so that nothing is encoded twice."""
    return batch_of_elements(client_id, reply, [command[HEADER_BYTES:] for command in encoded])


def batch_of_elements(client_id: str, reply: int, elements: Sequence[bytes]) -> bytes:
    """A CommandBatch around elements.

    An Avro array is a block count, the elements, and a closing zero.
    """
    if not elements:
        return batch_head(client_id, reply) + BATCH_END
    return b"".join((batch_head(client_id, reply), AVRO_LENGTHS[len(elements)], *elements, BATCH_END))


def batch_head(client_id: str, reply: int) -> bytes:
    """What every CommandBatch of one client begins with."""
    return _COMMAND_BATCH.header + avro_text(client_id) + avro_long(reply)


ONE_ELEMENT: Final = AVRO_LENGTHS[1]
BATCH_END: Final = b"\x00"
"""`batch_head(…) + ONE_ELEMENT + element + BATCH_END` is a batch of one."""


def element_of(encoded: bytes) -> bytes:
    """What `encode_command` wrote, as an element of a batch."""
    return encoded[HEADER_BYTES:]


def _element_at(data: bytes, at: int) -> tuple[tuple[Command, bytes], int]:
    """A command of a batch, and its own bytes."""
    command, end = _command_at(data, at)
    return (command, _COMMAND.header + data[at:end]), end


_batch_at: Final = reader(_COMMAND_BATCH, "(client_id, reply, commands)", {"Command": _element_at})


def decode_batch(value: bytes | None) -> CommandBatch:
    """A message of `commands`. Raises UnknownSchema or MalformedValue: then none of it is known."""
    client_id, reply, elements = read_whole(_COMMAND_BATCH, _batch_at, value)
    commands, encoded = zip(*elements, strict=True) if elements else ((), ())
    return CommandBatch(client_id, reply, commands, encoded)


def encode_body(body: Body) -> bytes:
    """A Body in single-object encoding, by hand like the command that carries it."""
    return b"".join(
        (
            _BODY.header,
            avro_text(body.handler),
            avro_bytes(body.payload),
            avro_map(body.headers),
            avro_map(body.labels),
        )
    )


def decode_body(value: bytes) -> Body:
    """What `encode_body` wrote. Raises UnknownSchema or MalformedValue."""
    plain = _plain_body(value or b"")
    return Body(**_BODY.read(value)) if plain is None else plain


def _plain_body(value: bytes) -> Body | None:
    """By hand, at a third of the price, what a body is nearly always: without headers and labels, and in order.

    None for anything else: fastavro reads that, or says what is wrong with it.
    """
    if value[:HEADER_BYTES] != _BODY.header or value[-2:] != b"\x00\x00":
        return None
    try:
        size, start = read_long(value, HEADER_BYTES)
        handler = value[start : start + size].decode()
        length, at = read_long(value, start + size)
    except (IndexError, UnicodeDecodeError):
        return None
    # Both sizes are right exactly when the two empty maps are all that is left.
    if size < 0 or length < 0 or at + length != len(value) - 2:
        return None
    return Body(handler, value[at:-2], {}, {})
