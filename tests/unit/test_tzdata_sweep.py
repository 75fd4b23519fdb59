"""A lane with newer zone data looks at what others placed: in pages, beside its other work, and again after a crash."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from tests.unit.lane_kit import NAMES, Bench, World
from tests.zone_releases import ZONE, release
from tickstream import recurring
from tickstream.codec import (
    PROGRESS,
    decode_history,
    decode_progress,
    decode_work,
    encode_batch,
    encode_body,
    encode_command,
    timers_key,
)
from tickstream.dispatcher.lane import Lane
from tickstream.dispatcher.ports import Input, InputRecord
from tickstream.model import NEVER, Body, Command, History, Options, Outcome, Progress, Verb, bucket_of
from tickstream.timer_store import TimerStore

OLD: Final = release("2026a", "America/New_York")
NEW: Final = release("2026b", "America/Chicago")
HOUR_MS: Final = 3_600_000
IDS: Final = tuple(f"r{n}" for n in range(1_600) if bucket_of(f"r{n}", 4) == 0)[:350]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with TimerStore(tmp_path / "store") as store:
        bench = Bench(World(), store)
        bench.clock.advance(
            round(datetime(2027, 6, 1, 4, tzinfo=UTC).timestamp() * 1_000) - bench.clock.wall_ms()
        )
        yield bench


def define(bench: Bench, ids: tuple[str, ...]) -> None:
    """Daily tasks, a minute apart, by the old data."""
    commands = []
    for n, task_id in enumerate(ids):
        options = Options(recurrence=recurring(cron=f"{n % 60} {n // 60 + 6} * * *", zone=ZONE))
        body = encode_body(Body("h", b"", {}, {}))
        command = Command(
            bytes(12) + n.to_bytes(4, "big"), Verb.SCHEDULE, task_id, NEVER, "default", options, body
        )
        commands.append(encode_command(command))
    value = encode_batch("client", -1, commands)
    bench.world.incoming.append(InputRecord(Input.COMMANDS, 0, 0, 5, bench.clock.wall_ms(), value))
    lane = bench.take_over(OLD)
    once(lane)
    assert progress(bench).tzdata == "2026a"


def once(lane: Lane) -> None:
    for _ in lane.run_once():
        pass


def progress(bench: Bench) -> Progress:
    """The last one of the first bucket."""
    key = timers_key(PROGRESS)
    values = [r.value for r in bench.world.committed if r.partition == 0 and r.key == key]
    return decode_progress(values[-1] or b"")


def moved(bench: Bench) -> list[History]:
    history = [decode_history(r.value) for r in bench.world.committed if r.topic == NAMES.history]
    return [h for h in history if h.outcome is Outcome.MOVED]


def test_what_is_due_soon_goes_first_in_pages(bench: Bench) -> None:
    define(bench, IDS)
    lane = bench.take_over(NEW)
    pages = []
    while progress(bench).tzdata_before or progress(bench).tzdata == "2026a":
        before = len(moved(bench))
        once(lane)
        pages.append(len(moved(bench)) - before)
    assert (max(pages), sum(pages)) == (100, len(IDS))
    moves = moved(bench)
    assert [h.occurrence_ts for h in moves] == sorted(h.occurrence_ts for h in moves)
    assert {h.through_ts - h.occurrence_ts for h in moves} == {HOUR_MS}
    assert {h.task_id for h in moves} == set(IDS)
    told = [e for e in bench.events if e["event"] == "occurrence_moved"]
    assert len(told) == len(IDS)


def test_other_timers_fire_in_between(bench: Bench) -> None:
    define(bench, IDS)
    lane = bench.take_over(NEW)
    bench.world.incoming.append(bench.schedule(1, bench.clock.wall_ms()))
    once(lane)
    once(lane)
    (work,) = [decode_work(r.value) for r in bench.world.committed if r.topic == NAMES.work("default")]
    assert work.decided_ms == bench.clock.wall_ms()
    assert 0 < len(moved(bench)) < len(IDS)


def test_nothing_is_dispatched_at_its_old_instant_before_its_page_comes(bench: Bench) -> None:
    define(bench, IDS[:1])
    (task_id,) = IDS[:1]
    lane = bench.take_over(NEW)
    lane.owned[0].sweep = None  # as if it were far behind
    first = datetime(2027, 6, 1, 10, tzinfo=UTC)  # 06:00 in New York
    bench.clock.advance(round(first.timestamp() * 1_000) - bench.clock.wall_ms())
    once(lane)
    assert not [r for r in bench.world.committed if r.topic == NAMES.work("default")]
    (move,) = moved(bench)
    assert (move.task_id, move.through_ts - move.occurrence_ts) == (task_id, HOUR_MS)


@pytest.mark.parametrize("pages", [1, 2, 4])
def test_whoever_dies_on_the_way_begins_again_and_moves_nothing_twice(bench: Bench, pages: int) -> None:
    define(bench, IDS)
    lane = bench.take_over(NEW)
    for _ in range(pages):
        once(lane)
    lane = bench.take_over(NEW)
    while progress(bench).tzdata_before:
        once(lane)
    assert sorted(h.task_id for h in moved(bench)) == sorted(IDS)
    records = len(bench.world.committed)
    lane = bench.take_over(NEW)
    once(lane)
    assert lane.owned[0].sweep is None
    assert len(moved(bench)) == len(IDS), bench.world.committed[records:]


def test_an_aborted_page_is_decided_again(bench: Bench) -> None:
    define(bench, IDS)
    lane = bench.take_over(NEW)
    bench.world.aborts = 2
    while progress(bench).tzdata == "2026a" or progress(bench).tzdata_before:
        once(lane)
    assert sorted(h.task_id for h in moved(bench)) == sorted(IDS)


def test_a_task_that_cannot_be_written_is_parked_and_the_others_move(bench: Bench) -> None:
    define(bench, IDS[:20])
    lane = bench.take_over(NEW)
    refused = IDS[7].encode()
    bench.world.refuses = lambda record: record.topic == NAMES.history and record.key == refused
    while progress(bench).tzdata == "2026a" or progress(bench).tzdata_before:
        once(lane)
    assert {h.task_id for h in moved(bench)} == set(IDS[:20]) - {IDS[7]}
    assert any("is faulted" in str(e.get("reason")) for e in bench.events if e["event"] == "alarm")


def test_an_older_process_says_so_and_moves_nothing(bench: Bench) -> None:
    define(bench, IDS[:20])
    lane = bench.take_over(NEW)
    while progress(bench).tzdata == "2026a" or progress(bench).tzdata_before:
        once(lane)
    lane = bench.take_over(OLD)
    bench.world.incoming.append(bench.schedule(1, bench.clock.wall_ms() + HOUR_MS))
    once(lane)
    assert (progress(bench).tzdata, progress(bench).tzdata_before) == ("2026b", "2026a")
    assert len(moved(bench)) == 20
    alarms = [str(e["reason"]) for e in bench.events if e["event"] == "alarm"]
    assert any("tzdata 2026a of this process is older than 2026b" in reason for reason in alarms)
