"""Reading partitions from one place to another, and no further.

What the messages mean is the caller's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from confluent_kafka import Message, TopicPartition

from tickstream.errors import BrokerUnavailable
from tickstream.kafka.clients import state_consumer
from tickstream.settings import Settings

_BATCH: Final = 1_000
_WAIT_S: Final = 0.1
QUIET_S: Final = 10.0
"""Nothing comes from any partition for so long: it is given up."""


def read_until(
    settings: Settings,
    client_id: str,
    starts: Mapping[tuple[str, int], int],
    done: Callable[[str, int, int], bool],
    quiet_s: float = QUIET_S,
) -> Iterator[Message[bytes, bytes]]:
    """The committed messages of each partition from its start on, until `done(topic, partition, position)`.

    `done` is asked first at the start, and then when the messages before that position were handed out. Positions
    also pass what is never handed out: control records and aborted transactions. Raises BrokerUnavailable on
    an error, and when no partition that is not done has come forward for `quiet_s`.
    """
    at = {place: start for place, start in starts.items() if not done(*place, start)}
    if not at:
        return
    consumer = state_consumer(settings, client_id)
    try:
        consumer.assign([TopicPartition(*place, start) for place, start in at.items()])
        moved_at = time.monotonic()
        while at:
            for message in consumer.consume(_BATCH, _WAIT_S):
                error = message.error()
                if error is not None and (error.fatal() or not error.retriable()):
                    raise BrokerUnavailable(f"{message.topic()}[{message.partition()}]: {error.str()}")
                # A batch may hold what was fetched of a partition before it was let go.
                if error is None and (message.topic(), message.partition()) in at:
                    yield message
            now = time.monotonic()
            for reached in consumer.position([TopicPartition(*place) for place in at]):
                place = reached.topic, reached.partition
                # Negative until the first message was handed out.
                if reached.offset > at[place]:
                    at[place], moved_at = reached.offset, now
            ready = [place for place, position in at.items() if done(*place, position)]
            if ready:
                consumer.incremental_unassign([TopicPartition(*place) for place in ready])
            for place in ready:
                del at[place]
            if at and now - moved_at > quiet_s:
                (topic, partition), position = next(iter(at.items()))
                raise BrokerUnavailable(
                    f"{topic}[{partition}] was read to offset {position}, and nothing more came for {quiet_s:g} s"
                )
    finally:
        consumer.close()
