"""Whether anybody serves a queue: what `task schedule` adds to its answer when nobody does.

Advice only: whatever comes of it, the task is scheduled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tickstream.errors import BrokerUnavailable, LayoutMismatch

if TYPE_CHECKING:
    from tickstream.kafka import Admin
    from tickstream.settings import Settings

MOST: Final = 1_000
"""Waiting tasks are counted up to that many."""
_COUNT_S: Final = 1.0


def attendance(settings: Settings, queue: str) -> str | None:
    """`queue mail: 3 waiting, 0 workers; …`, or None while the queue has workers: that costs one question.

    Counts the work that was sent and that no worker has taken for good. The task which has just been
    scheduled waits in any case, whether or not it is due.
    """
    from tickstream.kafka import Admin
    from tickstream.topics import TopicNames

    admin, group = Admin(settings), TopicNames(settings.prefix).worker_group(queue)
    try:
        groups = admin.groups()
        if groups.get(group):
            return None
        committed = admin.committed(group) if group in groups else {}
        waiting = max(1, _waiting(settings, admin, queue, committed))
    except (BrokerUnavailable, LayoutMismatch) as error:
        return f"queue {queue}: nobody can say whether it has workers: {error}"
    return (
        f"queue {queue}: {waiting if waiting < MOST else f'{MOST} or more'} waiting, 0 workers; "
        f"start one: tickstream worker run MODULE:APP --queues {queue}"
    )


def _waiting(settings: Settings, admin: Admin, queue: str, committed: Mapping[tuple[str, int], int]) -> int:
    """Work records beyond what was committed. Read, since offsets count the marks of transactions."""
    from tickstream.kafka import TopicPartition, state_consumer
    from tickstream.topics import TopicNames

    topic = TopicNames(settings.prefix).work(queue)
    starts = admin.starts([(topic, partition) for partition in range(admin.layout().buckets)])
    begin = starts | {place: offset for place, offset in committed.items() if place in starts}
    consumer = state_consumer(settings, "tickstream-attendance")
    try:
        consumer.assign(
            [TopicPartition(topic, partition, offset) for (_, partition), offset in begin.items()]
        )
        return sum(message.error() is None for message in consumer.consume(MOST, _COUNT_S))
    finally:
        consumer.close()
