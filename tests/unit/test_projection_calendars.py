"""Calendars in the HTTP API: what takes place, what wants the same time, free and busy; in one index and over two shards."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.projection_log import LogWriter
from tests.unit.projection_index import fold_in, new_index
from tests.unit.test_calendar_listing import BERLIN, at
from tests.unit.test_projection_api import FixedClock
from tests.unit.test_projection_shards import Inside
from tickstream.calendar import Event, Override, Reminder, Slot, Status, Stretch, Transparency, parse_length
from tickstream.calendar.stored import Booking, OnConflict, decode_booking
from tickstream.calendar.values import Details
from tickstream.codec import SPEC, timers_key
from tickstream.errors import InvalidInput
from tickstream.ingest.agenda import CalendarReader, free_busy
from tickstream.ingest.dashboard import Dashboard
from tickstream.model import bucket_of
from tickstream.projection.api import create_app
from tickstream.projection.front import Shards, create_front
from tickstream.projection.index import Identity, IndexWriter
from tickstream.projection.reader import IndexReader

STAMP = 1_764_500_000_000
MONDAY = "2026-12-07T00:00:00"
WEEK = {"start": at(MONDAY), "end": at("2026-12-14T00:00:00")}
HOSTILE = "<img src=x onerror=alert(1)>"


def booked(calendar: str, uid: str, start: str, length: str = "PT1H", **more: Any) -> Booking:
    zone = None if "T" not in start else BERLIN
    event = Event(uid, start, zone, parse_length(length), **more)
    return Booking(calendar, BERLIN, OnConflict.ALLOW, event)


BOOKINGS = (
    booked(
        "room-7",
        "standup",
        "2026-01-05T09:30:00",
        "PT15M",
        rule="FREQ=WEEKLY;BYDAY=MO,WE",
        exdate=("2026-12-09T09:30:00",),
        details=Details("Standup", "room 7"),
    ),
    booked("room-7", "review", "2026-12-07T09:40:00"),
    booked("room-7", "maybe", "2026-12-08T14:00:00", status=Status.TENTATIVE),
    booked("room-7", "quiet", "2026-12-08T14:30:00", transparency=Transparency.TRANSPARENT),
    booked("room-7", "fair", "2026-12-10", "P40D"),
    booked("room-7", "over", "2026-11-02T09:00:00"),
    booked("room-7", HOSTILE, "2026-12-11T10:00:00", "PT0S"),
    booked("anna", "dentist", "2026-12-07T08:00:00", "PT3H"),
    booked("ben", "gone", "2026-12-07T08:00:00"),
)


def logs_of(bookings: tuple[Booking, ...]) -> list[LogWriter]:
    logs = [LogWriter(bucket) for bucket in range(2)]
    for booking in bookings:
        logs[bucket_of(booking.task_id, 2)].book(booking)
    gone = logs[bucket_of("{ben}gone", 2)]
    gone.open_timers.append((timers_key(SPEC, "{ben}gone"), None))
    for log in logs:
        log.commit(applied_before_ms=FixedClock().wall_ms() - 300)
    return logs


KINDS = ("one index", "two shards")


@contextmanager
def dashboard_over(data_dir: Path, kind: str, token: str | None = None) -> Iterator[TestClient]:
    """A dashboard over BOOKINGS, in one index or over two shards."""
    logs = logs_of(BOOKINGS)
    with ExitStack() as owned:
        if kind == "one index":
            with new_index(data_dir) as index:
                fold_in(index, *logs, stamp_ms=STAMP)
            reader = owned.enter_context(IndexReader(data_dir))
            app = create_app(reader, clock=FixedClock(), token=token)
        else:
            apps = {}
            for shard, log in enumerate(logs):
                identity = Identity({"timers": b"t" * 16}, 2, (shard,))
                with IndexWriter(data_dir / str(shard), identity) as index:
                    fold_in(index, log, stamp_ms=STAMP)
                reader = owned.enter_context(IndexReader(data_dir / str(shard)))
                name = f"shard{shard}"
                apps[name] = create_app(reader, clock=FixedClock(), hosts=[name], token=token)
            shards = Shards([f"http://{name}" for name in apps], token, Inside(apps))
            app = create_front(shards, clock=FixedClock(), token=token)
        yield owned.enter_context(TestClient(app, base_url="http://localhost"))


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestClient]:
    with dashboard_over(tmp_path, request.param) as client:
        yield client


def ask(client: TestClient, what: str, **query: Any) -> dict[str, Any]:
    answer = client.get(f"/api/{what}", params=query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_a_week_has_its_occurrences_and_what_they_meet(client: TestClient) -> None:
    answer = ask(client, "events", calendar="room-7", **WEEK)
    assert [(one["uid"], one["start_ms"]) for one in answer["events"]] == [
        ("standup", at("2026-12-07T09:30:00")),
        ("review", at("2026-12-07T09:40:00")),
        ("maybe", at("2026-12-08T14:00:00")),
        ("quiet", at("2026-12-08T14:30:00")),
        ("fair", at("2026-12-10T00:00:00")),
        (HOSTILE, at("2026-12-11T10:00:00")),
    ]
    assert (answer["zone"], answer["cursor"], answer["staleness_ms"]) == (BERLIN, None, 300)
    standup, review, maybe, quiet, fair, _ = answer["events"]
    assert standup["conflicts"] == [
        {
            "uid": "review",
            "start_ms": at("2026-12-07T09:40:00"),
            "end_ms": at("2026-12-07T10:40:00"),
            "recurrence_ms": at("2026-12-07T09:40:00"),
            "tentative": False,
        }
    ]
    assert (standup["summary"], standup["location"], standup["recurring"]) == ("Standup", "room 7", True)
    assert [one["uid"] for one in review["conflicts"]] == ["standup"]
    assert (maybe["tentative"], maybe["conflict_count"], quiet["blocks"]) == (True, 0, False)
    # It meets what lies behind the window as well.
    assert fair["all_day"]
    assert [one["start_ms"] for one in fair["conflicts"]][:2] == [
        at("2026-12-14T09:30:00"),
        at("2026-12-16T09:30:00"),
    ]


def test_it_comes_page_by_page_and_for_one_event(client: TestClient) -> None:
    whole = ask(client, "events", calendar="room-7", **WEEK)["events"]
    found, cursor = [], ""
    while cursor is not None:
        page = ask(client, "events", calendar="room-7", limit=1, cursor=cursor, **WEEK)
        found += page["events"]
        cursor = page["cursor"]
    assert found == whole
    ahead = ask(client, "events", calendar="room-7", uid="standup", limit=3, start=WEEK["start"])
    assert [one["start_ms"] for one in ahead["events"]] == [at("2026-12-07T09:30:00")]
    assert ask(client, "events", calendar="room-7", uid="nobody")["events"] == []
    assert ask(client, "events", calendar="nowhere")["zone"] is None


def test_every_two_that_want_the_same_time(client: TestClient) -> None:
    answer = ask(client, "conflicts", calendar="room-7", start=WEEK["start"], end=at("2026-12-17T00:00:00"))
    told = [
        (of["one"]["uid"], of["other"]["uid"], of["start_ms"], of["end_ms"]) for of in answer["conflicts"]
    ]
    assert told == [
        ("standup", "review", at("2026-12-07T09:40:00"), at("2026-12-07T09:45:00")),
        ("fair", "standup", at("2026-12-14T09:30:00"), at("2026-12-14T09:45:00")),
        ("fair", "standup", at("2026-12-16T09:30:00"), at("2026-12-16T09:45:00")),
    ]
    assert answer["conflicts"][0]["one"]["summary"] == "Standup"
    assert ask(client, "conflicts", calendar="room-7", limit=1, **WEEK)["more"] is False


def test_free_and_busy(client: TestClient) -> None:
    dashboard = Dashboard("http://localhost")
    dashboard._http = client
    start, end = WEEK["start"], at("2026-12-10T00:00:00")
    taken = free_busy(dashboard, ["room-7", "anna", "nobody"], start, end)
    assert taken.calendars == {
        "room-7": (
            Stretch(at("2026-12-07T09:30:00"), at("2026-12-07T10:40:00"), False),
            Stretch(at("2026-12-08T14:00:00"), at("2026-12-08T15:00:00"), True),
        ),
        "anna": (Stretch(at("2026-12-07T08:00:00"), at("2026-12-07T11:00:00"), False),),
        "nobody": (),
    }
    room = CalendarReader("room-7", lambda: dashboard)
    alone = room.free(start, end, timedelta(hours=10), limit=2)
    assert alone.slots == (
        Slot(at("2026-12-07T10:40:00"), at("2026-12-08T14:00:00")),
        Slot(at("2026-12-08T15:00:00"), end),
    )
    both = room.free(start, end, timedelta(hours=8), also=["anna"], limit=1)
    assert (both.slots, both.more) == ((Slot(start, at("2026-12-07T08:00:00")),), True)
    assert (taken.fresh.staleness_ms, both.fresh.staleness_ms) == (300, 300)


def test_the_reader_gives_values(client: TestClient) -> None:
    dashboard = Dashboard("http://localhost")
    dashboard._http = client
    room = CalendarReader("room-7", lambda: dashboard)
    week = room.events(datetime.fromisoformat(f"{MONDAY}+01:00"), WEEK["end"])
    assert [one.uid for one in week.events][:3] == ["standup", "review", "maybe"]
    assert week.events[0].conflicts[0].uid == "review"
    assert week.zone == BERLIN
    assert set(room.stored()) == {b.event for b in BOOKINGS if b.calendar == "room-7"}
    with pytest.raises(InvalidInput, match="400 days"):
        room.events(0, WEEK["end"])
    with pytest.raises(InvalidInput, match="no dashboard"):
        CalendarReader("room-7", None).stored()


def test_what_there_is(client: TestClient) -> None:
    found, cursor = [], ""
    while cursor is not None:
        page = ask(client, "calendars", limit=1, cursor=cursor)
        found += page["calendars"]
        cursor = page["cursor"]
    assert found == [
        {"calendar": "anna", "zone": BERLIN, "events": 1, "changed_ms": STAMP},
        {"calendar": "room-7", "zone": BERLIN, "events": 7, "changed_ms": STAMP},
    ]
    kept = ask(client, "bookings", calendar="anna")["bookings"]
    assert [(one["uid"], one["changed_ms"]) for one in kept] == [("dentist", STAMP)]
    assert decode_booking(b64decode(kept[0]["event"])) == BOOKINGS[-2]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("events", "name one calendar"),
        ("events?calendar=a&calendar=b", "name one calendar"),
        ("events?calendar={a}", "without braces"),
        ("events?calendar=a&start=2026-01-01T00:00:00Z&end=2028-01-01T00:00:00Z", "at most 400 days"),
        ("free?calendar=a", "duration_ms is missing"),
        ("events?calendar=a&cursor=AAAA", "pass the cursor of the page before"),
    ],
)
def test_what_is_asked_wrongly_is_said(client: TestClient, query: str, says: str) -> None:
    answer = client.get(f"/api/{query}")
    assert answer.status_code == 400
    assert says in answer.json()["detail"]


def test_what_is_changed_or_removed_is_so_in_the_index(tmp_path: Path) -> None:
    log, other = LogWriter(0), LogWriter(1)
    other.commit()
    moved = booked(
        "room-7",
        "review",
        "2026-12-08T09:40:00",
        rule="FREQ=DAILY;COUNT=2",
        overrides=(Override("2026-12-09T09:40:00", "2026-12-20T09:00:00"),),
    )
    with (
        new_index(tmp_path) as index,
        IndexReader(tmp_path) as reader,
        TestClient(create_app(reader, clock=FixedClock()), base_url="http://localhost") as client,
    ):
        for booking, starts, events in (
            (booked("room-7", "review", "2026-12-07T09:40:00"), [at("2026-12-07T09:40:00")], 1),
            (moved, [at("2026-12-08T09:40:00"), at("2026-12-20T09:00:00")], 1),
            (None, [], 0),
        ):
            if booking is not None:
                log.book(booking)
            else:
                log.open_timers.append((timers_key(SPEC, "{room-7}review"), None))
            log.commit()
            fold_in(index, log, other, stamp_ms=STAMP)
            found = ask(
                client, "events", calendar="room-7", start=WEEK["start"], end=at("2027-01-01T00:00:00")
            )
            assert [one["start_ms"] for one in found["events"]] == starts
            assert sum(of["events"] for of in ask(client, "calendars")["calendars"]) == events


def test_a_reminder_is_no_event_of_its_own(tmp_path: Path) -> None:
    log, other = LogWriter(0), LogWriter(1)
    other.commit()
    event = booked("room-7", "review", "2026-12-07T09:40:00", reminders=(Reminder(-900_000),))
    (reminder,) = event.reminders
    with (
        new_index(tmp_path) as index,
        IndexReader(tmp_path) as reader,
        TestClient(create_app(reader, clock=FixedClock()), base_url="http://localhost") as client,
    ):
        for gone in (False, True):
            if gone:
                log.open_timers.append((timers_key(SPEC, reminder.task_id), None))
            else:
                log.book(event)
                log.book(reminder)
            log.commit()
            fold_in(index, log, other, stamp_ms=STAMP)
            assert [of["events"] for of in ask(client, "calendars")["calendars"]] == [1]
            assert [one["uid"] for one in ask(client, "bookings", calendar="room-7")["bookings"]] == [
                "review"
            ]
            assert len(ask(client, "events", calendar="room-7", **WEEK)["events"]) == 1
