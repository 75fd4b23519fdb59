"""Changes to a calendar's events: one occurrence, one and those that follow, all; and what runs then."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from tickstream.calendar import Override, Status
from tickstream.calendar.stored import decode_booking
from tickstream.clock import moment_of
from tickstream.codec import decode_command, encode_spec
from tickstream.errors import InvalidEvent, InvalidInput
from tickstream.ingest.calendar import Calendar
from tickstream.model import BoundCall, Outcome, Phase, Verdict, VerdictKind, bucket_of
from tickstream.projection.fold import live_rows
from tickstream.projection.steps import definition_of
from tickstream.testing import Harness
from tickstream.testing.harness import BUCKETS

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@pytest.fixture
def tick() -> Harness:
    return Harness()


@pytest.fixture
def room(tick: Harness) -> Calendar:
    return tick.client.calendar("room-7", zone="Europe/Berlin")


@pytest.fixture
def midnight(tick: Harness) -> datetime:
    """The next one, in UTC: day 0."""
    return tick.now.replace(hour=0, minute=0, second=0, microsecond=0) + DAY


def daily(room: Calendar, midnight: datetime, **more: Any) -> Verdict:
    """At 9:00 UTC, for an hour, from day 0 on."""
    given: dict[str, Any] = {
        "duration": HOUR,
        "handler": "meet",
        "payload": b"",
        "rrule": "FREQ=DAILY;COUNT=6",
        **more,
    }
    return room.add("daily", midnight + 9 * HOUR, **given)


def runs(tick: Harness, midnight: datetime) -> list[tuple[str, float, float]]:
    """Of each run so far: uid, and hours since day 0 of its identity and of its dispatch."""
    return [
        (
            work.task_id.removeprefix("{room-7}"),
            (moment_of(work.occurrence_ts) - midnight) / HOUR,
            (moment_of(work.decided_ms) - midnight) / HOUR,
        )
        for work in tick.work()
    ]


def booking(tick: Harness, uid: str) -> Any:
    task_id = f"{{room-7}}{uid}"
    spec = tick._timers.spec(bucket_of(task_id, BUCKETS), task_id)
    return None if spec is None else decode_booking(decode_command(spec.command).options.event)


# --------------------------------------------------------------------------- one occurrence


def test_moved_occurrences_run_at_their_new_place_in_its_order_under_their_identity(
    tick: Harness, room: Calendar, midnight: datetime
) -> None:
    daily(room, midnight)
    later = room.move("daily", midnight + DAY + 9 * HOUR, midnight + 3 * DAY + 12 * HOUR)
    earlier = room.move("daily", midnight + 4 * DAY + 9 * HOUR, midnight + 7 * HOUR)
    assert (later.kind, earlier.kind) == (VerdictKind.REPLACED, VerdictKind.REPLACED)
    tick.advance(8 * DAY)
    assert runs(tick, midnight) == [
        ("daily", 4 * 24 + 9, 7),
        ("daily", 9, 9),
        ("daily", 2 * 24 + 9, 2 * 24 + 9),
        ("daily", 3 * 24 + 9, 3 * 24 + 9),
        ("daily", 24 + 9, 3 * 24 + 12),
        ("daily", 5 * 24 + 9, 5 * 24 + 9),
    ]


def test_a_moved_occurrence_takes_its_new_time_and_gives_the_old_one_back(
    tick: Harness, room: Calendar, midnight: datetime
) -> None:
    daily(room, midnight)
    room.add("other", midnight + DAY + 14 * HOUR, duration=HOUR)
    nine = midnight + DAY + 9 * HOUR
    refused = room.move("daily", nine, midnight + DAY + 13.5 * HOUR)
    assert refused.kind is VerdictKind.CONFLICT
    (met,) = refused.conflicts
    assert (met.with_uid, moment_of(met.occurrence_ts), moment_of(met.start_ms)) == (
        "other",
        nine,
        midnight + DAY + 14 * HOUR,
    )
    assert room.move("daily", nine, midnight + DAY + 15 * HOUR).kind is VerdictKind.REPLACED
    assert room.add("x", nine, duration=HOUR).kind is VerdictKind.SCHEDULED
    assert room.add("y", midnight + DAY + 15 * HOUR, duration=HOUR).kind is VerdictKind.CONFLICT
    # It may meet its own series, too.
    assert room.move("daily", nine, midnight + 2 * DAY + 9 * HOUR).kind is VerdictKind.CONFLICT


def test_a_cancelled_occurrence_does_not_run_until_it_is_taken_back(
    tick: Harness, room: Calendar, midnight: datetime
) -> None:
    daily(room, midnight)
    for day in (1, 2):
        assert room.cancel("daily", midnight + day * DAY + 9 * HOUR).kind is VerdictKind.REPLACED
    assert room.add("x", midnight + DAY + 9 * HOUR, duration=HOUR).kind is VerdictKind.SCHEDULED
    again = room.change("daily", occurrence=midnight + 2 * DAY + 9 * HOUR, status="confirmed")
    assert again.kind is VerdictKind.REPLACED
    met = room.change("daily", occurrence=midnight + DAY + 9 * HOUR, status="confirmed")
    assert met.kind is VerdictKind.CONFLICT
    tick.advance(3.5 * DAY)
    assert [at for uid, at, _ in runs(tick, midnight) if uid == "daily"] == [9, 2 * 24 + 9]


def test_what_had_its_turn_is_neither_moved_nor_called_off(
    tick: Harness, room: Calendar, midnight: datetime
) -> None:
    daily(room, midnight)
    tick.advance(DAY + 10 * HOUR)
    nine = midnight + 9 * HOUR
    assert room.move("daily", nine, midnight + 20 * HOUR).kind is VerdictKind.TOO_LATE
    assert room.cancel("daily", nine).kind is VerdictKind.TOO_LATE
    # It may still go on for longer, and have another name.
    assert (
        room.change("daily", occurrence=nine, duration=3 * HOUR, summary="long").kind is VerdictKind.REPLACED
    )
    assert room.add("x", midnight + 11 * HOUR, duration=HOUR).kind is VerdictKind.CONFLICT


def test_an_occurrence_that_ran_early_never_runs_again(
    tick: Harness, room: Calendar, midnight: datetime
) -> None:
    daily(room, midnight)
    last = midnight + 5 * DAY + 9 * HOUR
    room.move("daily", last, midnight + 7 * HOUR)
    tick.advance(midnight + 8 * HOUR - tick.now)
    # Defined anew without the change, it stands in the rule again; it had its turn.
    older = daily(room, midnight)
    assert "SEQUENCE 0 is older than the calendar's 1; give sequence=1 or more" in older.detail
    assert daily(room, midnight, sequence=1).kind is VerdictKind.REPLACED
    room.change("daily", summary="renamed")
    tick.advance(8 * DAY)
    assert sorted(at for _, at, _ in runs(tick, midnight)) == [24 * day + 9 for day in range(6)]


def test_an_occurrence_moved_to_an_instant_that_has_passed_is_recorded_as_skipped(
    tick: Harness, room: Calendar, midnight: datetime
) -> None:
    daily(room, midnight)
    tick.advance(2 * DAY)
    room.move("daily", midnight + 3 * DAY + 9 * HOUR, midnight + 12 * HOUR)
    (skip,) = [h for h in tick.history if h.outcome is Outcome.SKIPPED]
    assert moment_of(skip.occurrence_ts) == midnight + 3 * DAY + 9 * HOUR
    assert skip.error == "moved: to an instant that had passed"
    tick.advance(8 * DAY)
    assert [at for _, at, _ in runs(tick, midnight)] == [24 * day + 9 for day in (0, 1, 2, 4, 5)]


def test_what_is_due_when_another_occurrence_is_changed_still_runs(
    tick: Harness, room: Calendar, midnight: datetime
) -> None:
    daily(room, midnight)
    # The command is applied before what fell due at the same instant.
    tick.clock.advance(int((midnight + 9 * HOUR - tick.now) / timedelta(milliseconds=1)) + 2)
    room.move("daily", midnight + 4 * DAY + 9 * HOUR, midnight + 4 * DAY + 12 * HOUR)
    assert [(at, int(on)) for _, at, on in runs(tick, midnight)] == [(9, 9)]


def test_the_only_occurrence_of_an_event_is_called_off_and_comes_back(
    tick: Harness, room: Calendar, midnight: datetime
) -> None:
    room.add("once", midnight + 9 * HOUR, duration=HOUR)
    assert room.cancel("once", midnight + 9 * HOUR).kind is VerdictKind.REPLACED
    assert room.add("x", midnight + 9 * HOUR, duration=HOUR).kind is VerdictKind.SCHEDULED
    back = room.change("once", occurrence=midnight + 9 * HOUR, status="confirmed", start=midnight + 12 * HOUR)
    assert back.kind is VerdictKind.REPLACED
    tick.advance(3 * DAY)
    took_place = [(h.occurrence_ts, h.at_ms) for h in tick.history if h.task_id == "{room-7}once"]
    assert [(moment_of(at), moment_of(on)) for at, on in took_place] == [
        (midnight + 9 * HOUR, midnight + 12 * HOUR)
    ]
    removed = room.remove("once")
    assert removed.kind is VerdictKind.TOO_LATE
    assert "keeps it no longer" in removed.detail


def test_a_change_of_what_is_not_there_is_refused(tick: Harness, room: Calendar, midnight: datetime) -> None:
    assert room.move("nobody", midnight, midnight + HOUR).kind is VerdictKind.UNKNOWN
    daily(room, midnight)
    nowhere = room.move("daily", midnight + 10 * HOUR, midnight + 11 * HOUR)
    assert (nowhere.kind, "the start that the rule gives it" in nowhere.detail) == (
        VerdictKind.REJECTED,
        True,
    )
    of_one = room.change("daily", occurrence=midnight + 9 * HOUR, rrule="FREQ=DAILY")
    assert "is the series', not one occurrence's" in of_one.detail
    assert "remove it" in room.change("daily", status="cancelled").detail
    tick.client.schedule("{room-7}plain", run_at=midnight, handler="x", payload=b"")
    assert "no calendar's event" in room.change("plain", summary="x").detail
    with pytest.raises(InvalidInput, match="Give occurrence="):
        room.change("daily", and_following=True)
    with pytest.raises(InvalidEvent, match="as the ids of reminders do"):
        room.add("daily~remind-600000", midnight, duration=HOUR)


# --------------------------------------------------------------------------- all, and those that follow


def test_another_start_takes_the_changed_occurrences_along(
    tick: Harness, room: Calendar, midnight: datetime
) -> None:
    local = f"{midnight:%Y-%m-%d}T09:00:00"
    room.add(
        "local",
        local,
        duration=HOUR,
        rrule="FREQ=DAILY;COUNT=4",
        exdate=[f"{midnight + DAY:%Y-%m-%d}T09:00:00"],
    )
    room.change("local", occurrence=f"{midnight + 2 * DAY:%Y-%m-%d}T09:00:00", summary="named")
    assert room.change("local", start=f"{midnight:%Y-%m-%d}T10:30:00").kind is VerdictKind.REPLACED
    event = booking(tick, "local").event
    assert event.exdate == (f"{midnight + DAY:%Y-%m-%d}T10:30:00",)
    assert [o.recurrence_id for o in event.overrides] == [f"{midnight + 2 * DAY:%Y-%m-%d}T10:30:00"]
    assert event.sequence == 2
    assert "or the other way round" in room.change("local", start=midnight.date()).detail


def test_a_change_of_words_alone_is_not_checked(tick: Harness, room: Calendar, midnight: datetime) -> None:
    daily(room, midnight)
    room.add("over", midnight + 9 * HOUR, duration=HOUR, on_conflict="allow")
    renamed = room.change("daily", summary="renamed", location="room 8")
    assert (renamed.kind, renamed.calendar) == (VerdictKind.REPLACED, None)
    assert room.change("daily", duration=2 * HOUR).kind is VerdictKind.CONFLICT
    # One occurrence is checked for itself: that another one meets something is no news.
    assert (
        room.move("daily", midnight + DAY + 9 * HOUR, midnight + DAY + 15 * HOUR).kind is VerdictKind.REPLACED
    )


def test_this_and_following_become_a_series_of_their_own(
    tick: Harness, room: Calendar, midnight: datetime
) -> None:
    daily(room, midnight)
    for day in (0, 4):
        room.move("daily", midnight + day * DAY + 9 * HOUR, midnight + day * DAY + 20 * HOUR)
    verdict = room.change(
        "daily",
        occurrence=midnight + 3 * DAY + 9 * HOUR,
        and_following=True,
        start=midnight + 3 * DAY + 11 * HOUR,
        new_uid="late",
    )
    assert (verdict.kind, verdict.detail) == (VerdictKind.REPLACED, "split: 'late' goes on from there")
    assert (booking(tick, "late").event.continues, booking(tick, "daily").event.continues) == ("daily", "")
    assert room.add("x", midnight + 3 * DAY + 9 * HOUR, duration=HOUR).kind is VerdictKind.SCHEDULED
    assert room.add("y", midnight + 3 * DAY + 11 * HOUR, duration=HOUR).kind is VerdictKind.CONFLICT
    tick.advance(8 * DAY)
    assert [run for run in runs(tick, midnight) if run[0] != "x"] == [
        ("daily", 9, 20),
        ("daily", 24 + 9, 24 + 9),
        ("daily", 2 * 24 + 9, 2 * 24 + 9),
        ("late", 3 * 24 + 11, 3 * 24 + 11),
        ("late", 4 * 24 + 11, 4 * 24 + 20),
        ("late", 5 * 24 + 11, 5 * 24 + 11),
    ]


def test_a_split_that_conflicts_changes_neither_series(
    tick: Harness, room: Calendar, midnight: datetime
) -> None:
    daily(room, midnight)
    room.add("other", midnight + 4 * DAY + 11 * HOUR, duration=HOUR)
    day3 = midnight + 3 * DAY
    split: dict[str, Any] = {"occurrence": day3 + 9 * HOUR, "and_following": True}
    assert room.change("daily", **split, start=day3 + 11 * HOUR).kind is VerdictKind.CONFLICT
    assert room.add("x", day3 + 9 * HOUR, duration=HOUR).kind is VerdictKind.CONFLICT
    assert "in use" in room.change("daily", **split, start=day3 + 8 * HOUR, new_uid="other").detail
    # Half an hour later it meets only where the old series was: that is its own time.
    later = room.change("daily", **split, start=day3 + 9.5 * HOUR)
    assert later.kind is VerdictKind.REPLACED
    first = room.change("daily", occurrence=midnight + 9 * HOUR, and_following=True, start=midnight)
    assert "is the first one" in first.detail


def test_the_rest_of_a_series_is_called_off(tick: Harness, room: Calendar, midnight: datetime) -> None:
    daily(room, midnight, rrule="FREQ=DAILY")
    assert (
        room.cancel("daily", midnight + 2 * DAY + 9 * HOUR, and_following=True).kind is VerdictKind.REPLACED
    )
    assert room.add("x", midnight + 5 * DAY + 9 * HOUR, duration=HOUR).kind is VerdictKind.SCHEDULED
    tick.advance(8 * DAY)
    assert [at for uid, at, _ in runs(tick, midnight) if uid == "daily"] == [9, 24 + 9]


# --------------------------------------------------------------------------- verdicts and the dry run


def test_a_dry_run_says_what_is_met_and_changes_nothing(
    tick: Harness, room: Calendar, midnight: datetime
) -> None:
    daily(room, midnight, status="tentative")
    records, history = len(tick.log), len(tick.history)
    candidate = room.event("x", f"{midnight + DAY:%Y-%m-%d}T09:30:00", duration=2 * HOUR, rrule="FREQ=DAILY")
    verdict = room.conflicts(candidate)
    assert verdict.kind is VerdictKind.CONFLICT
    answer = verdict.calendar
    assert answer is not None
    assert (answer.zone, answer.more, answer.clear_until_ms > 0) == ("Europe/Berlin", False, True)
    met = answer.conflicts[0]
    assert (met.with_uid, met.tentative, met.start_local[11:], met.end_local[11:]) == (
        "daily",
        True,
        moment_of(met.start_ms).astimezone(_berlin()).strftime("%H:%M:%S"),
        moment_of(met.end_ms).astimezone(_berlin()).strftime("%H:%M:%S"),
    )
    free = room.conflicts(room.event("x", midnight + 20 * HOUR, duration=HOUR))
    assert (free.kind, free.conflicts, free.detail) == (VerdictKind.CLEAR, (), "")
    # An event is not in its own way, and nothing has been written but positions.
    assert room.conflicts(room.event("daily", midnight + 9.5 * HOUR, duration=HOUR)).kind is VerdictKind.CLEAR
    assert {record.key for record in tick.log[records:]} == {b"p"}
    assert len(tick.history) == history
    assert room.add("y", candidate.start, duration=HOUR).kind is VerdictKind.CONFLICT


def _berlin() -> Any:
    from zoneinfo import ZoneInfo

    return ZoneInfo("Europe/Berlin")


def test_a_re_sent_command_gets_the_conflicts_that_the_first_one_got(
    tick: Harness, room: Calendar, midnight: datetime
) -> None:
    sent: list[Any] = []
    kept = Calendar(room.id, room.zone, room._requests, tick.new_id, lambda c: sent.append(c) or tick.send(c))
    room.add("other", midnight + 9 * HOUR, duration=HOUR)
    reported = daily(kept, midnight, on_conflict="report")
    assert reported.kind is VerdictKind.SCHEDULED
    refused = kept.move("daily", midnight + DAY + 9 * HOUR, midnight + 9 * HOUR)
    assert [len(v.conflicts) for v in (reported, refused)] == [1, 2]
    for command, verdict in zip(sent, (reported, refused), strict=True):
        again = tick.send(command)
        assert (again.kind, again.calendar, again.detail) == (verdict.kind, verdict.calendar, verdict.detail)


# --------------------------------------------------------------------------- history, reminders


def test_an_event_without_a_handler_is_recorded_at_its_start(
    tick: Harness, room: Calendar, midnight: datetime
) -> None:
    room.add("quiet", midnight + 9 * HOUR, duration=HOUR, rrule="FREQ=DAILY;COUNT=2")
    room.move("quiet", midnight + DAY + 9 * HOUR, midnight + DAY + 11 * HOUR)
    tick.advance(4 * DAY)
    assert tick.work() == ()
    took_place = [
        (h.outcome, h.attempt, moment_of(h.occurrence_ts), moment_of(h.at_ms)) for h in tick.history
    ]
    assert took_place == [
        (Outcome.SUCCEEDED, 0, midnight + 9 * HOUR, midnight + 9 * HOUR),
        (Outcome.SUCCEEDED, 0, midnight + DAY + 9 * HOUR, midnight + DAY + 11 * HOUR),
    ]
    with pytest.raises(InvalidInput, match="give call= or handler="):
        room.add("x", midnight, payload=b"")


PING = BoundCall("ping", "default", b"ring")


def test_reminders_run_before_the_start_and_the_occurrence_keeps_it(
    tick: Harness, room: Calendar, midnight: datetime
) -> None:
    daily(room, midnight, rrule="FREQ=DAILY;COUNT=3", reminders=[HOUR / 6, 2 * HOUR], remind=PING)
    room.move("daily", midnight + DAY + 9 * HOUR, midnight + DAY + 12 * HOUR)
    room.cancel("daily", midnight + 2 * DAY + 9 * HOUR)
    tick.advance(4 * DAY)
    assert [(uid, at, round(on, 2)) for uid, at, on in runs(tick, midnight)] == [
        ("daily~remind-7200000", 9, 7),
        ("daily~remind-600000", 9, 8.83),
        ("daily", 9, 9),
        ("daily~remind-7200000", 33, 34),
        ("daily~remind-600000", 33, 35.83),
        ("daily", 33, 36),
    ]


def test_reminders_follow_their_series(tick: Harness, room: Calendar, midnight: datetime) -> None:
    daily(room, midnight, reminders=[HOUR], remind=PING, call=None)
    tick.advance(DAY + 8.5 * HOUR)  # the first reminder was, its occurrence is to come
    room.change("daily", start=midnight + 10 * HOUR)
    tick.advance(DAY)  # two hours before the second is past by now
    room.change("daily", reminders=[2 * HOUR])
    tick.advance(DAY)
    room.remove("daily")
    tick.advance(5 * DAY)
    day = {uid: [(at, on) for name, at, on in runs(tick, midnight) if name == uid] for uid in ("daily~remind-3600000", "daily~remind-7200000")}  # fmt: skip
    assert day == {
        "daily~remind-3600000": [(9, 8), (10, 9)],
        "daily~remind-7200000": [(58, 56)],
    }


def test_a_split_takes_the_reminders_along(tick: Harness, room: Calendar, midnight: datetime) -> None:
    daily(room, midnight, rrule="FREQ=DAILY;COUNT=4", reminders=[HOUR], remind=PING)
    room.change(
        "daily", occurrence=midnight + 2 * DAY + 9 * HOUR, and_following=True, start=midnight + 2 * DAY + 12 * HOUR, new_uid="late"
    )  # fmt: skip
    tick.advance(6 * DAY)
    reminded = [(uid, on) for uid, _, on in runs(tick, midnight) if "~" in uid]
    assert reminded == [
        ("daily~remind-3600000", 8),
        ("daily~remind-3600000", 32),
        ("late~remind-3600000", 59),
        ("late~remind-3600000", 83),
    ]


def test_a_reminder_of_one_occurrence_alone(tick: Harness, room: Calendar, midnight: datetime) -> None:
    daily(room, midnight, rrule="FREQ=DAILY;COUNT=3", reminders=[HOUR])
    room.change("daily", occurrence=midnight + DAY + 9 * HOUR, reminders=[3 * HOUR])
    tick.advance(5 * DAY)
    told = [(h.task_id.partition("~")[2], (moment_of(h.at_ms) - midnight) / HOUR) for h in tick.history]
    assert told == [("remind-3600000", 8), ("remind-10800000", 30), ("remind-3600000", 56)]


def test_an_imported_change_is_one(tick: Harness, room: Calendar, midnight: datetime) -> None:
    """A whole event that is put again, with its changes in it, comes to the same as a command for each."""
    daily(room, midnight)
    moved = Override(
        f"{midnight + DAY + 9 * HOUR:%Y-%m-%dT%H:%M:%SZ}", f"{midnight + 11 * HOUR:%Y-%m-%dT%H:%M:%SZ}"
    )
    gone = Override(f"{midnight + 2 * DAY + 9 * HOUR:%Y-%m-%dT%H:%M:%SZ}", status=Status.CANCELLED)
    assert daily(room, midnight, overrides=[moved, gone]).kind is VerdictKind.REPLACED
    tick.advance(4.5 * DAY)
    assert [(at, on) for _, at, on in runs(tick, midnight)] == [(9, 9), (33, 11), (81, 81)]


def test_a_dashboard_lists_a_moved_occurrence_where_it_will_run(
    tick: Harness, room: Calendar, midnight: datetime
) -> None:
    daily(room, midnight, reminders=[HOUR])
    room.move("daily", midnight + DAY + 9 * HOUR, midnight + 3 * DAY + 8 * HOUR)
    tick.advance(midnight + 2 * DAY + 10 * HOUR - tick.now)
    rows, event = listed(tick, "{room-7}daily")
    # Next is what was moved; it is not overdue since its old day.
    assert [(at - midnight) / HOUR for at in rows] == [3 * 24 + 8, 3 * 24 + 9]
    assert decode_booking(event).event.uid == "daily"
    rows, event = listed(tick, "{room-7}daily~remind-3600000")
    assert event == b""  # no event of its own: it takes no time
    assert (rows[0] - midnight) / HOUR == 24 + 9


def listed(tick: Harness, task_id: str) -> tuple[list[datetime], bytes]:
    """The instants at which a task stands in the listing, and the event that it is."""
    bucket = bucket_of(task_id, BUCKETS)
    spec, state = tick._timers.spec(bucket, task_id), tick._timers.state(bucket, task_id)
    assert spec is not None
    definition, event = definition_of(encode_spec(spec))
    waiting = [
        at for at, row in live_rows(task_id, definition, state, {})[0].items() if row.state is Phase.SCHEDULED
    ]
    return sorted(map(moment_of, waiting)), event
