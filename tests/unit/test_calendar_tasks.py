"""Events of a calendar as tasks: their time is checked when they are accepted, and their occurrences run."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tickstream.calendar import (
    Added,
    Details,
    Event,
    Length,
    MemoryOccupancy,
    Override,
    Reminder,
    Status,
    Transparency,
    meeting,
    parse_length,
)
from tickstream.calendar.changes import Change, Scope
from tickstream.calendar.stored import (
    Booking,
    Call,
    OnConflict,
    decode_booking,
    decode_change,
    encode_booking,
    encode_change,
)
from tickstream.clock import moment_of
from tickstream.codec import decode_command, encode_command, encode_spec, encode_state
from tickstream.dispatcher.calendar import move_horizon
from tickstream.dispatcher.decision import Rules, Task
from tickstream.errors import InvalidEvent, MalformedValue
from tickstream.ingest.calendar import Calendar
from tickstream.ingest.request import task_command
from tickstream.model import (
    NEVER,
    Command,
    Outcome,
    Rev,
    RunTerms,
    TaskSpec,
    TaskState,
    Verb,
    Verdict,
    VerdictKind,
    bucket_of,
)
from tickstream.settings import EngineSettings
from tickstream.testing import Harness
from tickstream.testing.harness import BUCKETS
from tickstream.timer_store import BucketMeta, TaskChange, TimerStore
from tickstream.timer_store.busy_time import busy_time_of
from tickstream.timer_store.due import HORIZON_MS, HORIZON_STEP_MS

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@pytest.fixture
def tick() -> Harness:
    return Harness()


@pytest.fixture
def room(tick: Harness) -> Calendar:
    return tick.client.calendar("room-7", zone="Europe/Berlin")


def add(tick: Harness, room: Calendar, uid: str, after: timedelta, **more: Any) -> Verdict:
    """An hour that begins so long from the next full day on, in UTC, unless it says otherwise."""
    given = {"duration": HOUR, "handler": "meet", "payload": b"", **more}
    return room.add(uid, start(tick) + after, **given)


def start(tick: Harness) -> Any:
    return tick.now.replace(hour=0, minute=0, second=0, microsecond=0) + DAY


def test_who_comes_second_gets_the_conflict_and_who_it_is_with(tick: Harness, room: Calendar) -> None:
    assert add(tick, room, "first", 9 * HOUR).kind is VerdictKind.SCHEDULED
    verdict = add(tick, room, "second", 9.5 * HOUR)
    assert verdict.kind is VerdictKind.CONFLICT
    nine = start(tick) + 9 * HOUR
    assert (
        f"({nine + HOUR / 2:%Y-%m-%dT%H:%M:%SZ} to {nine + HOUR:%Y-%m-%dT%H:%M:%SZ}) meets 'first'"
        in verdict.detail
    )
    assert f"its occurrence of {nine:%Y-%m-%dT%H:%M:%SZ}" in verdict.detail
    assert "Europe/Berlin" in verdict.detail
    assert add(tick, room, "third", 10 * HOUR).kind is VerdictKind.SCHEDULED
    # Another calendar knows nothing of it.
    other = tick.client.calendar("room-8")
    assert add(tick, other, "second", 9.5 * HOUR).kind is VerdictKind.SCHEDULED


def test_an_endless_series_says_what_it_is_clear_of(tick: Harness, room: Calendar) -> None:
    verdict = add(tick, room, "daily", 9 * HOUR, rrule="FREQ=DAILY")
    horizon = tick.now + timedelta(milliseconds=HORIZON_MS)
    assert verdict.detail == f"clear until {horizon:%Y-%m-%dT%H:%M:%SZ}"
    assert add(tick, room, "later", 300 * DAY + 9 * HOUR).kind is VerdictKind.CONFLICT


def test_report_takes_it_and_says_so_allow_does_not_look(tick: Harness, room: Calendar) -> None:
    add(tick, room, "first", 9 * HOUR)
    reported = add(tick, room, "second", 9 * HOUR, on_conflict="report")
    assert reported.kind is VerdictKind.SCHEDULED
    assert "meets 'first'" in reported.detail
    assert add(tick, room, "third", 9 * HOUR, on_conflict="allow").detail == ""
    met = add(tick, room, "fourth", 9 * HOUR).detail
    assert [uid in met for uid in ("'first'", "'second'", "'third'")] == [True, True, True]


def test_a_removed_event_gives_its_time_back(tick: Harness, room: Calendar) -> None:
    add(tick, room, "first", 9 * HOUR, rrule="FREQ=WEEKLY")
    assert room.remove("first").kind is VerdictKind.CANCELLED
    assert room.remove("nobody").kind is VerdictKind.UNKNOWN
    assert add(tick, room, "second", 9 * HOUR).kind is VerdictKind.SCHEDULED


def test_a_changed_event_is_not_in_its_own_way_and_gives_back_what_it_leaves(
    tick: Harness, room: Calendar
) -> None:
    add(tick, room, "first", 9 * HOUR, duration=2 * HOUR)
    assert add(tick, room, "first", 10 * HOUR).kind is VerdictKind.REPLACED
    assert add(tick, room, "second", 9 * HOUR).kind is VerdictKind.SCHEDULED
    # Refused: what was stays.
    assert add(tick, room, "second", 10 * HOUR).kind is VerdictKind.CONFLICT
    assert add(tick, room, "third", 9 * HOUR).kind is VerdictKind.CONFLICT


def test_transparent_events_do_not_block_and_tentative_ones_are_marked(tick: Harness, room: Calendar) -> None:
    add(tick, room, "free", 9 * HOUR, transparency="transparent")
    add(tick, room, "maybe", 12 * HOUR, status="tentative")
    assert add(tick, room, "first", 9 * HOUR).kind is VerdictKind.SCHEDULED
    assert "meets 'maybe', tentative" in add(tick, room, "second", 12 * HOUR).detail


def test_an_event_meets_itself(tick: Harness, room: Calendar) -> None:
    verdict = add(tick, room, "long", 9 * HOUR, duration=30 * HOUR, rrule="FREQ=DAILY;COUNT=2")
    assert verdict.kind is VerdictKind.CONFLICT
    assert "meets itself" in verdict.detail


def test_the_time_of_an_event_stays_taken_once_it_has_begun(tick: Harness, room: Calendar) -> None:
    add(tick, room, "first", 9 * HOUR)
    tick.advance(DAY + 9 * HOUR)
    (work,) = tick.work()
    assert work.task_id == "{room-7}first"
    verdict = room.add("second", tick.now + HOUR / 4, duration=HOUR, handler="meet", payload=b"")
    assert verdict.kind is VerdictKind.CONFLICT


def test_changed_occurrences_run_where_they_were_moved_to(tick: Harness, room: Calendar) -> None:
    base = start(tick)

    def utc(after: timedelta) -> str:
        return f"{base + after:%Y-%m-%dT%H:%M:%SZ}"

    moved = Override(utc(DAY + 9 * HOUR), utc(DAY + 15 * HOUR))
    gone = Override(utc(2 * DAY + 9 * HOUR), status=Status.CANCELLED)
    longer = Override(utc(3 * DAY + 9 * HOUR), length=parse_length("PT2H"))
    add(tick, room, "daily", 9 * HOUR, rrule="FREQ=DAILY;COUNT=4", overrides=(moved, gone, longer))
    tick.advance(6 * DAY)
    ran = [(moment_of(work.occurrence_ts) - base, moment_of(work.decided_ms) - base) for work in tick.work()]
    # Each under the start that the rule gives it, at the one that it was moved to.
    assert ran == [
        (9 * HOUR, 9 * HOUR),
        (DAY + 9 * HOUR, DAY + 15 * HOUR),
        (3 * DAY + 9 * HOUR, 3 * DAY + 9 * HOUR),
    ]


def test_the_horizon_is_moved_on_as_time_passes(tick: Harness, room: Calendar) -> None:
    add(tick, room, "weekly", 9 * HOUR, rrule="FREQ=WEEKLY")
    far = 406 * DAY + 9 * HOUR  # a week's multiple, beyond the first horizon
    assert add(tick, room, "early", far).kind is VerdictKind.SCHEDULED
    room.remove("early")
    base = start(tick)
    tick.advance(31 * DAY)
    late = room.add("late", base + far, duration=HOUR, handler="meet", payload=b"")
    assert late.kind is VerdictKind.CONFLICT


def test_a_conflict_that_the_horizon_comes_upon_is_recorded_once(tick: Harness, room: Calendar) -> None:
    add(tick, room, "weekly", 9 * HOUR, rrule="FREQ=WEEKLY")
    add(tick, room, "careless", 10 * HOUR, rrule="FREQ=WEEKLY", on_conflict="allow")
    first, second = (base + 9.25 * HOUR for base in (start(tick) + 406 * DAY, start(tick) + 420 * DAY))
    far = room.add("far", first, duration=HOUR, rdate=[second])
    assert far.kind is VerdictKind.SCHEDULED  # nobody's time is kept so far ahead
    tick.advance(90 * DAY)
    found = [h for h in tick.history if h.outcome is Outcome.CONFLICT]
    # Of every two the one that comes there second finds it; who does not look finds nothing, and is found.
    assert [(h.task_id, moment_of(h.occurrence_ts), h.attempt) for h in found] == [
        ("{room-7}far", first, 0),
        ("{room-7}far", second, 0),
        ("{room-7}weekly", first - HOUR / 4, 0),
        ("{room-7}weekly", second - HOUR / 4, 0),
    ]
    assert ["meets 'careless'" in h.error for h in found] == [True, True, False, False]
    assert ["meets 'far'" in h.error for h in found] == [False, False, True, True]
    assert tick.notices == [
        {
            "event": "conflict_found",
            "bucket": bucket_of(h.task_id, BUCKETS),
            "task_id": h.task_id,
            "occurrence_ts": h.occurrence_ts,
            "reason": h.error,
        }
        for h in found
    ]
    # It was taken, and goes on.
    assert tick.phase("{room-7}weekly") is not None


def test_an_older_sequence_changes_nothing(tick: Harness, room: Calendar) -> None:
    add(tick, room, "first", 9 * HOUR, sequence=2)
    older = add(tick, room, "first", 12 * HOUR, sequence=1)
    assert older.kind is VerdictKind.REJECTED
    assert older.detail == "SEQUENCE 1 is older than the calendar's 2; give sequence=2 or more"
    assert add(tick, room, "first", 12 * HOUR, sequence=2).kind is VerdictKind.REPLACED


def test_an_event_is_changed_in_its_calendar_only(tick: Harness, room: Calendar) -> None:
    add(tick, room, "first", 9 * HOUR)
    command = task_command(b"x" * 16, Verb.RESCHEDULE, "{room-7}first", tick.clock.wall_ms() + 10**7)
    assert "change it in its calendar" in tick.send(command).detail


def test_what_is_no_event_is_refused(tick: Harness, room: Calendar) -> None:
    with pytest.raises(InvalidEvent, match="braces"):
        tick.client.calendar("{room}")
    with pytest.raises(InvalidEvent, match="remove it"):
        add(tick, room, "x", HOUR, status="cancelled")
    with pytest.raises(InvalidEvent, match="either duration= or end="):
        add(tick, room, "x", HOUR, end=start(tick))
    sent = last_command(tick, room, "first")
    foreign = sent._replace(task_id="{room-7}other", command_id=b"y" * 16)
    assert "the event's id is '{room-7}first'" in tick.send(foreign).detail
    broken = sent._replace(command_id=b"z" * 16, options=sent.options._replace(event=b"nonsense"))
    verdict = tick.send(broken)
    assert (verdict.kind, verdict.detail[:6]) == (VerdictKind.REJECTED, "event:")


def last_command(tick: Harness, room: Calendar, uid: str) -> Command:
    sent: list[Command] = []

    def send(command: Command) -> Verdict:
        sent.append(command)
        return tick.send(command)

    kept = Calendar(room.id, room.zone, room._requests, tick.new_id, send)
    add(tick, kept, uid, 9 * HOUR)
    return sent[-1]


def test_an_event_is_read_back_as_it_was_written() -> None:
    booking = Booking(
        "room-7", "Europe/Berlin", OnConflict.REPORT, Event("u", "2026-06-01", rule="FREQ=DAILY")
    )
    assert decode_booking(encode_booking(booking)) == booking
    with pytest.raises(MalformedValue, match="no calendar event"):
        decode_booking(encode_booking(booking._replace(calendar="{")))


GOLDEN = Path(__file__).parents[1] / "golden" / "v1" / "calendar" / "CalendarEvent.hex"
"""Bytes of a released schema stay readable for ever; apart from the log's own records, which know nothing of calendars."""
BOOKINGS = (
    Booking("room-7", "Europe/Berlin", OnConflict.REPORT, Event("u", "2026-06-01", rule="FREQ=DAILY")),
    Booking(
        "room-7",
        "Europe/Berlin",
        OnConflict.REJECT,
        Event(
            "übung@example",
            "2026-03-02T09:00:00",
            "Europe/Berlin",
            Length(ms=3_600_000),
            "FREQ=WEEKLY;COUNT=9",
            rdate=(Added("2026-03-03T09:00:00"), Added("2026-03-04T09:00:00", Length(days=1))),
            exdate=("2026-03-09T09:00:00",),
            overrides=(
                Override(
                    "2026-03-16T09:00:00",
                    "2026-03-17T10:00:00",
                    "UTC",
                    Length(ms=1),
                    Status.CANCELLED,
                    Transparency.TRANSPARENT,
                    Details("moved"),
                    (Reminder(-600_000, from_end=True),),
                ),
            ),
            status=Status.TENTATIVE,
            sequence=3,
            details=Details("Übung", "room 7", "bring a pen", ("mailto:a@example",)),
            reminders=(Reminder(-900_000),),
            continues="before@example",
            last=1_777_885_200,
        ),
        Call("bulk", b"body", RunTerms(lease_ms=20_000)),
    ),
    Booking(
        "room-7",
        "UTC",
        OnConflict.ALLOW,
        Event("u", "2026-06-01", reminders=(Reminder(-1),)),
        Call("default", b""),
        Reminder(-1),
    ),
)
CHANGES = (
    (Change(Scope.ALL), OnConflict.REJECT),
    (
        Change(
            Scope.FOLLOWING,
            "2026-03-16T09:00:00",
            "2026-03-16T10:00:00",
            "Europe/Berlin",
            Length(days=1, ms=1),
            "FREQ=DAILY",
            Status.CANCELLED,
            Transparency.TRANSPARENT,
            "Übung",
            "room 7",
            "bring a pen",
            ("mailto:a@example",),
            (Reminder(-600_000, from_end=True),),
            "after@example",
        ),
        OnConflict.REPORT,
    ),
)


def test_a_booking_has_the_bytes_it_always_had() -> None:
    golden = [bytes.fromhex(line) for line in GOLDEN.read_text().split()]
    assert [encode_booking(booking) for booking in BOOKINGS] == golden
    assert [decode_booking(value) for value in golden] == list(BOOKINGS)


def test_a_change_has_the_bytes_it_always_had() -> None:
    golden = [bytes.fromhex(line) for line in GOLDEN.with_name("CalendarChange.hex").read_text().split()]
    assert [encode_change(*change) for change in CHANGES] == golden
    assert [decode_change(value) for value in golden] == list(CHANGES)
    with pytest.raises(MalformedValue, match="no change"):
        decode_change(encode_change(Change(Scope.ALL, status="gone"), OnConflict.REJECT))  # type: ignore[arg-type]


# --------------------------------------------------------------------------- in the store


def task_of(command: Command, offset: int, busy_until_ms: int) -> Task:
    rev = Rev(offset, 0)
    state = TaskState(rev, 10**13, NEVER, (), None, NEVER, ()).with_extras(busy_until_ms=busy_until_ms)
    return Task(TaskSpec(rev, encode_command(command), VerdictKind.SCHEDULED), state)


def test_the_store_derives_busy_time_from_the_task_and_writes_the_difference(
    tick: Harness, room: Calendar, tmp_path: Path
) -> None:
    command = last_command(tick, room, "first")
    weekly = command._replace(options=command.options._replace(event=_weekly(command)))
    until = tick.clock.wall_ms() + HORIZON_MS
    first, rules = task_of(weekly, 1, until), Rules(EngineSettings(), frozenset())
    moved = move_horizon(first, tick.clock.wall_ms() + HORIZON_STEP_MS, rules).task
    nothing = Task(None, None)
    with TimerStore(tmp_path) as store:
        for number, (before, after) in enumerate([(nothing, first), (first, moved), (moved, nothing)]):
            change = TaskChange(
                "{room-7}first",
                *before,
                *after,
                encode_spec(after.spec) if after.spec else None,
                encode_state(after.state) if after.state else None,
            )
            token = store.acquire(3)
            store.apply(3, token, number, [change], BucketMeta(number + 1, b"t" * 16, 0, b""))
            expected = MemoryOccupancy(busy_time_of(*after).stretches)
            wide = (0, 10**14)
            assert meeting(store.occupancy(3, "room-7"), *wide) == meeting(expected, *wide)
    assert len(busy_time_of(*moved).stretches) > len(busy_time_of(*first).stretches) > 50


def test_a_restored_store_has_the_same_busy_time(tick: Harness, room: Calendar, tmp_path: Path) -> None:
    task = task_of(last_command(tick, room, "first"), 1, tick.clock.wall_ms() + HORIZON_MS)
    assert task.spec is not None
    assert task.state is not None
    spec, state = encode_spec(task.spec), encode_state(task.state)
    with TimerStore(tmp_path) as store:
        token = store.acquire(3)
        meta = BucketMeta(1, b"t" * 16, 0, b"")
        store.restore(3, token, 0, {"{room-7}first": {"spec": spec}}, meta)
        assert meeting(store.occupancy(3, "room-7"), 0, 10**14) == ()
        store.restore(3, token, 1, {"{room-7}first": {"state": state}}, meta._replace(next_offset=2))
        assert len(meeting(store.occupancy(3, "room-7"), 0, 10**14)) == 1
        store.restore(
            3, token, 2, {"{room-7}first": {"spec": None, "state": None}}, meta._replace(next_offset=3)
        )
        assert meeting(store.occupancy(3, "room-7"), 0, 10**14) == ()


def _weekly(command: Command) -> bytes:
    booking = decode_booking(decode_command(encode_command(command)).options.event)
    event = booking.event
    return encode_booking(
        booking._replace(event=Event(event.uid, event.start, event.zone, event.length, "FREQ=WEEKLY"))
    )
