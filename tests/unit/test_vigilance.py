"""Steps of the wall clock, and troubles that go on."""

from __future__ import annotations

import pytest

from tickstream.dispatcher.vigilance import AGAIN_S, ClockWatch, Repeats
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
