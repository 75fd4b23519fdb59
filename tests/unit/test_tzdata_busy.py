"""Newer zone data and a calendar's busy time: reckoned anew before anything is decided, and what meets by it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from tests.unit.lane_kit import Bench, World
from tests.zone_releases import ZONE, instant, reckoning, release
from tickstream.calendar import Busy, meeting
from tickstream.codec import (
    PROGRESS,
    decode_history,
    decode_progress,
    encode_batch,
    encode_command,
    timers_key,
)
from tickstream.dispatcher.lane import Lane
from tickstream.dispatcher.ports import Input, InputRecord
from tickstream.ingest.calendar import Calendar
from tickstream.ingest.request import Requests
from tickstream.model import NEVER, Command, History, Outcome, Phase, Receipt, Verdict, VerdictKind, bucket_of
from tickstream.recurrence.zone_data import ZoneData
from tickstream.testing import Harness
from tickstream.timer_store import BucketMeta, TimerStore

OLD: Final = release("2026a", "America/New_York")
NEW: Final = release("2026b", "America/Chicago")
"""By these, the clock is an hour behind: what goes by it comes an hour later."""
WITHOUT: Final = release("2026c", None)
NY, CHICAGO = "America/New_York", "America/Chicago"
MINUTES: Final = timedelta(minutes=1)
BEGAN: Final = instant(NY, datetime(2027, 6, 1))
NINE: Final = "2027-06-07T09:00:00"


@pytest.fixture
def use() -> Iterator[Callable[[ZoneData], None]]:
    """Have the process reckon with other zone data."""
    with reckoning() as use:
        use(OLD)
        yield use


@pytest.fixture
def tick(use: Callable[[ZoneData], None]) -> Harness:
    """On the first of June, with the older release."""
    harness = Harness(zones=OLD)
    harness.advance(timedelta(milliseconds=BEGAN - harness.clock.wall_ms()))
    return harness


@pytest.fixture
def room(tick: Harness) -> Calendar:
    return tick.client.calendar("room-7", zone=ZONE)


def add(room: Calendar, uid: str, start: str = NINE, minutes: int = 60, **more: Any) -> Verdict:
    return room.add(uid, start, duration=minutes * MINUTES, **more)


def upgrade(tick: Harness, use: Callable[[ZoneData], None], data: ZoneData = NEW) -> None:
    use(data)
    tick.take_over(data)
    tick.tick()


def told(tick: Harness) -> list[History]:
    return [h for h in tick.history if h.outcome is Outcome.CONFLICT]


def taken(tick: Harness) -> list[tuple[str, int]]:
    bucket = bucket_of("{room-7}a", 8)
    found = meeting(tick._timers.occupancy(bucket, "room-7"), BEGAN, BEGAN + 30 * 86_400_000)
    return [(busy.uid, busy.start_ms) for busy in found]


def at(like: str, hour: int, day: int = 7) -> int:
    return instant(like, datetime(2027, 6, day, hour))


def test_what_is_taken_goes_with_the_clock_and_leaves_nothing_where_it_was(
    tick: Harness, room: Calendar, use: Callable[[ZoneData], None]
) -> None:
    add(room, "weekly", rrule="FREQ=WEEKLY;COUNT=3")
    add(room, "utc", "2027-06-09T09:00:00", zone="UTC")
    before = taken(tick)
    assert [start for uid, start in before if uid == "weekly"] == [at(NY, 9, day) for day in (7, 14, 21)]
    upgrade(tick, use)
    after = taken(tick)
    assert [start for uid, start in after if uid == "weekly"] == [at(CHICAGO, 9, day) for day in (7, 14, 21)]
    assert [row for row in after if row[0] == "utc"] == [row for row in before if row[0] == "utc"]
    # The hour that it left is to be had, the one that it came to is not.
    new_york = tick.client.calendar("room-7", zone=NY)
    assert add(new_york, "early", zone=NY).kind is VerdictKind.SCHEDULED
    assert add(new_york, "late", "2027-06-07T10:30:00", zone=NY).kind is VerdictKind.CONFLICT
    assert told(tick) == []


def test_two_that_meet_by_newer_data_are_told_once(
    tick: Harness, room: Calendar, use: Callable[[ZoneData], None]
) -> None:
    add(room, "here", rrule="FREQ=WEEKLY;COUNT=2")
    add(room, "there", "2027-06-07T10:30:00", zone=NY, rrule="FREQ=WEEKLY;COUNT=2")
    upgrade(tick, use)
    first, second = told(tick)
    assert [h.task_id for h in (first, second)] == ["{room-7}there"] * 2
    assert [h.occurrence_ts for h in (first, second)] == [
        instant(NY, datetime(2027, 6, day, 10, 30)) for day in (7, 14)
    ]
    assert "meets 'here'" in first.error
    assert [n["event"] for n in tick.notices] == ["conflict_found"] * 2
    # Nobody lost anything, and the next one with the same data tells nothing.
    assert tick.phase("{room-7}here") is tick.phase("{room-7}there") is Phase.SCHEDULED
    upgrade(tick, use)
    assert len(told(tick)) == 2


@pytest.mark.parametrize("days", [1, 20])
def test_one_that_is_due_soon_tells_it_once_too(
    tick: Harness, room: Calendar, use: Callable[[ZoneData], None], days: int
) -> None:
    add(room, "here", f"2027-06-{1 + days:02}T09:00:00")
    add(room, "there", f"2027-06-{1 + days:02}T10:00:00", zone=NY)
    upgrade(tick, use)
    (record,) = told(tick)
    assert record.task_id == "{room-7}there"


def test_what_was_let_meet_by_one_clock_is_no_news(
    tick: Harness, room: Calendar, use: Callable[[ZoneData], None]
) -> None:
    add(room, "first")
    assert add(room, "second", on_conflict="report").kind is VerdictKind.SCHEDULED
    assert add(room, "third", on_conflict="allow").kind is VerdictKind.SCHEDULED
    upgrade(tick, use)
    assert told(tick) == []


def test_who_does_not_look_is_found_by_the_others(
    tick: Harness, room: Calendar, use: Callable[[ZoneData], None]
) -> None:
    add(room, "a", "2027-06-07T10:00:00", zone=NY)
    add(room, "b", on_conflict="allow")
    upgrade(tick, use)
    (record,) = told(tick)
    assert (record.task_id, "meets 'b'" in record.error) == ("{room-7}a", True)


def test_what_is_over_is_not_told(tick: Harness, room: Calendar, use: Callable[[ZoneData], None]) -> None:
    add(room, "here", rrule="FREQ=DAILY;COUNT=3")
    add(room, "there", "2027-06-07T10:30:00", zone=NY, rrule="FREQ=DAILY;COUNT=3")
    tick.advance(timedelta(milliseconds=at(NY, 20, 8) - tick.clock.wall_ms()))
    upgrade(tick, use)
    assert [h.occurrence_ts for h in told(tick)] == [instant(NY, datetime(2027, 6, 9, 10, 30))]


def test_an_event_whose_zone_is_gone_takes_no_time_until_it_is_there_again(
    tick: Harness, use: Callable[[ZoneData], None]
) -> None:
    room = tick.client.calendar("room-7", zone=NY)
    add(room, "here", zone=ZONE)
    add(room, "there", "2027-06-07T12:00:00")
    upgrade(tick, use, WITHOUT)
    assert tick.phase("{room-7}here") is Phase.FAULTED
    assert taken(tick) == [("there", at(NY, 12))]
    again = release("2026d", CHICAGO)
    upgrade(tick, use, again)
    assert taken(tick) == [("here", at(CHICAGO, 9)), ("there", at(NY, 12))]


# --------------------------------------------------------------------------- the store, and a lane


@pytest.fixture
def bench(tmp_path: Path, use: Callable[[ZoneData], None]) -> Iterator[Bench]:
    with TimerStore(tmp_path / "store") as store:
        bench = Bench(World(), store)
        bench.clock.advance(BEGAN - bench.clock.wall_ms())
        yield bench


CALENDAR: Final = next(f"room-{n}" for n in range(99) if bucket_of(f"{{room-{n}}}a", 4) == 0)


def send(bench: Bench, count: int) -> None:
    """Half of them by the changed zone, half by New York's; each pair meets by the newer data, and not by the older."""
    commands: list[bytes] = []

    def take(command: Command) -> Verdict:
        commands.append(encode_command(command))
        receipt = Receipt(0, 0, len(commands))
        return Verdict(command.command_id, VerdictKind.SCHEDULED, command.task_id, receipt, "", NEVER, "", ())

    ids = iter(range(10_000))
    calendar = Calendar(CALENDAR, ZONE, Requests(), lambda: next(ids).to_bytes(16, "big"), take)
    for n in range(count):
        start = datetime(2027, 6, 3) + timedelta(hours=3 * n)
        add(calendar, f"a{n}", start.isoformat())
        add(calendar, f"b{n}", (start + timedelta(hours=1)).isoformat(), zone=NY)
    value = encode_batch("client", -1, commands)
    bench.world.incoming.append(InputRecord(Input.COMMANDS, 0, 0, 5, bench.clock.wall_ms(), value))


def rows(bench: Bench) -> list[Busy]:
    return sorted(meeting(bench.store.occupancy(0, CALENDAR), 0, BEGAN + 300 * 86_400_000))


def settled(bench: Bench, lane: Lane) -> None:
    while True:
        for _ in lane.run_once():
            pass
        values = [
            r.value for r in bench.world.committed if r.partition == 0 and r.key == timers_key(PROGRESS)
        ]
        if not decode_progress(values[-1] or b"").tzdata_before:
            return


def conflicts(bench: Bench) -> list[History]:
    values = [r.value for r in bench.world.committed if r.topic.endswith("history")]
    return [h for h in map(decode_history, values) if h.outcome is Outcome.CONFLICT]


def test_a_lane_with_newer_data_has_it_before_it_decides_and_tells_in_pages(
    bench: Bench, use: Callable[[ZoneData], None]
) -> None:
    send(bench, 40)
    lane = bench.take_over(OLD)
    settled(bench, lane)
    before = rows(bench)
    use(NEW)
    lane = bench.take_over(NEW)
    after = rows(bench)
    assert len(after) == len(before) == 80
    hour = {busy.uid: busy.start_ms for busy in before}
    assert {busy.start_ms - hour[busy.uid] for busy in after if busy.uid[0] == "a"} == {3_600_000}
    assert {busy.start_ms - hour[busy.uid] for busy in after if busy.uid[0] == "b"} == {0}
    assert conflicts(bench) == []
    settled(bench, lane)
    found = conflicts(bench)
    # Each b meets the a of its own; that one would meet the next b, two hours later, by no data.
    assert sorted(h.task_id for h in found) == sorted(f"{{{CALENDAR}}}b{n}" for n in range(40))
    assert [e for e in bench.events if e["event"] == "busy_time_reckoned"]
    assert len([e for e in bench.events if e["event"] == "conflict_found"]) == 40
    # Another owner with the same data has nothing to do.
    events = len(bench.events)
    settled(bench, bench.take_over(NEW))
    assert not [e for e in bench.events[events:] if e["event"] == "busy_time_reckoned"]
    assert len(conflicts(bench)) == 40


def test_an_empty_store_has_the_same_rows(
    bench: Bench, use: Callable[[ZoneData], None], tmp_path: Path
) -> None:
    send(bench, 10)
    settled(bench, bench.take_over(OLD))
    use(NEW)
    bench.take_over(NEW)
    reckoned = rows(bench)
    with TimerStore(tmp_path / "other") as other:
        fresh = Bench(bench.world, other)
        fresh.clock.advance(BEGAN - fresh.clock.wall_ms())
        fresh.take_over(NEW)
        assert rows(fresh) == reckoned


def test_the_store_leaves_other_buckets_and_other_rows_alone(
    bench: Bench, use: Callable[[ZoneData], None]
) -> None:
    send(bench, 5)
    settled(bench, bench.take_over(OLD))
    token = bench.store.acquire(0)
    assert not bench.store.reckon_busy(0, token)
    meta = bench.store.meta(0)
    use(NEW)
    assert bench.store.reckon_busy(0, token)
    assert not bench.store.reckon_busy(0, token)
    assert isinstance(meta, BucketMeta)
    assert bench.store.meta(0) == meta
