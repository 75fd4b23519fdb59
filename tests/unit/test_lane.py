"""The loop of a lane and its take-over on ports that answer as they are told: no broker."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.lane_kit import BUCKETS, COMMANDS_ID, NAMES, REPORTS_ID, TASK, Bench, World, run
from tickstream.codec import (
    CLAIM,
    PROGRESS,
    decode_progress,
    decode_verdicts,
    decode_work,
    encode_batch,
    encode_claim,
    encode_command,
    encode_progress,
    split_timers_key,
    timers_key,
)
from tickstream.dispatcher.freshness import Freshness
from tickstream.dispatcher.lane import Lane
from tickstream.dispatcher.ports import Input, InputRecord, LogRecord
from tickstream.dispatcher.restore import MAX_STORE_AGE_MS
from tickstream.errors import BucketStopped, LaneLost
from tickstream.model import (
    DEFAULT_OPTIONS,
    NEVER,
    Claim,
    Command,
    InputPosition,
    Progress,
    ReportKind,
    Verb,
    VerdictKind,
    bucket_of,
)
from tickstream.settings import LaneSettings
from tickstream.testing import ManualClock
from tickstream.timer_store import TimerStore


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with TimerStore(tmp_path / "store") as store:
        yield Bench(World(), store)


class TestTakeOver:
    def test_both_ids_are_fenced_in_order_before_the_claim_goes_through_a(self, bench: Bench) -> None:
        bench.take_over()
        assert bench.world.calls == ["connect", "init a", "init b", "begin a"]
        assert [split_timers_key(r.key)[0] for r in bench.world.committed] == [CLAIM, CLAIM]

    def test_nothing_but_claims_means_the_start_of_the_inputs(self, bench: Bench) -> None:
        bench.world.starts = 7
        lane = bench.take_over()
        assert set(bench.world.assigned.values()) == {(7, NEVER)}
        assert lane.owned.keys() == set(BUCKETS)

    def test_positions_come_from_the_last_progress(self, bench: Bench) -> None:
        lane = bench.take_over()
        bench.world.incoming.append(bench.schedule(4, bench.clock.wall_ms() + 9_000))
        run(lane)
        bench.take_over()
        assert bench.world.assigned[Input.COMMANDS, 0] == (5, 5)

    def test_tasks_without_progress_stop_their_bucket_only(self, bench: Bench) -> None:
        bench.world.log[0].append(LogRecord(0, 0, timers_key(b"s", "x"), None))
        lane = bench.take_over()
        assert lane.owned.keys() == {2}
        assert "no Progress" in bench.alarms()[0]

    def test_a_recreated_input_stops_the_bucket(self, bench: Bench) -> None:
        lane = bench.take_over()
        bench.world.incoming.append(bench.schedule(4, bench.clock.wall_ms()))
        run(lane)
        bench.world.commands_id = b"x" * 16
        assert bench.take_over().owned.keys() == {2}
        assert "re-created" in bench.alarms()[0]

    def test_a_position_below_the_start_of_the_log_stops_the_bucket(self, bench: Bench) -> None:
        lane = bench.take_over()
        bench.world.incoming.append(bench.schedule(4, bench.clock.wall_ms()))
        run(lane)
        bench.world.starts = 6
        assert bench.take_over().owned.keys() == {2}
        assert "deleted before they were applied" in bench.alarms()[0]

    def test_what_is_purged_behind_a_claim_stops_nothing(self, bench: Bench) -> None:
        """A newer owner applied it: this one is fenced, and hears so with its first commit."""
        lane = bench.take_over()
        bench.world.incoming.append(bench.schedule(4, bench.clock.wall_ms()))
        run(lane)
        bench.world.purged_by_claim = 6
        assert bench.take_over().owned.keys() == set(BUCKETS)
        assert bench.alarms() == []

    def test_a_schema_of_a_newer_release_stops_the_bucket(self, bench: Bench) -> None:
        bench.world.log[0].append(LogRecord(0, 0, timers_key(PROGRESS), b"\xc3\x01" + b"newer!!!" + b"\0"))
        assert bench.take_over().owned.keys() == {2}
        assert "upgrade" in bench.alarms()[0]

    def test_a_newer_schema_in_a_long_log_stops_its_bucket_only(self, bench: Bench) -> None:
        bench.world.log[0].append(LogRecord(0, 0, timers_key(b"s", "x"), b"\xc3\x01" + b"newer!!!" + b"\0"))
        bench.world.log[0] += [LogRecord(0, n, timers_key(b"t", f"x{n}"), None) for n in range(1, 9)]
        bench.world.stretch = 2
        assert bench.take_over().owned.keys() == {2}
        assert "upgrade" in bench.alarms()[0]

    def test_a_store_older_than_the_tombstones_is_restored_from_the_start(self, bench: Bench) -> None:
        lane = bench.take_over()
        bench.world.incoming.append(bench.schedule(0, bench.clock.wall_ms() + 9_000))
        run(lane)
        # Meanwhile another owner ended the task, and compaction took even its tombstones.
        bench.world.log[0] = [
            r._replace(key=timers_key(CLAIM), value=encode_claim(Claim("x", 0, 0, 0)))
            if split_timers_key(r.key)[1] == TASK
            else r
            for r in bench.world.log[0]
        ]
        bench.clock.advance(MAX_STORE_AGE_MS)
        bench.take_over()
        assert bench.store.state(0, TASK) is None

    def test_a_newer_layout_of_lanes_stops_the_bucket(self, bench: Bench) -> None:
        claim = encode_claim(Claim("other", 0, 1, 0))
        bench.world.log[2].append(LogRecord(2, 0, timers_key(CLAIM), claim))
        assert bench.take_over().owned.keys() == {0}

    def test_a_store_that_is_ahead_of_the_log_is_not_trusted(self, bench: Bench) -> None:
        lane = bench.take_over()
        bench.world.incoming.append(bench.schedule(0, bench.clock.wall_ms() + 9_000))
        run(lane)
        bench.world.log[0].clear()
        lane = bench.take_over()
        assert bench.store.state(0, TASK) is None
        assert lane.owned[0].progress.commands.offset == 0


class TestTransaction:
    def test_input_effect_and_progress_are_one_transaction_and_the_store_follows(self, bench: Bench) -> None:
        lane = bench.take_over()
        bench.world.committed.clear()
        bench.world.incoming.append(bench.schedule(0, bench.clock.wall_ms() + 9_000))
        assert run(lane) == [
            "lane.taken",
            "lane.decided",
            "lane.begun",
            "lane.produced",
            "lane.delivered",
            "lane.committed",
            "lane.stored",
        ]
        assert [split_timers_key(r.key)[0] for r in bench.world.committed] == [b"s", b"t", PROGRESS]
        progress = decode_progress(bench.world.committed[-1].value or b"")
        assert progress.commands == InputPosition(COMMANDS_ID, 1, 0, 5)
        assert bench.store.next_due_ms(0) == bench.clock.wall_ms() + 9_000

    def test_the_producers_take_turns(self, bench: Bench) -> None:
        lane = bench.take_over()
        bench.world.calls.clear()
        for offset in range(3):
            bench.world.incoming.append(bench.schedule(offset, bench.clock.wall_ms() + 9_000))
            run(lane)
        assert bench.world.calls == ["begin b", "begin a", "begin b"]

    def test_nothing_to_do_begins_no_transaction(self, bench: Bench) -> None:
        lane = bench.take_over()
        bench.world.calls.clear()
        assert run(lane) == []
        assert bench.world.calls == []

    def test_an_abort_is_decided_again_with_the_same_batch(self, bench: Bench) -> None:
        lane = bench.take_over()
        bench.world.calls.clear()
        bench.world.aborts = 2
        bench.world.incoming.append(bench.schedule(0, bench.clock.wall_ms() + 9_000))
        run(lane)
        assert bench.world.calls == ["begin b", "abort b", "begin b", "abort b", "begin b"]
        assert bench.store.state(0, TASK) is not None

    def test_three_aborts_give_the_lane_up(self, bench: Bench) -> None:
        lane = bench.take_over()
        bench.world.aborts = 3
        bench.world.incoming.append(bench.schedule(0, bench.clock.wall_ms()))
        with pytest.raises(LaneLost, match="aborted 3 times"):
            run(lane)
        assert bench.store.state(0, TASK) is None

    def test_an_unknown_outcome_loses_the_lane_and_the_log_decides(self, bench: Bench) -> None:
        lane = bench.take_over()
        bench.world.commit_error = LaneLost("timed out")
        bench.world.incoming.append(bench.schedule(0, bench.clock.wall_ms()))
        with pytest.raises(LaneLost):
            run(lane)
        assert bench.store.state(0, TASK) is None
        assert bench.world.replies == []
        bench.world.commit_error = None
        assert bench.take_over().owned[0].progress.commands.offset == 0

    def test_a_zombie_of_this_process_cannot_write_into_the_restored_store(self, bench: Bench) -> None:
        zombie = bench.take_over()
        bench.take_over()
        bench.world.incoming.append(bench.schedule(0, bench.clock.wall_ms()))
        with pytest.raises(LaneLost, match="token"):
            run(zombie)
        assert bench.store.state(0, TASK) is None

    def test_a_due_task_is_dispatched_at_its_instant(self, bench: Bench) -> None:
        lane = bench.take_over()
        bench.world.incoming.append(bench.schedule(0, bench.clock.wall_ms() + 500))
        run(lane)
        bench.clock.advance(499)
        assert run(lane) == []
        bench.clock.advance(1)
        run(lane)
        assert [r.topic for r in bench.world.committed if r.topic.startswith("t.work")] == ["t.work.default"]
        assert run(lane) == []

    @pytest.mark.parametrize("by_ms", [-3_600_000, 3_600_000])
    def test_a_step_of_the_wall_clock_fires_nothing_twice_and_loses_nothing(
        self, bench: Bench, by_ms: int
    ) -> None:
        lane = bench.take_over()
        other = next(f"task{n}" for n in range(99) if f"task{n}" != TASK and bucket_of(f"task{n}", 4) == 0)
        now = bench.clock.wall_ms()
        bench.world.incoming += [bench.schedule(0, now), bench.schedule(1, now + 60_000, other)]
        run(lane)
        run(lane)
        bench.clock.step(by_ms)
        for _ in range(120):
            bench.clock.advance(60_000)
            run(lane)
        work = [decode_work(r.value) for r in bench.world.committed if r.topic == NAMES.work("default")]
        assert [(w.task_id, w.attempt) for w in work] == [(TASK, 1), (other, 1)]
        assert all(w.decided_ms >= w.occurrence_ts for w in work)

    def test_a_late_insert_before_the_reader_is_found(self, bench: Bench) -> None:
        lane = bench.take_over()
        now = bench.clock.wall_ms()
        bench.world.incoming.append(bench.schedule(0, now + 60_000))
        run(lane)
        run(lane)  # looks ahead to the only due entry
        bench.world.incoming.append(bench.schedule(1, now + 1_000, TASK))
        run(lane)
        bench.clock.advance(1_000)
        run(lane)
        assert any(r.topic == "t.work.default" for r in bench.world.committed)

    def test_verdicts_go_to_who_asked_after_the_commit(self, bench: Bench) -> None:
        lane = bench.take_over()
        bench.world.incoming.append(bench.schedule(0, bench.clock.wall_ms() + 9_000))
        points = lane.run_once()
        while next(points) != "lane.committed":
            assert bench.world.replies == []
        list(points)
        ((client, partition, value),) = bench.world.replies
        assert (client, partition) == ("client", 1)
        assert [v.kind for v in decode_verdicts(value).verdicts] == [VerdictKind.SCHEDULED]

    def test_an_input_outside_its_log_stops_its_bucket_only(self, bench: Bench) -> None:
        lane = bench.take_over()
        bench.world.incoming.append(BucketStopped(2, "offset out of range"))
        assert run(lane) == []
        assert lane.owned.keys() == {0}
        assert bench.alarms() == ["offset out of range"]

    def test_a_stop_while_a_batch_is_open_loses_nothing_that_was_read(self, bench: Bench) -> None:
        lane = bench.take_over()
        lane.settings = LaneSettings(batch_open_ms=10)
        at_ms = bench.clock.wall_ms() + 9_000
        bench.world.incoming += [bench.schedule(0, at_ms), BucketStopped(2, "gone"), bench.schedule(1, at_ms)]
        bench.world.one_at_a_time = True
        run(lane)
        run(lane)
        verdicts = [v for _, _, value in bench.world.replies for v in decode_verdicts(value).verdicts]
        assert [v.receipt.offset for v in verdicts] == [0, 1]
        assert lane.owned.keys() == {0}

    def test_what_no_record_can_hold_is_rejected_before_a_transaction_begins(self, bench: Bench) -> None:
        lane = bench.take_over()
        at_ms = bench.clock.wall_ms() + 9_000
        huge = Command(bytes(16), Verb.SCHEDULE, TASK, at_ms, "default", DEFAULT_OPTIONS, bytes(2_000_000))
        value = encode_batch("client", 1, [encode_command(huge)])
        bench.world.incoming.append(InputRecord(Input.COMMANDS, 0, 0, 5, at_ms, value))
        bench.world.incoming.append(InputRecord(Input.COMMANDS, 0, 1, 5, at_ms, bytes(2_000_000)))
        run(lane)
        assert max(len(r.value or b"") for r in bench.world.committed) < 1024 * 1024
        (verdict,) = decode_verdicts(bench.world.replies[0][2]).verdicts
        assert verdict.kind is VerdictKind.REJECTED
        assert "2000" in verdict.detail

    def test_many_answers_to_one_client_fit_into_messages(self, bench: Bench) -> None:
        lane = bench.take_over()
        commands = [
            encode_command(
                Command(n.to_bytes(16, "big"), Verb.CANCEL, f"{{{TASK}}}{n}", NEVER, "", DEFAULT_OPTIONS, b"")
            )
            for n in range(4_000)
        ]
        value = encode_batch("client", 1, commands)
        bench.world.incoming.append(InputRecord(Input.COMMANDS, 0, 0, 5, 0, value))
        run(lane)
        answers = [decode_verdicts(value).verdicts for _, _, value in bench.world.replies]
        assert sum(map(len, answers)) == 4_000
        assert max(len(value) for *_, value in bench.world.replies) < 1024 * 1024

    def test_a_lane_without_buckets_writes_nothing_and_ends(self, bench: Bench) -> None:
        lane = bench.take_over()
        for bucket in BUCKETS:
            bench.world.incoming.append(BucketStopped(bucket, "gone"))
            run(lane)
        bench.world.calls.clear()
        with pytest.raises(LaneLost, match="none of its buckets"):  # idle, it could be fenced by nobody
            run(lane)
        assert bench.world.calls == []

    def test_a_take_over_that_admits_no_bucket_ends_too(self, bench: Bench) -> None:
        lane = bench.take_over()
        bench.world.incoming.append(bench.schedule(0, bench.clock.wall_ms() + 9_000))
        bench.world.ends = dict.fromkeys(bench.world.assigned, 0)
        run(lane)
        run(lane)  # every bucket has its Progress now
        bench.world.starts = 7
        with pytest.raises(LaneLost, match="none of its buckets"):
            run(bench.take_over())

    def test_what_cannot_be_read_is_an_alarm_and_is_passed(self, bench: Bench) -> None:
        lane = bench.take_over()
        bench.world.incoming.append(InputRecord(Input.COMMANDS, 0, 8, 5, 0, b"rubbish"))
        run(lane)
        assert "offset 8" in bench.alarms()[0]
        assert lane.owned[0].progress.commands.offset == 9
        assert [r.value for r in bench.world.committed if r.topic == "t.dead-letter"] == [b"rubbish"]


class TestLeases:
    """A claimed run is lost only when the end probe says that nothing of it is under way."""

    def _claimed(self, bench: Bench) -> Lane:
        lane = bench.take_over()
        bench.world.incoming.append(bench.schedule(0, bench.clock.wall_ms()))
        run(lane)
        run(lane)
        bench.say(ReportKind.CLAIMED, 0)
        run(lane)
        return lane

    def _probe(self, bench: Bench, lane: Lane, reports: int) -> None:
        """One second, and an end probe that finds so many accepted reports."""
        bench.world.ends = dict.fromkeys(bench.world.assigned, 0) | {(Input.REPORTS, 0): reports}
        bench.clock.advance(1_000)
        for _ in range(3):
            run(lane)

    def test_it_expires_after_its_time_once_a_probe_licenses_it(self, bench: Bench) -> None:
        lane = self._claimed(bench)
        for _ in range(9):
            self._probe(bench, lane, 1)
        assert bench.attempts() == [1]
        for _ in range(3):
            self._probe(bench, lane, 1)
        assert bench.attempts() == [1, 2]

    def test_nothing_expires_while_accepted_reports_are_not_applied(self, bench: Bench) -> None:
        lane = self._claimed(bench)
        for _ in range(30):
            self._probe(bench, lane, 2)
        assert bench.attempts() == [1]
        bench.say(ReportKind.HEARTBEAT, 1)
        run(lane)
        self._probe(bench, lane, 2)
        assert bench.attempts() == [1]

    def test_nothing_expires_while_the_broker_cannot_be_asked(self, bench: Bench) -> None:
        lane = self._claimed(bench)
        bench.world.ends = None
        for _ in range(30):
            bench.clock.advance(1_000)
            run(lane)
        assert bench.attempts() == [1]

    def test_a_take_over_gives_full_leases_again(self, bench: Bench) -> None:
        self._claimed(bench)
        bench.clock.advance(9_000)
        lane = bench.take_over()
        for _ in range(9):
            self._probe(bench, lane, 1)
        assert bench.attempts() == [1]
        for _ in range(3):
            self._probe(bench, lane, 1)
        assert bench.attempts() == [1, 2]


class TestEndProbe:
    def test_t_is_when_the_ends_were_asked_for_once_they_are_reached(self, bench: Bench) -> None:
        lane = bench.take_over()
        asked_at = bench.clock.wall_ms()
        assert run(lane) == []
        bench.clock.advance(300)
        bench.world.ends = {(source, b): 0 for source in Input for b in BUCKETS}
        assert "lane.committed" in run(lane)
        assert {b.progress.applied_before_ms for b in lane.owned.values()} == {asked_at}

    def test_a_bucket_that_is_behind_keeps_its_t(self, bench: Bench) -> None:
        lane = bench.take_over()
        bench.world.ends = {(source, b): 0 for source in Input for b in BUCKETS}
        bench.world.ends[Input.REPORTS, 2] = 1
        run(lane)
        run(lane)
        assert lane.owned[0].progress.applied_before_ms > 0
        assert lane.owned[2].progress.applied_before_ms == 0

    def test_t_moves_also_while_a_bucket_is_always_a_little_behind(self, bench: Bench) -> None:
        lane = bench.take_over()
        for offset in range(60):
            bench.world.incoming.append(bench.schedule(offset, bench.clock.wall_ms() + 10**7))
            # The broker has always one more than was read.
            bench.world.ends = dict.fromkeys(bench.world.assigned, 0) | {(Input.COMMANDS, 0): offset + 2}
            run(lane)
            bench.clock.advance(350)
        assert bench.clock.wall_ms() - lane.owned[0].progress.applied_before_ms < 3_000

    def test_a_t_of_a_clock_that_stood_ahead_is_taken_back(self, bench: Bench) -> None:
        lane = bench.take_over()
        bench.world.ends = dict.fromkeys(bench.world.assigned, 0)
        bench.clock.advance(3_600_000)
        run(lane)
        run(lane)
        bench.clock.step(-3_600_000)
        bench.clock.advance(2_000)
        run(lane)
        run(lane)
        assert lane.owned[0].progress.applied_before_ms <= bench.clock.wall_ms()

    def test_records_that_nobody_can_read_are_an_alarm_that_names_the_bucket(self, bench: Bench) -> None:
        lane = bench.take_over()
        bench.world.ends = dict.fromkeys(bench.world.assigned, 0) | {(Input.COMMANDS, 2): 3}
        for _ in range(8):
            run(lane)
            bench.clock.advance(1_000)
        (alarm,) = [e for e in bench.events if e["event"] == "alarm"]
        assert alarm["bucket"] == 2
        assert "transaction open" in str(alarm["reason"])

    def test_a_stopped_bucket_is_not_waited_for(self, bench: Bench) -> None:
        lane = bench.take_over()
        bench.world.ends = dict.fromkeys(bench.world.assigned, 0) | {(Input.COMMANDS, 2): 3}
        run(lane)
        run(lane)
        bench.world.incoming.append(BucketStopped(2, "gone"))
        run(lane)
        for _ in range(9):
            bench.clock.advance(1_000)
            run(lane)
        assert bench.alarms() == ["gone"]

    def test_an_idle_lane_writes_one_transaction_a_second(self, bench: Bench) -> None:
        lane = bench.take_over()
        bench.world.ends = {(source, b): 0 for source in Input for b in BUCKETS}
        bench.world.calls.clear()
        for _ in range(30):
            run(lane)
            bench.clock.advance(100)
        assert len(bench.world.calls) == 3

    def test_lanes_that_became_active_together_write_at_different_moments(self) -> None:
        moments = []
        for number in range(16):
            clock, world = ManualClock(), World()
            world.ends = {(Input.COMMANDS, 0): 0, (Input.REPORTS, 0): 0}
            freshness = Freshness(world, clock, 1_000, number, lambda *_: None)
            written = []
            for ms in range(5_000):
                if freshness.drive([0], dict, None):
                    written.append(ms)
                clock.advance(1)
            assert {round(b - a, -1) for a, b in itertools.pairwise(written[1:])} == {1_000}
            moments.append(written[-1] % 1_000)
        apart = [b - a for a, b in itertools.pairwise(sorted(moments))]
        assert min(apart) >= 1_000 / 16 / 2

    def test_a_resend_from_the_middle_of_an_array_goes_on_there(self, bench: Bench) -> None:
        position = InputPosition(COMMANDS_ID, 4, 1, 5)
        start = InputPosition(REPORTS_ID, 0, 0, NEVER)
        progress = Progress(position, start, 0, 0, 0, "2026a", 0)
        bench.world.log[0].append(LogRecord(0, 0, timers_key(PROGRESS), encode_progress(progress)))
        lane = bench.take_over()
        commands = [
            Command(bytes([n]) * 16, Verb.CANCEL, TASK, NEVER, "", DEFAULT_OPTIONS, b"") for n in range(3)
        ]
        value = encode_batch("client", 1, [encode_command(c) for c in commands])
        bench.world.incoming.append(InputRecord(Input.COMMANDS, 0, 4, 5, 0, value))
        run(lane)
        verdicts = decode_verdicts(bench.world.replies[0][2]).verdicts
        assert [v.receipt.item for v in verdicts] == [1, 2]
