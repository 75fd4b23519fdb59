"""iCalendar files: what is taken, put right, or rejected with its line; and what a calendar makes of a file."""

from __future__ import annotations

import pytest

from tickstream.calendar import Event, Length, Override, Reminder, Status, Transparency, parse_length
from tickstream.calendar.ical import Entry, Fate, ReadCalendar, plan, read_calendar, write_calendar

BERLIN = "Europe/Berlin"


def file(*events: str, before: str = "", method: str = "") -> bytes:
    """A file with these events; the first line of the first is line 4, behind `before`."""
    method = f"METHOD:{method}\n" if method else ""
    whole = f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:test\n{method}{before}{''.join(events)}END:VCALENDAR\n"
    return whole.encode()


def vevent(*lines: str, uid: str = "one") -> str:
    return "\n".join(["BEGIN:VEVENT", f"UID:{uid}", *lines, "END:VEVENT", ""])


def taken(*lines: str, before: str = "") -> Event:
    read = read_calendar(file(vevent(*lines), before=before), BERLIN)
    assert [entry for entry in read.entries if entry.fate is Fate.REJECTED] == []
    return read.events[0].event


def rejected(*lines: str) -> Entry:
    read = read_calendar(file(vevent(*lines)), BERLIN)
    assert read.events == ()
    return next(entry for entry in read.entries if entry.fate is Fate.REJECTED)


def notes(read: ReadCalendar) -> list[str]:
    return [entry.reason for entry in read.entries if entry.fate is Fate.NOTED]


def test_an_event_as_most_programs_write_it() -> None:
    event = taken(
        "DTSTART;TZID=Europe/Berlin:20260601T090000",
        "DTEND;TZID=Europe/Berlin:20260601T103000",
        "RRULE:FREQ=WEEKLY;COUNT=3",
        "EXDATE;TZID=Europe/Berlin:20260608T090000",
        "SUMMARY:Käse\\, Brot",
        " zeit",
        "SEQUENCE:2",
        "STATUS:TENTATIVE",
        "TRANSP:TRANSPARENT",
        "ATTENDEE;CN=\"A: B\":mailto:a@example.org",
        "BEGIN:VALARM",
        "TRIGGER:-PT15M",
        "END:VALARM",
        "BEGIN:VALARM",
        "TRIGGER;RELATED=END:PT5M",
        "END:VALARM",
    )  # fmt: skip
    assert (event.start, event.zone, event.length) == ("2026-06-01T09:00:00", BERLIN, parse_length("PT1H30M"))
    assert (event.rule, event.exdate, event.sequence) == ("FREQ=WEEKLY;COUNT=3", ("2026-06-08T09:00:00",), 2)
    assert (event.status, event.transparency) == (Status.TENTATIVE, Transparency.TRANSPARENT)
    assert (event.details.summary, event.details.attendees) == ("Käse, Brotzeit", ("mailto:a@example.org",))
    assert event.reminders == (Reminder(-900_000), Reminder(300_000, from_end=True))


def test_a_fold_through_a_character_of_two_bytes() -> None:
    data = file(vevent("DTSTART:20260601T090000Z", "SUMMARY:Käse")).replace("ä".encode(), b"\xc3\r\n \xa4")
    assert read_calendar(data, None).events[0].event.details.summary == "Käse"


@pytest.mark.parametrize(
    ("tzid", "zone"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        ("W. Europe Standard Time", "Europe/Berlin"),
        ("/freeassociation.sourceforge.net/America/New_York", "America/New_York"),
        ('"Asia/Kolkata"', "Asia/Kolkata"),
    ],
)
def test_zones_by_the_names_that_programs_give_them(tzid: str, zone: str) -> None:
    assert taken(f"DTSTART;TZID={tzid}:20260601T090000").zone == zone


CUSTOM = """BEGIN:VTIMEZONE
TZID:Our office
BEGIN:STANDARD
DTSTART:19701025T030000
RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU
TZOFFSETFROM:+0200
TZOFFSETTO:+0100
END:STANDARD
BEGIN:DAYLIGHT
DTSTART:19700329T020000
RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU
TZOFFSETFROM:+0100
TZOFFSETTO:+0200
END:DAYLIGHT
END:VTIMEZONE
"""


def test_a_zone_defined_in_the_file_is_the_one_that_shows_the_same_clock() -> None:
    read = read_calendar(file(vevent("DTSTART;TZID=Our office:20260601T090000"), before=CUSTOM), None)
    assert read.events[0].event.zone == BERLIN
    assert notes(read) == ["zone 'Our office' is read as Europe/Berlin"]
    strange = CUSTOM.replace("TZOFFSETTO:+0200", "TZOFFSETTO:+0217")
    read = read_calendar(file(vevent("DTSTART;TZID=Our office:20260601T090000"), before=strange), None)
    assert read.events == ()
    assert "TZID 'Our office': is no zone of the tz database" in read.entries[0].reason


def test_changed_occurrences_added_periods_and_days() -> None:
    series = vevent(
        "DTSTART;TZID=Europe/Berlin:20260601T090000",
        "DURATION:PT1H",
        "RRULE:FREQ=DAILY;COUNT=3",
        "RDATE;VALUE=PERIOD:20260610T070000Z/PT2H,20260611T070000Z/20260611T100000Z",
    )
    changed = vevent(
        "RECURRENCE-ID;TZID=Europe/Berlin:20260602T090000",
        "DTSTART:20260602T120000Z",
        "DTEND:20260602T123000Z",
    )
    event = read_calendar(file(changed, series), None).events[0].event
    assert [added.length for added in event.rdate] == [parse_length("PT2H"), parse_length("PT3H")]
    (override,) = event.overrides
    assert override.recurrence_id == "2026-06-02T09:00:00"
    assert (override.start, override.length) == ("2026-06-02T12:00:00Z", parse_length("PT30M"))
    assert taken("DTSTART;VALUE=DATE:20260601", "DTEND;VALUE=DATE:20260603").length == Length(days=2)


@pytest.mark.parametrize(
    ("lines", "line", "reason"),
    [
        (("SUMMARY:x",), 4, "DTSTART is missing"),
        (("DTSTART:2026",), 6, "DTSTART '2026': is no date or time"),
        (("DTSTART;TZID=Mars/Olympus:20260601T090000",), 6, "TZID 'Mars/Olympus'"),
        (("DTSTART:20260601T090000Z", "RRULE:FREQ=DAYLY"), 4, "FREQ 'DAYLY'"),
        (("DTSTART:20260601T090000Z", "DTEND:20260601T080000Z"), 7, "lies before the start"),
        (("DTSTART:20260601T090000Z", "EXRULE:FREQ=DAILY"), 7, "EXRULE"),
        (("DTSTART:20260601T090000Z", "RRULE:FREQ=DAILY", "RRULE:FREQ=WEEKLY"), 8, "more than once"),
        (("DTSTART:20260601T090000Z", "DTEND:;x"), 7, "DTEND"),
        (("DTSTART:20260601T090000Z", "DTEND;;"), 7, "is no content line"),
        (
            ("RECURRENCE-ID;RANGE=THISANDFUTURE:20260601T090000Z", "DTSTART:20260601T100000Z"),
            6,
            "THISANDFUTURE",
        ),
    ],
)
def test_what_cannot_be_taken_is_rejected_with_its_line(
    lines: tuple[str, ...], line: int, reason: str
) -> None:
    entry = rejected(*lines)
    assert (entry.uid, entry.line) == ("one", line)
    assert reason in entry.reason


def test_what_can_be_put_right_is_and_is_noted() -> None:
    read = read_calendar(
        file(
            vevent(
                "DTSTART;TZID=Europe/Berlin:20260601T090000",
                "RRULE:FREQ=DAILY;UNTIL=20260603",
                "EXDATE;VALUE=DATE:20260602",
                "STATUS:MAYBE",
                "X-BROKEN",
                "BEGIN:VALARM",
                "TRIGGER:20260601T060000Z",
                "END:VALARM",
            ),
            "BEGIN:VTODO\nUID:todo\nEND:VTODO\n",
        ),
        None,
    )
    event = read.events[0].event
    assert (event.rule, event.exdate) == ("FREQ=DAILY;UNTIL=20260603T215959Z", ("2026-06-02T09:00:00",))
    assert event.reminders == ()
    shown = " ".join(notes(read))
    for part in (
        "UNTIL=20260603 does not fit",
        "STATUS 'MAYBE'",
        "is no content line",
        "an alarm is left out",
        "VTODO",
    ):
        assert part in shown


def test_without_a_uid_the_same_text_is_the_same_event() -> None:
    data = file("BEGIN:VEVENT\nDTSTART:20260601T090000Z\nEND:VEVENT\n")
    assert read_calendar(data, None).events[0].event.uid == read_calendar(data, None).events[0].event.uid


def test_bytes_that_are_no_calendar_say_so() -> None:
    for data in (b"", b"\xff\xfe\x00", b"hello\n", b"END:VCALENDAR\n"):
        read = read_calendar(data, None)
        assert read.events == ()
        assert any("no iCalendar file" in entry.reason for entry in read.entries)


def test_of_one_uid_the_highest_sequence_counts() -> None:
    newer = vevent("DTSTART:20260601T100000Z", "SEQUENCE:2")
    older = vevent("DTSTART:20260601T090000Z", "SEQUENCE:1")
    read = read_calendar(file(newer, older), None)
    assert read.events[0].event.start == "2026-06-01T10:00:00Z"
    assert [(entry.line, entry.fate) for entry in read.entries] == [(9, Fate.IGNORED)]


# --------------------------------------------------------------------------- into a calendar

KNOWN = Event("one", "2026-06-01T09:00:00", BERLIN, parse_length("PT1H"), "FREQ=DAILY;COUNT=5", sequence=3)


def fates(data: bytes, known: Event | None) -> list[tuple[Fate, Event | None]]:
    found = plan(read_calendar(data, BERLIN), lambda uid: known if uid == "one" else None, BERLIN)
    return [(planned.entry.fate, planned.event) for planned in found]


def test_new_changed_unchanged_and_older_events() -> None:
    written = write_calendar([KNOWN], stamp_ms=0)
    ((fate, event),) = fates(written, None)
    assert fate is Fate.TAKEN
    assert event is not None
    assert fates(written, event) == [(Fate.UNCHANGED, None)]
    longer = write_calendar(
        [Event("one", "2026-06-01T09:00:00", BERLIN, parse_length("PT2H"), sequence=4)], stamp_ms=0
    )
    assert fates(longer, event)[0][0] is Fate.CHANGED
    older = write_calendar([Event("one", "2026-06-01T09:00:00", BERLIN, sequence=2)], stamp_ms=0)
    assert fates(older, event) == [(Fate.IGNORED, None)]


def test_a_changed_occurrence_alone_changes_the_series_that_is_known() -> None:
    part = vevent(
        "SEQUENCE:4",
        "RECURRENCE-ID:20260602T070000Z",
        "DTSTART;TZID=Europe/Berlin:20260602T150000",
        "DURATION:PT1H",
    )
    ((fate, event),) = fates(file(part), KNOWN)
    assert fate is Fate.CHANGED
    assert event is not None
    assert (event.rule, event.sequence) == (KNOWN.rule, 4)
    assert [(o.recurrence_id, o.start) for o in event.overrides] == [
        ("2026-06-02T07:00:00Z", "2026-06-02T15:00:00")
    ]
    # Alone it is an event of one occurrence.
    ((fate, alone),) = fates(file(part), None)
    assert fate is Fate.TAKEN
    assert alone is not None
    assert alone.rule is None


def test_method_cancel_calls_off_a_series_or_one_occurrence() -> None:
    whole = file(vevent("DTSTART:20260601T070000Z", "SEQUENCE:4"), method="CANCEL")
    ((fate, event),) = fates(whole, KNOWN)
    assert fate is Fate.CANCELLED
    assert event is not None
    assert event.status is Status.CANCELLED
    one = file(
        vevent("RECURRENCE-ID:20260602T070000Z", "DTSTART:20260602T070000Z", "SEQUENCE:4"), method="CANCEL"
    )
    ((fate, event),) = fates(one, KNOWN)
    assert fate is Fate.CANCELLED
    assert event is not None
    assert event.overrides == (Override("2026-06-02T07:00:00Z", status=Status.CANCELLED),)
    assert fates(whole, None) == [(Fate.IGNORED, None)]
