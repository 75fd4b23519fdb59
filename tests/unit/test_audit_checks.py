"""Each promise's check: what breaks it is found and named, what merely looks like it is not."""

import json
from datetime import UTC, datetime

import pytest

from tests.audit_history import T0, Written
from tickstream.model import (
    NEVER,
    RECENT_COMMANDS,
    Extras,
    IfExists,
    Options,
    Outcome,
    Receipt,
    Recurrence,
    RecurrenceKind,
    ReportKind,
    Rev,
    RunState,
    Verb,
    VerdictKind,
)
from tickstream.ops.audit import FAULTS, Report, render
from tickstream.ops.audit.journal import Acked, Journal
from tickstream.ops.audit.verdict import judge

DUE = T0 + 1_000


@pytest.fixture
def log() -> Written:
    return Written()


def report_on(
    log: Written,
    *acked: Acked,
    starts: dict[tuple[str, int], int] | None = None,
    late_ms: int | None = None,
) -> Report:
    """The audit a minute after T0, with 5 s of grace."""
    return judge(
        log.evidence(starts),
        Journal(acked),
        as_of_ms=T0 + 60_000,
        grace_ms=5_000,
        session_ms=2_000,
        late_ms=late_ms,
    )


def faults(report: Report) -> dict[str, int]:
    return {name: getattr(report, name) for name in FAULTS if getattr(report, name)}


def scheduled(task_id: str, when: int, receipt: Receipt, verdict: VerdictKind | None = None) -> Acked:
    return Acked(task_id, when, receipt, verdict)


def cancelled(task_id: str, receipt: Receipt, verdict: VerdictKind = VerdictKind.CANCELLED) -> Acked:
    return Acked(task_id, NEVER, receipt, verdict)


# --------------------------------------------------------------------------- a clean history


def test_a_clean_history_is_ok_and_every_schedule_has_its_fate(log: Written) -> None:
    done = log.life("done", DUE)
    rev, cancel = log.cancelled_life("cancelled", DUE)
    log.schedule("replaced", DUE)
    second = log.schedule("replaced", DUE + 500)
    log.work("replaced", DUE + 500, second)
    log.schedule("later", T0 + 3_600_000)

    report = report_on(
        log,
        scheduled("done", DUE, done),
        scheduled("cancelled", DUE, rev),
        cancelled("cancelled", cancel),
    )

    assert report.ok
    assert faults(report) == {}
    assert (report.scheduled, report.dispatched, report.cancelled, report.superseded, report.waiting) == (
        5,
        2,
        1,
        1,
        1,
    )
    assert report.ran == 1
    assert report.lateness_max_ms == 20
    assert render(report).splitlines()[-1] == "audit: ok"


def test_the_report_is_one_json_object_with_its_examples(log: Written) -> None:
    receipt = log.schedule("gone", DUE)
    shown = json.loads(json.dumps(report_on(log).to_json()))
    assert shown["ok"] is False
    assert shown["lost"] == 1
    assert shown["lateness_p99_ms"] is None
    assert shown["examples"]["lost"][0]["records"] == [f"t.commands[{receipt.bucket}]@{receipt.offset}:0"]
    assert shown["records"] == {"t.commands": 1}


# --------------------------------------------------------------------------- lost


def test_an_accepted_schedule_without_work_is_lost(log: Written) -> None:
    receipt = log.schedule("gone", DUE)
    log.progress(receipt.bucket, commands=1)
    report = report_on(log)
    assert faults(report) == {"lost": 1}
    (example,) = report.examples["lost"]
    assert (example.task_id, example.occurrence_ts) == ("gone", DUE)
    assert "applied, and waiting no more" in example.what
    assert "gone" in render(report)
    assert render(report).splitlines()[-1] == "audit: lost 1"


def test_what_the_changelog_says_of_a_loss_is_told(log: Written) -> None:
    waiting = log.schedule("waiting", DUE)
    log.state("waiting", waiting, waiting_for=DUE)
    log.progress(waiting.bucket, commands=waiting.offset + 1)
    unapplied = log.schedule("unapplied", DUE)
    log.progress(unapplied.bucket, commands=unapplied.offset)
    told = {e.task_id: e.what for e in report_on(log).examples["lost"]}
    assert "not applied yet" in told["unapplied"]
    assert "still has it waiting" in told["waiting"]


def test_within_the_grace_nothing_is_lost(log: Written) -> None:
    log.schedule("due just now", T0 + 56_000)
    log.now = T0 + 56_000
    log.schedule("accepted just now for the past", DUE)
    report = report_on(log)
    assert report.ok
    assert report.waiting == 2


def test_a_receipt_whose_command_is_not_in_the_log_is_lost(log: Written) -> None:
    kept = log.life("kept", DUE)
    gone = kept._replace(offset=kept.offset + 7)
    assert faults(report_on(log, scheduled("kept", DUE, kept), scheduled("kept", DUE, gone))) == {"lost": 1}


def test_a_receipt_that_shows_another_command_is_lost(log: Written) -> None:
    kept = log.life("kept", DUE)
    assert faults(report_on(log, scheduled("kept", DUE + 1, kept))) == {"lost": 1}
    assert faults(report_on(log, scheduled("another", DUE, kept))) == {"lost": 1}


def test_a_receipt_below_the_log_start_was_purged_not_lost(log: Written) -> None:
    first = log.life("kept", DUE)
    report = report_on(
        log, scheduled("kept", DUE, first), starts={(log.names.commands, first.bucket): first.offset + 1}
    )
    assert report.ok


def test_a_waiting_state_long_past_is_lost_even_if_its_command_is_purged(log: Written) -> None:
    rev = log.schedule("old", DUE)
    log.state("old", rev, waiting_for=DUE)
    report = report_on(log, starts={(log.names.commands, rev.bucket): 1})
    assert faults(report) == {"lost": 1}


def test_a_later_command_supersedes(log: Written) -> None:
    log.schedule("replaced", DUE)
    log.schedule("replaced", T0 + 3_600_000)
    log.schedule("cancelled", DUE)
    log.cancel("cancelled")
    report = report_on(log)
    assert report.ok
    assert (report.superseded, report.cancelled, report.waiting) == (1, 1, 1)


@pytest.mark.parametrize("verdict", [VerdictKind.UNKNOWN, VerdictKind.TOO_LATE, VerdictKind.REJECTED])
def test_a_refused_cancel_supersedes_nothing(log: Written, verdict: VerdictKind) -> None:
    log.schedule("gone", DUE)
    receipt = log.cancel("gone")
    assert faults(report_on(log, cancelled("gone", receipt, verdict))) == {"lost": 1}


def test_a_schedule_that_rejects_supersedes_nothing(log: Written) -> None:
    log.schedule("gone", DUE)
    log.schedule("gone", DUE + 1, options=Options(if_exists=IfExists.REJECT))
    report = report_on(log)
    assert faults(report) == {"lost": 1}
    assert report.unchecked == 1


def test_the_first_schedule_of_a_task_is_owed_even_if_it_would_reject(log: Written) -> None:
    log.schedule("gone", DUE, options=Options(if_exists=IfExists.REJECT))
    assert faults(report_on(log)) == {"lost": 1}


def test_a_resend_changes_nothing(log: Written) -> None:
    same = log.new_id()
    log.schedule("moved", DUE, command_id=same)
    second = log.schedule("moved", DUE + 500)
    log.schedule("moved", DUE, command_id=same)
    report = report_on(log)
    assert faults(report) == {"lost": 1}
    assert report.examples["lost"][0].records == (f"t.commands[{second.bucket}]@{second.offset}:0",)
    assert report.refused == 1


def test_a_schedule_rightly_refused_is_owed_nothing(log: Written) -> None:
    log.schedule("no such queue", DUE, queue="nowhere")
    log.schedule("lies elsewhere", DUE, bucket=(log.bucket("lies elsewhere") + 1) % 4)
    told = log.schedule("told so", DUE)
    ran = log.life("ran already", DUE)
    log.schedule("ran already", DUE)
    log.schedule("ran already", DUE - 1)
    remembered = log.new_id()
    log.schedule("remembered", DUE, command_id=remembered)
    log.state("remembered", ran, recent=[(remembered, VerdictKind.REJECTED)])
    report = report_on(log, scheduled("told so", DUE, told, VerdictKind.REJECTED))
    assert report.ok
    assert report.refused == 5
    assert report.scheduled == 1


def test_already_ran_must_be_true(log: Written) -> None:
    receipt = log.schedule("never ran", DUE)
    report = report_on(log, scheduled("never ran", DUE, receipt, VerdictKind.ALREADY_RAN))
    assert faults(report) == {"lost": 1}


def test_a_run_at_over_an_hour_back_may_be_rejected(log: Written) -> None:
    log.schedule("long ago", T0 - 3_600_001)
    log.schedule("long ago, insisted on", T0 - 3_600_001, options=Options(allow_past=True))
    report = report_on(log)
    assert [e.task_id for e in report.examples["lost"]] == ["long ago, insisted on"]
    assert report.unchecked == 1


def test_work_that_was_purged_is_not_missed(log: Written) -> None:
    old = log.life("{b}old", DUE)
    new = log.life("{b}new", DUE + 10_000)
    gone = log.schedule("{b}gone", DUE + 20_000)
    assert old.bucket == new.bucket == gone.bucket
    report = report_on(log, starts={(log.names.work("default"), old.bucket): 1})
    assert [e.task_id for e in report.examples["lost"]] == ["{b}gone"]
    assert report.unchecked == 1


# --------------------------------------------------------------------------- duplicates


def test_surplus_work_of_one_attempt_is_a_duplicate_each(log: Written) -> None:
    rev = log.life("twice", DUE)
    log.work("twice", DUE, rev)
    log.work("twice", DUE, rev)
    report = report_on(log)
    assert faults(report) == {"duplicates": 2}
    assert report.examples["duplicates"][0].records == tuple(
        f"t.work.default[{rev.bucket}]@{offset}" for offset in range(3)
    )


def test_a_further_attempt_is_no_duplicate(log: Written) -> None:
    rev = log.schedule("again", DUE)
    log.work("again", DUE, rev)
    log.history("again", DUE, rev, Outcome.ATTEMPT_FAILED)
    log.progress(rev.bucket, commands=rev.offset + 1)
    log.work("again", DUE, rev, attempt=2, decided_ms=DUE + 900)
    assert report_on(log).ok


@pytest.mark.parametrize("second", [Outcome.SUCCEEDED, Outcome.DEAD, Outcome.CANCELLED])
def test_a_second_terminal_outcome_is_one_too_many(log: Written, second: Outcome) -> None:
    rev = log.life("ended twice", DUE)
    log.history("ended twice", DUE, rev, second)
    assert faults(report_on(log)) == {"double_outcomes": 1}


def test_cancelled_asked_for_again_and_run_is_no_duplicate(log: Written) -> None:
    _, first = log.cancelled_life("on and off", DUE)
    _, second = log.cancelled_life("on and off", DUE)
    log.life("on and off", DUE)
    assert report_on(log, cancelled("on and off", first), cancelled("on and off", second)).ok


def test_cancelled_twice_under_one_definition_is_one_too_many(log: Written) -> None:
    rev, _ = log.cancelled_life("cancelled twice", DUE)
    log.history("cancelled twice", DUE, rev, Outcome.CANCELLED, attempt=0)
    assert faults(report_on(log)) == {"double_outcomes": 1}


# --------------------------------------------------------------------------- redelivered


def test_a_second_run_of_an_attempt_is_redelivered_and_no_fault(log: Written) -> None:
    log.life("run twice", DUE)
    log.report("run twice", DUE, DUE + 400)
    report = report_on(log)
    assert report.ok
    assert (report.redelivered, report.ran) == (1, 1)


def test_a_report_sent_twice_is_one_run(log: Written) -> None:
    rev = log.schedule("reported twice", DUE)
    log.work("reported twice", DUE, rev)
    run = log.new_id()
    log.report("reported twice", DUE, DUE + 1, run_id=run)
    log.report("reported twice", DUE, DUE + 1, run_id=run)
    log.report("reported twice", DUE, DUE + 9, attempt=2)
    assert report_on(log).redelivered == 0


# --------------------------------------------------------------------------- attempts


def test_attempts_that_follow_one_another_are_counted_and_no_fault(log: Written) -> None:
    log.retried_life("stubborn", DUE)
    report = report_on(log)
    assert report.ok
    assert faults(report) == {}
    assert (report.retried, report.expired, report.redelivered) == (2, 1, 0)
    assert (report.dispatched, report.ran) == (1, 1)
    assert report.lateness_max_ms == 20
    assert "2  retried: further attempts (no fault)" in render(report)
    assert "1  expired: attempts whose worker" in render(report)


def test_a_second_end_after_a_retry_is_one_too_many(log: Written) -> None:
    """A late success of the attempt that was given up, recorded beside that of its successor."""
    rev = log.retried_life("ended twice", DUE)
    log.history("ended twice", DUE, rev, Outcome.SUCCEEDED, attempt=2)
    report = report_on(log)
    assert faults(report) == {"double_outcomes": 1}
    assert "2 terminal outcomes" in report.examples["double_outcomes"][0].what


def test_a_success_of_an_attempt_that_was_counted_as_failed_is_the_end(log: Written) -> None:
    rev = log.schedule("after all", DUE)
    log.work("after all", DUE, rev)
    log.history("after all", DUE, rev, Outcome.ATTEMPT_FAILED)
    log.history("after all", DUE, rev, Outcome.SUCCEEDED)
    assert report_on(log).ok


def test_an_attempt_ends_once(log: Written) -> None:
    rev = log.schedule("failed twice", DUE)
    log.work("failed twice", DUE, rev)
    log.history("failed twice", DUE, rev, Outcome.ATTEMPT_FAILED)
    log.history("failed twice", DUE, rev, Outcome.LEASE_EXPIRED)
    report = report_on(log)
    assert faults(report) == {"double_outcomes": 1}
    assert report.examples["double_outcomes"][0].what == "2 ends of attempt 1"


def test_surplus_work_of_a_later_attempt_is_a_duplicate(log: Written) -> None:
    rev = log.retried_life("twice", DUE)
    log.work("twice", DUE, rev, attempt=3)
    assert faults(report_on(log)) == {"duplicates": 1}


def test_an_attempt_that_was_due_long_ago_is_lost(log: Written) -> None:
    rev = log.life("stranded", DUE)
    waiting = RunState(DUE, 2, Rev(rev.offset, 0), DUE, failures=1, retry_at_ms=DUE + 900)
    log.state("stranded", rev, runs=[waiting])
    report = report_on(log)
    assert faults(report) == {"lost": 1}
    assert "attempt 2 waits since" in report.examples["lost"][0].what
    log.state("stranded", rev, runs=[waiting._replace(retry_at_ms=T0 + 56_000)])
    assert report_on(log).ok


def test_two_claims_of_one_attempt_are_redelivered(log: Written) -> None:
    log.life("moved", DUE)
    for kind in (ReportKind.CLAIMED, ReportKind.HEARTBEAT):
        log.report("moved", DUE, DUE + 9, run_id=bytes(16), kind=kind)
    report = report_on(log)
    assert report.ok
    assert report.redelivered == 1


def test_what_was_handed_back_did_not_run(log: Written) -> None:
    log.life("handed on", DUE)
    log.report("handed on", DUE, NEVER, kind=ReportKind.RELEASED)
    log.report("no start said", DUE, NEVER, kind=ReportKind.FAILED)
    report = report_on(log)
    assert report.ok
    assert (report.redelivered, report.ran) == (0, 1)


# --------------------------------------------------------------------------- early


def test_work_decided_before_its_instant_is_early(log: Written) -> None:
    rev = log.schedule("early", DUE)
    log.work("early", DUE, rev, decided_ms=DUE - 1)
    log.report("early", DUE, DUE)
    assert faults(report_on(log)) == {"early": 1}


def test_work_that_is_to_be_held_may_be_decided_before_its_instant(log: Written) -> None:
    rev = log.schedule("ahead", DUE)
    log.work("ahead", DUE, rev, decided_ms=DUE - 250, not_before_ms=DUE)
    log.report("ahead", DUE, DUE)
    assert report_on(log).ok


@pytest.mark.parametrize(
    ("not_before_ms", "started_ms"), [(DUE - 1, DUE), (DUE, DUE - 1)], ids=["not held", "not held in fact"]
)
def test_work_that_is_held_for_too_short_a_time_is_early(
    log: Written, not_before_ms: int, started_ms: int
) -> None:
    rev = log.schedule("early", DUE)
    log.work("early", DUE, rev, decided_ms=DUE - 250, not_before_ms=not_before_ms)
    log.report("early", DUE, started_ms)
    assert faults(report_on(log)) == {"early": 1}


def test_a_run_started_before_its_instant_is_early(log: Written) -> None:
    log.life("early", DUE, started_after=-1)
    report = report_on(log)
    assert faults(report) == {"early": 1}
    assert report.lateness_max_ms == -1


def test_an_occurrence_is_early_once(log: Written) -> None:
    rev = log.schedule("early", DUE)
    log.work("early", DUE, rev, decided_ms=DUE - 5)
    log.report("early", DUE, DUE - 3)
    report = report_on(log)
    assert faults(report) == {"early": 1}
    assert len(report.examples["early"][0].records) == 2


# --------------------------------------------------------------------------- cancelled, and ran


def test_work_of_a_cancelled_definition_by_the_journal(log: Written) -> None:
    rev = log.schedule("stopped", DUE)
    cancel = log.cancel("stopped")
    log.work("stopped", DUE, rev)
    assert faults(report_on(log, cancelled("stopped", cancel))) == {"cancelled_yet_ran": 1}
    assert report_on(log, cancelled("stopped", cancel, VerdictKind.TOO_LATE)).ok


def test_work_of_a_cancelled_definition_by_what_the_task_remembers(log: Written) -> None:
    rev = log.schedule("stopped", DUE)
    cancel_id = log.new_id()
    log.cancel("stopped", command_id=cancel_id)
    log.state("stopped", rev, recent=[(cancel_id, VerdictKind.CANCELLED)])
    log.work("stopped", DUE, rev)
    assert faults(report_on(log)) == {"cancelled_yet_ran": 1}


def test_work_of_a_cancelled_definition_by_the_history(log: Written) -> None:
    rev, cancel = log.cancelled_life("stopped", DUE)
    log.work("stopped", DUE, rev)
    report = report_on(log, cancelled("stopped", cancel))
    assert faults(report) == {"cancelled_yet_ran": 1}
    assert report.examples["cancelled_yet_ran"][0].records == (
        f"t.commands[{cancel.bucket}]@{cancel.offset}:0",
        f"t.work.default[{rev.bucket}]@0",
        f"t.history[{rev.bucket}]@0",
    )


def test_an_earlier_definition_may_have_run_before_the_cancel(log: Written) -> None:
    log.life("busy", DUE)
    _, cancel = log.cancelled_life("busy", DUE + 500)
    assert report_on(log, cancelled("busy", cancel)).ok


def test_an_earlier_definition_may_not_be_dispatched_after_the_cancel(log: Written) -> None:
    first = log.schedule("busy", DUE)
    _, cancel = log.cancelled_life("busy", DUE + 500)
    log.work("busy", DUE, first)
    assert faults(report_on(log, cancelled("busy", cancel))) == {"cancelled_yet_ran": 1}


def test_a_definition_made_after_the_cancel_may_run(log: Written) -> None:
    _, cancel = log.cancelled_life("again", DUE)
    log.life("again", DUE + 500)
    assert report_on(log, cancelled("again", cancel)).ok


def test_a_cancel_sent_again_speaks_of_what_its_first_send_met(log: Written) -> None:
    same = log.new_id()
    rev = log.schedule("again", DUE)
    log.cancel("again", command_id=same)
    log.history("again", DUE, rev, Outcome.CANCELLED, attempt=0)
    second = log.schedule("again", DUE + 500)
    resent = log.cancel("again", command_id=same)
    log.work("again", DUE + 500, second)
    assert report_on(log, cancelled("again", resent)).ok


def test_a_cancel_that_met_no_task_counts_when_it_is_sent_again(log: Written) -> None:
    same = log.new_id()
    first = log.cancel("later", command_id=same)
    rev = log.schedule("later", DUE)
    log.cancel("later", command_id=same)
    log.history("later", DUE, rev, Outcome.CANCELLED, attempt=0)
    assert report_on(log).ok
    assert report_on(log, cancelled("later", first, VerdictKind.UNKNOWN)).ok


def test_a_cancel_sent_again_many_times_is_one_command(log: Written) -> None:
    same = log.new_id()
    rev = log.schedule("again", DUE)
    first = log.cancel("again", command_id=same)
    log.history("again", DUE, rev, Outcome.CANCELLED, attempt=0)
    second = log.schedule("again", DUE + 500)
    for _ in range(RECENT_COMMANDS + 1):
        log.cancel("again", command_id=same)
    log.work("again", DUE + 500, second)
    assert report_on(log, cancelled("again", first)).ok


# --------------------------------------------------------------------------- work that nobody asked for


def test_work_without_a_command_is_unasked(log: Written) -> None:
    nowhere = Receipt(log.bucket("out of nothing"), 7, 0)
    log.work("out of nothing", DUE, nowhere)
    report = report_on(log)
    assert faults(report) == {"unasked": 1}
    assert report.examples["unasked"][0].records == (
        f"t.work.default[{nowhere.bucket}]@0",
        f"t.commands[{nowhere.bucket}]@7:0",
    )
    purged = {(log.names.commands, nowhere.bucket): 8}
    assert report_on(log, starts=purged).ok


def test_work_of_a_cancel_is_unasked(log: Written) -> None:
    log.work("stopped", DUE, log.cancel("stopped"))
    assert faults(report_on(log)) == {"unasked": 1}


def test_an_attempt_without_the_one_before_it_is_unasked(log: Written) -> None:
    rev = log.life("skips one", DUE)
    log.work("skips one", DUE + 1, rev, attempt=3)
    assert faults(report_on(log)) == {"unasked": 1}
    purged = {(log.names.work("default"), 0): 1}
    assert report_on(log, starts=purged).unasked == 0


# --------------------------------------------------------------------------- in order


def test_an_older_definition_dispatched_after_a_later_one_is_out_of_order(log: Written) -> None:
    first = log.schedule("reversed", DUE + 500)
    second = log.schedule("reversed", DUE)
    log.work("reversed", DUE, second)
    log.work("reversed", DUE + 500, first)
    report = report_on(log)
    assert faults(report) == {"out_of_order": 1}
    assert len(report.examples["out_of_order"][0].records) == 2


# --------------------------------------------------------------------------- outcomes


def test_a_success_that_was_applied_and_left_no_outcome_is_missed(log: Written) -> None:
    rev = log.schedule("forgotten", DUE)
    log.work("forgotten", DUE, rev)
    log.report("forgotten", DUE, DUE + 20)
    assert report_on(log).ok  # no Progress has it behind itself: it may yet be applied
    log.progress(rev.bucket, commands=rev.offset + 1)
    assert faults(report_on(log)) == {"missing_outcomes": 1}
    log.work("forgotten", DUE, rev, attempt=2)
    assert report_on(log).ok  # the success may have come too late to count


def test_a_success_of_work_that_was_never_dispatched_proves_nothing(log: Written) -> None:
    log.report("made up", DUE, DUE + 20)
    log.progress(log.bucket("made up"))
    assert report_on(log).ok


def test_an_attempt_dispatched_after_the_end(log: Written) -> None:
    rev = log.life("ended", DUE)
    log.work("ended", DUE, rev, attempt=2)
    report = report_on(log)
    assert faults(report) == {"after_the_end": 1}
    assert report.examples["after_the_end"][0].records == (
        f"t.history[{rev.bucket}]@0",
        f"t.work.default[{(rev.bucket + 1) % 4}]@0",
    )


# --------------------------------------------------------------------------- late


def test_only_what_is_beyond_the_bound_is_late(log: Written) -> None:
    log.life("in time", DUE, started_after=1_000)
    log.life("late", DUE, started_after=1_001)
    rev = log.schedule("dispatched late", DUE)
    log.work("dispatched late", DUE, rev, decided_ms=DUE + 1_002)
    assert report_on(log).ok
    report = report_on(log, late_ms=1_000)
    assert faults(report) == {"late": 2}
    told = {example.task_id: example.what for example in report.examples["late"]}
    assert told["late"] == "dispatched 5 ms after it was due, started 1001 ms after"
    assert told["dispatched late"] == "dispatched 1002 ms after it was due"


def test_an_instant_in_the_past_is_late_counted_from_its_acceptance(log: Written) -> None:
    log.now = DUE + 30_000
    rev = log.schedule("asked for late", DUE)
    log.work("asked for late", DUE, rev, decided_ms=DUE + 30_500)
    assert report_on(log, late_ms=1_000).ok


# --------------------------------------------------------------------------- set aside


def test_a_command_in_dead_letter_is_set_aside_not_lost(log: Written) -> None:
    command_id = log.new_id()
    log.schedule("poisoned", DUE, command_id=command_id)
    assert faults(report_on(log)) == {"lost": 1}
    log.set_aside("poisoned", DUE, command_id)
    report = report_on(log)
    assert report.ok
    assert (report.set_aside, report.scheduled) == (1, 0)
    assert "1  set aside in dead-letter, with an alarm" in render(report)


# --------------------------------------------------------------------------- paused, held, faulted, skipped


@pytest.mark.parametrize(
    "extras", [Extras(paused=True), Extras(held="queue default"), Extras(faulted="ValueError")]
)
def test_what_is_parked_is_not_lost(log: Written, extras: Extras) -> None:
    rev = log.schedule("parked", DUE)
    log.state("parked", rev, waiting_for=DUE, extras=extras)
    report = report_on(log)
    assert report.ok
    assert report.parked == 1
    log.state("parked", rev)
    assert faults(report_on(log)) == {"lost": 1}


def test_a_recurring_task_whose_occurrence_is_long_past_is_lost(log: Written) -> None:
    rule = Options(recurrence=Recurrence(RecurrenceKind.EVERY, start_ms=DUE, interval_ms=60_000))
    rev = log.schedule("hourly", NEVER, options=rule)
    log.work("hourly", DUE, rev)
    log.state("hourly", rev, waiting_for=DUE + 60_000)
    assert report_on(log).ok
    log.state("hourly", rev, waiting_for=DUE + 10_000, extras=Extras(fire_at_ms=DUE + 58_000))
    assert report_on(log).ok  # spread by its jitter
    log.state("hourly", rev, waiting_for=DUE + 10_000)
    assert faults(report_on(log)) == {"lost": 1}


def test_a_skip_says_why_and_nothing_is_both_skipped_and_dispatched(log: Written) -> None:
    rule = Options(recurrence=Recurrence(RecurrenceKind.EVERY, interval_ms=1_000))
    rev = log.schedule("often", NEVER, options=rule)
    log.work("often", DUE, rev)
    log.history("often", DUE + 1_000, rev, Outcome.SKIPPED, attempt=0, reason="overlap")
    log.history(
        "often", DUE + 2_000, rev, Outcome.SKIPPED, attempt=0, reason="misfire", through_ts=DUE + 4_000
    )
    assert report_on(log).ok
    log.history("often", DUE + 5_000, rev, Outcome.SKIPPED, attempt=0)
    assert faults(report_on(log)) == {"unreasoned_skips": 1}
    log.work("often", DUE + 4_000, rev)
    report = report_on(log)
    assert faults(report) == {"unreasoned_skips": 2}
    assert "dispatched all the same" in report.examples["unreasoned_skips"][0].what


def test_a_recurring_task_that_was_skipped_so_far_is_not_lost(log: Written) -> None:
    rule = Options(recurrence=Recurrence(RecurrenceKind.EVERY, interval_ms=1_000))
    receipt = log.schedule("often", NEVER, options=rule)
    log.history("often", DUE, receipt, Outcome.SKIPPED, attempt=0, reason="misfire", through_ts=DUE + 3_000)
    log.state("often", receipt)
    report = report_on(log, scheduled("often", NEVER, receipt, VerdictKind.SCHEDULED))
    assert report.ok, report.examples
    assert report.waiting == 1


def test_a_cancel_of_a_recurring_task_says_nothing_of_what_went_before_it(log: Written) -> None:
    rule = Options(recurrence=Recurrence(RecurrenceKind.EVERY, interval_ms=1_000))
    receipt = log.schedule("often", NEVER, options=rule)
    log.work("often", DUE, receipt)
    word = cancelled("often", log.cancel("often"))
    log.progress(receipt.bucket, commands=word.receipt.offset + 1)
    assert report_on(log, word).ok
    log.work("often", DUE + 1_000, receipt)
    assert faults(report_on(log, word)) == {"cancelled_yet_ran": 1}


def test_a_command_that_met_no_task_is_as_good_as_new_when_it_is_sent_again(log: Written) -> None:
    command_id = log.new_id()
    log.command("moved", Verb.RESCHEDULE, DUE + 1_000, command_id=command_id)
    log.schedule("moved", DUE)
    again = log.command("moved", Verb.RESCHEDULE, DUE + 1_000, command_id=command_id)
    log.work("moved", DUE + 1_000, again)
    assert report_on(log).ok


RRULE = Recurrence(
    RecurrenceKind.RRULE,
    "FREQ=WEEKLY;BYDAY=MO,WE;BYHOUR=9;BYMINUTE=30",
    "Europe/Berlin",
    "2026-11-02T09:30:00",
)
CRON = Recurrence(RecurrenceKind.CRON, "*/15 9-17 * * mon-fri", "Europe/Berlin")
EVERY = Recurrence(RecurrenceKind.EVERY, start_ms=DUE - 3_000, end_ms=DUE + 9_000, interval_ms=1_500)


@pytest.mark.parametrize(
    ("rule", "right", "wrong"),
    [
        (
            EVERY,
            ("2027-01-15T08:00:01", "2027-01-15T08:00:02.500"),
            ("2027-01-15T08:00:02", "2027-01-15T08:00:10"),
        ),
        (RRULE, ("2026-11-02T08:30", "2026-12-30T08:30"), ("2026-12-30T09:30", "2026-12-29T08:30")),
        (CRON, ("2026-12-30T16:45", "2026-12-31T08:00"), ("2026-12-30T16:50", "2027-01-02T08:00")),
    ],
    ids=("every", "rrule", "cron"),
)
def test_what_a_rule_does_not_name_is_off_it(
    log: Written, rule: Recurrence, right: tuple[str, ...], wrong: tuple[str, ...]
) -> None:
    def at(instants: tuple[str, ...]) -> list[int]:
        return [round(datetime.fromisoformat(i).replace(tzinfo=UTC).timestamp() * 1_000) for i in instants]

    receipt = log.schedule("often", NEVER, options=Options(recurrence=rule))
    for occurrence in at(right):
        log.work("often", occurrence, receipt)
    assert not report_on(log).off_rule
    for occurrence in at(wrong):
        log.work("often", occurrence, receipt)
    log.history("often", at(wrong)[0], receipt, Outcome.SKIPPED, attempt=0, reason="misfire")
    assert report_on(log).off_rule == 3


def test_what_was_triggered_is_on_no_rule(log: Written) -> None:
    receipt = log.schedule("often", NEVER, options=Options(recurrence=EVERY))
    log.command("often", Verb.TRIGGER)
    log.work("often", DUE + 7, receipt)
    assert not report_on(log).off_rule
    log.work("often", DUE + 8, receipt)
    assert report_on(log).off_rule == 1
