"""Free and busy time: what is taken, and what is left between."""

import pytest

from tickstream.calendar import Busy, Slot, Stretch, busy_stretches, common_slots, free_slots


def busy(start: int, end: int, *, tentative: bool = False) -> Busy:
    return Busy(start, end, "u", start, tentative)


@pytest.mark.parametrize(
    ("taken", "stretches"),
    [
        ([], []),
        ([busy(10, 20), busy(20, 30)], [(10, 30, False)]),
        ([busy(10, 40), busy(20, 30)], [(10, 40, False)]),
        ([busy(-5, 5), busy(95, 105)], [(0, 5, False), (95, 100, False)]),
        ([busy(10, 30, tentative=True), busy(20, 40)], [(10, 20, True), (20, 40, False)]),
        ([busy(10, 40), busy(20, 30, tentative=True)], [(10, 40, False)]),
        ([busy(10, 20, tentative=True), busy(15, 25, tentative=True)], [(10, 25, True)]),
        ([busy(100, 110), busy(-10, 0)], []),
    ],
)
def test_busy_time_is_stretches_that_do_not_touch(
    taken: list[Busy], stretches: list[tuple[int, int, bool]]
) -> None:
    assert busy_stretches(taken, 0, 100) == [Stretch(*stretch) for stretch in stretches]


def test_free_slots_are_whole_gaps_that_last_long_enough() -> None:
    taken = [Stretch(10, 20, False), Stretch(25, 50, True), Stretch(80, 100, False)]
    assert free_slots(taken, 0, 100, 5) == [Slot(0, 10), Slot(20, 25), Slot(50, 80)]
    assert free_slots(taken, 0, 100, 10) == [Slot(0, 10), Slot(50, 80)]
    assert free_slots(taken, 0, 100, 10, 1) == [Slot(0, 10)]
    assert free_slots([], 0, 100, 100) == [Slot(0, 100)]
    assert free_slots([Stretch(0, 100, False)], 0, 100, 1) == []


def test_slots_that_two_have_in_common() -> None:
    one = [Slot(0, 10), Slot(20, 30), Slot(50, 80)]
    other = [Slot(5, 25), Slot(60, 61), Slot(70, 90)]
    assert common_slots(one, other, 1) == [Slot(5, 10), Slot(20, 25), Slot(60, 61), Slot(70, 80)]
    assert common_slots(one, other, 5) == [Slot(5, 10), Slot(20, 25), Slot(70, 80)]
