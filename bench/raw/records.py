"""Records of the sizes that the product writes, and the raw messages of a floor.

Sizes come from the product's own codec, so that they stay right when a schema grows.
"""

from __future__ import annotations

import random
import struct
import uuid
from typing import Final, NamedTuple

from tickstream.codec import (
    encode_batch,
    encode_body,
    encode_command,
    encode_progress,
    encode_spec,
    encode_state,
    encode_work,
)
from tickstream.model import (
    DEFAULT_OPTIONS,
    DEFAULT_QUEUE,
    DEFAULT_TERMS,
    NEVER,
    Body,
    Command,
    InputPosition,
    Progress,
    Rev,
    RunState,
    TaskSpec,
    TaskState,
    Verb,
    Work,
    bucket_of,
)

PAYLOAD_BYTES: Final = 100
HANDLER: Final = "noop"
_NOW: Final = 1_900_000_000_000
_REV: Final = Rev(123_456, 17)
_STAMP: Final = struct.Struct("<dq")


class Sizes(NamedTuple):
    """Bytes of one record each."""

    command_bytes: int
    state_bytes: int
    """Of a task that was fired."""
    work_bytes: int
    progress_bytes: int
    spec_bytes: int
    scheduled_bytes: int
    """The state of a task that waits."""


class RawMessage(NamedTuple):
    """A message that is ready to be produced."""

    partition: int
    key: bytes
    value: bytes


def payload(choice: random.Random) -> bytes:
    """A payload that does not compress."""
    return choice.randbytes(PAYLOAD_BYTES)


def body(choice: random.Random) -> bytes:
    """An encoded body with a payload of PAYLOAD_BYTES."""
    return encode_body(Body(HANDLER, payload(choice), {}, {}))


def command(task_id: str, when_ms: int, choice: random.Random) -> bytes:
    """One encoded Schedule command."""
    command_id = uuid.UUID(int=choice.getrandbits(128), version=4).bytes
    return encode_command(
        Command(command_id, Verb.SCHEDULE, task_id, when_ms, DEFAULT_QUEUE, DEFAULT_OPTIONS, body(choice))
    )


def command_messages(count: int, buckets: int, *, seed: int = 1) -> list[RawMessage]:
    """`count` messages of one command each: what `schedule()` sends, made beforehand."""
    choice = random.Random(seed)
    messages = []
    for i in range(count):
        task_id = f"bench:{i:08d}"
        value = encode_batch("bench-client", NEVER, [command(task_id, _NOW + i, choice)])
        messages.append(RawMessage(bucket_of(task_id, buckets), task_id.encode(), value))
    return messages


def work_messages(count: int, buckets: int, *, seed: int = 5) -> list[RawMessage]:
    """`count` Work records of first attempts, as a dispatcher writes them, made beforehand."""
    choice = random.Random(seed)
    messages = []
    for i in range(count):
        task_id = f"bench:{i:08d}"
        bucket, at_ms = bucket_of(task_id, buckets), _NOW + i
        work = Work(bucket, i + 1, task_id, at_ms, 1, _REV, at_ms, *DEFAULT_TERMS[:2], body(choice))
        messages.append(RawMessage(bucket, task_id.encode(), encode_work(work)))
    return messages


def sizes() -> Sizes:
    """Of the records around one fired task, as the codec writes them."""
    choice = random.Random(1)
    task_id = "bench:00000000"
    run = RunState(_NOW, 1, _REV, _NOW)
    position = InputPosition(bytes(16), 1_234_567, 3, 0)
    one = command(task_id, _NOW, choice)
    return Sizes(
        len(encode_batch("bench-client", NEVER, [one])),
        len(encode_state(TaskState(_REV, NEVER, _NOW, (run,), None, NEVER, ()))),
        len(encode_work(Work(3, 123_456, task_id, _NOW, 1, _REV, _NOW, *DEFAULT_TERMS[:2], body(choice)))),
        len(encode_progress(Progress(position, position, _NOW, 123_456, 123_456, "2026b", 0))),
        len(encode_spec(TaskSpec(_REV, one))),
        len(encode_state(TaskState(_REV, _NOW, NEVER, (), None, NEVER, ()))),
    )


class Stamp(NamedTuple):
    """What a raw record says of itself, in its first bytes."""

    at_ms: float
    """An instant, ms since the epoch."""
    number: int
    """Different for every record of a run: instants may coincide."""


def stamped(stamp: Stamp, filler: bytes) -> bytes:
    """A value as long as `filler` that carries the stamp."""
    return _STAMP.pack(*stamp) + filler[_STAMP.size :]


def stamp_of(value: bytes) -> Stamp:
    """What `stamped` wrote."""
    return Stamp._make(_STAMP.unpack_from(value))
