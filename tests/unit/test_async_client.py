"""The asyncio client: it awaits what the one producer core sends, and holds up no loop."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.client_doubles import FakeCluster, FakeProducer
from tickstream.errors import InvalidInput, SendFailed
from tickstream.ingest import AsyncClient, Item
from tickstream.ingest.async_client import WINDOW
from tickstream.kafka import KafkaError
from tickstream.model import Receipt, bucket_of
from tickstream.settings import Settings

RUN_AT = datetime(2031, 1, 1, tzinfo=UTC)


def client_of(cluster: FakeCluster) -> AsyncClient:
    return AsyncClient(Settings("nowhere:9092"), connect=lambda _settings, _client_id: cluster)


def test_a_schedule_is_over_when_the_broker_has_it() -> None:
    async def story() -> Receipt:
        async with client_of(FakeCluster()) as client:
            return await client.schedule("mail:1", run_at=RUN_AT, payload=b"hello")

    assert asyncio.run(story()) == Receipt(bucket_of("mail:1", 8), 0, 0)


def test_thousands_are_on_their_way_at_a_time_and_each_gets_its_own_receipt() -> None:
    cluster = FakeCluster(buckets=1, producer=FakeProducer(room=WINDOW))
    ids = [f"mail:{n}" for n in range(3 * WINDOW)]

    async def story() -> list[Receipt]:
        async with client_of(cluster) as client:
            calls = (client.schedule(task_id, run_at=RUN_AT, payload=b"") for task_id in ids)
            return await asyncio.gather(*calls)

    receipts = asyncio.run(story())
    # Calls that wait at the same time have no order among themselves.
    sent = [command.task_id for command in cluster.commands()]
    assert [sent[receipt.offset] for receipt in receipts] == ids
    assert sorted(sent) == sorted(ids)
    assert cluster.producer.most_waiting <= WINDOW


def test_a_failed_send_is_raised_where_it_is_awaited_and_only_there() -> None:
    cluster = FakeCluster()
    cluster.producer.failing = [KafkaError(KafkaError._MSG_TIMED_OUT)]

    async def story() -> None:
        async with client_of(cluster) as client:
            with pytest.raises(SendFailed, match="may or may not be in the log"):
                await client.schedule("mail:1", run_at=RUN_AT, payload=b"")

    asyncio.run(story())


def test_bad_input_is_refused_and_nothing_is_sent() -> None:
    cluster = FakeCluster()

    async def story() -> None:
        async with client_of(cluster) as client:
            with pytest.raises(InvalidInput, match="has no time zone"):
                await client.schedule("mail:1", run_at=datetime(2031, 1, 1), payload=b"")

    asyncio.run(story())
    assert cluster.producer.sent == []


def test_the_loop_goes_on_while_an_acknowledgement_is_missing() -> None:
    cluster = FakeCluster()
    cluster.producer.stuck = True

    async def story() -> None:
        async with client_of(cluster) as client:
            call = asyncio.create_task(client.schedule("mail:1", run_at=RUN_AT, payload=b""))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(call), 0.05)
            cluster.producer.stuck = False
            assert (await call).offset == 0

    asyncio.run(story())


def test_a_cancelled_call_leaves_the_others_alone() -> None:
    cluster = FakeCluster()
    cluster.producer.stuck = True

    async def story() -> None:
        async with client_of(cluster) as client:
            first, second = (
                asyncio.create_task(client.schedule(task_id, run_at=RUN_AT, payload=b"")) for task_id in "ab"
            )
            await asyncio.sleep(0)
            first.cancel()
            cluster.producer.stuck = False
            await second
            assert first.cancelled()

    asyncio.run(story())


def test_an_old_look_at_the_cluster_is_renewed_once_for_all_who_wait() -> None:
    cluster = FakeCluster()

    async def story() -> None:
        async with client_of(cluster) as client:
            opened = client._open()[0]
            opened.layout.stale_at = 0.0
            await asyncio.gather(*(client.schedule(str(n), run_at=RUN_AT, payload=b"") for n in range(50)))

    asyncio.run(story())
    assert cluster.asked == 2


def test_schedule_many_yields_every_result_before_the_inputs_own_error() -> None:
    def items() -> Iterator[Item]:
        for n in range(600):
            yield Item(f"mail:{n}", run_at=RUN_AT, payload=b"" if n != 7 else None)
        raise KeyError("the input's own")

    seen: list[Any] = []

    async def story() -> None:
        async with client_of(FakeCluster()) as client:
            async for result in client.schedule_many(items(), paced=False):
                seen.append(result)

    with pytest.raises(KeyError, match="the input's own"):
        asyncio.run(story())
    assert [result.position for result in seen] == list(range(600))
    assert [result.position for result in seen if result.error is not None] == [7]


def test_it_has_to_be_opened() -> None:
    with pytest.raises(InvalidInput, match="async with"):
        asyncio.run(client_of(FakeCluster()).cancel("mail:1", timeout=timedelta(seconds=1)))
