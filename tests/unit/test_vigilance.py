"""Steps of the wall clock, and troubles that go on."""

from __future__ import annotations

import pytest

from tickstream.dispatcher.vigilance import (
    AGAIN_S,
    BROKEN_AN_HOUR,
    LONGEST_PAUSE_S,
    STEADY_S,
    ClockWatch,
    Repeats,
    StoreTroubles,
)
from tickstream.errors import StoreCorrupted
from tickstream.testing import ManualClock


def test_time_that_passes_is_no_step() -> None:
    clock = ManualClock()
    watch = ClockWatch(clock)
    for _ in range(100):
        clock.advance(3_600_000)
        assert watch.look() == 0
    assert watch.steps == 0


@pytest.mark.parametrize("by_ms", [3_600_000, -3_600_000, 400, -400])
def test_a_clock_that_is_set_is_seen_once_and_counted(by_ms: int) -> None:
    clock = ManualClock()
    watch = ClockWatch(clock)
    clock.advance(50)
    clock.step(by_ms)
    assert watch.look() == by_ms
    assert watch.look() == 0
    assert watch.steps == 1


def test_a_clock_that_is_slewed_is_not_set() -> None:
    clock = ManualClock()
    watch = ClockWatch(clock)
    for _ in range(10_000):
        clock.advance(50)
        clock.step(1)
        assert watch.look() == 0


def test_a_trouble_is_told_when_it_is_new_and_then_once_a_minute() -> None:
    clock = ManualClock()
    repeats = Repeats(clock)
    told = []
    for second in range(150):
        if repeats.tell("the coordinator is away"):
            told.append(second)
        clock.advance(1_000)
    assert told == [0, int(AGAIN_S), 2 * int(AGAIN_S)]
    assert repeats.tell("something else")


class TestStoreTroubles:
    def test_the_pause_doubles_while_the_disk_stays_full_and_is_short_again_after_a_good_life(self) -> None:
        clock = ManualClock()
        troubles = StoreTroubles(clock)
        pauses = []
        for _ in range(7):
            troubles.begin()
            pauses.append(troubles.pause_s())
        assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, LONGEST_PAUSE_S, LONGEST_PAUSE_S]
        troubles.begin()
        clock.advance(int(STEADY_S * 1000))
        assert troubles.pause_s() == 0.5

    def test_one_broken_store_is_restored_and_a_row_of_them_is_the_disks_fault(self) -> None:
        clock = ManualClock()
        troubles = StoreTroubles(clock)
        broken = StoreCorrupted("block checksum mismatch")
        for _ in range(BROKEN_AN_HOUR):
            troubles.broken(broken)
        with pytest.raises(StoreCorrupted, match="look at the disk"):
            troubles.broken(broken)

    def test_broken_stores_of_days_ago_do_not_count(self) -> None:
        clock = ManualClock()
        troubles = StoreTroubles(clock)
        for _ in range(20):
            troubles.broken(StoreCorrupted("block checksum mismatch"))
            clock.advance(24 * 3_600_000)
