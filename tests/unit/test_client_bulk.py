"""schedule_many: arrays per bucket, one result per item in input order, bounded memory, nothing unsaid."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.unit.client_doubles import FakeCluster, FakeProducer, by_id
from tickstream.errors import InvalidInput, InvalidTaskId, NaiveDatetime, SendFailed, UnknownQueue
from tickstream.ingest import Item, ItemResult
from tickstream.ingest.bulk import WINDOW
from tickstream.ingest.sender import ARRAY_BYTES, ARRAY_ITEMS
from tickstream.kafka import KafkaError
from tickstream.model import bucket_of
from tickstream.settings import MAX_COMMAND_BYTES

RUN_AT = datetime(2031, 1, 1, tzinfo=UTC)


def items(count: int, payload: bytes = b"hello") -> list[Item]:
    return [Item(f"mail:{n}", RUN_AT, payload=payload) for n in range(count)]


def load(cluster: FakeCluster, given: list[Item]) -> list[ItemResult]:
    with cluster.client() as client:
        return list(client.schedule_many(given, paced=False))


def test_every_item_gets_its_receipt_in_the_order_of_the_input() -> None:
    cluster = FakeCluster()
    results = load(cluster, items(5_000))
    assert [(r.position, r.task_id) for r in results] == [(n, f"mail:{n}") for n in range(5_000)]
    at = {
        (message.partition, command.task_id): item
        for message in cluster.producer.sent
        for item, command in enumerate(message.batch.commands)
    }
    for result in results:
        assert result.error is None
        assert result.receipt is not None
        assert result.receipt.bucket == bucket_of(result.task_id, cluster.buckets)
        assert at[result.receipt.bucket, result.task_id] == result.receipt.item


def test_items_travel_as_arrays() -> None:
    cluster = FakeCluster()
    load(cluster, items(8 * ARRAY_ITEMS))
    sizes = [len(message.batch.commands) for message in cluster.producer.sent]
    assert max(sizes) == ARRAY_ITEMS
    assert len(sizes) <= 16
    assert len({command.command_id for command in cluster.commands()}) == 8 * ARRAY_ITEMS


def test_arrays_stay_below_half_of_what_a_message_may_have() -> None:
    cluster = FakeCluster()
    load(cluster, items(100, payload=b"x" * 50_000))
    assert max(len(message.value) for message in cluster.producer.sent) <= ARRAY_BYTES + 1_000
    assert len(by_id(cluster.commands())) == 100


def test_a_large_item_travels_alone() -> None:
    cluster = FakeCluster()
    large = Item("large", RUN_AT, payload=b"x" * 200_000, labels={"note": "y" * 200_000})
    results = load(cluster, [*items(3), large, *items(3)])
    assert all(result.error is None for result in results)
    assert max(len(message.value) for message in cluster.producer.sent) <= MAX_COMMAND_BYTES


def test_the_order_within_a_bucket_is_that_of_the_input() -> None:
    cluster = FakeCluster(buckets=2)
    load(cluster, items(3_000))
    for bucket in range(2):
        numbers = [int(c.task_id[5:]) for c in cluster.commands() if bucket_of(c.task_id, 2) == bucket]
        assert numbers == sorted(numbers)


def test_items_that_cannot_be_sent_say_so_and_the_others_go_on() -> None:
    cluster = FakeCluster()
    given = items(6)
    given[1] = given[1]._replace(task_id="")
    given[2] = given[2]._replace(run_at=datetime(2031, 1, 1))
    given[3] = given[3]._replace(queue="mial")
    given[4] = given[4]._replace(payload=None)
    results = load(cluster, given)
    kinds = [type(result.error) for result in results]
    assert kinds == [type(None), InvalidTaskId, NaiveDatetime, UnknownQueue, InvalidInput, type(None)]
    assert [result.receipt is not None for result in results] == [error is type(None) for error in kinds]
    assert by_id(cluster.commands()).keys() == {"mail:0", "mail:5"}


def test_memory_is_bounded_however_long_the_input() -> None:
    taken = 0

    def endless() -> Iterator[Item]:
        nonlocal taken
        while True:
            taken += 1
            yield Item(f"mail:{taken}", RUN_AT, payload=b"")

    cluster = FakeCluster()
    with cluster.client() as client:
        results = client.schedule_many(endless(), paced=False)
        for received in range(1, 50_001):
            next(results)
            assert taken - received <= WINDOW
        results.close()


def test_a_message_that_is_not_acknowledged_fails_its_items_and_no_others() -> None:
    cluster = FakeCluster(buckets=2)
    cluster.producer.failing = [KafkaError(KafkaError._MSG_TIMED_OUT)]
    results = load(cluster, items(20))
    failed = {bucket_of(r.task_id, 2) for r in results if isinstance(r.error, SendFailed)}
    fine = {bucket_of(r.task_id, 2) for r in results if r.receipt is not None}
    assert (len(failed), len(fine)) == (1, 1)
    assert failed != fine


def test_a_broken_input_ends_after_the_results_of_what_was_taken() -> None:
    def broken() -> Iterator[Item]:
        yield from items(10)
        raise OSError("disk gone")

    cluster = FakeCluster()
    results: list[ItemResult] = []
    with cluster.client() as client, pytest.raises(OSError, match="disk gone"):
        results.extend(_into(results, client.schedule_many(broken(), paced=False)))
    assert [result.receipt is not None for result in results] == [True] * 10
    assert len(cluster.commands()) == 10


def test_results_that_nobody_takes_schedule_nothing() -> None:
    cluster = FakeCluster()
    with cluster.client() as client:
        client.schedule_many(items(3), paced=False)
    assert cluster.producer.sent == []


def test_a_small_queue_is_waited_for() -> None:
    cluster = FakeCluster(producer=FakeProducer(room=1))
    assert all(result.receipt is not None for result in load(cluster, items(2_000)))


def _into(collected: list[ItemResult], results: Iterator[ItemResult]) -> list[ItemResult]:
    """Keep what comes before the error."""
    for result in results:
        collected.append(result)
    return []
