"""What waits in vain for a slot goes back, and only that."""

import random

import pytest

from tickstream.worker.intake import BOUNCE_S, BUSY_S, HELD, HOLD_S, MOST_BOUNCES, RESERVE_S, Bounces, Waiting


class Item:
    def __init__(self, patient: bool = False) -> None:
        self.begun = False
        self.patient = patient


def items(count: int, patient: bool = False) -> list[Item]:
    return [Item(patient) for _ in range(count)]


def test_beyond_the_reserve_work_goes_back_after_150_ms_and_all_of_it_after_500() -> None:
    waiting: Waiting[Item] = Waiting(2)
    runs = items(5)
    waiting.add(runs, 10.0)
    assert waiting.overdue(10.0 + BUSY_S - 0.01) == []
    assert waiting.overdue(10.0 + BUSY_S) == runs[2:]
    assert not waiting.stalled
    assert waiting.overdue(10.0 + RESERVE_S - 0.01) == []
    assert waiting.overdue(10.0 + RESERVE_S) == runs[:2]
    assert waiting.stalled


def test_slots_that_come_free_leave_the_rest_its_time() -> None:
    waiting: Waiting[Item] = Waiting(1)
    runs = items(20)
    waiting.add(runs, 10.0)
    for n, run in enumerate(runs):
        run.begun = True
        assert waiting.overdue(10.0 + n * (BUSY_S - 0.01)) == []


def test_what_comes_to_an_empty_line_has_not_waited() -> None:
    waiting: Waiting[Item] = Waiting(0)
    first, second = items(2)
    waiting.add([first], 10.0)
    first.begun = True
    assert waiting.overdue(10.1) == []
    waiting.add([second], 99.0)
    assert waiting.overdue(99.1) == []


def test_what_was_in_many_places_is_held_where_all_slots_are_busy_some_a_slot() -> None:
    waiting: Waiting[Item] = Waiting(2)
    new, old = items(1), items(3, patient=True)
    waiting.add([*new, *old], 10.0)
    assert waiting.overdue(10.0 + BUSY_S) == old[1:]
    # The others go back now, but for what may wait here.
    assert waiting.overdue(10.0 + RESERVE_S) == new
    assert waiting.stalled
    assert waiting.held == 1
    later = [*items(1), *items(2 * HELD, patient=True)]
    assert waiting.turned_away(later, 11.0) == [later[0], later[-1]]
    assert waiting.held == 2 * HELD


def test_what_is_held_starts_in_the_next_free_slot_or_moves_on_after_its_time() -> None:
    waiting: Waiting[Item] = Waiting(3)
    held = items(3, patient=True)
    assert waiting.turned_away(held[:2], 10.0) == []
    assert waiting.turned_away(held[2:], 11.0) == []
    held[0].begun = True
    assert waiting.held == 2
    assert waiting.rested(10.0 + HOLD_S - 0.01) == []
    assert waiting.rested(10.0 + HOLD_S) == [held[1]]
    assert waiting.rested(11.0 + HOLD_S) == [held[2]]
    assert waiting.held == 0


@pytest.mark.parametrize("seed", range(30))
def test_nothing_that_runs_goes_back_and_nothing_waits_behind_busy_slots(seed: int) -> None:
    rng = random.Random(seed)
    waiting: Waiting[Item] = Waiting(rng.randint(0, 4))
    now, moved = 0.0, 0.0
    line: list[Item] = []
    for _ in range(400):
        now += rng.random() * 0.06
        if rng.random() < 0.3:
            some = items(rng.randint(1, 5))
            if not line:
                moved = now
            waiting.add(some, now)
            line += some
        if line and rng.random() < rng.choice((0.05, 0.6)):
            line.pop(0).begun = True
            moved = now
        back = waiting.overdue(now)
        assert not any(run.begun for run in back)
        assert back == line[len(line) - len(back) :]
        del line[len(line) - len(back) :]
        if now - moved >= RESERVE_S:
            assert line == []


def test_bounces_are_bounded() -> None:
    bounces = Bounces()
    for _ in range(MOST_BOUNCES):
        assert bounces.room(10.0) > 0
        bounces.add(10.0)
    assert bounces.room(10.0 + BOUNCE_S / 2) == 0
    assert bounces.room(10.0 + 2 * BOUNCE_S) == MOST_BOUNCES
