"""Calendars on a real broker: eight producers race for a thousand slots, and a new owner knows what is taken."""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.kafka.rig import Rig
from tickstream.ingest import AsyncClient, Client
from tickstream.model import Verdict, VerdictKind
from tickstream.settings import Settings

PRODUCERS, SLOTS, AT_ONCE = 8, 1_000, 8
SLOT = timedelta(minutes=15)
FIRST = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(days=30)


def book(client: Client, producer: int, slot: int) -> Verdict:
    """Ask for one slot."""
    room = client.calendar("room-7", zone="Europe/Berlin", timeout=timedelta(seconds=90))
    return room.add(
        f"{producer}-{slot}",
        FIRST + slot * 2 * SLOT,
        duration=SLOT,
        handler="meet",
        payload=b"",
        summary="race",
    )


async def race(settings: Settings, slot: int) -> list[str]:
    """Two coroutines ask for one slot; their verdicts."""
    async with AsyncClient(settings) as client:
        room = client.calendar("room-7", zone="Europe/Berlin", timeout=timedelta(seconds=30))
        start = FIRST + slot * 2 * SLOT
        asked = (room.add(f"awaited-{n}", start, duration=SLOT) for n in range(2))
        return [verdict.kind.value for verdict in await asyncio.gather(*asked)]


@pytest.mark.timeout(300)
def test_of_eight_producers_one_gets_each_slot_and_the_others_hear_who(
    broker: str, prefix: str, tmp_path: Path
) -> None:
    with Rig(broker, prefix, tmp_path) as rig, ExitStack() as stack:
        rig.wait_active(rig.dispatcher("first"))
        clients = [stack.enter_context(Client(rig.settings, client_id=f"p{n}")) for n in range(PRODUCERS)]
        asked = [(producer, slot) for slot in range(SLOTS) for producer in range(PRODUCERS)]
        # All race for the same stretch of slots at about the same time, each in an order of its own.
        chance = random.Random(1)
        asked.sort(key=lambda one: one[1] // 20 * 20 + chance.random() * 20)
        with ThreadPoolExecutor(PRODUCERS * AT_ONCE) as threads:
            verdicts = list(threads.map(lambda one: book(clients[one[0]], *one), asked))
        by_slot: dict[int, list[tuple[int, Verdict]]] = {}
        for (producer, slot), verdict in zip(asked, verdicts, strict=True):
            by_slot.setdefault(slot, []).append((producer, verdict))
        winners = {}
        for slot, answers in by_slot.items():
            (winners[slot],) = [p for p, verdict in answers if verdict.kind is VerdictKind.SCHEDULED]
            for producer, verdict in answers:
                if producer != winners[slot]:
                    assert verdict.kind is VerdictKind.CONFLICT, verdict
                    assert f"meets '{winners[slot]}-{slot}'" in verdict.detail
        assert len(winners) == SLOTS
        # Nobody won because nobody else had come yet.
        assert len(set(winners.values())) == PRODUCERS


@pytest.mark.timeout(120)
def test_a_new_owner_with_an_empty_store_knows_what_is_taken(
    broker: str, prefix: str, tmp_path: Path
) -> None:
    with Rig(broker, prefix, tmp_path) as rig:
        first = rig.dispatcher("first")
        rig.wait_active(first)
        with Client(rig.settings) as client:
            assert book(client, 0, 0).kind is VerdictKind.SCHEDULED
            assert book(client, 0, 1).kind is VerdictKind.SCHEDULED
            assert client.calendar("room-7").remove("0-1").kind is VerdictKind.CANCELLED
            raced = asyncio.run(race(rig.settings, 2))
            assert sorted(raced) == ["CONFLICT", "SCHEDULED"]
            first.kill()
            rig.wait_active(rig.dispatcher("second"))
            refused = book(client, 1, 0)
            assert refused.kind is VerdictKind.CONFLICT
            assert "meets '0-0'" in refused.detail
            assert book(client, 1, 1).kind is VerdictKind.SCHEDULED
