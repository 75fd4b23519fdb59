"""A bucket whose restore takes long: the lane's others do not wait for it, and it says how far it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.lane_kit import COMMANDS_ID, REPORTS_ID, TASK, Bench, World, run
from tickstream.codec import PROGRESS, encode_progress, encode_spec, encode_state, timers_key
from tickstream.dispatcher import takeover
from tickstream.dispatcher.ports import Input, InputRecord, LogRecord
from tickstream.model import NEVER, InputPosition, Progress, Rev, TaskSpec, TaskState, bucket_of
from tickstream.timer_store import TimerStore

TASKS = 40
OTHER = next(f"task{n}" for n in range(99) if bucket_of(f"task{n}", 4) == 2)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Bucket 0 has a long changelog; bucket 2 has none."""
    monkeypatch.setattr(takeover, "NEAR", 5)
    world = World()
    at_ms = 2**41
    for n in range(TASKS):
        spec = TaskSpec(Rev(n, 0), b"command")
        state = TaskState(Rev(n, 0), at_ms, NEVER, (), None, NEVER, ())
        for key, value in ((b"s", encode_spec(spec)), (b"t", encode_state(state))):
            world.log[0].append(LogRecord(0, len(world.log[0]), timers_key(key, f"old{n}"), value))
    position = InputPosition(COMMANDS_ID, TASKS, 0, 1)
    progress = Progress(position, InputPosition(REPORTS_ID, 0, 0, NEVER), 0, 0, 0, "2026a", 0)
    world.log[0].append(LogRecord(0, len(world.log[0]), timers_key(PROGRESS), encode_progress(progress)))
    world.stretch = 10
    with TimerStore(tmp_path / "store") as store:
        yield Bench(world, store)


def named(bench: Bench, name: str) -> list[dict[str, object]]:
    return [dict(e) for e in bench.events if e["event"] == name]


def test_the_others_are_active_at_once_and_dispatch_meanwhile(bench: Bench) -> None:
    lane = bench.take_over()
    assert lane.owned.keys() == {2}
    record = bench.schedule(0, bench.clock.wall_ms(), OTHER)
    bench.world.incoming.append(record._replace(bucket=2))
    run(lane)
    run(lane)
    assert bench.attempts() == [1]
    assert lane.owned.keys() == {2}, "the other is still on its way"


def test_it_becomes_active_when_it_is_restored_and_goes_on_where_it_stood(bench: Bench) -> None:
    lane = bench.take_over()
    rounds = 0
    while lane.owned.keys() != {0, 2}:
        assert run(lane)[0] == "lane.restoring"
        rounds += 1
    assert rounds > 3
    assert [t for t, _ in bench.store.tasks(0)] == sorted(f"old{n}" for n in range(TASKS))
    assert bench.world.assigned[Input.COMMANDS, 0] == (TASKS, 1)
    assert run(lane) == []
    bench.world.incoming.append(bench.schedule(TASKS, bench.clock.wall_ms() + 9_000))
    run(lane)
    assert bench.store.state(0, TASK) is not None


def test_it_says_how_far_it_is(bench: Bench) -> None:
    lane = bench.take_over()
    while lane.owned.keys() != {0, 2}:
        bench.clock.advance(1_000)
        run(lane)
    told = named(bench, "bucket_restoring")
    assert [e["done"] for e in told] == sorted(e["done"] for e in told)  # type: ignore[type-var]
    assert {e["total"] for e in told} == {2 * TASKS + 2}
    assert float(str(told[-1]["eta_s"])) <= 3
    (done,) = named(bench, "bucket_restored")
    assert done["bucket"] == 0


def test_one_that_cannot_go_on_stops_alone(bench: Bench) -> None:
    newer = b"\xc3\x01" + b"newer!!!" + b"\0"
    bench.world.log[0][60] = bench.world.log[0][60]._replace(value=newer)
    lane = bench.take_over()
    for _ in range(20):
        run(lane)
    assert lane.owned.keys() == {2}
    assert "upgrade" in bench.alarms()[0]


def test_a_lane_that_is_taken_over_again_meanwhile_begins_where_the_store_stands(bench: Bench) -> None:
    lane = bench.take_over()
    run(lane)
    meta = bench.store.meta(0)
    assert meta is not None
    assert 0 < meta.next_offset < 2 * TASKS
    heir = bench.take_over()
    while heir.owned.keys() != {0, 2}:
        run(heir)
    assert len(list(bench.store.tasks(0))) == TASKS


def test_records_of_a_bucket_not_active_yet_are_left_in_the_log(bench: Bench) -> None:
    lane = bench.take_over()
    early = InputRecord(Input.COMMANDS, 0, TASKS, 1, 0, b"rubbish")
    bench.world.incoming.append(early)
    run(lane)
    assert bench.alarms() == []
