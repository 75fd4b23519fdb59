"""The producer core: handles resolve from delivery reports, and no failure goes unsaid."""

from datetime import UTC, datetime

import pytest

from tests.unit.client_doubles import FakeCluster, FakeProducer, ManualClock
from tickstream.errors import SendFailed
from tickstream.ingest import Client, Submission
from tickstream.kafka import KafkaError, KafkaException
from tickstream.model import Receipt, bucket_of

RUN_AT = datetime(2031, 1, 1, tzinfo=UTC)


def send(client: Client, task_id: str = "mail:1") -> Submission:
    return client.schedule(task_id, run_at=RUN_AT, payload=b"hello")


def test_a_handle_is_open_until_the_acknowledgement() -> None:
    with FakeCluster().client() as client:
        handle = send(client)
        assert not handle.done()
        assert handle.receipt() == Receipt(bucket_of("mail:1", 8), 0, 0)
        assert handle.done()
        assert send(client).receipt().offset == 1


def test_delivery_reports_are_served_while_sending() -> None:
    cluster = FakeCluster()
    with cluster.client() as client:
        for n in range(10_000):
            send(client, str(n))
    assert cluster.producer.most_waiting <= 64


def test_a_full_queue_holds_the_caller_and_loses_nothing() -> None:
    cluster = FakeCluster(producer=FakeProducer(room=10))
    with cluster.client() as client:
        handles = [send(client, str(n)) for n in range(1_000)]
        assert all(handle.receipt().offset >= 0 for handle in handles)
    assert [command.task_id for command in cluster.commands()] == [str(n) for n in range(1_000)]
    assert cluster.producer.most_waiting == 10


def test_a_queue_that_stays_full_is_an_error() -> None:
    clock = ManualClock()
    producer = FakeProducer(room=1)
    producer.clock = clock
    client = FakeCluster(producer=producer).client(clock)
    send(client, "1")
    producer.stuck = True
    with pytest.raises(SendFailed, match="was not sent"):
        send(client, "2")


def test_no_acknowledgement_in_time() -> None:
    clock = ManualClock()
    producer = FakeProducer()
    producer.clock, producer.stuck = clock, True
    client = FakeCluster(producer=producer).client(clock)
    with pytest.raises(SendFailed, match=r"no acknowledgement in time \(3 s\)"):
        send(client).receipt(timeout=3)


def test_a_failed_send_is_told_by_its_handle_and_only_there() -> None:
    cluster = FakeCluster()
    cluster.producer.failing = [KafkaError(KafkaError._MSG_TIMED_OUT)]
    with cluster.client() as client:
        handle = send(client)
        with pytest.raises(SendFailed, match="may or may not be in the log"):
            handle.receipt()
        client.flush()


def test_a_failure_that_nobody_asked_about_is_told_by_close() -> None:
    cluster = FakeCluster()
    cluster.producer.failing = [KafkaError(KafkaError._MSG_TIMED_OUT)]
    client = cluster.client()
    send(client)
    with pytest.raises(SendFailed, match="1 messages were not acknowledged"):
        client.close()


def test_an_error_in_the_block_is_not_hidden_by_what_was_not_sent() -> None:
    cluster = FakeCluster()
    cluster.producer.stuck = True

    def block() -> None:
        with cluster.client() as client:
            send(client)
            raise KeyError("the caller's own")

    with pytest.raises(KeyError):
        block()


def test_close_says_what_is_left() -> None:
    cluster = FakeCluster()
    cluster.producer.stuck = True
    client = cluster.client()
    send(client)
    with pytest.raises(SendFailed, match="within 10 s"):
        client.close()


def test_a_producer_beyond_use_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fatal(*_: object) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL))

    monkeypatch.setattr(FakeProducer, "produce", fatal)
    with FakeCluster().client() as client, pytest.raises(SendFailed, match="make another"):
        send(client)
