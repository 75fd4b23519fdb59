"""Key bytes: what sorts before what, and that every key reads back."""

from __future__ import annotations

import pytest

from tickstream.model import Phase
from tickstream.projection import keys

NOON = 1_796_040_000_000


def test_rows_sort_by_instant_then_id_and_read_back() -> None:
    rows = [("b", NOON - 1), ("a", NOON), ("a:2", NOON), ("b", NOON), ("a", NOON + 1), ("a", NOON + 60_000)]
    made = [keys.row_key(task_id, at) for task_id, at in rows]
    assert made == sorted(made)
    assert [keys.read_row_key(key) for key in made] == rows


def test_a_row_key_is_drawn_in_the_docstring() -> None:
    assert keys.row_key("é", NOON + 1) == (
        (NOON // 60_000).to_bytes(4, "big") + b"\x00\x01" + "é".encode() + (NOON + 1).to_bytes(8, "big")
    )


def test_an_instant_is_a_bound_of_its_rows() -> None:
    assert keys.instant(NOON) < keys.row_key("a", NOON) < keys.instant(NOON + 1)
    assert keys.row_key("\U0010ffff", keys.LAST_INSTANT_MS) < keys.END


@pytest.mark.parametrize("at", [-5, 1 << 60])
def test_instants_without_a_place_stand_at_the_edge_and_keep_their_value(at: int) -> None:
    assert keys.read_row_key(keys.row_key("a", at)) == ("a", at)
    assert keys.instant(0) <= keys.row_key("a", at) < keys.END


def test_what_is_no_row_key_says_so() -> None:
    with pytest.raises(ValueError, match="too short"):
        keys.read_row_key(b"short")


def test_a_tasks_endings_stand_together_and_apart_from_longer_ids() -> None:
    prefix = keys.ended_prefix("job")
    assert keys.ended_key("job", NOON).startswith(prefix)
    assert not keys.ended_key("job2", NOON).startswith(prefix)
    assert keys.read_ended_key(keys.ended_key("job", NOON)) == ("job", NOON)


def test_attempts_stand_with_their_occurrence_in_the_order_of_the_log() -> None:
    made = [keys.attempt_key("job", NOON, number) for number in (0, 7, 1 << 40)]
    assert made == sorted(made)
    first, end = keys.attempts_of("job", NOON)
    assert all(first <= key < end for key in made)
    for other in (keys.attempt_key("job", NOON + 1, 0), keys.attempt_key("job2", NOON, 0)):
        assert not first <= other < end
    assert keys.read_attempt_key(made[1]) == ("job", NOON, 7)


def test_counters_of_a_state_are_one_range_by_minute() -> None:
    made = [keys.count_key(Phase.DEAD, minute, queue) for minute in (1, 2) for queue in ("", "a", "b")]
    assert made == sorted(made)
    assert keys.count_bound(Phase.DEAD, 1) <= made[0]
    assert made[2] < keys.count_bound(Phase.DEAD, 2) <= made[3]
    assert made[-1] < keys.count_end(Phase.DEAD) <= keys.count_bound(Phase.CANCELLED, 0)
    assert keys.read_count_key(made[-1]) == (Phase.DEAD, 2, "b")


def test_failures_stand_in_the_order_of_their_time() -> None:
    assert keys.failure_key(5, "z", 1) < keys.failure_bound(6) < keys.failure_key(6, "a", 1)
    assert keys.read_failure_key(keys.failure_key(6, "a", 7)) == (6, "a", 7)
