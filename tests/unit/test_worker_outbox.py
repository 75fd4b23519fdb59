"""How much is taken in, and which reports go out when."""

import gc

import pytest

from tickstream.clock import SystemClock
from tickstream.model import Body, Report, ReportKind, Rev, Work
from tickstream.worker.events import Events
from tickstream.worker.intake import MOST, Intake
from tickstream.worker.keeper import LeaseKeeper
from tickstream.worker.outbox import MAX_BYTES, MAX_REPORTS, RETRY_S, Entry, Outbox
from tickstream.worker.run import MAX_ERROR_BYTES, Refusal, Run, error_text


class Nobody:
    """An owner who does not care."""

    def finished(self) -> None: ...

    def acked(self, run: Run, kind: ReportKind) -> None: ...


def outcome(task_id: str, bucket: int, kind: ReportKind = ReportKind.SUCCEEDED, result: bytes = b"") -> Entry:
    work = Work(bucket, 1, task_id, 5, 1, Rev(0, 0), 6, 10_000, 60_000, b"")
    run = Run(Nobody(), bucket, 0, work, Body("", b"", {}, {}), Refusal("h", ValueError()), 7)  # type: ignore[arg-type]
    return Entry(run, Report(kind, task_id, 5, 1, bytes(16), "h", 7, 8, 9, "", result=result))


def test_after_a_quiet_spell_a_report_goes_at_once_and_the_next_are_gathered() -> None:
    outbox = Outbox(0.005)
    outbox.add(outcome("a", 0))
    assert outbox.wait_s(10.0) == 0.0
    assert [batch.bucket for batch in outbox.take(10.0)] == [0]
    for task_id, bucket in (("b", 0), ("c", 1), ("d", 0)):
        outbox.add(outcome(task_id, bucket))
    assert outbox.take(10.004) == []
    assert outbox.wait_s(10.004) == pytest.approx(0.001)
    sent = outbox.take(10.006)
    assert [(b.bucket, [o.report.task_id for o in b.entries]) for b in sent] == [(0, ["b", "d"]), (1, ["c"])]
    assert outbox.empty
    assert outbox.wait_s(10.006) is None


def test_a_refused_batch_comes_again_after_a_second_and_holds_up_nothing() -> None:
    outbox = Outbox(0.005)
    outbox.add(outcome("a", 0))
    (batch,) = outbox.take(10.0)
    outbox.refused(batch, 10.0)
    assert not outbox.empty
    outbox.add(outcome("b", 0))
    assert [o.report.task_id for b in outbox.take(10.1) for o in b.entries] == ["b"]
    assert outbox.wait_s(10.1) == pytest.approx(RETRY_S - 0.1)
    assert outbox.take(10.0 + RETRY_S) == [batch]
    assert outbox.empty


def test_a_message_never_outgrows_the_record_limit() -> None:
    outbox = Outbox(0.005)
    for n in range(2 * MAX_REPORTS + 1):
        outbox.add(outcome(str(n), 3))
    assert [len(b.entries) for b in outbox.take(1.0)] == [MAX_REPORTS, MAX_REPORTS, 1]


def test_large_results_make_more_messages() -> None:
    outbox = Outbox(0.005)
    for n in range(200):
        outbox.add(outcome(str(n), 3, result=bytes(4_096)))
    sizes = [sum(len(e.report.result) for e in b.entries) for b in outbox.take(1.0)]
    assert sum(sizes) == 200 * 4_096
    assert max(sizes) <= MAX_BYTES


def test_a_refused_heartbeat_is_not_sent_late() -> None:
    outbox = Outbox(0.005)
    for kind in (ReportKind.HEARTBEAT, ReportKind.CLAIMED):
        outbox.add(outcome(kind.value, 0, kind))
    outbox.add(outcome("other", 1, ReportKind.HEARTBEAT))
    for batch in outbox.take(10.0):
        outbox.refused(batch, 10.0)
    assert [e.report.task_id for b in outbox.take(11.0) for e in b.entries] == ["CLAIMED"]
    assert outbox.empty


def test_slow_handlers_leave_one_record_a_slot_in_reserve() -> None:
    intake = Intake(4)
    assert (intake.limit, intake.room(0)) == (8, 8)
    assert (intake.room(7), intake.excess(7)) == (0, 1)
    assert (intake.room(6), intake.excess(6)) == (2, 0)
    intake.finished(1, 100.0)
    intake.finished(1, 160.0)
    assert intake.limit == 8


def test_quick_handlers_get_what_they_finish_in_fifty_milliseconds() -> None:
    intake = Intake(4)
    intake.finished(0, 100.0)
    intake.finished(240, 100.06)
    assert intake.limit == pytest.approx(204, abs=1)
    intake.finished(100_000, 100.2)
    assert intake.limit == 4 + MOST
    intake.finished(0, 100.3)
    assert intake.limit == 8


def test_exactly_one_caller_gets_a_run() -> None:
    run = outcome("a", 0).run
    assert [run.begin(), run.begin(), run.begin()] == [True, False, False]
    assert [run.end(), run.end()] == [True, False]


def test_a_settled_run_goes_without_the_garbage_collector() -> None:
    run = outcome("a", 0).run
    keeper = LeaseKeeper(SystemClock(), Events(print, SystemClock()), print, lambda: None)  # type: ignore[arg-type, return-value]
    run.start(bytes(16), SystemClock(), keeper.link(run))
    run.settled()
    gc.disable()
    try:
        address = id(run)
        del run
        assert not any(id(left) == address and isinstance(left, Run) for left in gc.get_objects())
    finally:
        gc.enable()


class Awkward(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_error_texts_are_bounded_and_always_there() -> None:
    assert error_text(ValueError("no such user")) == "ValueError: no such user"
    long = error_text(ValueError("ä" * 5_000))
    assert len(long.encode()) <= MAX_ERROR_BYTES
    assert long.endswith("ä")
    assert error_text(Awkward()) == "Awkward: (its message raised RuntimeError)"
    assert error_text(ValueError("\ud800")) == "ValueError: \\ud800"
