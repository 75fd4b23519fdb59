"""Recurring tasks, told as stories on the harness: what is missed, what overlaps, what a pause does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from tickstream import App
from tickstream.codec import encode_body, encode_command
from tickstream.dispatcher.decision import NO_TASK, Rules, Sent
from tickstream.dispatcher.engine import apply_command
from tickstream.errors import InvalidInput, InvalidSchedule, NaiveDatetime, NeverOccurs, UnknownZone
from tickstream.ingest.request import recurring
from tickstream.model import (
    NEVER,
    Body,
    Command,
    History,
    Options,
    Outcome,
    Phase,
    Recurrence,
    RecurrenceKind,
    Rev,
    Verb,
    VerdictKind,
)
from tickstream.settings import EngineSettings
from tickstream.testing import Harness, HarnessRun

app: Final = App()
_BEGAN_MS: Final = Harness().clock.wall_ms()
MINUTE: Final = timedelta(minutes=1)
HOUR: Final = timedelta(hours=1)


@pytest.fixture
def tick() -> Harness:
    """Between two whole minutes, a millisecond after the first."""
    harness = Harness()
    harness.clock.advance(1)
    return harness


def schedule(tick: Harness, task_id: str = "t", **asked: Any) -> None:
    """A task that recurs; every ten minutes, unless told otherwise."""
    if not asked.keys() & {"cron", "rrule"}:
        asked.setdefault("every", 10 * MINUTE)
    verdict = tick.client.schedule(task_id, payload=b"", handler="h", **asked)
    assert verdict.kind in (VerdictKind.SCHEDULED, VerdictKind.REPLACED), verdict


def down(tick: Harness, by: timedelta) -> None:
    """No dispatcher for so long; then one is back."""
    tick.clock.advance(by // timedelta(milliseconds=1))
    tick.tick()


def take(tick: Harness) -> HarnessRun:
    return tick.worker(app).take()


def finish_all(tick: Harness) -> list[int]:
    """Runs succeed, one after another, until none is left; minutes after 1970 of their occurrences."""
    done = []
    while tick.work():
        run = take(tick)
        run.succeed()
        tick.tick()
        done.append(run.work.occurrence_ts)
    return done


def out(tick: Harness) -> list[int]:
    """Occurrences dispatched and not taken yet."""
    return [work.occurrence_ts for work in tick.work()]


def skips(tick: Harness) -> list[tuple[int, int, int, str]]:
    """First, last, how many, and the reason's first word."""
    return [
        (
            h.occurrence_ts,
            h.occurrence_ts if h.through_ts == NEVER else h.through_ts,
            h.occurrences,
            h.error.split(":")[0],
        )
        for h in tick.history
        if h.outcome is Outcome.SKIPPED
    ]


def at(tick: Harness, minutes: int) -> int:
    """The instant so many minutes after the whole ten minutes before the harness's start."""
    start = _BEGAN_MS - _BEGAN_MS % 600_000
    return start + minutes * 60_000


def ended(tick: Harness, outcome: Outcome) -> list[History]:
    return [h for h in tick.history if h.outcome is outcome]


# --------------------------------------------------------------------------- the pointer


def test_it_fires_at_each_of_its_instants_and_never_drifts(tick: Harness) -> None:
    schedule(tick)
    seen = []
    for _ in range(6):
        tick.advance(10 * MINUTE)
        seen += finish_all(tick)
    assert seen == [at(tick, 10 * n) for n in range(1, 7)]
    assert tick.phase("t") is Phase.SCHEDULED
    assert not skips(tick)


def test_it_follows_the_clock_of_its_zone(tick: Harness) -> None:
    tick.advance(datetime(2027, 3, 13, 12, tzinfo=UTC) - tick.now)
    schedule(tick, cron="30 2 * * *", zone="America/New_York")
    tick.advance(timedelta(days=2))
    seen = [datetime.fromtimestamp(ts / 1_000, UTC) for ts in [w.occurrence_ts for w in tick.work()]]
    assert seen == [datetime(2027, 3, 14, 7, 30, tzinfo=UTC)]  # 02:30 does not exist: 03:30 EDT
    assert finish_all(tick)
    assert not out(tick)


def test_occurrences_before_it_was_accepted_are_not_missed_ones(tick: Harness) -> None:
    schedule(tick, rrule="FREQ=DAILY", start="2020-01-01T09:00:00")
    tick.advance(timedelta(days=1))
    assert len(finish_all(tick)) == 1
    assert not skips(tick)


def test_with_its_last_occurrence_the_task_ends(tick: Harness) -> None:
    start = tick.now.replace(microsecond=0) + MINUTE
    schedule(tick, rrule="FREQ=MINUTELY;COUNT=3", start=start)
    tick.advance(MINUTE)
    finish_all(tick)
    assert tick.phase("t") is Phase.SCHEDULED
    tick.advance(MINUTE)
    finish_all(tick)
    tick.advance(MINUTE)
    assert tick.phase("t") is Phase.DISPATCHED
    finish_all(tick)
    assert tick.phase("t") is Phase.SUCCEEDED
    tick.advance(3 * HOUR)
    assert tick.phase("t") is None


def test_the_end_of_a_schedule_is_no_occurrence(tick: Harness) -> None:
    end = datetime.fromtimestamp(at(tick, 20) / 1_000, UTC)
    schedule(tick, end=end)
    tick.advance(HOUR)
    assert finish_all(tick) == [at(tick, 10)]
    assert tick.phase("t") is Phase.SUCCEEDED


def test_jitter_moves_the_dispatch_and_not_the_occurrence(tick: Harness) -> None:
    for n in range(20):
        schedule(tick, f"t{n}", jitter=5 * MINUTE)
    tick.advance(10 * MINUTE)
    early = len(tick.work())
    assert early < 20
    tick.advance(5 * MINUTE)
    assert {w.occurrence_ts for w in tick.work()} == {at(tick, 10)}
    assert len({w.decided_ms for w in tick.work()}) > 10
    assert all(0 <= w.decided_ms - w.occurrence_ts < 300_000 for w in tick.work())


def test_jitter_never_reaches_the_next_occurrence(tick: Harness) -> None:
    schedule(tick, jitter=HOUR)
    seen = []
    for _ in range(60):
        tick.advance(MINUTE)
        seen += finish_all(tick)
    assert seen == [at(tick, 10 * n) for n in range(1, len(seen) + 1)]
    assert len(seen) >= 5
    assert not skips(tick)


# --------------------------------------------------------------------------- missed ones


def test_latest_dispatches_the_last_missed_one_and_records_the_others(tick: Harness) -> None:
    schedule(tick, misfire="latest")
    down(tick, 35 * MINUTE)
    assert out(tick) == [at(tick, 30)]
    assert skips(tick) == [(at(tick, 10), at(tick, 20), 2, "misfire")]
    assert tick.work()[0].skipped == 2
    tick.advance(5 * MINUTE)
    finish_all(tick)
    tick.advance(10 * MINUTE)
    assert tick.work()[0].skipped == 1  # that of minute 40 met the run in flight


def test_all_dispatches_every_missed_one_in_order(tick: Harness) -> None:
    schedule(tick, misfire="all")
    down(tick, 35 * MINUTE)
    assert out(tick) == [at(tick, 10)]
    assert finish_all(tick) == [at(tick, 10), at(tick, 20), at(tick, 30)]
    assert not skips(tick)


def test_all_with_overlap_dispatches_every_missed_one_at_once(tick: Harness) -> None:
    schedule(tick, misfire="all", overlap="allow")
    down(tick, 35 * MINUTE)
    assert out(tick) == [at(tick, 10), at(tick, 20), at(tick, 30)]


def test_skip_records_every_missed_one(tick: Harness) -> None:
    schedule(tick, misfire="skip")
    down(tick, 35 * MINUTE)
    assert not out(tick)
    assert skips(tick) == [(at(tick, 10), at(tick, 30), 3, "misfire")]
    tick.advance(5 * MINUTE)
    assert out(tick) == [at(tick, 40)]
    assert tick.work()[0].skipped == 3


@pytest.mark.parametrize("misfire", ["latest", "all", "skip"])
def test_one_within_its_grace_is_on_time(tick: Harness, misfire: str) -> None:
    schedule(tick, misfire=misfire, grace=6 * MINUTE)
    down(tick, 35 * MINUTE)
    assert finish_all(tick)[-1] == at(tick, 30)
    assert len(skips(tick)) == (0 if misfire == "all" else 1)


def test_the_latest_one_is_the_last_that_is_due(tick: Harness) -> None:
    """Late or not: who asks for the latest wants one run after an outage, not two."""
    schedule(tick, misfire="latest")
    down(tick, 30 * MINUTE + timedelta(seconds=30))
    assert finish_all(tick) == [at(tick, 30)]
    assert skips(tick) == [(at(tick, 10), at(tick, 20), 2, "misfire")]


def test_all_joins_those_that_are_due_on_time_to_the_missed(tick: Harness) -> None:
    schedule(tick, misfire="all")
    down(tick, 30 * MINUTE + timedelta(seconds=30))
    assert finish_all(tick) == [at(tick, 10), at(tick, 20), at(tick, 30)]


@pytest.mark.parametrize("asked", [{"every": timedelta(seconds=1)}, {"cron": "* * * * * *"}])
@pytest.mark.parametrize("misfire", ["latest", "skip", "all"])
def test_thousands_of_missed_ones_are_counted_exactly(
    tick: Harness, asked: dict[str, Any], misfire: str
) -> None:
    schedule(tick, misfire=misfire, **asked)
    down(tick, 2 * HOUR)
    done = finish_all(tick)
    skipped = sum(count for _, _, count, _ in skips(tick))
    assert skipped + len(done) == 7_200
    assert len(done) == (1_000 if misfire == "all" else 1)  # the last minute was within its grace
    assert {why for *_, why in skips(tick)} <= {"misfire", "limit", "overlap"}


def test_a_day_of_missed_seconds_is_one_record_without_a_walk(tick: Harness) -> None:
    schedule(tick, every=timedelta(seconds=1), misfire="skip", jitter=timedelta(milliseconds=300))
    down(tick, timedelta(days=365))
    (missed,) = [skip for skip in skips(tick) if skip[3] == "misfire"]
    assert missed[2] > 31_535_000
    assert len(tick.log) < 400  # the last minute was within its grace


# --------------------------------------------------------------------------- overlap


def test_skip_records_what_meets_a_run_in_flight(tick: Harness) -> None:
    schedule(tick)
    tick.advance(25 * MINUTE)
    assert out(tick) == [at(tick, 10)]
    assert skips(tick) == [(at(tick, 20), at(tick, 20), 1, "overlap")]
    finish_all(tick)
    tick.advance(5 * MINUTE)
    assert out(tick) == [at(tick, 30)]
    assert tick.work()[0].skipped == 1


def test_an_occurrence_that_waits_for_its_next_attempt_is_in_flight(tick: Harness) -> None:
    schedule(tick)
    tick.advance(10 * MINUTE)
    take(tick).fail(retry_ms=15 * 60_000)
    tick.advance(10 * MINUTE)
    assert skips(tick) == [(at(tick, 20), at(tick, 20), 1, "overlap")]
    tick.advance(5 * MINUTE)
    (work,) = tick.work()
    assert (work.occurrence_ts, work.attempt) == (at(tick, 10), 2)


def test_allow_dispatches_it_beside_the_others_up_to_a_limit(tick: Harness) -> None:
    schedule(tick, overlap="allow", every=timedelta(seconds=1))
    tick.advance(timedelta(seconds=103))
    assert len(out(tick)) == 100
    assert [why for *_, why in skips(tick)] == ["limit"] * 3


def test_queue_dispatches_it_when_the_one_in_flight_ends(tick: Harness) -> None:
    schedule(tick, overlap="queue")
    tick.advance(30 * MINUTE)
    assert out(tick) == [at(tick, 10)]
    run = take(tick)
    run.fail(retry_ms=0)
    tick.tick()
    assert out(tick) == [at(tick, 10)]  # its second attempt comes first
    assert finish_all(tick) == [at(tick, 10), at(tick, 20), at(tick, 30)]
    assert not skips(tick)


def test_queue_keeps_sixteen_and_records_the_rest(tick: Harness) -> None:
    schedule(tick, overlap="queue")
    tick.advance(200 * MINUTE)
    assert [count for _, _, count, why in skips(tick) if why == "limit"] == [1, 1, 1]
    assert len(finish_all(tick)) == 17


def test_cancel_running_asks_the_one_in_flight_to_stop_and_goes_on(tick: Harness) -> None:
    schedule(tick, overlap="cancel_running", lease=HOUR)
    tick.advance(10 * MINUTE)
    first = tick.worker(app).claim()
    tick.advance(10 * MINUTE)
    assert out(tick) == [at(tick, 20)]
    assert [(s.run_id, s.kind.value) for s in tick.signals] == [(first.run_id, "CANCELLED")]
    first.fail("Cancelled: asked to stop")
    tick.advance(5 * MINUTE)
    assert out(tick) == [at(tick, 20)]  # what was asked to stop is not tried again
    assert [h.occurrence_ts for h in ended(tick, Outcome.DEAD)] == [at(tick, 10)]


def test_cancel_running_tells_a_run_that_is_claimed_too_late_as_well(tick: Harness) -> None:
    schedule(tick, overlap="cancel_running")
    tick.advance(20 * MINUTE)
    run = tick.worker(app).claim()
    assert run.work.occurrence_ts == at(tick, 10)
    assert [s.run_id for s in tick.signals] == [run.run_id]


def test_cancel_running_calls_off_an_attempt_that_is_only_waited_for(tick: Harness) -> None:
    schedule(tick, overlap="cancel_running")
    tick.advance(10 * MINUTE)
    take(tick).fail(retry_ms=3_600_000)
    tick.advance(10 * MINUTE)
    assert [h.occurrence_ts for h in ended(tick, Outcome.CANCELLED)] == [at(tick, 10)]
    tick.advance(2 * HOUR)
    assert {w.attempt for w in tick.work()} == {1}


# --------------------------------------------------------------------------- pause


@pytest.mark.parametrize(
    ("misfire", "work", "skipped"),
    [("latest", [30], [(10, 20, 2)]), ("all", [10, 20, 30], []), ("skip", [], [(10, 30, 3)])],
)
def test_what_falls_due_during_a_pause_is_missed(
    tick: Harness, misfire: str, work: list[int], skipped: list[tuple[int, int, int]]
) -> None:
    schedule(tick, misfire=misfire)
    tick.client.pause("t")
    tick.advance(35 * MINUTE)
    assert not out(tick)
    assert not skips(tick)
    tick.client.resume("t")
    assert skips(tick) == [(at(tick, a), at(tick, b), n, "pause") for a, b, n in skipped]
    assert finish_all(tick) == [at(tick, minute) for minute in work]
    tick.advance(5 * MINUTE)
    assert out(tick) == [at(tick, 40)]


def test_a_pause_lets_further_attempts_go_on(tick: Harness) -> None:
    schedule(tick)
    tick.advance(10 * MINUTE)
    take(tick).fail(retry_ms=60_000)
    tick.client.pause("t")
    tick.advance(2 * MINUTE)
    (work,) = tick.work()
    assert (work.occurrence_ts, work.attempt) == (at(tick, 10), 2)


def test_what_waits_for_a_run_waits_for_the_pause_too(tick: Harness) -> None:
    schedule(tick, overlap="queue")
    tick.advance(20 * MINUTE)
    tick.client.pause("t")
    assert finish_all(tick) == [at(tick, 10)]
    tick.client.resume("t")
    assert finish_all(tick) == [at(tick, 20)]


def test_a_paused_queue_keeps_occurrences_and_then_the_misfire_policy_counts(tick: Harness) -> None:
    schedule(tick)
    tick.client.queues.pause("default")
    tick.advance(35 * MINUTE)
    assert not out(tick)
    assert tick.phase("t") is Phase.HELD
    tick.client.queues.resume("default")
    assert skips(tick) == [(at(tick, 10), at(tick, 20), 2, "gate")]
    assert out(tick) == [at(tick, 30)]


def test_what_waits_for_a_run_waits_at_a_gate_too(tick: Harness) -> None:
    schedule(tick, overlap="queue")
    tick.advance(20 * MINUTE)
    tick.client.queues.pause("default")
    run = take(tick)
    run.succeed()
    tick.advance(15 * MINUTE)
    assert not out(tick)
    tick.client.queues.resume("default")
    assert out(tick) == [at(tick, 20)]
    assert finish_all(tick) == [at(tick, 20), at(tick, 30)]


# --------------------------------------------------------------------------- other commands


def test_a_cancel_ends_it_all_and_no_attempt_follows(tick: Harness) -> None:
    schedule(tick)
    tick.advance(10 * MINUTE)
    run = take(tick)
    verdict = tick.client.cancel("t")
    assert (verdict.kind, verdict.in_flight) == (VerdictKind.CANCELLED, (at(tick, 10),))
    run.fail()
    tick.advance(timedelta(days=1))
    assert not out(tick)
    assert [h.occurrence_ts for h in ended(tick, Outcome.CANCELLED)] == [at(tick, 20)]
    assert tick.phase("t") is None


def test_a_cancel_calls_off_every_attempt_that_is_waited_for(tick: Harness) -> None:
    schedule(tick, overlap="allow")
    tick.advance(20 * MINUTE)
    for _ in range(2):
        take(tick).fail(retry_ms=3_600_000)
    tick.client.cancel("t")
    assert [h.occurrence_ts for h in ended(tick, Outcome.CANCELLED)] == [at(tick, n) for n in (10, 20, 30)]
    tick.advance(2 * HOUR)
    assert not out(tick)


def test_what_fell_due_before_a_cancel_is_recorded(tick: Harness) -> None:
    schedule(tick)
    tick.clock.advance(25 * 60_000)
    assert tick.client.cancel("t").kind is VerdictKind.CANCELLED
    assert skips(tick) == [(at(tick, 10), at(tick, 20), 2, "cancelled")]
    assert [h.occurrence_ts for h in ended(tick, Outcome.CANCELLED)] == [at(tick, 30)]


def test_what_waits_for_a_run_is_recorded_when_the_task_is_cancelled(tick: Harness) -> None:
    schedule(tick, overlap="queue")
    tick.advance(20 * MINUTE)
    tick.client.cancel("t")
    assert skips(tick) == [(at(tick, 20), at(tick, 20), 1, "cancelled")]
    assert finish_all(tick) == [at(tick, 10)]


def test_the_same_definition_again_loses_nothing_that_is_due(tick: Harness) -> None:
    """As at a deployment that meets the instant itself."""
    schedule(tick)
    tick.clock.advance(10 * 60_000)
    schedule(tick)
    assert out(tick) == [at(tick, 10)]
    assert not skips(tick)


def test_another_definition_records_what_was_due_and_goes_on_from_there(tick: Harness) -> None:
    schedule(tick)
    tick.clock.advance(25 * 60_000)
    schedule(tick, every=15 * MINUTE)
    assert skips(tick) == [(at(tick, 10), at(tick, 20), 2, "replaced")]
    tick.advance(5 * MINUTE)
    assert out(tick) == [at(tick, 30)]


def test_an_attempt_of_an_older_definition_is_not_made(tick: Harness) -> None:
    schedule(tick)
    tick.advance(10 * MINUTE)
    take(tick).fail(retry_ms=5 * 60_000)
    schedule(tick, every=20 * MINUTE)
    assert [h.occurrence_ts for h in ended(tick, Outcome.CANCELLED)] == [at(tick, 10)]
    tick.advance(9 * MINUTE)
    assert not out(tick)


def test_a_run_of_an_older_definition_is_still_in_flight(tick: Harness) -> None:
    schedule(tick)
    tick.advance(10 * MINUTE)
    schedule(tick, every=5 * MINUTE)
    tick.advance(5 * MINUTE)
    assert out(tick) == [at(tick, 10)]
    assert skips(tick) == [(at(tick, 15), at(tick, 15), 1, "overlap")]


def test_no_occurrence_comes_twice_whatever_is_asked(tick: Harness) -> None:
    schedule(tick, "t")
    tick.advance(10 * MINUTE)
    finish_all(tick)
    schedule(tick, every=5 * MINUTE)
    schedule(tick, every=10 * MINUTE)
    tick.advance(HOUR)
    assert finish_all(tick) == [at(tick, 20)]
    assert len({h.occurrence_ts for h in tick.history}) == len(tick.history)


def test_trigger_is_a_run_of_its_own(tick: Harness) -> None:
    schedule(tick, overlap="queue")
    tick.advance(5 * MINUTE)
    tick.client.trigger("t")
    tick.advance(5 * MINUTE)
    assert len(out(tick)) == 1
    assert finish_all(tick)[-1] == at(tick, 10)


@pytest.mark.parametrize("asked", [{"every": 10 * MINUTE}, {"cron": "*/10 * * * *"}])
def test_a_trigger_takes_no_instant_at_which_an_occurrence_still_waits(
    tick: Harness, asked: dict[str, Any]
) -> None:
    schedule(tick, misfire="all", overlap="allow", **asked)
    tick.client.queues.pause("default")
    tick.advance(10 * MINUTE)
    # The very millisecond of the second one, while it waits behind the first.
    tick.clock.advance(at(tick, 20) - tick.clock.wall_ms())
    answer = tick.client.trigger("t")
    (work,) = tick.work()
    assert (work.occurrence_ts, work.not_before_ms) == (at(tick, 20) + 1, at(tick, 20) + 1)
    assert answer.occurrence_ts == work.occurrence_ts
    tick.client.queues.resume("default")
    tick.advance(MINUTE)
    assert sorted(finish_all(tick)) == [at(tick, 10), at(tick, 20), at(tick, 20) + 1]


def test_a_once_task_may_take_the_place_of_one_that_recurs(tick: Harness) -> None:
    schedule(tick)
    tick.client.schedule("t", run_at=tick.now + HOUR, payload=b"", handler="h")
    tick.advance(2 * HOUR)
    assert len(finish_all(tick)) == 1
    assert tick.phase("t") is Phase.SUCCEEDED


# --------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"cron": "61 * * * *"}, InvalidSchedule),
        ({"rrule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "start": "2027-01-01"}, NeverOccurs),
        ({"rrule": "FREQ=DAILY"}, InvalidSchedule),
        ({"rrule": "FREQ=SOMETIMES", "start": "2027-01-01"}, InvalidSchedule),
        ({"rrule": "FREQ=DAILY", "start": datetime(2027, 1, 1)}, NaiveDatetime),
        ({"cron": "0 2 * * *", "zone": "Mars/Olympus"}, UnknownZone),
        ({"cron": "0 2 * * *", "every": HOUR}, InvalidInput),
        ({"zone": "Europe/Berlin"}, InvalidInput),
        ({"every": timedelta(microseconds=1500)}, InvalidSchedule),
        ({"every": timedelta(0)}, InvalidSchedule),
        ({"every": HOUR, "misfire": "sometimes"}, InvalidInput),
        ({"every": HOUR, "gap": "jump"}, InvalidSchedule),
        ({"every": HOUR, "rdate": ["2027-01-01"]}, InvalidInput),
        ({"every": HOUR, "run_at_ts": 1}, InvalidInput),
        ({"rrule": "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=1;COUNT=20000", "start": "2027-01-01"}, InvalidSchedule),
    ],
)
def test_a_schedule_that_cannot_be_is_refused_before_it_is_sent(
    tick: Harness, asked: dict[str, Any], error: type[InvalidInput]
) -> None:
    with pytest.raises(error):
        tick.client.schedule("t", payload=b"", handler="h", **asked)
    assert not tick.log


def test_a_dispatcher_refuses_what_a_client_let_through(tick: Harness) -> None:
    good = recurring(cron="0 2 * * *")
    for bad, why in [
        (good._replace(rule="0 0 0 0 0"), "bad day"),
        (good._replace(zone="Mars/Olympus"), "not in the tz database"),
        (good._replace(gap="jump"), "is one of shift"),
        (good._replace(end_ms=tick.clock.wall_ms()), "has ended"),
    ]:
        verdict = tick.send(_command(tick, bad))
        assert verdict.kind is VerdictKind.REJECTED
        assert why in verdict.detail


def _command(tick: Harness, recurrence: Recurrence) -> Command:
    body = encode_body(Body("h", b"", {}, {}))
    options = Options(recurrence=recurrence)
    return Command(tick.new_id(), Verb.SCHEDULE, "t", NEVER, "default", options, body)


def test_an_unknown_argument_is_an_error_of_the_caller(tick: Harness) -> None:
    with pytest.raises(TypeError, match="evry"):
        tick.client.schedule("t", payload=b"", evry=HOUR)  # type: ignore[call-arg]


def test_a_start_in_a_zone_brings_the_zone(tick: Harness) -> None:
    from zoneinfo import ZoneInfo

    start = datetime(2027, 3, 28, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    made = recurring(rrule="FREQ=YEARLY", start=start)
    assert (made.zone, made.start) == ("Europe/Berlin", "2027-03-28T02:30:00")
    other = recurring(rrule="FREQ=YEARLY", start=start, zone="America/New_York")
    assert other.start == "2027-03-27T21:30:00"


def test_a_preview_says_what_a_change_of_clocks_does(tick: Harness) -> None:
    after = datetime(2027, 3, 13, 12, tzinfo=UTC)
    (line,) = tick.client.preview(cron="30 2 * * *", zone="America/New_York", after=after, count=1)
    assert line.utc == "2027-03-14T07:30:00Z"
    assert line.change == "gap"


def test_what_falls_due_after_a_cancel_was_accepted_is_not_skipped() -> None:
    # A definition sent right behind it may name that instant anew: recorded as skipped, it would end twice.
    rule = Recurrence(RecurrenceKind.EVERY, start_ms=1_000_000, interval_ms=60_000)
    command = Command(bytes(16), Verb.SCHEDULE, "t", NEVER, "default", Options(recurrence=rule), b"")
    rules = Rules(EngineSettings(), frozenset({"default"}))
    asked = Sent(command, encode_command(command), Rev(0, 0), 990_000)
    task = apply_command(NO_TASK, asked, 990_000, rules).task
    cancel = command._replace(command_id=bytes(15) + b"1", verb=Verb.CANCEL, options=Options())
    decision = apply_command(task, Sent(cancel, b"", Rev(1, 0), 1_030_000), 1_150_000, rules)
    assert [(end.outcome, end.occurrence_ts, end.through_ts) for end in decision.also_ended] == [
        (Outcome.SKIPPED, 1_000_000, NEVER),
        (Outcome.CANCELLED, 1_060_000, NEVER),
    ]


def test_an_instant_at_which_the_task_is_defined_anew_is_the_new_definitions(tick: Harness) -> None:
    schedule(tick)
    tick.clock.advance(at(tick, 10) - tick.clock.wall_ms())
    schedule(tick, overlap="queue", start=tick.now)
    tick.tick()
    assert finish_all(tick) == [at(tick, 10)]
    assert not skips(tick)
