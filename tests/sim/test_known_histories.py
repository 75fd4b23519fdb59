"""Histories told step by step: each is one that a long run of seeds found, made small.

A seed's own history changes with the code; these do not.
"""

from __future__ import annotations

import pytest

from tests.sim.run import carry_out, quiet
from tickstream.model import DEFAULT_OPTIONS, Command, Verb
from tickstream.testing.clock import START_MS
from tickstream.testing.sim.asks import BODY, Ask
from tickstream.testing.sim.faults import NONE
from tickstream.testing.sim.plan import Fault, Kind, Plan
from tickstream.testing.sim.worker import QUEUE
from tickstream.testing.sim.world import MS, SECOND

_SEEDS = range(6)
"""What is left to the dice: delays, and when the members of a group hear what."""

_STORED = 6
"""Points of a transaction before its last."""


def _plan(seed: int, dispatchers: int, heal_s: int, asks: tuple[Ask, ...], *faults: Fault) -> Plan:
    """Two lanes of one bucket each, nothing by chance but delays."""
    return Plan(
        seed,
        buckets=2,
        lanes=2,
        dispatchers=dispatchers,
        workers=1,
        asks=asks,
        faults=faults,
        rates=NONE,
        retention_ms=3_600_000,
        offsets_ms=(),
        drifts=(),
        heal_us=heal_s * SECOND,
        failing=0.0,
        hanging=0.0,
        standby=False,
    )


def _schedule(number: int, asked_ms: int, at_ms: int) -> Ask:
    command = Command(
        number.to_bytes(16, "big"),
        Verb.SCHEDULE,
        f"t{number}",
        START_MS + at_ms,
        QUEUE,
        DEFAULT_OPTIONS,
        BODY,
    )
    return Ask(asked_ms * MS, 0, (command,), waits=False)


def _holds(plan: Plan) -> None:
    quiet()
    assert carry_out(plan).violations == []


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_zombie_that_finds_its_inputs_deleted_takes_the_lane_over_when_it_is_given_back(seed: int) -> None:
    """It has nothing left that could be fenced, and is assigned the very lane that it still runs."""
    asks = tuple(_schedule(n, asked_ms, 12_000) for n, asked_ms in enumerate((1_600,) * 4 + (4_600,) * 4))
    # Behind `lane.stored` of what it was asked first: nothing is open, and its lane is to be read on.
    pause = Fault(1_500 * MS, Kind.PAUSE, "dispatcher-1", _STORED, 3_300 * MS)
    _holds(_plan(seed, 2, 6, asks, pause, Fault(4_800 * MS, Kind.PURGE, "", 0, 0)))


@pytest.mark.parametrize("seed", _SEEDS)
def test_what_a_wrong_clock_wrote_just_before_the_heal_is_not_the_last_word(seed: int) -> None:
    """A lane says no later than its next probe how fresh it is; a history goes on until then."""
    _holds(_plan(seed, 1, 5, (), Fault(4 * SECOND, Kind.STEP, "dispatcher-0", 0, -3_600_000)))
