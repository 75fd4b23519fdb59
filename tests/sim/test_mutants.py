"""The auditor is not blind: some of the faults that `make sim-mutants` plants, those that show within seconds."""

from __future__ import annotations

import pytest

from tests.sim import decoding, lane_mutants, promise_mutants, task_mutants
from tests.sim.mutant_run import try_mutant
from tests.sim.mutation import MUTANTS, Mutant
from tests.sim.run import quiet

SEEDS = 60
QUICK = {
    "init on b fences nobody",
    "the store is written before the commit",
    "heartbeats renew nothing",
    "the next attempt has the number of the last",
    "history is left out now and then",
    "what is skipped is not recorded",
    "a pause of the queue is answered and ignored",
    "a worker starts at once what it is to hold",
}


@pytest.mark.parametrize("fault", [m for m in MUTANTS if m.name in QUICK], ids=lambda m: m.name)
def test_a_planted_fault_is_named_by_its_promise(fault: Mutant) -> None:
    quiet()
    with decoding.shared():
        caught = try_mutant(fault, SEEDS)
    assert caught.histories, caught


@pytest.mark.parametrize("fault", MUTANTS, ids=lambda m: m.name)
def test_a_fault_fits_the_code(fault: Mutant) -> None:
    with fault.apply():
        pass  # what it replaces is there; whether it still is a fault, `make sim-mutants` tells


def test_every_promise_but_one_has_a_mutant() -> None:
    # G8, daylight saving, is a matter of the recurrence package and its own oracles.
    assert len(MUTANTS) >= 20
    assert {m.promise for m in MUTANTS} == {f"G{n}" for n in range(1, 8)}
    assert len({m.name for m in MUTANTS}) == len(MUTANTS)
    assert lane_mutants
    assert task_mutants
    assert promise_mutants
