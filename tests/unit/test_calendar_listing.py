"""What takes place in a window of a calendar, who meets whom, and what the clock did to it."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tickstream.calendar import Event, Override, Status, Transparency, parse_length
from tickstream.calendar.listing import (
    MOST_NAMED,
    busy_of,
    clock_change,
    meetings,
    met_by_each,
    occurrences_in,
)
from tickstream.calendar.occupancy import Busy
from tickstream.calendar.stored import Booking, OnConflict
from tickstream.errors import InvalidInput

BERLIN = "Europe/Berlin"


def at(text: str, zone: str = BERLIN) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1_000)


def booked(uid: str, start: str, length: str = "PT1H", zone: str | None = BERLIN, **more: Any) -> Booking:
    event = Event(uid, start, zone, parse_length(length), **more)
    return Booking("room-7", BERLIN, OnConflict.ALLOW, event)


def test_a_window_has_what_takes_place_in_it_by_start() -> None:
    series = booked(
        "daily",
        "2026-12-01T09:00:00",
        rule="FREQ=DAILY",
        exdate=("2026-12-08T09:00:00",),
        overrides=(
            Override("2026-12-09T09:00:00", "2026-12-07T08:00:00"),
            Override("2026-12-10T09:00:00", status=Status.CANCELLED),
        ),
    )
    long = booked("fair", "2026-11-20", "P30D", None)
    floating = booked("tea", "2026-12-07T08:30:00", "PT15M", None, transparency=Transparency.TRANSPARENT)
    listing = occurrences_in([series, long, floating], at("2026-12-07T00:00:00"), at("2026-12-11T00:00:00"))
    assert [(one.booking.event.uid, one.occurrence.start_ms) for one in listing.listed] == [
        ("fair", at("2026-11-20T00:00:00")),
        ("daily", at("2026-12-07T08:00:00")),
        ("tea", at("2026-12-07T08:30:00")),
        ("daily", at("2026-12-07T09:00:00")),
    ]
    assert [busy.uid for busy in busy_of(listing.listed)] == ["fair", "daily", "daily"]


def test_one_event_that_cannot_be_read_does_not_hide_the_others() -> None:
    unknown = booked("mars", "2026-12-07T09:00:00", zone="Mars/Olympus")
    listing = occurrences_in([unknown, booked("earth", "2026-12-07T09:00:00")], 0, at("2027-01-01T00:00:00"))
    assert [one.booking.event.uid for one in listing.listed] == ["earth"]
    assert [one.uid for one in listing.unreadable] == ["mars"]
    assert "Mars/Olympus" in listing.unreadable[0].reason


def test_a_window_with_too_many_is_refused() -> None:
    every_minute = booked("x", "2026-01-01T00:00:00", "PT1M", rule="FREQ=MINUTELY")
    with pytest.raises(InvalidInput, match="20,000 occurrences"):
        occurrences_in([every_minute], 0, at("2026-12-31T00:00:00"))


def test_who_meets_whom_is_named_and_counted() -> None:
    busy = sorted(Busy(start, end, uid, start, uid == "d") for start, end, uid in (
        (0, 10, "a"), (10, 20, "b"), (5, 15, "c"), (19, 20, "d"), (15, 16, "a"), (30, 40, "e")))  # fmt: skip
    met = met_by_each(busy)
    named = {(one.uid, one.start_ms): [other.uid for other in of.named] for one, of in met.items()}
    assert named == {
        ("a", 0): ["c"],
        ("c", 5): ["a", "b"],
        ("b", 10): ["c", "a", "d"],
        ("a", 15): ["b"],
        ("d", 19): ["b"],
    }
    assert all(of.in_all == len(of.named) for of in met.values())
    pairs = [
        (m.occurrence.uid, m.busy.uid, m.start_ms, m.end_ms, m.tentative) for m in meetings(busy, 0, 100)
    ]
    assert pairs == [("a", "c", 5, 10, False), ("c", "b", 10, 15, False), ("b", "a", 15, 16, False),
                     ("b", "d", 19, 20, True)]  # fmt: skip
    assert [m.start_ms for m in meetings(busy, 10, 16)] == [10, 15]


def test_a_crowd_is_counted_whole_and_named_in_part() -> None:
    busy = [Busy(n, 1_000, f"u{n:03}", n, tentative=False) for n in range(300)]
    met = met_by_each(busy)
    assert {(of.in_all, len(of.named)) for of in met.values()} == {(299, MOST_NAMED)}
    assert all(one not in of.named for one, of in met.items())


@pytest.mark.parametrize(
    ("booking", "start", "change"),
    [
        (booked("n", "2026-03-01T02:30:00", rule="FREQ=DAILY"), "2026-03-28T02:30:00", None),
        (booked("n", "2026-03-01T02:30:00", rule="FREQ=DAILY"), "2026-03-29T03:30:00", "gap"),
        (booked("n", "2026-03-01T03:30:00", rule="FREQ=DAILY"), "2026-03-29T03:30:00", None),
        (booked("n", "2026-10-01T02:30:00", rule="FREQ=DAILY"), "2026-10-25T02:30:00", "fold"),
        (booked("n", "2026-03-29T02:30:00"), "2026-03-29T03:30:00", "gap"),
        (booked("n", "2026-10-25T00:30:00Z", zone=None), "2026-10-25T02:30:00", None),
        (
            booked(
                "n",
                "2026-03-01T09:00:00",
                rule="FREQ=DAILY",
                overrides=(Override("2026-03-29T09:00:00", "2026-03-29T02:15:00"),),
            ),
            "2026-03-29T03:15:00",
            "gap",
        ),
    ],
)
def test_what_the_clock_did_is_marked(booking: Booking, start: str, change: str | None) -> None:
    instant = at(start)
    (found,) = [o for o in booking.expansion.overlapping(instant, instant + 1) if o.start_ms == instant]
    assert clock_change(booking, found) == change
