"""What the client puts into a real `commands`, and how soon it says that it cannot."""

import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tickstream.codec import CommandBatch, decode_batch, decode_body
from tickstream.errors import BrokerUnavailable, LayoutMismatch, UnknownQueue
from tickstream.ingest import Client, Item
from tickstream.kafka import Admin, TopicPartition, partitioner, state_consumer
from tickstream.model import Body, Command, Receipt, bucket_key, bucket_of, bucket_of_key
from tickstream.settings import MAX_PAYLOAD_BYTES, Settings
from tickstream.topics import TopicNames, topic_table

BUCKETS = 8
RUN_AT = datetime(2031, 1, 1, tzinfo=UTC)


@pytest.fixture
def settings(broker: str, prefix: str) -> Iterator[Settings]:
    settings = Settings(broker, prefix)
    admin = Admin(settings)
    table = topic_table(TopicNames(prefix), buckets=BUCKETS, lanes=4)
    admin.create(table)
    yield settings
    admin.delete_topics([topic.name for topic in table])


def logged(settings: Settings) -> dict[Receipt, Command]:
    """Everything in `commands`, by its place."""
    return {
        Receipt(bucket, offset, item): command
        for bucket, offset, batch in _messages(settings)
        for item, command in enumerate(batch.commands)
    }


def _messages(settings: Settings) -> Iterator[tuple[int, int, CommandBatch]]:
    topic = TopicNames(settings.prefix).commands
    ends = Admin(settings).ends([(topic, bucket) for bucket in range(BUCKETS)])
    consumer = state_consumer(settings, "reader")
    consumer.assign([TopicPartition(topic, bucket, 0) for bucket in range(BUCKETS)])
    left = sum(ends.values())
    deadline = time.monotonic() + 20
    while left:
        assert time.monotonic() < deadline, f"{left} messages were not read in time"
        for message in consumer.consume(500, 0.1):
            assert message.error() is None, message.error()
            batch = decode_batch(message.value())
            keys = {bucket_key(command.task_id).encode() for command in batch.commands}
            assert message.key() in keys
            yield message.partition() or 0, message.offset() or 0, batch
            left -= 1
    consumer.close()


def test_a_receipt_names_the_place_of_the_command(settings: Settings) -> None:
    with Client(settings, client_id="shop-1") as client:
        handles = [
            client.schedule(f"mail:{n}", run_at=RUN_AT, payload=b"%d" % n, handler="mail") for n in range(500)
        ]
        receipts = [handle.receipt() for handle in handles]
    found = logged(settings)
    assert found.keys() == set(receipts)
    for n, receipt in enumerate(receipts):
        command = found[receipt]
        assert (command.task_id, command.command_id) == (f"mail:{n}", handles[n].command_id)
        assert receipt.bucket == bucket_of(command.task_id, BUCKETS)
        assert decode_body(command.body) == Body("mail", b"%d" % n, {}, {})


def test_arrays_of_many_sizes_arrive_whole(settings: Settings) -> None:
    sizes = [0, 10, 5_000, MAX_PAYLOAD_BYTES, 120_000]
    items = [Item(f"mail:{n}", RUN_AT, payload=bytes(sizes[n % 5])) for n in range(300)]
    with Client(settings) as client:
        results = list(client.schedule_many(items))
    assert [result.error for result in results] == [None] * 300
    found = logged(settings)
    assert {found[r.receipt].task_id: r.position for r in results if r.receipt is not None} == {
        item.task_id: position for position, item in enumerate(items)
    }


def test_a_queue_exists_as_soon_as_its_topic_does(settings: Settings) -> None:
    with Client(settings) as client:
        with pytest.raises(UnknownQueue, match="tickstream topics create --queue later"):
            client.schedule("mail:1", run_at=RUN_AT, payload=b"", queue="later")
        table = topic_table(TopicNames(settings.prefix), buckets=BUCKETS, lanes=4, queues=("now",))
        Admin(settings).create(table)
        client.schedule("mail:1", run_at=RUN_AT, payload=b"", queue="now").receipt()
    Admin(settings).delete_topics([TopicNames(settings.prefix).work("now")])


def test_missing_topics_are_named(broker: str, prefix: str) -> None:
    with pytest.raises(LayoutMismatch, match="tickstream topics create"):
        Client(bootstrap=broker, prefix=prefix)


def test_an_unreachable_broker_is_named_within_five_seconds() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    began = time.monotonic()
    with pytest.raises(BrokerUnavailable, match=address):
        Client(bootstrap=address)
    assert time.monotonic() - began < timedelta(seconds=5).total_seconds()


def test_librdkafka_and_the_model_agree_on_the_bucket() -> None:
    native = partitioner()
    for n in range(1, 300):
        key = bytes((n * i) % 251 for i in range(n))
        assert native(key, 7) == bucket_of_key(key, 7)
