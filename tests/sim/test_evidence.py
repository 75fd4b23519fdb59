"""What the auditor takes for still to be done."""

from __future__ import annotations

import pytest

from tests.sim.evidence import Evidence
from tickstream.codec import STATE, encode_state, timers_key
from tickstream.model import NEVER, NO_EXTRAS, Rev, TaskState
from tickstream.testing.clock import START_MS
from tickstream.testing.sim.simulation import NAMES
from tickstream.testing.sim.transactions import COMMIT, Broker
from tickstream.testing.sim.world import MS, SECOND, World


@pytest.mark.parametrize("paused", [False, True])
def test_an_occurrence_that_waits_is_still_to_be_done(paused: bool) -> None:
    """A clock that stood ahead put it there before its time: there is no other one to come, and nothing in flight."""
    extras = NO_EXTRAS._replace(queued=(START_MS + 8_000,), paused=paused)
    state = TaskState(Rev(0, 0), NEVER, START_MS + 8_000, (), None, NEVER, (), NEVER, extras)
    world = World(1)
    broker = Broker(world, {NAMES.commands: 1, NAMES.timers: 1})
    who = broker.init("id")
    broker.write(who, "", SECOND, NAMES.timers, 0, timers_key(STATE, "t"), encode_state(state), START_MS)
    broker.end(who, COMMIT)
    world.run(10 * MS)
    waiting = [] if paused else [f"t has {(START_MS + 8_000,)} waiting"]
    assert Evidence(NAMES, "default", 1).pending(broker) == waiting
