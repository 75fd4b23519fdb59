"""The loop of a lane and its take-over on ports that answer as they are told: no broker."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tickstream.codec import (
    CLAIM,
    PROGRESS,
    decode_progress,
    decode_signal,
    decode_verdicts,
    decode_work,
    encode_batch,
    encode_claim,
    encode_command,
    encode_progress,
    encode_reports,
    split_timers_key,
    timers_key,
)
from tickstream.dispatcher.freshness import Freshness
from tickstream.dispatcher.lane import Lane, LanePorts
from tickstream.dispatcher.ports import Input, InputRecord, LogFacts, LogRecord, OutRecord, Side
from tickstream.dispatcher.takeover import MAX_STORE_AGE_MS, TakeOver
from tickstream.errors import BucketStopped, LaneLost, RetryTransaction
from tickstream.model import (
    DEFAULT_OPTIONS,
    NEVER,
    Claim,
    Command,
    InputPosition,
    Progress,
    Report,
    ReportKind,
    Signal,
    Verb,
    VerdictKind,
    bucket_of,
)
from tickstream.settings import EngineSettings, LaneSettings
from tickstream.testing import ManualClock
from tickstream.timer_store import TimerStore
from tickstream.topics import TopicNames

NAMES = TopicNames("t.")
BUCKETS = (0, 2)
COMMANDS_ID, REPORTS_ID, TIMERS_ID = b"c" * 16, b"r" * 16, b"t" * 16
TASK = next(f"task{n}" for n in range(99) if bucket_of(f"task{n}", 4) == 0)


@dataclass
class World:
    """A log of one lane in memory, and everything that may go wrong with it. Implements all ports."""

    log: list[list[LogRecord]] = field(default_factory=lambda: [[] for _ in range(4)])
    """`timers`, committed, by bucket."""
    committed: list[OutRecord] = field(default_factory=list)
    incoming: list[InputRecord | BucketStopped] = field(default_factory=list)
    replies: list[tuple[str, int, bytes]] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    aborts: int = 0
    """That many flushes fail before one succeeds."""
    commit_error: Exception | None = None
    ends: dict[tuple[Input, int], int] | None = None
    starts: int = 0
    one_at_a_time: bool = False
    """Each poll brings one record."""
    stretch: int = 10**6
    """Changelog records of a bucket that one read brings."""
    commands_id: bytes = COMMANDS_ID
    assigned: dict[tuple[Input, int], tuple[int, int]] = field(default_factory=dict)
    _open: list[OutRecord] = field(default_factory=list)
    _asked: bool = False

    # Transactions
    def connect(self) -> None:
        self.calls.append("connect")

    def init(self, side: Side) -> None:
        self.calls.append(f"init {side.value}")

    def begin(self, side: Side) -> None:
        self.calls.append(f"begin {side.value}")
        self._open = []

    def produce(self, side: Side, records: Sequence[OutRecord]) -> None:
        self._open.extend(records)

    def flush(self, side: Side) -> None:
        if self.aborts:
            self.aborts -= 1
            raise RetryTransaction("not delivered")

    def commit(self, side: Side) -> Mapping[int, int]:
        if self.commit_error:
            raise self.commit_error
        marks = {}
        for record in self._open:
            self.committed.append(record)
            if record.topic == NAMES.timers:
                own = self.log[record.partition]
                own.append(LogRecord(record.partition, len(own), record.key, record.value))
                if record.marks is not None:
                    marks[record.marks] = len(own) - 1
        return marks

    def abort(self, side: Side) -> None:
        self.calls.append(f"abort {side.value}")

    # Inputs
    def assign(self, positions: Mapping[tuple[Input, int], tuple[int, int]]) -> None:
        self.assigned = dict(positions)

    def poll(self, timeout_s: float, limit: int) -> Sequence[InputRecord]:
        if self.incoming and isinstance(self.incoming[0], BucketStopped):
            raise self.incoming.pop(0)  # type: ignore[misc]
        many = 1 if self.one_at_a_time else len(self.incoming)
        taken, self.incoming = self.incoming[:many], self.incoming[many:]
        return taken  # type: ignore[return-value]

    def positions(self) -> Mapping[tuple[Input, int], int]:
        return {}

    # Ends
    def ask(self) -> None:
        self._asked = True

    def pending(self) -> bool:
        return self._asked

    def answer(self) -> Mapping[tuple[Input, int], int] | None:
        if not self._asked or self.ends is None:
            return None
        self._asked = False
        return self.ends

    # Replies, Facts
    def send(self, client_id: str, partition: int, value: bytes) -> None:
        self.replies.append((client_id, partition, value))

    def signal(self, run_id: bytes, value: bytes) -> None:
        self.signals.append(decode_signal(value))

    def queues(self) -> frozenset[str]:
        return frozenset({"default"})

    def facts(self) -> LogFacts:
        starts = {(source, b): self.starts for source in Input for b in BUCKETS}
        ids = {Input.COMMANDS: self.commands_id, Input.REPORTS: REPORTS_ID}
        return LogFacts(ids, TIMERS_ID, starts, dict.fromkeys(BUCKETS, 0))


@dataclass
class Facts:
    """The facts' port of a World: `log` is the name of something else there."""

    world: World

    def log(self) -> LogFacts:
        return self.world.facts()

    def queues(self) -> frozenset[str]:
        return self.world.queues()


@dataclass
class MemoryChangelog:
    """Reads the World's `timers` back."""

    world: World
    at: dict[int, int] = field(default_factory=dict)

    def open(self, offsets: Mapping[int, int]) -> None:
        self.at = {b: max(0, o) for b, o in offsets.items()}

    def read(self, timeout_s: float, limit: int) -> Sequence[LogRecord]:
        many = self.world.stretch
        found = [r for b, at in self.at.items() for r in self.world.log[b][at : at + many]]
        self.at = {b: min(len(self.world.log[b]), at + many) for b, at in self.at.items()}
        return found

    def done(self, bucket: int) -> None:
        self.at.pop(bucket)

    def close(self) -> None: ...


class Bench:
    """A lane's parts around one World."""

    def __init__(self, world: World, store: TimerStore) -> None:
        self.world = world
        self.store = store
        self.clock = ManualClock()
        self.events: list[Mapping[str, object]] = []
        self.ports = LanePorts(world, world, world, world, Facts(world))

    def take_over(self) -> Lane:
        take_over = TakeOver(
            0, "me", 0, BUCKETS, "2026a", NAMES, self.ports, lambda: MemoryChangelog(self.world), self.store,
            self.clock, self.events.append,
        )  # fmt: skip
        steps = take_over.steps()
        while True:
            try:
                next(steps)
            except StopIteration as active:
                return Lane(
                    0, 4, NAMES, self.ports, self.store, self.clock, EngineSettings(),
                    LaneSettings(batch_open_ms=0), self.events.append, active.value, take_over.leases,
                )  # fmt: skip

    def schedule(self, offset: int, at_ms: int, task_id: str = TASK) -> InputRecord:
        command = Command(
            offset.to_bytes(16, "big"), Verb.SCHEDULE, task_id, at_ms, "default", DEFAULT_OPTIONS, b""
        )
        value = encode_batch("client", 1, [encode_command(command)])
        return InputRecord(Input.COMMANDS, 0, offset, 5, self.clock.wall_ms(), value)

    def say(self, kind: ReportKind, offset: int) -> None:
        """A worker's word on the first attempt of TASK."""
        (work,) = [decode_work(r.value) for r in self.world.committed if r.topic == NAMES.work("default")]
        now = self.clock.wall_ms()
        report = Report(kind, TASK, work.occurrence_ts, 1, b"r" * 16, "h", now, now, now, "")
        value = encode_reports("w", [report])
        self.world.incoming.append(InputRecord(Input.REPORTS, 0, offset, 5, now, value))

    def attempts(self) -> list[int]:
        """The attempts dispatched so far."""
        work = [decode_work(r.value) for r in self.world.committed if r.topic == NAMES.work("default")]
        return [w.attempt for w in work]

    def alarms(self) -> list[str]:
        return [str(e["reason"]) for e in self.events if e["event"] == "alarm"]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with TimerStore(tmp_path / "store") as store:
        yield Bench(World(), store)


def run(lane: Lane) -> list[str]:
    """One round of the loop; the points it passed."""
    return list(lane.run_once())


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

    def test_nothing_is_written_for_a_lane_without_buckets(self, bench: Bench) -> None:
        lane = bench.take_over()
        for bucket in BUCKETS:
            bench.world.incoming.append(BucketStopped(bucket, "gone"))
            run(lane)
        bench.world.ends = {}
        bench.world.calls.clear()
        for _ in range(3):
            bench.clock.advance(1_000)
            run(lane)
        assert bench.world.calls == []

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
