"""A standby keeps the store of what others own; a lane that takes over in its process has the last word."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.lane_kit import BUCKETS, TASK, Bench, Facts, MemoryChangelog, World, run
from tickstream.dispatcher.ports import LogRecord
from tickstream.dispatcher.standby import Standby
from tickstream.model import DueKind
from tickstream.timer_store import TimerStore


@dataclass
class Ends:
    """Where the World's `timers` ends."""

    world: World

    def high(self) -> Mapping[int, int]:
        return {bucket: len(records) for bucket, records in enumerate(self.world.log)}

    stable = high


@dataclass
class Pair:
    """An owner with its store, and a standby with another, on one log."""

    owner: Bench
    heir: Bench
    standby: Standby


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    world = World()
    with TimerStore(tmp_path / "owner") as first, TimerStore(tmp_path / "heir") as second:
        owner, heir = Bench(world, first), Bench(world, second)
        standby = Standby(
            lambda: MemoryChangelog(world),
            second,
            heir.clock,
            0,
            heir.events.append,
            Facts(world),
            Ends(world),
        )
        standby.keep(frozenset(BUCKETS))
        yield Pair(owner, heir, standby)


def test_it_follows_what_the_owner_commits(pair: Pair) -> None:
    lane = pair.owner.take_over()
    pair.standby.step()
    at_ms = pair.owner.clock.wall_ms() + 9_000
    pair.owner.world.incoming.append(pair.owner.schedule(0, at_ms))
    run(lane)
    pair.standby.step()
    assert pair.heir.store.state(0, TASK) == pair.owner.store.state(0, TASK) is not None
    assert [e.kind for e in pair.heir.store.due(0, at_ms, 9)] == [DueKind.FIRE]


def test_it_is_warm_once_it_has_reached_an_end_that_is_no_older_than_a_second(pair: Pair) -> None:
    lane = pair.owner.take_over()
    for offset in range(30):
        pair.owner.world.incoming.append(pair.owner.schedule(offset, pair.owner.clock.wall_ms() + 10**6))
        run(lane)
    pair.owner.world.stretch = 5
    steps = 0
    while not pair.standby.warm:
        pair.standby.step()
        pair.heir.clock.advance(400)
        steps += 1
    assert steps > 10
    assert [e["buckets"] for e in pair.heir.events if e["event"] == "standby_warm"] == [list(BUCKETS)]


def test_the_take_over_has_next_to_nothing_to_read_and_the_standby_lets_go(pair: Pair) -> None:
    lane = pair.owner.take_over()
    for offset in range(30):
        pair.owner.world.incoming.append(pair.owner.schedule(offset, pair.owner.clock.wall_ms() + 10**6))
        run(lane)
    pair.standby.step()
    pair.standby.keep(frozenset())
    heir = pair.heir.take_over()
    assert heir.latecomers is not None
    assert getattr(heir.latecomers, "restored") == 0  # noqa: B009 - not part of what a lane knows
    pair.owner.world.incoming.append(pair.heir.schedule(30, pair.heir.clock.wall_ms() + 10**6))
    run(heir)
    pair.standby.step()
    assert heir.owned[0].progress.commands.offset == 31


def test_a_write_of_the_standby_that_comes_late_is_refused(pair: Pair) -> None:
    lane = pair.owner.take_over()
    pair.standby.step()
    pair.owner.world.incoming.append(pair.owner.schedule(0, pair.owner.clock.wall_ms() + 10**6))
    run(lane)
    heir = pair.heir.take_over()  # the standby has not heard of it
    pair.standby.step()
    pair.owner.world.incoming.append(pair.heir.schedule(1, pair.heir.clock.wall_ms() + 10**6))
    run(heir)
    assert heir.owned[0].progress.commands.offset == 2, "the lane's own writes go on"


def test_a_lane_that_was_given_up_is_kept_warm_again(pair: Pair) -> None:
    pair.standby.step()
    pair.standby.keep(frozenset())
    heir = pair.heir.take_over()
    pair.owner.world.incoming.append(pair.heir.schedule(0, pair.heir.clock.wall_ms() + 10**6))
    run(heir)
    pair.standby.step()
    pair.standby.keep(frozenset(BUCKETS))
    owner = pair.owner.take_over()
    pair.owner.world.incoming.append(pair.owner.schedule(1, pair.owner.clock.wall_ms() + 5))
    run(owner)
    pair.standby.step()
    pair.standby.step()
    assert pair.heir.store.state(0, TASK) == pair.owner.store.state(0, TASK)


def test_a_bucket_that_it_cannot_read_does_not_hold_the_others_up(pair: Pair) -> None:
    pair.owner.take_over()
    newer = LogRecord(2, len(pair.owner.world.log[2]), b"sx", b"\xc3\x01" + b"newer!!!" + b"\0")
    pair.owner.world.log[2].append(newer)
    for _ in range(3):
        pair.standby.step()
        pair.heir.clock.advance(400)
    assert pair.standby.warm
    (alarm,) = pair.heir.alarms()
    assert "upgrade" in alarm
