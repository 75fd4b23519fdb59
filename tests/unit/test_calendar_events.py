"""Events: their occurrences in a calendar's zone, and what is refused before anything is stored."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tickstream.calendar import (
    MOST_OCCURRENCES,
    Added,
    Event,
    Length,
    Override,
    Status,
    admit,
    expand,
    length_until,
    parse_length,
    within_horizon,
)
from tickstream.errors import (
    InvalidEvent,
    InvalidInput,
    InvalidSchedule,
    InvalidTaskId,
    NeverOccurs,
    UnknownZone,
)

HOUR = Length(ms=3_600_000)
BERLIN = "Europe/Berlin"


def ms(utc: str) -> int:
    return round(datetime.fromisoformat(utc).replace(tzinfo=UTC).timestamp() * 1_000)


def shown(
    event: Event, start: str = "2026-01-01", end: str = "2027-01-01", zone: str | None = BERLIN
) -> list[str]:
    """The occurrences as `start/end` in UTC."""

    def text(instant: int) -> str:
        return f"{datetime.fromtimestamp(instant / 1_000, UTC):%m-%dT%H:%M}"

    found = expand(event, zone).overlapping(ms(start), ms(end))
    return [f"{text(o.start_ms)}/{text(o.end_ms)}" + ("-" if o.cancelled else "") for o in found]


def test_floating_and_all_day_times_are_the_calendars() -> None:
    floating = Event("f", "2026-06-01T09:00:00", length=HOUR)
    day = Event("d", "2026-06-01")
    assert shown(floating) == ["06-01T07:00/06-01T08:00"]
    assert shown(floating, zone="Asia/Tokyo") == ["06-01T00:00/06-01T01:00"]
    assert shown(day) == ["05-31T22:00/06-01T22:00"]
    assert shown(day, zone=None) == ["06-01T00:00/06-02T00:00"]
    assert shown(Event("u", "2026-06-01T09:00:00Z", length=HOUR)) == ["06-01T09:00/06-01T10:00"]


def test_a_floating_series_ends_where_its_until_lies_on_the_calendars_clock() -> None:
    event = Event("f", "2026-03-27T09:00:00", length=HOUR, rule="FREQ=DAILY;UNTIL=20260330T090000")
    assert [line[:11] for line in shown(event)] == [
        "03-27T08:00",
        "03-28T08:00",
        "03-29T07:00",
        "03-30T07:00",
    ]


def test_days_are_nominal_and_hours_exact() -> None:
    clock_change = "2026-10-24T12:00:00"
    assert shown(Event("d", clock_change, BERLIN, Length(days=1))) == ["10-24T10:00/10-25T11:00"]
    assert shown(Event("h", clock_change, BERLIN, parse_length("PT24H"))) == ["10-24T10:00/10-25T10:00"]
    assert shown(Event("b", clock_change, BERLIN, parse_length("P1DT1H"))) == ["10-24T10:00/10-25T12:00"]


def test_changed_occurrences_keep_their_identity_wherever_they_go() -> None:
    event = Event(
        "s",
        "2026-06-01T09:00:00",
        BERLIN,
        HOUR,
        "FREQ=DAILY;COUNT=4",
        overrides=(
            Override("2026-06-02T09:00:00", start="2026-06-04T12:00:00"),
            Override("2026-06-03T07:00:00Z", status=Status.CANCELLED),
        ),
    )
    assert shown(event) == [
        "06-01T07:00/06-01T08:00",
        "06-03T07:00/06-03T08:00-",
        "06-04T07:00/06-04T08:00",
        "06-04T10:00/06-04T11:00",
    ]
    expansion = expand(event, BERLIN)
    moved = expansion.occurrence("2026-06-02T09:00:00")
    assert moved is not None
    assert (moved.start_ms, moved.recurrence_ms) == (ms("2026-06-04T10:00"), ms("2026-06-02T07:00"))
    assert expansion.occurrence("2026-06-02T12:00:00") is None
    after_first = expansion.next_after(ms("2026-06-01T07:00"))
    assert after_first is not None
    assert after_first.start_ms == ms("2026-06-04T07:00")
    assert expansion.next_after(ms("2026-06-04T10:00")) is None
    assert expansion.orphans() == ()


def test_an_override_may_have_another_zone_and_another_kind_of_time() -> None:
    event = Event(
        "s",
        "2026-06-01",
        BERLIN,
        rule="FREQ=DAILY;COUNT=2",
        overrides=(Override("2026-06-02", "2026-06-02T09:00:00", "America/New_York", HOUR),),
    )
    assert shown(event) == ["05-31T22:00/06-01T22:00", "06-02T13:00/06-02T14:00"]


def test_what_an_override_changes_that_the_rule_does_not_name_takes_place_all_the_same() -> None:
    stray = Override("2026-06-09T09:00:00", "2026-06-09T10:00:00")
    event = Event("s", "2026-06-01T09:00:00", BERLIN, HOUR, overrides=(stray,))
    assert shown(event) == ["06-01T07:00/06-01T08:00", "06-09T08:00/06-09T09:00"]
    assert expand(event, BERLIN).orphans() == (stray,)


def test_an_added_period_has_a_length_of_its_own() -> None:
    event = Event(
        "s", "2026-06-01T09:00:00", BERLIN, HOUR, rdate=(Added("2026-06-05T09:00:00", parse_length("PT3H")),)
    )
    assert shown(event) == ["06-01T07:00/06-01T08:00", "06-05T07:00/06-05T10:00"]


def test_long_occurrences_reach_into_the_time_asked_for() -> None:
    event = Event("s", "2026-06-01", BERLIN, Length(days=30), "FREQ=YEARLY")
    assert shown(event, "2026-06-20", "2026-06-21") == ["05-31T22:00/06-30T22:00"]
    assert shown(event, "2026-06-30T22:00:00", "2026-07-01") == []


def test_count_is_turned_into_the_last_occurrence_once() -> None:
    admitted = admit(Event("s", "2026-06-01T09:00:00", BERLIN, HOUR, "FREQ=DAILY;COUNT=3"), None)
    assert admitted.last is not None
    assert shown(admitted) == shown(Event("s", "2026-06-01T09:00:00", BERLIN, HOUR, "FREQ=DAILY;COUNT=3"))


@pytest.mark.parametrize(
    ("event", "error", "says"),
    [
        (Event("", "2026-06-01T09:00:00"), InvalidTaskId, "1-255 bytes"),
        (Event("s", "2026-06-31"), InvalidSchedule, "DTSTART '2026-06-31'"),
        (Event("s", "2026-06-01T09:00:00", "Mars/Olympus"), UnknownZone, "Mars/Olympus"),
        (Event("s", "2026-06-01T09:00:00", BERLIN, HOUR, "FREQ=DAYLY"), InvalidSchedule, "FREQ"),
        (Event("s", "2026-06-01T09:00:00", BERLIN, Length(ms=-1)), InvalidEvent, "negative"),
        (Event("s", "2026-06-01", BERLIN, HOUR), InvalidEvent, "whole days"),
        (Event("s", "2026-06-01T09:00:00", sequence=-1), InvalidEvent, "counts from 0"),
        (Event("s", "2026-06-01T09:00:00", exdate=("2026-06-01T09:00:00",)), NeverOccurs, "never occurs"),
        (
            Event("s", "2026-06-01T09:00:00", overrides=(Override("2026-06-01T09:00:00"),) * 2),
            InvalidEvent,
            "twice",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(
    event: Event, error: type[InvalidInput], says: str
) -> None:
    with pytest.raises(error, match=says):
        admit(event, BERLIN)


def test_an_event_with_too_many_occurrences_is_refused() -> None:
    every_minute = expand(Event("s", "2026-06-01T09:00:00", rule="FREQ=MINUTELY"), None)
    with pytest.raises(InvalidEvent, match=f"more than {MOST_OCCURRENCES:,} occurrences"):
        within_horizon(every_minute, ms("2026-06-01"), ms("2027-06-01"))
    hourly = expand(Event("s", "2026-06-01T09:00:00", rule="FREQ=HOURLY"), None)
    assert len(within_horizon(hourly, ms("2026-06-02"), ms("2027-06-02"))) == 365 * 24


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("PT1H30M", Length(ms=5_400_000)),
        ("P2W", Length(days=14)),
        ("P1DT12H", Length(1, 43_200_000)),
        ("PT0S", Length()),
        ("+P15DT5H0M20S", Length(15, 18_020_000)),
    ],
)
def test_durations_as_the_standard_writes_them(text: str, length: Length) -> None:
    assert parse_length(text) == length
    assert parse_length(length.iso()) == length


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1H", "-PT1H", "PT1.5H", "P1H"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidEvent, match="duration"):
        parse_length(text)


def test_an_end_gives_the_exact_length_of_the_first() -> None:
    fold = length_until("2026-10-25T01:30:00", "2026-10-25T03:30:00", BERLIN, BERLIN, None)
    assert fold == parse_length("PT3H")
    assert length_until("2026-06-01", "2026-06-03", None, None, BERLIN) == Length(days=2)
    flight = length_until("2026-06-01T10:00:00", "2026-06-01T12:00:00", BERLIN, "America/New_York", None)
    assert flight == parse_length("PT8H")
    with pytest.raises(InvalidEvent, match="lies before the start"):
        length_until("2026-06-01T10:00:00", "2026-06-01T09:00:00", BERLIN, BERLIN, None)
    with pytest.raises(InvalidEvent, match="must be a date where the start is one"):
        length_until("2026-06-01", "2026-06-01T09:00:00", BERLIN, BERLIN, None)
