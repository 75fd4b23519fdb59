"""What the demo does to its tasks: how many, which, when."""

from random import Random

from tickstream.ops.demo.plan import ChangeKind, plan_changes, quiet_moment
from tickstream.ops.task_file import TaskLine

START = 1_800_000_000_000


def tasks(count: int, seconds: int) -> list[TaskLine]:
    return [
        TaskLine(i, f"task:{i}", START + i * seconds * 1_000 // count, "demo", b"", "default", {})
        for i in range(count)
    ]


def test_a_twentieth_is_cancelled_and_another_replaced() -> None:
    changes = plan_changes(tasks(1_000, 60), Random(1), start_ms=START)
    kinds = [change.kind for change in changes]
    assert kinds.count(ChangeKind.CANCEL) == kinds.count(ChangeKind.REPLACE) == 50
    assert len({change.task.task_id for change in changes}) == 100


def test_changes_come_in_time_and_never_move_a_task_beyond_the_run() -> None:
    made = tasks(1_000, 60)
    changes = plan_changes(made, Random(2), start_ms=START)
    assert [change.at_ms for change in changes] == sorted(change.at_ms for change in changes)
    for change in changes:
        assert START <= change.at_ms <= change.task.run_at_ms - 2_000
        assert change.task.run_at_ms <= change.run_at_ms <= made[-1].run_at_ms


def test_a_run_that_is_too_short_for_changes_has_none() -> None:
    assert plan_changes(tasks(100, 1), Random(3), start_ms=START) == []
    assert plan_changes([], Random(3), start_ms=START) == []


def test_the_kill_avoids_the_peaks() -> None:
    trickle = list(range(0, 60_000, 100))
    peaks = [second * 1_000 for second in range(0, 61, 5) for _ in range(200)]
    moment = quiet_moment(sorted(trickle + peaks))
    assert abs(moment - 30_000) <= 7_500
    assert not any(moment - 750 <= peak <= moment + 4_000 for peak in peaks)
