"""A record that the broker refuses: nobody asks after it, and nothing is committed without it."""

from collections.abc import Mapping

import pytest

from tests.kafka.stages import LIMITS
from tickstream.dispatcher.kafka_log import KafkaTransactions
from tickstream.dispatcher.ports import OutRecord, Side
from tickstream.errors import RecordRefused, RetryTransaction
from tickstream.kafka import Admin
from tickstream.settings import Settings
from tickstream.topics import Topic, TopicNames


def test_a_refused_record_fails_the_commit_which_says_why(broker: str, prefix: str) -> None:
    settings, names = Settings(broker, prefix), TopicNames(prefix)
    admin = Admin(settings)
    admin.create(
        [
            Topic(names.timers, 1, "a dispatcher", "a changelog"),
            Topic(names.history, 1, "a dispatcher", "takes next to nothing", {"max.message.bytes": "200"}),
        ]
    )
    own = KafkaTransactions(settings, names, 0, 0, LIMITS)
    progress = OutRecord(names.timers, 0, b"progress", b"here", marks=0)
    refused = OutRecord(names.history, 0, b"key", bytes(5_000))
    small = OutRecord(names.history, 0, b"key", b"small")
    own.init(Side.A)

    with pytest.raises(RecordRefused, match="Message size too large"):
        _commit(own, refused, progress)
    own.abort(Side.A)

    # The sequence numbers of the lost record are missing: librdkafka finds out at the next commit, and
    # starts new ones after an abort, as a lane does it.
    with pytest.raises(RetryTransaction) as skipped:
        _commit(own, small, progress)
    assert not isinstance(skipped.value, RecordRefused)
    own.abort(Side.A)
    assert set(_commit(own, small, progress)) == {0}
    own.close()


def _commit(own: KafkaTransactions, *records: OutRecord) -> Mapping[int, int]:
    own.begin(Side.A)
    own.produce(Side.A, records)
    own.flush(Side.A)
    return own.commit(Side.A)
