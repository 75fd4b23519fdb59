"""What running handlers say of themselves: the heartbeats in `reports`, tailed from the end.

Best effort, like the heartbeats: no position is kept, nothing is read twice, and no answer waits for
it. The rows come from `timers` and `history` alone (fold.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tickstream.codec import decode_reports
from tickstream.errors import CodecError
from tickstream.kafka import Admin, TopicPartition, is_out_of_range, state_consumer
from tickstream.model import ReportKind
from tickstream.projection.rows import Pulse
from tickstream.settings import Settings
from tickstream.topics import TopicNames

_TAKE: Final = 1_000
"""Messages a turn: more than workers send in one, and a bound where they flood."""


class Heartbeats:
    """One reader of `reports`. Owns its consumer; `close` it."""

    def __init__(self, settings: Settings, admin: Admin, buckets: Iterable[int]) -> None:
        """Begin at the ends. Raises BrokerUnavailable."""
        topic = TopicNames(settings.prefix).reports
        self._admin = admin
        self._partitions = [(topic, bucket) for bucket in buckets]
        self._consumer = state_consumer(settings, f"{settings.prefix}projection-heartbeats")
        self._to_the_ends()

    def _to_the_ends(self) -> None:
        ends = self._admin.ends(self._partitions)
        self._consumer.assign([TopicPartition(topic, p, offset) for (topic, p), offset in ends.items()])

    def take(self) -> list[Pulse]:
        """The latest heartbeat of each run since the last call; it waits for none."""
        return latest(self._values())

    def _values(self) -> Iterable[tuple[int, bytes | None]]:
        for message in self._consumer.consume(_TAKE, 0):
            error = message.error()
            if error is None:
                yield message.timestamp()[1], message.value()
            # After any other error the client goes on trying by itself.
            elif is_out_of_range(error):
                # Purged below us: whatever was there is no news any more.
                self._to_the_ends()
                return

    def close(self) -> None:
        """Let go of the broker."""
        self._consumer.close()


def latest(messages: Iterable[tuple[int, bytes | None]]) -> list[Pulse]:
    """Of (time of arrival in ms, value of a message of `reports`), the last heartbeat of each run."""
    found: dict[tuple[str, int], Pulse] = {}
    for at_ms, value in messages:
        try:
            batch = decode_reports(value)
        except CodecError:
            # The dispatcher sets such a message aside, with an alarm.
            continue
        for report in batch.reports:
            if report.kind is ReportKind.HEARTBEAT:
                found[report.task_id, report.occurrence_ts] = Pulse(
                    report.task_id,
                    report.occurrence_ts,
                    report.run_id.hex(),
                    at_ms,
                    report.progress,
                    report.note,
                )
    return list(found.values())
