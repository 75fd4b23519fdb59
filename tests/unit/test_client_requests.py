"""What a client refuses, before anything is sent, and what it makes of what it takes."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.unit.client_doubles import FakeCluster, ManualClock
from tickstream.codec import decode_body
from tickstream.errors import (
    InvalidInput,
    InvalidTaskId,
    LayoutMismatch,
    NaiveDatetime,
    PayloadTooLarge,
    UnknownQueue,
)
from tickstream.ingest import Client
from tickstream.model import NEVER, Body, BoundCall, IfExists, Options, Verb, bucket_of
from tickstream.settings import MAX_COMMAND_BYTES, MAX_PAYLOAD_BYTES, Settings

RUN_AT = datetime(2031, 1, 1, tzinfo=UTC)
RUN_AT_MS = 1_924_992_000_000


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"run_at": datetime(2031, 1, 1)}, NaiveDatetime, "has no time zone"),
        ({"run_at": "2031-01-01"}, InvalidInput, "is no datetime"),
        ({"run_at": RUN_AT, "run_at_ts": 5}, InvalidInput, "not both"),
        ({"run_at": None}, InvalidInput, "when?"),
        ({"run_at": None, "run_at_ts": 1.5}, InvalidInput, "no whole number"),
        ({"run_at": None, "run_at_ts": True}, InvalidInput, "no whole number"),
        ({"run_at": None, "run_at_ts": -5}, InvalidInput, "outside the years 1970-9999"),
        ({"run_at": None, "run_at_ts": RUN_AT_MS * 1_000}, InvalidInput, "in milliseconds"),
        ({"task_id": ""}, InvalidTaskId, "1-255 bytes"),
        ({"task_id": "x" * 256}, InvalidTaskId, "256 bytes"),
        ({"task_id": "ä" * 128}, InvalidTaskId, "256 bytes"),
        ({"task_id": "a\nb"}, InvalidTaskId, "without control characters"),
        ({"task_id": "e\u0301"}, InvalidTaskId, "NFC"),
        ({"task_id": b"mail:1"}, InvalidTaskId, "NFC"),
        ({"payload": None}, InvalidInput, "what shall run"),
        ({"payload": "text"}, InvalidInput, "a payload is bytes"),
        ({"payload": b"x" * (MAX_PAYLOAD_BYTES + 1)}, PayloadTooLarge, f"the limit is {MAX_PAYLOAD_BYTES}"),
        ({"call": BoundCall("mail", "default", b"")}, InvalidInput, "not both"),
        (
            {"payload": None, "call": BoundCall("mail", "default", b""), "handler": "x"},
            InvalidInput,
            "not both",
        ),
        ({"queue": "mial"}, UnknownQueue, "there are: default"),
        ({"labels": {"size": 5}}, InvalidInput, "well-formed text"),
        ({"labels": {"text": "\ud800"}}, InvalidInput, "well-formed text"),
        ({"labels": {"text": "x" * MAX_COMMAND_BYTES}}, PayloadTooLarge, "the command for 'mail:1'"),
        ({"handler": 5}, InvalidInput, "handler=5"),
        ({"if_exists": "ignore"}, InvalidInput, "'replace' or 'reject'"),
        ({"if_exists": []}, InvalidInput, "'replace' or 'reject'"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_sent(
    given: dict[str, Any], error: type[InvalidInput], says: str
) -> None:
    cluster = FakeCluster()
    request: dict[str, Any] = {"task_id": "mail:1", "run_at": RUN_AT, "payload": b"hello"}
    with cluster.client() as client, pytest.raises(error, match=says):
        client.schedule(**request | given)
    assert cluster.producer.sent == []


def test_cancel_refuses_a_bad_id() -> None:
    with FakeCluster().client() as client, pytest.raises(InvalidTaskId):
        client.cancel("")


@pytest.mark.parametrize(
    ("run_at", "when"),
    [
        (RUN_AT, RUN_AT_MS),
        (RUN_AT + timedelta(microseconds=1), RUN_AT_MS + 1),
        (RUN_AT + timedelta(microseconds=999), RUN_AT_MS + 1),
        (RUN_AT + timedelta(microseconds=1_000), RUN_AT_MS + 1),
        (RUN_AT.astimezone(timezone(timedelta(hours=5, minutes=45))), RUN_AT_MS),
        (datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=0), 1_792_888_200_000),
        (datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1), 1_792_891_800_000),
    ],
)
def test_parts_of_a_millisecond_round_up(run_at: datetime, when: int) -> None:
    cluster = FakeCluster()
    with cluster.client() as client:
        client.schedule("mail:1", run_at=run_at, payload=b"")
    assert [command.when for command in cluster.commands()] == [when]


def test_a_schedule_is_one_message_in_the_bucket_of_its_id() -> None:
    cluster = FakeCluster()
    with cluster.client(ManualClock()) as client:
        sent = client.schedule(
            "{acme}mail:1",
            run_at_ts=RUN_AT_MS,
            payload=b"hello",
            handler="mail",
            labels={"customer": "acme"},
            if_exists="reject",
            allow_past=True,
        )
        receipt = sent.receipt()
    (message,) = cluster.producer.sent
    assert (message.topic, message.key) == ("tickstream.commands", b"acme")
    assert message.partition == bucket_of("{acme}mail:1", cluster.buckets) == receipt.bucket
    assert (message.batch.client_id, message.batch.reply) == ("c-1", -1)
    (command,) = message.batch.commands
    assert command[:5] == (sent.command_id, Verb.SCHEDULE, "{acme}mail:1", RUN_AT_MS, "default")
    assert command.options == Options(IfExists.REJECT, allow_past=True, not_after=NEVER)
    assert decode_body(command.body) == Body("mail", b"hello", {}, {"customer": "acme"})


def test_a_call_brings_its_handler_and_queue() -> None:
    cluster = FakeCluster(queues=frozenset({"default", "mail", "slow"}))
    call = BoundCall("send", "mail", b'["a@b"]')
    with cluster.client() as client:
        client.schedule("1", run_at=RUN_AT, call=call)
        client.schedule("2", run_at=RUN_AT, call=call, queue="slow")
    assert [command.queue for command in cluster.commands()] == ["mail", "slow"]
    assert [decode_body(c.body)[:2] for c in cluster.commands()] == [("send", b'["a@b"]')] * 2


def test_a_queue_created_a_moment_ago_is_found() -> None:
    cluster = FakeCluster()
    with cluster.client(ManualClock()) as client:
        cluster.queues = frozenset({"default", "new"})
        client.schedule("1", run_at=RUN_AT, payload=b"", queue="new")
    assert cluster.asked == 2


def test_a_flood_of_misspelt_queues_asks_the_cluster_once() -> None:
    cluster = FakeCluster()
    with cluster.client(ManualClock()) as client:
        for _ in range(100):
            with pytest.raises(UnknownQueue):
                client.schedule("1", run_at=RUN_AT, payload=b"", queue="mial")
    assert cluster.asked == 2


def test_metadata_are_never_older_than_five_seconds() -> None:
    cluster, clock = FakeCluster(queues=frozenset({"default", "old"})), ManualClock()
    with cluster.client(clock) as client:
        cluster.queues = frozenset({"default"})
        clock.advance(4.9)
        client.schedule("1", run_at=RUN_AT, payload=b"", queue="old")
        clock.advance(0.1)
        with pytest.raises(UnknownQueue):
            client.schedule("2", run_at=RUN_AT, payload=b"", queue="old")


def test_a_changed_number_of_buckets_stops_the_client() -> None:
    cluster, clock = FakeCluster(buckets=8), ManualClock()
    with cluster.client(clock) as client:
        cluster.buckets = 9
        clock.advance(5)
        with pytest.raises(LayoutMismatch, match="from 8 to 9"):
            client.schedule("1", run_at=RUN_AT, payload=b"")
        with pytest.raises(LayoutMismatch):
            client.cancel("1")
    assert cluster.producer.sent == []


def test_settings_are_named_once() -> None:
    with pytest.raises(InvalidInput, match="not both"):
        Client(Settings("a:1"), bootstrap="b:2")
