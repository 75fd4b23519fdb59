"""The clients for threads and for asyncio have one surface: the same calls with the same arguments."""

from __future__ import annotations

import asyncio
import inspect
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.client_doubles import FakeCluster
from tickstream import AsyncClient, Client
from tickstream.errors import InvalidEvent, InvalidInput, UnknownZone
from tickstream.ingest.async_calendar import AsyncCalendar
from tickstream.ingest.calendar import Calendar
from tickstream.model import VerdictKind
from tickstream.settings import Settings
from tickstream.testing import Harness

COMPUTES = {"event", "preview", "calendar"}
"""These wait for nothing."""
THREADS_ONLY = {"queues", "together", "core", "layout", "changelog", "dashboard", "close", "close_dashboard"}
"""Parts for other parts of this project; and the end of a client, which `async with` is."""


def names(of: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(of) if not name.startswith("_")}


def parameters(call: Any) -> list[tuple[str, Any, Any]]:
    given = inspect.signature(call).parameters.values()
    return [(one.name, one.kind, one.default) for one in given]


@pytest.mark.parametrize(
    ("sync", "awaited", "apart"), [(Calendar, AsyncCalendar, set()), (Client, AsyncClient, THREADS_ONLY)]
)
def test_each_call_is_there_with_the_same_arguments(sync: type, awaited: type, apart: set[str]) -> None:
    assert names(sync) - names(awaited) == apart
    assert names(awaited) <= names(sync)
    for name in names(awaited):
        one, other = getattr(sync, name), getattr(awaited, name)
        assert parameters(one) == parameters(other), name
        waits = inspect.iscoroutinefunction(other) or inspect.isasyncgenfunction(other)
        assert waits is (name not in COMPUTES), name


async def here(call: Any, *args: Any, **kwargs: Any) -> Any:
    """In place of a thread."""
    return call(*args, **kwargs)


def test_an_awaited_calendar_answers_as_the_other_one() -> None:
    harness = Harness()
    room = AsyncCalendar(harness.client.calendar("room-7", zone="Europe/Berlin"), here)
    hour = timedelta(hours=1)

    async def story() -> None:
        assert (room.id, room.zone) == ("room-7", "Europe/Berlin")
        start = f"{harness.now + timedelta(days=2):%Y-%m-%d}T09:00:00"
        added = await room.add("standup", start, duration=hour, rrule="FREQ=WEEKLY")
        assert added.kind is VerdictKind.SCHEDULED
        met = await room.conflicts(room.event("review", start, duration=hour))
        assert [one.with_uid for one in met.conflicts] == ["standup"]
        assert (await room.cancel("standup", start)).kind is VerdictKind.REPLACED
        assert (await room.add("review", start, duration=hour)).kind is VerdictKind.SCHEDULED
        assert (await room.change("review", summary="Review")).kind is VerdictKind.REPLACED
        assert (await room.remove("standup")).kind is VerdictKind.CANCELLED

    asyncio.run(story())


def test_what_is_wrong_is_said_before_anything_is_sent() -> None:
    cluster = FakeCluster()

    async def story() -> None:
        async with AsyncClient(Settings("nowhere:9092"), connect=lambda *_: cluster) as client:
            with pytest.raises(UnknownZone):
                client.calendar("room-7", zone="Nowhere")
            room = client.calendar("room-7", zone="Europe/Berlin")
            with pytest.raises(InvalidEvent):
                await room.add("standup", "2031-12-07T09:00:00", end="2031-12-07T08:00:00")

    asyncio.run(story())
    assert cluster.producer.sent == []


def test_a_client_that_is_not_open_has_no_calendar() -> None:
    with pytest.raises(InvalidInput, match="is not open"):
        AsyncClient(Settings("nowhere:9092")).calendar("room-7")
