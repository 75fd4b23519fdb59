"""Limits grow downstream: what was accepted fits into everything that follows from it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.unit.lane_kit import NAMES, TASK, Bench, World, run
from tickstream.codec import decode_reports, decode_work, encode_command, encode_reports
from tickstream.dispatcher.ports import Input, InputRecord
from tickstream.model import (
    DEFAULT_OPTIONS,
    MAX_TASK_ID_BYTES,
    NO_RETRY,
    Command,
    Phase,
    Report,
    ReportKind,
    Verb,
    VerdictKind,
)
from tickstream.settings import MAX_COMMAND_BYTES, MAX_PAYLOAD_BYTES, MAX_RECORD_BYTES
from tickstream.testing import Harness
from tickstream.timer_store import TimerStore
from tickstream.topics import topic_table


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with TimerStore(tmp_path / "store") as store:
        yield Bench(World(), store)


def test_each_limit_leaves_room_for_the_one_before() -> None:
    limits = {
        topic.name: int(topic.config["max.message.bytes"])
        for topic in topic_table(NAMES, buckets=4, lanes=2)
        if not topic.name.startswith(NAMES.lanes(0))
    }
    assert limits.pop(NAMES.commands) == MAX_COMMAND_BYTES
    assert 2 * MAX_PAYLOAD_BYTES <= MAX_COMMAND_BYTES
    assert 2 * MAX_COMMAND_BYTES <= MAX_RECORD_BYTES
    assert min(limits.values()) > MAX_RECORD_BYTES


def test_the_largest_command_fits_into_all_that_follows_from_it() -> None:
    tick = Harness()
    task_id = "t" * MAX_TASK_ID_BYTES
    at_ms = tick.clock.wall_ms() + 1_000

    def command(size: int) -> Command:
        return Command(tick.new_id(), Verb.SCHEDULE, task_id, at_ms, "default", DEFAULT_OPTIONS, bytes(size))

    around = len(encode_command(command(MAX_PAYLOAD_BYTES))) - MAX_PAYLOAD_BYTES
    largest = command(MAX_COMMAND_BYTES - around)
    assert len(encode_command(largest)) == MAX_COMMAND_BYTES
    assert tick.send(largest).kind is VerdictKind.SCHEDULED
    for _ in range(12):  # more than a task remembers, each with the longest text
        tick.send(command(10)._replace(when=at_ms - 9_000_000))
    tick.advance(timedelta(seconds=1))
    work = tick.take("default")
    assert work is not None
    now = tick.clock.wall_ms()
    tick.report(
        Report(
            ReportKind.FAILED, task_id, work.occurrence_ts, 1, os.urandom(16), "h", now, now, now,
            "x" * 2_048, NO_RETRY,
        ),
        worker="worker" * 40,
    )  # fmt: skip
    assert tick.phase(task_id) is Phase.DEAD
    assert {r.topic for r in tick.log} >= {
        "test.timers",
        "test.work.default",
        "test.history",
        "test.dead-letter",
    }
    assert max(len(r.value or b"") for r in tick.log) < MAX_RECORD_BYTES


def test_a_report_that_no_history_can_hold_is_put_aside(bench: Bench) -> None:
    lane = bench.take_over()
    bench.world.incoming.append(bench.schedule(0, bench.clock.wall_ms()))
    run(lane)
    run(lane)
    (work,) = [decode_work(r.value) for r in bench.world.committed if r.topic == NAMES.work("default")]
    now = bench.clock.wall_ms()
    boundless = Report(
        ReportKind.FAILED, TASK, work.occurrence_ts, 1, b"r" * 16, "h", now, now, now,
        "x" * (MAX_RECORD_BYTES - 60), NO_RETRY,
    )  # fmt: skip
    value = encode_reports("w", [boundless])
    assert len(value) <= MAX_RECORD_BYTES + 64 * 1024, "the topic takes it"
    bench.world.incoming.append(InputRecord(Input.REPORTS, 0, 0, 5, now, value))
    run(lane)
    (letter,) = [r for r in bench.world.committed if r.topic == NAMES.dead_letter]
    assert dict(letter.headers)["bytes"] == str(len(value)).encode()
    assert lane.owned[0].progress.reports.offset == 1
    state = bench.store.state(0, TASK)
    assert state is not None
    assert state.phase is Phase.FAULTED
    assert max(len(r.value or b"") for r in bench.world.committed) <= MAX_RECORD_BYTES
    assert decode_reports(value).reports[0] == boundless
