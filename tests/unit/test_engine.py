"""The life of a one-shot task, told through the harness: the real engine, a virtual clock."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tickstream.codec import encode_reports
from tickstream.dispatcher.decision import (
    NO_TASK,
    STUB_SLACK_MS,
    Answer,
    Rules,
    Sent,
    Task,
)
from tickstream.dispatcher.engine import apply_command, apply_due
from tickstream.ingest.request import Requests, cancel_command, schedule_command
from tickstream.model import (
    DEFAULT_OPTIONS,
    NEVER,
    Command,
    DueEntry,
    DueKind,
    IfExists,
    Outcome,
    Phase,
    Rev,
    RunTerms,
    TaskState,
    Verb,
    VerdictKind,
)
from tickstream.settings import EngineSettings
from tickstream.testing import Harness
from tickstream.worker import App, Context

app = App()
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


@app.handler("mail")
def mail(ctx: Context, to: str) -> None:
    if to == "nobody":
        raise ValueError("no such address")


def _schedule(tick: Harness, in_seconds: float, task_id: str = "t", to: str = "a@b") -> Command:
    at = tick.now + timedelta(seconds=in_seconds)
    checked = Requests().checked(task_id, at, None, None, "", mail.bind(to), None, None, "replace", False)
    return schedule_command(tick.new_id(), checked)


def test_a_task_runs_at_its_instant_and_not_before(tick: Harness) -> None:
    verdict = tick.client.schedule("t", run_at=tick.now + HOUR, call=mail.bind("a@b"))
    assert (verdict.kind, verdict.phase) == (VerdictKind.SCHEDULED, "scheduled")
    tick.advance(HOUR - timedelta(milliseconds=1))
    assert tick.work() == ()
    tick.advance(timedelta(milliseconds=1))
    (work,) = tick.work()
    assert (work.task_id, work.attempt, work.decided_ms) == ("t", 1, work.occurrence_ts)
    tick.worker(app).run_all()
    assert [h.outcome for h in tick.history] == [Outcome.SUCCEEDED]
    assert tick.phase("t") is Phase.SUCCEEDED


def test_an_instant_in_the_past_runs_at_once(tick: Harness) -> None:
    tick.client.schedule("t", run_at=tick.now - SECOND, call=mail.bind("a@b"))
    assert len(tick.work()) == 1


def test_an_instant_too_far_in_the_past_is_rejected_unless_allowed(tick: Harness) -> None:
    long_ago = tick.now - timedelta(hours=2)
    verdict = tick.client.schedule("t", run_at=long_ago, call=mail.bind("a@b"))
    assert verdict.kind is VerdictKind.REJECTED
    assert "allow_past" in verdict.detail
    assert tick.client.schedule("t", run_at=long_ago, call=mail.bind("a@b"), allow_past=True).kind is (
        VerdictKind.SCHEDULED
    )


def test_a_failure_ends_dead_with_its_error(tick: Harness) -> None:
    once = mail.bind("nobody")._replace(terms=RunTerms(attempts=1))
    tick.client.schedule("t", run_at=tick.now, call=once)
    tick.worker(app).run_all()
    (end,) = tick.history
    assert (end.outcome, end.error, end.attempt) == (Outcome.DEAD, "ValueError: no such address", 1)
    letters = [r for r in tick.log if r.topic.endswith("dead-letter")]
    assert [dict(r.headers)["reason"] for r in letters] == [b"gave_up"]


class TestCancel:
    def test_a_cancelled_task_never_runs(self, tick: Harness) -> None:
        tick.client.schedule("t", run_at=tick.now + HOUR, call=mail.bind("a@b"))
        verdict = tick.client.cancel("t")
        assert (verdict.kind, verdict.phase) == (VerdictKind.CANCELLED, "cancelled")
        tick.advance(2 * HOUR)
        assert tick.work() == ()
        assert [h.outcome for h in tick.history] == [Outcome.CANCELLED]

    def test_after_dispatch_it_is_too_late(self, tick: Harness) -> None:
        tick.client.schedule("t", run_at=tick.now, call=mail.bind("a@b"))
        verdict = tick.client.cancel("t")
        assert (verdict.kind, verdict.phase) == (VerdictKind.TOO_LATE, "dispatched")
        assert verdict.in_flight == (tick.work()[0].occurrence_ts,)

    def test_after_the_end_it_is_too_late_with_the_state(self, tick: Harness) -> None:
        tick.client.schedule("t", run_at=tick.now, call=mail.bind("a@b"))
        tick.worker(app).run_all()
        verdict = tick.client.cancel("t")
        assert (verdict.kind, verdict.phase) == (VerdictKind.TOO_LATE, "succeeded")

    def test_what_is_not_known_is_unknown_and_leaves_no_trace(self, tick: Harness) -> None:
        assert tick.client.cancel("t").kind is VerdictKind.UNKNOWN
        assert tick.phase("t") is None
        assert all(r.marks is not None for r in tick.log)

    def test_twice_is_answered_alike(self, tick: Harness) -> None:
        tick.client.schedule("t", run_at=tick.now + HOUR, call=mail.bind("a@b"))
        assert tick.client.cancel("t").kind is tick.client.cancel("t").kind is VerdictKind.CANCELLED
        assert len(tick.history) == 1


class TestReplace:
    def test_the_new_instant_counts(self, tick: Harness) -> None:
        tick.client.schedule("t", run_at=tick.now + SECOND, call=mail.bind("a@b"))
        verdict = tick.client.schedule("t", run_at=tick.now + HOUR, call=mail.bind("c@d"))
        assert verdict.kind is VerdictKind.REPLACED
        tick.advance(2 * SECOND)
        assert tick.work() == ()
        tick.advance(HOUR)
        assert len(tick.work()) == 1

    def test_if_exists_reject_leaves_the_task_alone(self, tick: Harness) -> None:
        first = tick.now + SECOND
        tick.client.schedule("t", run_at=first, call=mail.bind("a@b"))
        verdict = tick.client.schedule(
            "t", run_at=first + HOUR, call=mail.bind("a@b"), if_exists=IfExists.REJECT
        )
        assert verdict.kind is VerdictKind.REJECTED
        tick.advance(2 * SECOND)
        assert len(tick.work()) == 1

    def test_the_instant_in_flight_cannot_be_scheduled_again(self, tick: Harness) -> None:
        at = tick.now
        tick.client.schedule("t", run_at=at, call=mail.bind("a@b"))
        verdict = tick.client.schedule("t", run_at=at, call=mail.bind("a@b"))
        assert (verdict.kind, verdict.phase) == (VerdictKind.TOO_LATE, "dispatched")
        assert len(tick.work()) == 1

    def test_the_instant_that_ran_already_ran(self, tick: Harness) -> None:
        at = tick.now
        tick.client.schedule("t", run_at=at, call=mail.bind("a@b"))
        tick.worker(app).run_all()
        assert tick.client.schedule("t", run_at=at, call=mail.bind("a@b")).kind is VerdictKind.ALREADY_RAN
        assert tick.work() == ()

    def test_occurrences_only_move_forward(self, tick: Harness) -> None:
        at = tick.now
        tick.client.schedule("t", run_at=at, call=mail.bind("a@b"))
        tick.worker(app).run_all()
        verdict = tick.client.schedule("t", run_at=at - SECOND, call=mail.bind("a@b"))
        assert verdict.kind is VerdictKind.REJECTED
        assert "only move forward" in verdict.detail

    def test_an_old_run_in_flight_does_not_end_the_new_definition(self, tick: Harness) -> None:
        worker = tick.worker(app)
        tick.client.schedule("t", run_at=tick.now, call=mail.bind("a@b"))
        old = worker.take()
        verdict = tick.client.schedule("t", run_at=tick.now + HOUR, call=mail.bind("a@b"))
        assert (verdict.kind, verdict.in_flight) == (VerdictKind.REPLACED, (old.work.occurrence_ts,))
        old.succeed()
        assert tick.phase("t") is Phase.SCHEDULED
        tick.advance(HOUR)
        worker.run_all()
        assert [h.outcome for h in tick.history] == [Outcome.SUCCEEDED, Outcome.SUCCEEDED]

    def test_cancel_of_a_replacement_leaves_the_run_in_flight(self, tick: Harness) -> None:
        worker = tick.worker(app)
        tick.client.schedule("t", run_at=tick.now, call=mail.bind("a@b"))
        run = worker.take()
        tick.client.schedule("t", run_at=tick.now + HOUR, call=mail.bind("a@b"))
        verdict = tick.client.cancel("t")
        assert (verdict.kind, verdict.in_flight) == (VerdictKind.CANCELLED, (run.work.occurrence_ts,))
        run.succeed()
        tick.advance(2 * HOUR)
        assert [h.outcome for h in tick.history] == [Outcome.CANCELLED, Outcome.SUCCEEDED]


class TestReports:
    def test_a_second_report_of_a_run_is_no_second_outcome(self, tick: Harness) -> None:
        worker = tick.worker(app)
        tick.client.schedule("t", run_at=tick.now, call=mail.bind("a@b"))
        run = worker.take()
        run.succeed()
        run.fail("late")
        assert [h.outcome for h in tick.history] == [Outcome.SUCCEEDED]

    def test_a_report_on_what_was_never_dispatched_is_ignored(self, tick: Harness) -> None:
        worker = tick.worker(app)
        tick.client.schedule("t", run_at=tick.now, call=mail.bind("a@b"))
        run = worker.take()
        run.work = run.work._replace(task_id="other")
        run.succeed()
        assert tick.history == []


class TestResend:
    def test_a_command_sent_twice_changes_nothing_and_is_answered_alike(self, tick: Harness) -> None:
        command = _schedule(tick, 60)
        first, second = tick.send(command), tick.send(command)
        assert (first.kind, second.kind) == (VerdictKind.SCHEDULED, VerdictKind.SCHEDULED)
        assert second.receipt != first.receipt

    def test_also_after_it_was_replaced(self, tick: Harness) -> None:
        command = _schedule(tick, 60)
        tick.send(command)
        tick.send(_schedule(tick, 3600))
        assert tick.send(command).kind is VerdictKind.SCHEDULED
        tick.advance(timedelta(seconds=61))
        assert tick.work() == ()

    def test_also_after_the_end(self, tick: Harness) -> None:
        command = _schedule(tick, 0)
        tick.send(command)
        tick.tick()
        tick.worker(app).run_all()
        assert tick.send(command).kind is VerdictKind.SCHEDULED
        assert len(tick.history) == 1

    def test_a_late_cancel_does_not_hit_what_came_after_its_first_send(self, tick: Harness) -> None:
        cancel = cancel_command(tick.new_id(), "t")
        first = tick.send(cancel)
        assert first.kind is VerdictKind.UNKNOWN
        tick.send(_schedule(tick, 60))
        again = cancel._replace(options=cancel.options._replace(not_after=first.receipt.offset))
        assert tick.send(again).kind is VerdictKind.UNKNOWN
        assert tick.phase("t") is Phase.SCHEDULED

    def test_the_ninth_later_command_is_one_too_many(self, tick: Harness) -> None:
        command = _schedule(tick, 60)
        tick.send(command)
        for n in range(8):
            tick.send(_schedule(tick, 61 + n))
        assert tick.send(command).kind is VerdictKind.SCHEDULED
        tick.send(_schedule(tick, 99))
        assert tick.send(command).kind is VerdictKind.REPLACED


class TestRetention:
    def test_a_stub_answers_for_an_hour_and_is_gone_then(self, tick: Harness) -> None:
        tick.client.schedule("t", run_at=tick.now, call=mail.bind("a@b"))
        tick.worker(app).run_all()
        tick.advance(HOUR - SECOND)
        assert tick.phase("t") is Phase.SUCCEEDED
        tick.advance(10 * SECOND)
        assert tick.phase("t") is None
        assert tick.client.cancel("t").kind is VerdictKind.UNKNOWN

    def test_what_left_with_its_stub_is_too_old_to_run_again(self, tick: Harness) -> None:
        at = tick.now
        tick.client.schedule("t", run_at=at, call=mail.bind("a@b"))
        tick.worker(app).run_all()
        tick.advance(HOUR + 10 * SECOND)
        assert tick.client.schedule("t", run_at=at, call=mail.bind("a@b")).kind is VerdictKind.REJECTED

    def test_a_stub_stays_while_commands_of_its_time_are_not_applied(self) -> None:
        rules = Rules(EngineSettings(), frozenset())
        stub = TaskState(Rev(1, 0), NEVER, 5, (), Outcome.SUCCEEDED, 10, (), forget_ms=100_000)
        entry = DueEntry(100_000, DueKind.FORGET, "t", NEVER)
        behind = apply_due(Task(None, stub), entry, 200_000, 100_000 - STUB_SLACK_MS - 1, rules)
        assert behind.task.state == stub._replace(forget_ms=260_000)
        caught_up = apply_due(Task(None, stub), entry, 200_000, 100_000 - STUB_SLACK_MS, rules)
        assert caught_up.task == NO_TASK

    def test_what_was_in_time_when_accepted_is_in_time_when_applied(self) -> None:
        rules = Rules(EngineSettings(), frozenset({"default"}))
        command = Command(bytes(16), Verb.SCHEDULE, "t", 1_000, "default", DEFAULT_OPTIONS, b"")
        outage = 24 * 3_600_000
        sent = Sent(command, b"", Rev(0, 0), appended_ms=500)
        assert apply_command(NO_TASK, sent, outage, rules).answer == Answer(
            VerdictKind.SCHEDULED, "scheduled", 1_000
        )
        late = sent._replace(appended_ms=outage)
        answer = apply_command(NO_TASK, late, outage, rules).answer
        assert answer is not None
        assert answer.kind is VerdictKind.REJECTED

    def test_zero_keeps_no_stub(self) -> None:
        tick = Harness(engine=EngineSettings(done_retention_ms=0))
        tick.client.schedule("t", run_at=tick.now, call=mail.bind("a@b"))
        tick.worker(app).run_all()
        assert tick.phase("t") is None


class TestObjections:
    def test_an_unknown_queue_is_rejected_by_name(self, tick: Harness) -> None:
        verdict = tick.client.schedule("t", run_at=tick.now, call=mail.bind("a@b"), queue="nope")
        assert verdict.kind is VerdictKind.REJECTED
        assert "'nope'" in verdict.detail

    def test_what_cannot_be_read_goes_to_dead_letter_whole(self, tick: Harness) -> None:
        tick._turn(3, commands=b"\xc3\x01rubbish")
        tick._turn(3, reports=encode_reports("w", [])[:-1])
        letters = [r for r in tick.log if r.topic.endswith("dead-letter")]
        assert [r.value for r in letters] == [b"\xc3\x01rubbish", encode_reports("w", [])[:-1]]
        assert all(dict(r.headers)["reason"] == b"undecodable" for r in letters)


@pytest.mark.parametrize("step", [-5_000, -1])
def test_a_wall_clock_set_back_never_fires_twice(tick: Harness, step: int) -> None:
    tick.client.schedule("t", run_at=tick.now, call=mail.bind("a@b"))
    assert len(tick.work()) == 1
    tick.clock.step(step)
    tick.advance(timedelta(seconds=10))
    assert len(tick.work()) == 1
