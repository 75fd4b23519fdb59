"""Work sent ahead of its instant, and what that changes: through the harness, the real engine."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tickstream.codec import encode_command
from tickstream.dispatcher.decision import NO_TASK, Decision, Rules, Sent
from tickstream.dispatcher.engine import apply_command, apply_due
from tickstream.errors import InvalidInput
from tickstream.ingest.request import Requests, schedule_command
from tickstream.model import (
    NEVER,
    DueEntry,
    DueKind,
    Options,
    Outcome,
    Phase,
    Recurrence,
    RecurrenceKind,
    Rev,
    VerdictKind,
)
from tickstream.settings import EngineSettings
from tickstream.testing import Harness
from tickstream.worker import App, Context

app = App()
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)
LEAD = timedelta(milliseconds=250)
RULES = Rules(EngineSettings(), frozenset({"default"}))


@app.handler("job")
def job(ctx: Context) -> None:
    """Done at once."""


@pytest.fixture
def ahead(tick: Harness) -> Harness:
    """With the task `t`, due in an hour, and the clock 250 ms before: its work is out."""
    tick.client.schedule("t", run_at=tick.now + HOUR, call=job.bind(), lead=LEAD)
    tick.advance(HOUR - LEAD)
    return tick


def test_work_is_sent_a_lead_ahead_and_starts_at_its_instant(tick: Harness) -> None:
    tick.client.schedule("t", run_at=tick.now + HOUR, call=job.bind(), lead=LEAD)
    tick.advance(HOUR - LEAD - timedelta(milliseconds=1))
    assert tick.work() == ()
    tick.advance(timedelta(milliseconds=1))
    (work,) = tick.work()
    assert (work.not_before_ms, work.decided_ms) == (work.occurrence_ts, work.occurrence_ts - 250)
    assert tick.worker(app).run_all() == []
    tick.advance(LEAD - timedelta(milliseconds=1))
    assert tick.worker(app).run_all() == []
    tick.advance(timedelta(milliseconds=1))
    (report,) = tick.worker(app).run_all()
    assert report.started_ms == work.occurrence_ts
    assert tick.phase("t") is Phase.SUCCEEDED


def test_without_a_lead_nothing_is_sent_ahead(tick: Harness) -> None:
    tick.client.schedule("t", run_at=tick.now + SECOND, call=job.bind())
    tick.advance(SECOND)
    (work,) = tick.work()
    assert (work.not_before_ms, work.decided_ms) == (NEVER, work.occurrence_ts)


def test_what_is_asked_for_within_its_lead_is_sent_at_once(tick: Harness) -> None:
    at = tick.now + timedelta(milliseconds=100)
    tick.client.schedule("soon", run_at=at, call=job.bind(), lead=LEAD)
    tick.client.schedule("due", run_at=tick.now, call=job.bind(), lead=LEAD)
    held = {work.task_id: work.not_before_ms for work in tick.work()}
    assert held == {"soon": tick.clock.wall_ms() + 100, "due": NEVER}


def test_a_cancel_is_too_late_once_the_work_is_out(tick: Harness) -> None:
    for task_id in ("in time", "too late"):
        tick.client.schedule(task_id, run_at=tick.now + HOUR, call=job.bind(), lead=LEAD)
    tick.advance(HOUR - LEAD - timedelta(milliseconds=1))
    assert tick.client.cancel("in time").kind is VerdictKind.CANCELLED
    tick.advance(timedelta(milliseconds=1))
    verdict = tick.client.cancel("too late")
    assert (verdict.kind, verdict.in_flight) == (VerdictKind.TOO_LATE, (tick.clock.wall_ms() + 250,))
    tick.advance(SECOND)
    assert [report.task_id for report in tick.worker(app).run_all()] == ["too late"]


def test_another_instant_keeps_the_lead(tick: Harness) -> None:
    tick.client.schedule("t", run_at=tick.now + HOUR, call=job.bind(), lead=LEAD)
    tick.client.reschedule("t", run_at=tick.now + 2 * HOUR)
    tick.advance(2 * HOUR - LEAD - timedelta(milliseconds=1))
    assert tick.work() == ()
    tick.advance(timedelta(milliseconds=1))
    assert [work.not_before_ms for work in tick.work()] == [tick.clock.wall_ms() + 250]


def test_another_definition_has_its_own_lead(tick: Harness) -> None:
    tick.client.schedule("t", run_at=tick.now + HOUR, call=job.bind(), lead=LEAD)
    tick.client.schedule("t", run_at=tick.now + HOUR, call=job.bind())
    tick.advance(HOUR - timedelta(milliseconds=1))
    assert tick.work() == ()


def test_a_shorter_lead_counts_for_an_entry_that_was_due_by_the_longer_one(tick: Harness) -> None:
    # Both come into one batch: the entry was read before the command was applied.
    at = tick.now + HOUR
    task = NO_TASK
    for offset, lead in enumerate((10 * SECOND, timedelta(0))):
        checked = Requests().checked(
            "t", at, None, None, "", job.bind(), None, None, "replace", False, lead=lead
        )
        command = schedule_command(tick.new_id(), checked)
        sent = Sent(command, encode_command(command), Rev(offset, 0), tick.clock.wall_ms())
        task = apply_command(task, sent, tick.clock.wall_ms(), RULES).task
    when = command.when
    entry = DueEntry(when - 10_000, DueKind.FIRE, "t", when)
    assert apply_due(task, entry, when - 1, 0, RULES) == Decision(task)
    assert apply_due(task, entry._replace(at_ms=when), when, 0, RULES).dispatch


def test_what_is_handed_back_before_its_instant_is_still_held(tick: Harness) -> None:
    tick.client.schedule("t", run_at=tick.now + HOUR, call=job.bind(), lead=10 * SECOND)
    tick.advance(HOUR - 10 * SECOND)
    (first,) = tick.work()
    tick.worker(app).again(first).release()
    tick.advance(SECOND)
    second = tick.work()[-1]
    assert (second.attempt, second.not_before_ms) == (2, first.occurrence_ts)


def test_a_retry_after_its_instant_starts_at_once(ahead: Harness) -> None:
    ahead.advance(LEAD)
    ahead.worker(app).claim().fail()
    ahead.advance(SECOND)
    (second,) = ahead.work()
    assert (second.attempt, second.not_before_ms) == (2, NEVER)
    ahead.worker(app).run_all()
    assert [end.outcome for end in ahead.history] == [Outcome.ATTEMPT_FAILED, Outcome.SUCCEEDED]


def test_a_trigger_comes_after_what_was_sent_ahead(ahead: Harness) -> None:
    (sent,) = ahead.work()
    assert ahead.client.trigger("t").kind is VerdictKind.TRIGGERED
    assert ahead.worker(app).run_all() == []
    ahead.advance(LEAD + timedelta(milliseconds=1))
    at = sent.occurrence_ts
    assert [report.occurrence_ts for report in ahead.worker(app).run_all()] == [at, at + 1]


def test_a_clock_that_goes_back_sends_nothing_twice(ahead: Harness) -> None:
    ahead.clock.step(-3_600_000)
    ahead.advance(2 * HOUR)
    assert len(ahead.work()) == 1


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (Options(lead_ms=-1), "at most 60000 ms"),
        (Options(lead_ms=60_001), "at most 60000 ms"),
        (Options(lead_ms=1, recurrence=Recurrence(RecurrenceKind.EVERY, interval_ms=1_000)), "runs once"),
    ],
    ids=["negative", "too long", "recurring"],
)
def test_a_lead_that_cannot_be_is_rejected_with_the_reason(tick: Harness, options: Options, why: str) -> None:
    checked = Requests().checked("t", tick.now, None, None, "", job.bind(), None, None, "replace", False)
    verdict = tick.send(schedule_command(tick.new_id(), checked)._replace(options=options))
    assert verdict.kind is VerdictKind.REJECTED
    assert why in verdict.detail


def test_the_client_refuses_it_before_anything_is_sent(tick: Harness) -> None:
    for lead, why in ((-LEAD, "lead=-1 day"), (timedelta(seconds=61), "at most 60 seconds")):
        with pytest.raises(InvalidInput, match=why):
            tick.client.schedule("t", run_at=tick.now, call=job.bind(), lead=lead)
    with pytest.raises(InvalidInput, match="runs once"):
        tick.client.schedule("t", every=HOUR, call=job.bind(), lead=LEAD)
    assert tick.log == []
