"""Threads that take runs from one fair queue: each run once, limits held, none left behind."""

import random
import threading
from functools import partial

import pytest

from tests.unit.test_worker_fair import run
from tests.waiting import eventually
from tickstream.worker.fair import Share
from tickstream.worker.run import Run
from tickstream.worker.slots import ThreadSlots


def all_done(done: list[Run], runs: list[Run]) -> bool:
    return len(done) == len(runs)


@pytest.mark.parametrize("size", [1, 2, 16])
def test_whatever_ends_when_the_next_is_dealt_nothing_is_left_behind(size: int) -> None:
    shares = {"a": Share(3), "b": Share(1, limit=2)}
    done: list[Run] = []
    lock, running, most = threading.Lock(), {"a": 0, "b": 0}, {"a": 0, "b": 0}

    def execute(run: Run) -> None:
        with lock:
            running[run.queue] += 1
            most[run.queue] = max(most[run.queue], running[run.queue])
        with lock:
            running[run.queue] -= 1
            done.append(run)

    rng = random.Random(size)
    slots = ThreadSlots(size, shares, execute)
    runs: list[Run] = []
    for _ in range(150):
        some = [run(rng.choice("ab")) for _ in range(rng.randint(1, 60))]
        runs += some
        slots.submit(some)
        if rng.random() < 0.2:
            # The last of a burst must not wait for another burst.
            assert eventually(partial(all_done, done, runs))
    assert eventually(partial(all_done, done, runs))
    assert len({id(r) for r in done}) == len(runs)
    assert most["b"] <= 2
    assert eventually(lambda: slots.running == 0)
    slots.close()


def test_what_was_dropped_frees_what_was_kept_for_it() -> None:
    gate, done = threading.Event(), []

    def execute(run: Run) -> None:
        gate.wait(10)
        done.append(run)

    slots = ThreadSlots(1, {"a": Share(limit=1)}, execute)
    first, second, third = runs = [run("a") for _ in range(3)]
    slots.submit(runs)
    assert eventually(lambda: first.begun)
    assert slots.full("a")
    assert second.begin()
    gate.set()
    assert eventually(lambda: done == [first, third])
    assert not slots.full("a")
    slots.close()
