"""Newer zone data, told as stories on the harness: what moves, what stays, and that nothing runs twice or never."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from tests.zone_releases import ZONE, instant, release
from tickstream import App
from tickstream.dispatcher.moving import is_moving, taken_over
from tickstream.model import NEVER, History, InputPosition, Outcome, Phase, Progress, VerdictKind
from tickstream.recurrence.zone_data import Release
from tickstream.testing import Harness

app: Final = App()
MIDDLE: Final = release("2026a", "America/New_York")
EARLIER: Final = release("2026b", "America/Halifax")
"""By these, the clock is an hour further: everything comes an hour earlier."""
LATER: Final = release("2026c", "America/Chicago")
WITHOUT: Final = release("2026d", None)
BEGAN: Final = datetime(2027, 6, 1, 12, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)
MINUTE: Final = timedelta(minutes=1)
NY: Final = "America/New_York"


@pytest.fixture
def tick() -> Harness:
    """On the first of June, 08:00 in New York; with the first of the releases."""
    harness = Harness(zones=MIDDLE)
    harness.advance(BEGAN - harness.now)
    return harness


def schedule(tick: Harness, task_id: str = "t", **asked: Any) -> None:
    verdict = tick.client.schedule(task_id, payload=b"", handler="h", zone=ZONE, overlap="allow", **asked)
    assert verdict.kind is VerdictKind.SCHEDULED, verdict


def local(hour: int, minute: int = 0, *, like: str = NY, day: int = 1) -> int:
    return instant(like, datetime(2027, 6, day, hour, minute))


def until(tick: Harness, at_ms: int) -> None:
    tick.advance(timedelta(milliseconds=at_ms - tick.clock.wall_ms()))


def dispatched(tick: Harness) -> list[int]:
    return [work.occurrence_ts for work in tick.work()]


def moved(tick: Harness) -> list[History]:
    return [h for h in tick.history if h.outcome is Outcome.MOVED]


# --------------------------------------------------------------------------- what moves


def test_what_is_to_come_goes_to_its_new_instant_and_history_says_so(tick: Harness) -> None:
    schedule(tick, cron="0 18 * * *")
    tick.take_over(LATER)
    until(tick, local(18))
    assert dispatched(tick) == []
    until(tick, local(18, like="America/Chicago"))
    assert dispatched(tick) == [local(18, like="America/Chicago")]
    (move,) = moved(tick)
    assert (move.occurrence_ts, move.through_ts) == (local(18), local(18, like="America/Chicago"))
    assert move.occurrences == 1
    assert move.error == (
        "tzdata 2026a -> 2026c: 2027-06-01 18:00 in America/Mexico_City moved from 2027-06-01T22:00:00.000Z "
        "to 2027-06-01T23:00:00.000Z"
    )


def test_an_occurrence_that_ran_does_not_run_again_where_it_is_now(tick: Harness) -> None:
    schedule(tick, cron="0 9 * * *")
    until(tick, local(9))
    assert dispatched(tick) == [local(9)]
    tick.take_over(LATER)
    until(tick, local(23))
    assert dispatched(tick) == [local(9)]
    until(tick, local(12, day=2))
    assert dispatched(tick) == [local(9), local(9, like="America/Chicago", day=2)]


def test_what_should_have_been_by_now_is_due_at_once(tick: Harness) -> None:
    schedule(tick, cron="0 18 * * *")
    until(tick, local(17, 30))
    tick.take_over(EARLIER)
    tick.tick()
    assert dispatched(tick) == [local(17)]
    until(tick, local(19))
    assert dispatched(tick) == [local(17)]


def test_what_should_have_been_by_now_goes_by_its_misfire_policy(tick: Harness) -> None:
    schedule(tick, cron="0 18 * * *", misfire="skip")
    until(tick, local(17, 30))
    tick.take_over(EARLIER)
    tick.tick()
    assert dispatched(tick) == []
    (skip,) = [h for h in tick.history if h.outcome is Outcome.SKIPPED]
    assert skip.occurrence_ts == local(17)


def test_occurrences_that_came_to_lie_before_the_last_one_are_counted(tick: Harness) -> None:
    """09:00 ran. By the new data it is 10:20 now: 09:30 was at 08:30, 10:00 at 09:00, and both are over."""
    schedule(tick, rrule="FREQ=DAILY;BYHOUR=9,10,11;BYMINUTE=0,30", start="2027-06-01T09:00:00")
    until(tick, local(9, 20))
    tick.take_over(EARLIER)
    until(tick, local(12))
    assert dispatched(tick) == [local(9), local(9, 30), local(10), local(10, 30)]
    (move,) = moved(tick)
    assert (move.occurrences - 1, move.through_ts) == (2, local(9, 30))
    assert "2 came to lie before the one that had its turn last, and are skipped" in move.error


def test_jitter_is_that_of_the_new_instant(tick: Harness) -> None:
    schedule(tick, cron="0 18 * * *", jitter=10 * MINUTE)
    tick.take_over(LATER)
    until(tick, local(19, 10))
    (work,) = tick.work()
    assert work.occurrence_ts == local(19)
    assert local(19) <= work.decided_ms < local(19, 10)


def test_a_rule_whose_end_is_an_instant_may_be_over(tick: Harness) -> None:
    schedule(tick, rrule="FREQ=DAILY;UNTIL=20270601T220000Z", start="2027-05-30T18:00:00")
    tick.take_over(LATER)
    tick.tick()
    assert tick.phase("t") is Phase.SKIPPED
    (skip,) = tick.history
    assert (skip.outcome, skip.occurrence_ts) == (Outcome.SKIPPED, local(18))
    assert "to no instant any more" in skip.error


# --------------------------------------------------------------------------- what stays


def test_instants_given_in_utc_stay(tick: Harness) -> None:
    schedule(
        tick,
        rrule="FREQ=DAILY;COUNT=1",
        start="2027-06-01T18:00:00",
        rdate=["2027-06-01T19:00:00Z", "2027-06-02T19:00:00Z"],
    )
    tick.take_over(EARLIER)
    until(tick, local(23, day=2))
    stays = [local(15), local(15, day=2)]
    assert dispatched(tick) == [stays[0], local(17), stays[1]]


@pytest.mark.parametrize(
    "asked",
    [
        {"every": 15 * MINUTE},
        {"cron": "*/15 * * * *"},
        {"rrule": "FREQ=HOURLY", "start": "2027-06-01T08:30:00"},
    ],
)
def test_steps_in_elapsed_time_stay(tick: Harness, asked: dict[str, Any]) -> None:
    schedule(tick, **asked)
    until(tick, local(10, 5))
    before = dispatched(tick)
    tick.take_over(EARLIER)
    until(tick, local(12, 5))
    step = before[-1] - before[-2]
    assert dispatched(tick) == list(range(before[0], local(12, 5), step))
    assert not moved(tick)


def test_a_zone_that_did_not_change_leaves_no_trace(tick: Harness) -> None:
    schedule(tick, cron="0 18 * * *")
    records = len(tick.log)
    tick.take_over(release("2026z", NY))
    tick.tick()
    assert not tick.history
    assert [r.key for r in tick.log[records:] if r.key != b"p"] == []


def test_what_waits_for_its_turn_has_had_it(tick: Harness) -> None:
    """Overlap queue: 09:00 is in flight, 09:30 waits. Neither goes anywhere; 10:00 does."""
    tick.client.schedule(
        "t", payload=b"", handler="h", zone=ZONE, overlap="queue", cron="0,30 9-10 * * *", subday="wall"
    )
    until(tick, local(9, 40))
    tick.take_over(LATER)
    first = tick.worker(app).take()
    first.succeed()
    tick.tick()
    until(tick, local(10, 59))
    second = tick.worker(app).take()
    assert (first.work.occurrence_ts, second.work.occurrence_ts) == (local(9), local(9, 30))
    second.succeed()
    until(tick, local(11))
    assert dispatched(tick) == [local(10, like="America/Chicago")]


def test_a_run_in_flight_ends_under_its_own_instant(tick: Harness) -> None:
    schedule(tick, cron="0 9 * * *")
    until(tick, local(9))
    run = tick.worker(app).take()
    tick.take_over(LATER)
    tick.tick()
    run.succeed()
    (done,) = [h for h in tick.history if h.outcome is Outcome.SUCCEEDED]
    assert done.occurrence_ts == local(9)


# --------------------------------------------------------------------------- paused, held, faulted


def test_a_paused_task_moves_and_stays_paused(tick: Harness) -> None:
    schedule(tick, cron="0 18 * * *")
    tick.client.pause("t")
    tick.take_over(LATER)
    tick.tick()
    assert tick.phase("t") is Phase.PAUSED
    tick.client.resume("t")
    until(tick, local(20))
    assert dispatched(tick) == [local(19)]


def test_what_waits_at_a_gate_leaves_it_when_it_is_not_due_any_more(tick: Harness) -> None:
    schedule(tick, cron="0 9 * * *")
    tick.client.queues.pause()
    until(tick, local(9, 1))
    assert tick.phase("t") is Phase.HELD
    tick.take_over(LATER)
    tick.tick()
    assert tick.phase("t") is Phase.SCHEDULED
    tick.client.queues.resume()
    until(tick, local(11))
    assert dispatched(tick) == [local(10)]


def test_a_zone_that_is_gone_faults_its_tasks_and_no_others(tick: Harness) -> None:
    schedule(tick, cron="0 18 * * *")
    tick.client.schedule("other", payload=b"", handler="h", cron="0 18 * * *", zone=NY)
    tick.take_over(WITHOUT)
    until(tick, local(18))
    assert tick.phase("t") is Phase.FAULTED
    assert [work.task_id for work in tick.work()] == ["other"]
    (alarm,) = tick.alarms
    assert "'America/Mexico_City' is not in the tz database (2026d)" in alarm
    # A release that has it again, and a person who says so.
    tick.take_over(release("2026e", "America/Chicago"))
    tick.client.resume("t")
    until(tick, local(20))
    assert ("t", local(19)) in [(work.task_id, work.occurrence_ts) for work in tick.work()]


# --------------------------------------------------------------------------- mixed versions


def test_an_older_process_leaves_what_newer_data_placed(tick: Harness) -> None:
    """A rolling upgrade that goes back and forth: each of five days once, by the newest data that were there."""
    schedule(tick, cron="0 18 * * *")
    tick.take_over(LATER)
    tick.tick()
    tick.take_over(MIDDLE)
    until(tick, local(23))
    assert dispatched(tick) == [local(19)]
    assert len(moved(tick)) == 1
    # What follows was reckoned by the older data; the next newer process looks at it again.
    tick.take_over(LATER)
    until(tick, local(23, day=2))
    assert dispatched(tick) == [local(19), local(19, day=2)]
    assert [(m.occurrence_ts, m.through_ts) for m in moved(tick)] == [
        (local(18), local(19)),
        (local(18, day=2), local(19, day=2)),
    ]


def test_a_process_of_a_release_in_between_moves_nothing(tick: Harness) -> None:
    schedule(tick, cron="0 18 * * *")
    tick.take_over(LATER)
    tick.tick()
    tick.take_over(MIDDLE)
    tick.tick()
    tick.take_over(EARLIER)
    until(tick, local(23))
    assert dispatched(tick) == [local(19)]
    assert len(moved(tick)) == 1


def test_progress_never_forgets_what_placed_what() -> None:
    start = InputPosition(bytes(16), 0, 0, NEVER)
    fresh = Progress(start, start, 0, 0, 0, "", 0)
    placed = taken_over(fresh, "2026a")
    assert (placed.tzdata, placed.tzdata_before) == ("2026a", "")
    newer = taken_over(placed, "2026c")
    assert (newer.tzdata, newer.tzdata_before) == ("2026c", "2026a")
    assert is_moving(newer, "2026c")
    assert taken_over(newer, "2026c") == newer
    done = newer._replace(tzdata_before="")
    older = taken_over(done, "2026b")
    assert (older.tzdata, older.tzdata_before) == ("2026c", "2026b")
    assert not is_moving(older, "2026b")
    assert taken_over(older, "2026a").tzdata_before == "2026a"
    assert is_moving(taken_over(older, "2026c"), "2026c")


def test_releases_have_an_order() -> None:
    names = ["2019c", "2020a", "2020f", "2024z", "2024za", "2024zb", "2025a"]
    assert sorted(names, key=Release.of) == names
