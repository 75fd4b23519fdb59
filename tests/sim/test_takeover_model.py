"""The take-over's rules, each by what happens without it: docs/protocol.md, section 2."""

import pytest

from tests.sim.takeover_model import Broken, Model, Program, Step

AS_WRITTEN: Program = (Step.INIT_A, Step.INIT_B, Step.PRODUCE_CLAIM, Step.COMMIT_CLAIM, Step.TAIL)
CLAIM_AND_TAIL: Program = (Step.PRODUCE_CLAIM, Step.COMMIT_CLAIM, Step.TAIL)
B_FIRST: Program = (Step.INIT_B, Step.INIT_A, *CLAIM_AND_TAIL)
PARALLEL: Program = (Step.INIT_A | Step.INIT_B, *CLAIM_AND_TAIL)
END_BETWEEN_INITS: Program = (Step.INIT_A, Step.ASK_END, Step.INIT_B, *CLAIM_AND_TAIL)
END_OF_OLD_LEADER: Program = (*AS_WRITTEN[:4], Step.ASK_OLD_LEADER, Step.TAIL)
EMPTY_FIRST: Program = (Step.INIT_A, Step.INIT_B, Step.EMPTY_TRANSACTION, Step.ASK_END, Step.TAIL)
B_AFTER_THE_TAIL: Program = (Step.INIT_A, *CLAIM_AND_TAIL, Step.INIT_B)
CLAIM_ON_B: Program = (
    Step.INIT_A,
    Step.INIT_B,
    Step.PRODUCE_CLAIM_ON_B,
    Step.COMMIT_CLAIM_ON_B,
    Step.TAIL,
)


@pytest.mark.parametrize(
    ("model", "states"),
    [
        (Model((AS_WRITTEN,) * 2, lives=2, works=3, strays=1), 14_145),
        (Model((AS_WRITTEN,) * 3, lives=1, works=3, strays=1), 13_337),
        (Model((AS_WRITTEN,) * 2, lives=2, works=2, in_turn=False), 7_180),
        (Model((AS_WRITTEN,) * 3, lives=1, works=2, in_turn=False), 9_291),
    ],
    ids=["two, crashing twice", "three", "two, ids as they like", "three, ids as they like"],
)
def test_the_rules_as_written_hold_in_every_interleaving(model: Model, states: int) -> None:
    explored = model.explore()
    print(f"{explored.states:,} states")
    assert explored.broken == {}
    # The whole of it, not a corner: every claimant got as far as to hold the lane for its own.
    assert explored.states == states
    assert explored.believers == len(model.programs)


@pytest.mark.parametrize(
    ("programs", "found"),
    [
        ((AS_WRITTEN, B_FIRST), {Broken.TWO_OWNERS}),
        ((B_FIRST, B_FIRST), {Broken.TWO_OWNERS}),
        ((PARALLEL, PARALLEL), {Broken.TWO_OWNERS}),
        ((CLAIM_ON_B, CLAIM_ON_B), {Broken.TWO_OWNERS}),
        ((END_BETWEEN_INITS,) * 2, {Broken.WORK_TWICE}),
        ((END_OF_OLD_LEADER,) * 2, {Broken.WORK_TWICE}),
        ((EMPTY_FIRST,) * 2, {Broken.TWO_OWNERS, Broken.WORK_TWICE}),
        ((B_AFTER_THE_TAIL,) * 2, {Broken.TWO_OWNERS, Broken.WORK_TWICE}),
    ],
    ids=[
        "mixed init order",
        "b before a",
        "parallel inits",
        "claim on the id initialised last",
        "end read between the inits",
        "end as an old leader tells it",
        "empty first transaction",
        "one init left for later",
    ],
)
def test_without_a_rule_something_breaks(programs: tuple[Program, ...], found: set[Broken]) -> None:
    explored = Model(programs, lives=1, works=2).explore()
    print(f"{explored.states:,} states", *(f"{b.name}: {'; '.join(p)}" for b, p in explored.broken.items()))
    assert set(explored.broken) == found


@pytest.mark.parametrize("programs", [(AS_WRITTEN, B_FIRST), (PARALLEL, PARALLEL), (CLAIM_ON_B, CLAIM_ON_B)])
def test_two_owners_write_work_twice_once_one_may_skip_its_turn(programs: tuple[Program, ...]) -> None:
    """Two owners that hold an id each are kept from harm by the turn alone; a turn passed by takes that away."""
    explored = Model(programs, lives=1, works=2, in_turn=False).explore()
    assert Broken.WORK_TWICE in explored.broken
