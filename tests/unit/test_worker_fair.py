"""Slots go to queues by weight, limits hold, and nothing starves."""

import random

import pytest

from tests.unit.test_worker_outbox import outcome
from tickstream.worker.fair import FairQueue, Share
from tickstream.worker.run import Run


def run(queue: str) -> Run:
    made = outcome("task", 0).run
    made.queue = queue
    return made


def drained(fair: FairQueue, count: int) -> list[str]:
    """Queues of the next `count` runs, each of which ends before the next begins."""
    order = []
    for _ in range(count):
        taken = fair.take()
        assert taken is not None
        order.append(taken.queue)
        fair.done(taken.queue)
    return order


def test_queues_get_slots_by_weight_and_nobody_waits_for_more_than_a_turn() -> None:
    fair = FairQueue(1, {"a": Share(3), "b": Share(1)})
    fair.add([run("a") for _ in range(90)] + [run("b") for _ in range(30)])
    order = drained(fair, 80)
    assert order.count("a") == pytest.approx(60, abs=1)
    assert all("b" in order[i : i + 5] for i in range(len(order) - 5))


def test_a_queue_that_was_idle_does_not_catch_up() -> None:
    fair = FairQueue(1, {"a": Share(), "b": Share()})
    fair.add([run("a") for _ in range(100)])
    drained(fair, 50)
    fair.add([run("b") for _ in range(50)])
    order = drained(fair, 20)
    assert order.count("b") == pytest.approx(10, abs=1)


def test_a_queue_alone_gets_everything() -> None:
    fair = FairQueue(4, {"a": Share(1), "b": Share(100)})
    fair.add([run("a") for _ in range(9)])
    assert [fair.take() is not None for _ in range(5)] == [True, True, True, True, False]
    assert fair.full("b")


def test_a_limit_leaves_slots_to_others() -> None:
    fair = FairQueue(4, {"a": Share(limit=1), "b": Share()})
    fair.add([run("a"), run("a"), run("b")])
    assert [taken and taken.queue for taken in (fair.take(), fair.take(), fair.take())] == ["a", "b", None]
    assert (fair.full("a"), fair.full("b")) == (True, False)
    fair.done("b")
    assert fair.take() is None
    fair.done("a")
    assert fair.take() is not None


def test_what_was_dropped_is_passed() -> None:
    fair = FairQueue(1, {})
    runs = [run("a"), run("a")]
    fair.add(runs)
    assert runs[0].begin()
    assert fair.take() is runs[1]


@pytest.mark.parametrize("seed", range(30))
def test_everything_runs_once_within_the_limits(seed: int) -> None:
    rng = random.Random(seed)
    shares = {q: Share(rng.choice((0.5, 1, 4)), rng.choice((None, 1, 3))) for q in "abc"}
    fair = FairQueue(size := rng.randint(1, 6), shares)
    waiting = [run(rng.choice("abc")) for _ in range(200)]
    running: list[Run] = []
    done: list[Run] = []
    added = 0
    while len(done) < len(waiting):
        if added < len(waiting) and rng.random() < 0.4:
            count = rng.randint(1, 20)
            fair.add(waiting[added : added + count])
            added = min(len(waiting), added + count)
        while (taken := fair.take()) is not None:
            running.append(taken)
            assert running[-1].begin()
        assert len(running) == fair.running <= size
        for queue, share in shares.items():
            assert share.limit is None or sum(r.queue == queue for r in running) <= share.limit
        if running:
            ended = running.pop(rng.randrange(len(running)))
            fair.done(ended.queue)
            done.append(ended)
    assert {id(r) for r in done} == {id(r) for r in waiting}
