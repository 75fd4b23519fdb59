"""What lies in `dead-letter`, and how it is given another chance.

A letter's values and what a replay of it is are pure; the reader and the sender are thin.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final, NamedTuple, cast

from tickstream.codec import decode_body, encode_batch, encode_command
from tickstream.errors import CodecError, InvalidInput, SendFailed
from tickstream.kafka import Admin, KafkaError, Message, place, plain_producer, read_until
from tickstream.model import (
    DEFAULT_OPTIONS,
    NEVER,
    Command,
    DeadReason,
    IfExists,
    Verb,
    bucket_key,
    bucket_of,
)
from tickstream.projection.error_shape import shape
from tickstream.settings import Settings
from tickstream.topics import DEAD_LETTER_PARTITIONS, TopicNames

_ANSWER_S: Final = 10.0


class Letter(NamedTuple):
    """One record of `dead-letter`."""

    partition: int
    offset: int
    at_ms: int
    task_id: str
    """Empty when nobody knows: the message could not be read."""
    reason: DeadReason
    detail: str
    source: str
    """What it is: a message of `commands` or `reports`, or the body of `work`."""
    bucket: int
    queue: str
    size: int
    """Of the original in bytes: what no record could hold was cut short."""
    value: bytes

    @property
    def number(self) -> str:
        """How a letter is named: `PARTITION:OFFSET`."""
        return f"{self.partition}:{self.offset}"


class Choice(NamedTuple):
    """Which letters are meant; what is empty lets everything through."""

    reason: str = ""
    handler: str = ""
    """Of work."""
    error_like: str = ""
    """What was wrong differs from this in numbers and ids only, as the failures of the dashboard are put together."""
    since_ms: int = NEVER

    def takes(self, letter: Letter) -> bool:
        """Whether a letter is meant."""
        return (
            (not self.reason or letter.reason.value == self.reason)
            and letter.at_ms >= self.since_ms
            and (not self.error_like or shape(letter.detail) == shape(self.error_like))
            and (not self.handler or handler_of(letter) == self.handler)
        )


def handler_of(letter: Letter) -> str:
    """The handler that work was for; empty for what is no work, or cannot be read."""
    if letter.source != "work" or letter.size > len(letter.value):
        return ""
    try:
        return decode_body(letter.value).handler
    except CodecError:
        return ""


class Replay(NamedTuple):
    """A message to be produced."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes


def replay_of(letter: Letter, names: TopicNames, buckets: int, now_ms: int) -> Replay:
    """What gives the letter another chance: its own bytes again, or a Schedule of its work, for now.

    Work of a task that is defined anew since is rejected by the dispatcher rather than replacing it. A
    letter that is replayed twice is the same command twice, which changes nothing. Raises InvalidInput.
    """
    if letter.size > len(letter.value):
        raise InvalidInput(
            f"letter {letter.number} had {letter.size} bytes, of which {len(letter.value)} could be kept: send it anew"
        )
    if letter.reason is not DeadReason.GAVE_UP:
        topic = names.commands if letter.source == "commands" else names.reports
        return Replay(topic, letter.bucket, letter.task_id.encode() or None, letter.value)
    if not letter.queue:
        raise InvalidInput(
            f"letter {letter.number}: task {letter.task_id!r} was defined anew while this work ran, so its queue is "
            "not known; schedule it with: tickstream task schedule"
        )
    name = f"{names.dead_letter}:{letter.number}".encode()
    command = Command(
        hashlib.blake2b(name, digest_size=16).digest(),
        Verb.SCHEDULE,
        letter.task_id,
        now_ms,
        letter.queue,
        DEFAULT_OPTIONS._replace(if_exists=IfExists.REJECT),
        letter.value,
    )
    value = encode_batch("dead-letter", -1, [encode_command(command)])
    key = bucket_key(letter.task_id).encode()
    return Replay(names.commands, bucket_of(letter.task_id, buckets), key, value)


def letter_number(text: str) -> tuple[int, int]:
    """`PARTITION:OFFSET` as numbers. Raises InvalidInput."""
    partition, colon, offset = text.partition(":")
    if not (colon and partition.isdigit() and offset.isdigit()) or int(partition) >= DEAD_LETTER_PARTITIONS:
        raise InvalidInput(
            f"letter {text!r}: write PARTITION:OFFSET, as `tickstream dead-letter list` shows it"
        )
    return int(partition), int(offset)


class DeadLetters:
    """The topic `dead-letter` of one installation."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._names = TopicNames(settings.prefix)
        self._admin = Admin(settings)

    def read(self) -> Iterator[Letter]:
        """Every letter there is now, partition by partition. Raises BrokerUnavailable, LayoutMismatch."""
        topic = self._names.dead_letter
        partitions = [(topic, p) for p in range(DEAD_LETTER_PARTITIONS)]
        self._admin.layout()
        starts, ends = self._admin.starts(partitions), self._admin.ends(partitions, stable=True)
        for here in partitions:
            yield from map(_letter, self._messages(here, starts[here], ends[here]))

    def _messages(self, here: tuple[str, int], first: int, end: int) -> Iterator[Message[bytes, bytes]]:
        client_id = f"{self._names.prefix}dead-letter"
        return read_until(self._settings, client_id, {here: first}, lambda _t, _p, position: position >= end)

    def replay(self, letters: list[Letter], now_ms: int) -> list[Replay]:
        """Give the letters another chance; returns what was produced, in their order.

        Nothing is sent unless all can be. Raises InvalidInput, BrokerUnavailable, LayoutMismatch, and
        SendFailed when the broker did not take everything (repeat it: nothing happens twice).
        """
        layout = self._admin.layout()
        replays = [replay_of(letter, self._names, layout.buckets, now_ms) for letter in letters]
        failed: list[str] = []

        def delivered(error: KafkaError | None, _message: Message[bytes, bytes]) -> None:
            if error is not None:
                failed.append(error.str())

        producer = plain_producer(self._settings, f"{self._names.prefix}dead-letter")
        for replay in replays:
            producer.produce(replay.topic, replay.value, replay.key, replay.partition, on_delivery=delivered)
            producer.poll(0)
        left = producer.flush(_ANSWER_S)
        if failed or left:
            raise SendFailed(
                f"{len(failed) + left} of {len(replays)} letters were not taken ({(failed or ['no answer'])[0]}); "
                "repeat it: what was taken is not applied twice"
            )
        return replays


def _letter(message: Message[bytes, bytes]) -> Letter:
    _, partition, offset = place(message)
    pairs = cast("list[tuple[str, bytes]]", message.headers() or [])
    headers = {name: value.decode() for name, value in pairs}
    return Letter(
        partition,
        offset,
        message.timestamp()[1],
        (message.key() or b"").decode(),
        DeadReason(headers["reason"]),
        headers.get("detail", ""),
        headers.get("source", ""),
        int(headers["bucket"]),
        headers.get("queue", ""),
        int(headers["bytes"]),
        message.value() or b"",
    )
