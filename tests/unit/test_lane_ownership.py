"""Which lanes a process runs: the pure state machine between the group and the lanes."""

from __future__ import annotations

import itertools
import random

import pytest

from tickstream.dispatcher.ownership import (
    LATE_AFTER_S,
    LONGEST_RETRY_S,
    Confirm,
    LaneStatus,
    Late,
    Ownership,
    Start,
    Stop,
)


@pytest.fixture
def owner() -> Ownership:
    return Ownership(random.Random(1))


def _active(owner: Ownership, *lanes: int) -> None:
    owner.assigned(lanes, 0.0)
    for lane in lanes:
        owner.active(lane, 0.0)


def test_an_assigned_lane_is_claimed_at_once(owner: Ownership) -> None:
    assert owner.assigned([2, 0], 0.0) == [Start(0), Start(2)]
    assert owner.lanes() == {0: LaneStatus.CLAIMING, 2: LaneStatus.CLAIMING}
    assert owner.tick(1.0) == []


def test_a_revoked_lane_is_stopped(owner: Ownership) -> None:
    _active(owner, 0, 1)
    assert owner.revoked([1]) == [Stop(1)]
    assert owner.lanes() == {0: LaneStatus.ACTIVE}


def test_a_lost_membership_is_no_word_about_the_lanes(owner: Ownership) -> None:
    _active(owner, 0, 1)
    assert owner.lost([0, 1]) == []
    assert owner.lanes() == {0: LaneStatus.ACTIVE, 1: LaneStatus.ACTIVE}


def test_after_a_loss_a_newer_assignment_that_lacks_a_lane_stops_it(owner: Ownership) -> None:
    _active(owner, 0, 1)
    owner.lost([0, 1])
    assert owner.assigned([1, 2], 1.0) == [Stop(0), Start(2)]
    assert owner.lanes() == {1: LaneStatus.ACTIVE, 2: LaneStatus.CLAIMING}


def test_lost_and_fenced_means_that_somebody_else_has_it(owner: Ownership) -> None:
    _active(owner, 0)
    owner.lost([0])
    assert owner.failed(0, 1.0) == []
    assert owner.lanes() == {}


def test_a_lost_lane_that_ended_is_claimed_when_the_group_gives_it_back(owner: Ownership) -> None:
    _active(owner, 0)
    owner.lost([0])
    owner.failed(0, 1.0)
    assert owner.assigned([0], 2.0) == [Start(0)]


def test_a_fenced_lane_asks_the_group_before_it_claims_again(owner: Ownership) -> None:
    _active(owner, 0)
    assert owner.failed(0, 1.0) == [Confirm(0)]
    assert owner.confirmed(0, True, 1.0) == []
    assert owner.tick(1.29) == []
    assert owner.tick(2.01) == [Start(0)]


def test_a_lane_that_is_not_ours_any_more_is_dropped(owner: Ownership) -> None:
    _active(owner, 0)
    owner.failed(0, 1.0)
    assert owner.confirmed(0, False, 1.0) == []
    assert owner.lanes() == {}
    assert owner.tick(60.0) == []


def test_the_pause_between_claims_doubles_up_to_ten_seconds(owner: Ownership) -> None:
    owner.assigned([0], 0.0)
    now, pauses = 0.0, []
    for _ in range(8):
        owner.failed(0, now)
        owner.confirmed(0, True, now)
        asked = now
        while Start(0) not in owner.tick(now):
            now += 0.01
        pauses.append(now - asked)
    assert 0.3 <= pauses[0] <= 1.01
    assert all(b <= 2 * a + 0.02 for a, b in itertools.pairwise(pauses))
    assert pauses[-1] == pytest.approx(LONGEST_RETRY_S, abs=0.02)


def test_an_active_lane_starts_over_with_the_short_pause(owner: Ownership) -> None:
    owner.assigned([0], 0.0)
    for _ in range(5):
        owner.failed(0, 0.0)
        owner.confirmed(0, True, 0.0)
        owner.tick(100.0)
    owner.active(0, 100.0)
    owner.failed(0, 200.0)  # it was steady for more than a minute
    owner.confirmed(0, True, 200.0)
    assert owner.tick(201.1) == [Start(0)]


def test_a_lane_that_stays_inactive_is_an_alarm_once(owner: Ownership) -> None:
    owner.assigned([0], 0.0)
    assert owner.tick(LATE_AFTER_S - 0.1) == []
    (late,) = owner.tick(LATE_AFTER_S + 0.1)
    assert isinstance(late, Late)
    assert owner.tick(LATE_AFTER_S + 1) == []


def test_a_waiting_lane_of_a_lost_membership_is_not_claimed(owner: Ownership) -> None:
    _active(owner, 0)
    owner.failed(0, 1.0)
    owner.confirmed(0, True, 1.0)
    owner.lost([0])
    assert owner.tick(5.0) == []


def test_the_alarm_is_repeated_every_minute(owner: Ownership) -> None:
    owner.assigned([0], 0.0)
    assert [len(owner.tick(float(at))) for at in (6, 20, 60, 67, 100, 129)] == [1, 0, 0, 1, 0, 1]


def test_a_lane_that_fails_soon_after_each_take_over_is_claimed_ever_more_slowly(owner: Ownership) -> None:
    owner.assigned([0], 0.0)
    now, pauses = 0.0, []
    for _ in range(5):
        owner.active(0, now)
        owner.failed(0, now + 1)
        owner.confirmed(0, True, now + 1)
        asked = now = now + 1
        while Start(0) not in owner.tick(now):
            now += 0.01
        pauses.append(now - asked)
    assert all(b > 1.9 * a for a, b in itertools.pairwise(pauses))


def test_an_illegal_move_is_a_fault_of_the_program(owner: Ownership) -> None:
    _active(owner, 0)
    with pytest.raises(AssertionError, match="active to active"):
        owner.active(0, 1.0)


def test_news_of_a_lane_that_is_gone_changes_nothing(owner: Ownership) -> None:
    _active(owner, 0)
    owner.revoked([0])
    assert owner.failed(0, 1.0) == []
    assert owner.active(0, 1.0) == []
    assert owner.confirmed(0, True, 1.0) == []
    assert owner.lanes() == {}
