"""Commands that ask for an answer: how soon one is applied, and when all that went before is.

Applied is when the dispatcher sent the verdict, which it does after commit and store; accepted is the
broker's time of acceptance. Both clocks are this machine's.
"""

from __future__ import annotations

import threading
import time
import uuid
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from confluent_kafka import KafkaError, Message, Producer

from bench.cluster import BUCKETS
from bench.raw import echo
from bench.raw.configuration import with_cluster
from tickstream.codec import decode_verdicts, encode_batch, encode_command
from tickstream.errors import SendFailed
from tickstream.kafka import partitioner
from tickstream.model import DEFAULT_OPTIONS, DEFAULT_QUEUE, NEVER, Command, Verb
from tickstream.settings import Settings
from tickstream.topics import VERDICT_PARTITIONS, TopicNames

RATE_PER_S: Final = 50
_FAR_MS: Final = 30 * 24 * 3_600_000
_REPLY: Final = 0
"""The partition of `verdicts` that answers go to."""
_AFTER_S: Final = 20.0
"""How long an answer may be late before it counts as none."""


class Answered(NamedTuple):
    """How commands fared that were accepted in some time."""

    waits_ms: list[float]
    """Accepted → applied."""
    unanswered: int


class Asking:
    """Sends single Schedule commands at a rate, each of which asks for its verdict, while a `with` lasts."""

    def __init__(self, settings: Settings, rate_per_s: float = RATE_PER_S, buckets: int = BUCKETS) -> None:
        self._settings = settings
        self._every_s = 1 / rate_per_s
        self._buckets = buckets
        self._client_id = f"asking-{uuid.uuid4().hex[:8]}"
        self._accepted: dict[bytes, int] = {}
        self._failed: list[KafkaError] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="asking", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        producer = _producer(self._settings)
        topic, bucket_of = TopicNames(self._settings.prefix).commands, partitioner()
        when = int(time.time() * 1_000) + _FAR_MS
        number = 0
        while not self._stop.wait(self._every_s):
            command_id, task_id = uuid.uuid4().bytes, f"asking:{number:08d}"
            command = Command(command_id, Verb.SCHEDULE, task_id, when, DEFAULT_QUEUE, DEFAULT_OPTIONS, b"")
            value = encode_batch(self._client_id, _REPLY, [encode_command(command)])
            bucket = bucket_of(task_id.encode(), self._buckets)

            def accepted(error: KafkaError | None, message: Message, command_id: bytes = command_id) -> None:
                if error is not None:
                    self._failed.append(error)
                else:
                    self._accepted[command_id] = message.timestamp()[1]

            producer.produce(topic, value, task_id.encode(), bucket, accepted)
            producer.poll(0)
            number += 1
        producer.flush(30)

    def answered(self, since_ms: float, until_ms: float) -> Answered:
        """Of the commands accepted in that time; call it after the `with`. Raises SendFailed."""
        if self._failed:
            raise SendFailed(f"a command was not accepted: {self._failed[0].str()}")
        wanted = {id: at for id, at in self._accepted.items() if since_ms <= at <= until_ms}
        applied = _applied(self._settings, self._client_id, wanted.keys(), time.time() + _AFTER_S)
        waits = [float(applied[id] - at) for id, at in wanted.items() if id in applied]
        return Answered(waits, len(wanted) - len(waits))


def applied_all(settings: Settings, *, timeout_s: float, buckets: int = BUCKETS) -> float:
    """Wait until everything accepted before this call is applied; when that was, ms since the epoch.

    A command at the end of every bucket asks for its verdict. Raises SendFailed.
    """
    producer, client_id = _producer(settings), f"last-{uuid.uuid4().hex[:8]}"
    topic, bucket_of = TopicNames(settings.prefix).commands, partitioner()
    asked: dict[int, bytes] = {}
    number = 0
    while len(asked) < buckets:
        task_id = f"last:{number}"
        number += 1
        bucket = bucket_of(task_id.encode(), buckets)
        if bucket in asked:
            continue
        asked[bucket] = uuid.uuid4().bytes
        # There is no such task: the answer is `unknown`, and nothing is written for it.
        cancel = Command(asked[bucket], Verb.CANCEL, task_id, NEVER, DEFAULT_QUEUE, DEFAULT_OPTIONS, b"")
        producer.produce(topic, encode_batch(client_id, _REPLY, [encode_command(cancel)]), b"", bucket)
    if producer.flush(30):
        raise SendFailed("the last command was not accepted")
    applied = _applied(settings, client_id, asked.values(), time.time() + timeout_s)
    if len(applied) < buckets:
        raise SendFailed(f"not everything was applied within {timeout_s:g} s")
    return max(applied.values())


def _producer(settings: Settings) -> Producer:
    return Producer(with_cluster(settings, echo.ECHO))


def _applied(settings: Settings, client_id: str, ids: Any, until_s: float) -> dict[bytes, int]:
    """command_id → when its verdict was sent, ms; until all are there or the wall clock says `until_s`."""
    left, found = set(ids), dict[bytes, int]()
    topic = TopicNames(settings.prefix).verdicts
    if not left:
        return found
    for message in echo.committed(settings, topic, VERDICT_PARTITIONS, at_least=1 << 62, until_s=until_s):
        if message.key() != client_id.encode():
            continue
        for verdict in decode_verdicts(message.value()).verdicts:
            if verdict.command_id in left:
                left.discard(verdict.command_id)
                found[verdict.command_id] = message.timestamp()[1]
        if not left:
            break
    return found
