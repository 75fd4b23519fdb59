"""The conflict check and the busy time behind it, in memory and in RocksDB."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Options, Rdict, RdictIter, WriteBatch

from tickstream.calendar import (
    Busy,
    Checked,
    Event,
    Length,
    MemoryOccupancy,
    Occupancy,
    Overlaid,
    Status,
    busy_time,
    check,
    expand,
    meeting,
)
from tickstream.calendar.occupancy import CLASS_BOUNDS_MS, CLASSES, DAY_MS, HOUR_MS, length_class
from tickstream.timer_store.busy import StoredOccupancy, busy_key, busy_of, busy_value, calendar_prefix

HORIZON = 400 * DAY_MS
DAILY = Event("mine", "1970-01-02T09:00:00", "UTC", Length(ms=HOUR_MS), "FREQ=DAILY")


def at(hour: float, hours: float = 1, uid: str = "other", *, tentative: bool = False) -> Busy:
    """A stretch that begins so many hours after the epoch."""
    start = round(hour * HOUR_MS)
    return Busy(start, start + round(hours * HOUR_MS), uid, start, tentative)


def checked(event: Event, *busy: Busy, limit: int | None = None) -> Checked:
    return check(expand(event, None), MemoryOccupancy(busy), 0, HORIZON, limit=limit)


def test_a_conflict_says_who_which_occurrence_and_the_time_in_common() -> None:
    found = checked(DAILY, at(24 * 3 + 9.5, 2)).conflicts
    assert len(found) == 1
    assert (found[0].busy.uid, found[0].occurrence.recurrence_ms) == ("other", (24 * 3 + 9) * HOUR_MS)
    assert (found[0].start_ms, found[0].end_ms) == (round((24 * 3 + 9.5) * HOUR_MS), (24 * 3 + 10) * HOUR_MS)
    assert not found[0].with_itself
    assert not found[0].tentative


def test_an_endless_series_is_clear_until_the_horizon_a_finished_one_to_its_end() -> None:
    assert checked(DAILY) == Checked((), more=False, clear_until_ms=HORIZON)
    finite = Event("mine", DAILY.start, "UTC", DAILY.length, "FREQ=DAILY;COUNT=3")
    assert checked(finite).clear_until_ms is None
    longer = Event("mine", DAILY.start, "UTC", DAILY.length, "FREQ=DAILY;COUNT=500")
    assert checked(longer).clear_until_ms == HORIZON
    assert checked(Event("mine", DAILY.start, "UTC", DAILY.length)).clear_until_ms is None


def test_its_own_time_of_before_is_no_conflict() -> None:
    assert checked(DAILY, at(24 + 9, uid="mine")).conflicts == ()


def test_tentative_time_blocks_and_is_marked() -> None:
    assert [c.tentative for c in checked(DAILY, at(33, tentative=True), at(57)).conflicts] == [True, False]
    unsure = Event("mine", DAILY.start, "UTC", DAILY.length, status=Status.TENTATIVE)
    assert [c.tentative for c in checked(unsure, at(33)).conflicts] == [True]


def test_a_limit_gives_the_earliest_and_says_that_there_are_more() -> None:
    busy = [at(24 * day + 9, 1 if day % 2 else 30, f"b{day}") for day in range(1, 9, 2)]
    found = checked(DAILY, *busy, limit=3)
    assert [c.busy.uid for c in found.conflicts] == ["b1", "b3", "b5"]
    assert found.more
    assert not checked(DAILY, *busy, limit=4).more


def test_nothing_blocks_in_no_time() -> None:
    moment = Event("mine", DAILY.start, "UTC")
    assert busy_time(expand(moment, None), 0, HORIZON) == ()
    assert checked(moment, at(33)).conflicts == ()


def test_every_length_is_in_the_class_that_bounds_it() -> None:
    assert [length_class(0, bound) for bound in CLASS_BOUNDS_MS] == list(range(CLASSES - 1))
    assert [length_class(0, bound + 1) for bound in CLASS_BOUNDS_MS] == list(range(1, CLASSES))


# --------------------------------------------------------------------------- in RocksDB


@pytest.fixture
def family(tmp_path: Path) -> Iterator[tuple[Rdict, Any]]:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    db = Rdict(str(tmp_path), options, column_families={"busy": options})
    yield db.get_column_family("busy"), db
    db.close()


def status(rows: RdictIter) -> None:
    rows.status()


def put(db: Rdict, prefix: bytes, busy: list[Busy]) -> None:
    batch = WriteBatch(raw_mode=True)
    for stretch in busy:
        batch.put(busy_key(prefix, stretch), busy_value(stretch), db.get_column_family_handle("busy"))
    db.write(batch)


def some_busy(seed: random.Random, count: int, uid: str) -> list[Busy]:
    return [
        at(seed.randrange(-500, 5_000), seed.choice([0.25, 1, 3, 20, 30, 300, 3_000, 9_000]), f"{uid}{i}", tentative=i % 3 == 0)
        for i in range(count)
    ]  # fmt: skip


def test_the_keys_order_is_class_then_time_and_they_are_read_back() -> None:
    prefix = calendar_prefix(7, "räume/7")
    some = some_busy(random.Random(1), 200, "ü-")
    assert [busy_of(prefix, busy_key(prefix, b), busy_value(b)) for b in some] == some
    by_key = sorted(some, key=lambda b: busy_key(prefix, b))
    by_value = sorted(some, key=lambda b: (length_class(b.start_ms, b.end_ms), b))
    assert [b[:2] for b in by_key] == [b[:2] for b in by_value]


@pytest.mark.parametrize("seed", range(5))
def test_stored_overlaid_and_in_memory_busy_time_answer_alike(family: tuple[Rdict, Any], seed: int) -> None:
    column, db = family
    chance = random.Random(seed)
    stored, added = some_busy(chance, 150, "s"), some_busy(chance, 50, "a")
    removed = frozenset(stored[::4])
    prefix = calendar_prefix(1, "room")
    put(db, prefix, stored)
    # Calendars and buckets beside it are not looked into.
    put(db, calendar_prefix(1, "room2"), some_busy(chance, 50, "x"))
    put(db, calendar_prefix(2, "room"), some_busy(chance, 50, "x"))
    on_disk = StoredOccupancy(column, prefix, status)
    overlaid = Overlaid(on_disk, MemoryOccupancy(added), removed)

    def answers(occupancy: Occupancy) -> tuple[object, ...]:
        return check(expand(DAILY, None), occupancy, 0, HORIZON), meeting(occupancy, 0, 999 * HOUR_MS)

    assert answers(on_disk) == answers(MemoryOccupancy(stored))
    kept = [b for b in stored if b not in removed]
    assert answers(overlaid) == answers(MemoryOccupancy([*kept, *added]))
    assert meeting(on_disk, -(10**15), 10**15) == tuple(sorted(stored))
