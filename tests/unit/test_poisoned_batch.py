"""One element that cannot be applied: it is singled out and put aside, and everything beside it is applied."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.lane_kit import BUCKETS, COMMANDS_ID, NAMES, TASK, Bench, World, run
from tickstream.codec import decode_batch, decode_reports, decode_verdicts, encode_batch, encode_command
from tickstream.dispatcher import bucket as bucket_module
from tickstream.dispatcher.batch import Batch, Piece, halves
from tickstream.dispatcher.decision import Answer, Decision, Rules, Sent, Task
from tickstream.dispatcher.engine import apply_command, apply_due
from tickstream.dispatcher.ports import Input, InputRecord, OutRecord
from tickstream.errors import LaneLost, StoreFailed
from tickstream.model import (
    DEFAULT_OPTIONS,
    Command,
    DueEntry,
    DueKind,
    InputPosition,
    Phase,
    ReportKind,
    Verb,
    VerdictKind,
)
from tickstream.timer_store import TimerStore


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with TimerStore(tmp_path / "store") as store:
        yield Bench(World(), store)


def many(count: int, at_ms: int, offset: int = 0) -> InputRecord:
    """One message with so many Schedules: tasks 0, 1, 2, …"""
    commands = [
        Command(n.to_bytes(16, "big"), Verb.SCHEDULE, name(n), at_ms, "default", DEFAULT_OPTIONS, b"")
        for n in range(count)
    ]
    value = encode_batch("client", 1, [encode_command(c) for c in commands])
    return InputRecord(Input.COMMANDS, 0, offset, 5, at_ms, value)


def name(number: int) -> str:
    return f"{{{TASK}}}{number}"


@pytest.fixture
def poison(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Ids of tasks on whose commands the engine fails."""
    poisoned: set[str] = set()

    def apply(task: Task, sent: Sent, now_ms: int, rules: Rules) -> Decision:
        if sent.command.task_id in poisoned:
            raise ZeroDivisionError("the engine's own fault")
        return apply_command(task, sent, now_ms, rules)

    monkeypatch.setattr(bucket_module, "apply_command", apply)
    return poisoned


def letters(bench: Bench) -> list[OutRecord]:
    return [r for r in bench.world.committed if r.topic == NAMES.dead_letter]


class TestSinglingOut:
    def test_one_command_of_many_lies_in_dead_letter_and_the_others_are_applied(
        self, bench: Bench, poison: set[str]
    ) -> None:
        poison.add(name(317))
        lane = bench.take_over()
        bench.world.incoming.append(many(500, bench.clock.wall_ms() + 9_000))
        run(lane)
        assert [n for n in range(500) if bench.store.state(0, name(n)) is None] == [317]
        (letter,) = letters(bench)
        assert [c.task_id for c in decode_batch(letter.value).commands] == [name(317)]
        headers = dict(letter.headers)
        assert (headers["reason"], headers["source"]) == (b"fault", b"commands")
        assert b"ZeroDivisionError: the engine's own fault" in headers["detail"]
        assert lane.owned[0].progress.commands == InputPosition(COMMANDS_ID, 1, 0, 5)

    def test_every_command_is_answered_once_and_in_order(self, bench: Bench, poison: set[str]) -> None:
        poison.update({name(2), name(3)})
        lane = bench.take_over()
        bench.world.incoming.append(many(9, bench.clock.wall_ms() + 9_000))
        run(lane)
        verdicts = [v for *_, value in bench.world.replies for v in decode_verdicts(value).verdicts]
        assert [v.receipt.item for v in verdicts] == list(range(9))
        assert [v.receipt.item for v in verdicts if v.kind is VerdictKind.REJECTED] == [2, 3]
        assert "dead-letter" in verdicts[2].detail

    def test_it_is_an_alarm_that_names_the_task(self, bench: Bench, poison: set[str]) -> None:
        poison.add(TASK)
        lane = bench.take_over()
        bench.world.incoming.append(bench.schedule(0, bench.clock.wall_ms()))
        run(lane)
        (alarm,) = bench.alarms()
        assert repr(TASK) in alarm
        assert "ZeroDivisionError" in alarm

    def test_a_process_that_dies_on_the_way_goes_on_inside_the_message(
        self, bench: Bench, poison: set[str]
    ) -> None:
        poison.add(name(5))
        lane = bench.take_over()
        bench.world.incoming.append(many(8, bench.clock.wall_ms() + 9_000))
        points = lane.run_once()
        while next(points) != "lane.stored":
            pass
        assert lane.owned[0].progress.commands == InputPosition(COMMANDS_ID, 0, 4, 5)
        heir = bench.take_over()
        assert bench.world.assigned[Input.COMMANDS, 0] == (0, 5)
        bench.world.incoming.append(many(8, bench.clock.wall_ms() + 9_000))
        run(heir)
        assert [n for n in range(8) if bench.store.state(0, name(n)) is None] == [5]
        assert len(letters(bench)) == 1

    def test_a_record_that_the_log_refuses_singles_out_its_command(self, bench: Bench) -> None:
        lane = bench.take_over()
        bench.world.refuses = lambda r: r.key == b"t" + name(6).encode() and r.topic == NAMES.timers
        bench.world.incoming.append(many(8, bench.clock.wall_ms() + 9_000))
        run(lane)
        assert [n for n in range(8) if bench.store.state(0, name(n)) is None] == [6]
        assert [c.task_id for r in letters(bench) for c in decode_batch(r.value).commands] == [name(6)]

    def test_a_report_is_singled_out_like_a_command(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lane = bench.take_over()
        bench.world.incoming.append(bench.schedule(0, bench.clock.wall_ms()))
        run(lane)
        run(lane)
        monkeypatch.setattr(bucket_module, "apply_report", _fail)
        bench.say(ReportKind.SUCCEEDED, 0)
        run(lane)
        (letter,) = letters(bench)
        assert [r.task_id for r in decode_reports(letter.value).reports] == [TASK]
        assert lane.owned[0].progress.reports.offset == 1
        assert phase(bench, TASK) is Phase.FAULTED


class TestFaultedTasks:
    """A task on whose instant, run or lease the dispatcher fails is parked; all others go on."""

    def test_one_due_task_of_many(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        def fire(task: Task, entry: DueEntry, now_ms: int, applied_ms: int, rules: Rules) -> Decision:
            if entry.task_id == name(33):
                raise KeyError("rule")
            return apply_due(task, entry, now_ms, applied_ms, rules)

        monkeypatch.setattr(bucket_module, "apply_due", fire)
        lane = bench.take_over()
        bench.world.incoming.append(many(100, bench.clock.wall_ms() + 500))
        run(lane)
        bench.clock.advance(500)
        run(lane)
        assert len(bench.attempts()) == 99
        assert phase(bench, name(33)) is Phase.FAULTED
        (alarm,) = bench.alarms()
        assert f"task {name(33)!r} is faulted: KeyError" in alarm
        assert run(lane) == [], "nothing of it is due any more"

    def test_a_parked_task_stays_parked_in_the_next_owners_hands(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bucket_module, "apply_due", _fail)
        lane = bench.take_over()
        bench.world.incoming.append(bench.schedule(0, bench.clock.wall_ms()))
        run(lane)
        run(lane)
        monkeypatch.undo()
        heir = bench.take_over()
        assert run(heir) == []
        assert bench.attempts() == []
        assert phase(bench, TASK) is Phase.FAULTED

    def test_a_lease_whose_end_cannot_be_decided_is_not_asked_about_for_ever(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lane = bench.take_over()
        bench.world.incoming.append(bench.schedule(0, bench.clock.wall_ms()))
        run(lane)
        run(lane)
        bench.say(ReportKind.CLAIMED, 0)
        run(lane)
        monkeypatch.setattr(bucket_module, "apply_expiry", _fail)
        bench.world.ends = dict.fromkeys(bench.world.assigned, 0) | {(Input.REPORTS, 0): 1}
        for _ in range(40):
            bench.clock.advance(1_000)
            run(lane)
        assert phase(bench, TASK) is Phase.FAULTED
        assert len(bench.alarms()) == 1
        assert len(bench.take_over().leases) == 0

    def test_a_resumed_task_has_full_leases_again(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lane = bench.take_over()
        bench.world.incoming.append(bench.schedule(0, bench.clock.wall_ms()))
        run(lane)
        run(lane)
        bench.say(ReportKind.CLAIMED, 0)
        run(lane)
        monkeypatch.setattr(bucket_module, "apply_report", _fail)
        bench.say(ReportKind.FAILED, 1)
        run(lane)
        assert len(lane.leases) == 0

        def resume(task: Task, *_: object) -> Decision:
            assert task.state is not None
            well = task.state._replace(extras=task.state.extras._replace(faulted=""))
            return Decision(Task(task.spec, well), answer=Answer(VerdictKind.REPLACED, ""))

        monkeypatch.setattr(bucket_module, "apply_command", resume)
        bench.world.incoming.append(bench.schedule(1, bench.clock.wall_ms()))
        run(lane)
        assert len(lane.leases) == 1


def _fail(*_: object) -> Decision:
    raise ValueError("no")


def phase(bench: Bench, task_id: str) -> Phase:
    state = bench.store.state(0, task_id)
    assert state is not None
    return state.phase


class TestNobodyIsToBlame:
    def test_a_broker_that_delivers_nothing_condemns_no_command(self, bench: Bench) -> None:
        lane = bench.take_over()
        bench.world.aborts = 10**6
        bench.world.incoming.append(many(100, bench.clock.wall_ms() + 9_000))
        with pytest.raises(LaneLost, match="aborted 3 times"):
            run(lane)
        assert letters(bench) == []
        assert lane.owned[0].progress.commands.offset == 0

    def test_a_store_that_cannot_be_read_condemns_no_command(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lane = bench.take_over()

        def fail(*_: object) -> None:
            raise StoreFailed("IO error: while reading")

        monkeypatch.setattr(bench.store, "state", fail)
        bench.world.incoming.append(many(3, bench.clock.wall_ms() + 9_000))
        with pytest.raises(StoreFailed):
            run(lane)
        assert letters(bench) == []

    def test_what_cannot_even_be_put_aside_stops_its_bucket_only(
        self, bench: Bench, poison: set[str]
    ) -> None:
        poison.add(TASK)
        lane = bench.take_over()
        bench.world.refuses = lambda r: r.topic == NAMES.dead_letter
        bench.world.incoming.append(bench.schedule(0, bench.clock.wall_ms()))
        run(lane)
        assert lane.owned.keys() == {2}
        assert len(bench.alarms()) == 1


class TestHalves:
    """In order, nothing lost, nothing twice."""

    def test_pieces_first_then_the_elements_of_a_message(self) -> None:
        due = [(b, DueEntry(1, DueKind.FIRE, f"d{n}", 1)) for n, b in enumerate(BUCKETS * 2)]
        records = [Piece(many(5, 0, offset)) for offset in range(3)]
        seen: list[object] = []
        applied: dict[int, int] = {}

        def walk(batch: Batch) -> None:
            parts = halves(batch, lambda r: applied.get(r.offset, 0))
            if parts is not None:
                for part in parts:
                    walk(part)
                return
            for record, until in batch.inputs:
                upto = 5 if until is None else until
                seen.extend((record.offset, n) for n in range(applied.get(record.offset, 0), upto))
                applied[record.offset] = upto
            seen.extend(batch.due)
            seen.extend(["heartbeat"] * batch.heartbeat)

        walk(Batch(records, due, [], True, 0))
        assert seen == [(m, n) for m in range(3) for n in range(5)] + due + ["heartbeat"]

    def test_what_cannot_be_read_is_one_element(self) -> None:
        rubbish = InputRecord(Input.COMMANDS, 0, 0, 0, 0, b"rubbish")
        assert halves(Batch([Piece(rubbish)], [], [], False, 0), lambda _: 0) is None
