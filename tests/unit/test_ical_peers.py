"""The iCalendar files of two other packages: all read without a crash, with the occurrences of recurring-ical-events.

Where the two differ, a named fault of the file or of the peer explains it: FAULTS. docs/calendar.md has the counts.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.ical_peers import END_MS, START_MS, files, peer_occurrences
from tickstream.calendar import Event, expand
from tickstream.calendar.ical import Fate, ReadCalendar, read_calendar, write_calendar

pytestmark = pytest.mark.timeout(900)  # the first run fetches the packages

ROOT = Path(__file__).parents[2]
UNNAMED: Final = "without-uid-"

FAULTS: Final = {
    "a day without an end": {"calendars/example.ics", "Germany_Holidays.ics"},
    "a start that its rule does not name": {"issue_157_removes_trailing_semicolon.ics", "issue42.ics"},
    "two series of one UID": {"tutorials/example.ics"},
    "dates added to a series of times": {
        "issue_1633_rdate_with_dates.ics",
        "issue_1633_rdate_with_dates_and_tzid.ics",
    },
    "a changed occurrence that its rule does not name": {"issue_253_additional_recurrence_id.ics"},
    "X-WR-TIMEZONE": {"issue_86_x_wr_timezone_without_time_zone_in_dt.ics"},
}
"""What explains a difference, of events that were taken, by the end of the file's path; docs/calendar.md says why."""


@pytest.fixture(scope="module")
def read() -> dict[Path, ReadCalendar]:
    return {path: read_calendar(path.read_bytes(), None) for paths in files().values() for path in paths}


def ours(calendar: ReadCalendar) -> set[tuple[str, int, int]]:
    return {
        (_uid(found.event), occurrence.start_ms, occurrence.end_ms)
        for found in calendar.events
        for occurrence in expand(found.event, None).overlapping(START_MS, END_MS)
        if not occurrence.cancelled
    }


def _uid(event: Event) -> str:
    return "" if event.uid.startswith(UNNAMED) else event.uid


def fault(path: Path) -> str:
    return next((name for name, ends in FAULTS.items() if any(str(path).endswith(end) for end in ends)), "")


def test_every_file_is_read_and_every_event_accounted_for(read: dict[Path, ReadCalendar]) -> None:
    for path, calendar in read.items():
        uids = {found.event.uid for found in calendar.events} | {entry.uid for entry in calendar.entries}
        rejected = [entry for entry in calendar.entries if entry.fate is Fate.REJECTED]
        assert all(entry.line > 0 and entry.reason for entry in calendar.entries), path
        assert calendar.events or rejected or b"BEGIN:VEVENT" not in path.read_bytes(), path
        events = path.read_bytes().upper().count(b"BEGIN:VEVENT")
        assert len(uids - {""}) <= events, path


def test_the_occurrences_are_the_peers_but_for_named_faults(read: dict[Path, ReadCalendar]) -> None:
    peers = peer_occurrences(list(read))
    counts = dict.fromkeys(("alike", "occurrences", "rejected here", "refused by the peer", *FAULTS), 0)
    unexplained = []
    for path, calendar in read.items():
        theirs, mine = peers[path], ours(calendar)
        if isinstance(theirs, str):
            counts["refused by the peer"] += 1
            continue
        rejected = {entry.uid for entry in calendar.entries if entry.fate is Fate.REJECTED}
        rejected |= {"" for uid in rejected if uid.startswith(UNNAMED)}
        if mine == theirs:
            counts["alike"] += 1
            counts["occurrences"] += len(mine)
        elif mine <= theirs and {uid for uid, _, _ in theirs - mine} <= rejected:
            counts["rejected here"] += 1
        elif fault(path):
            counts[fault(path)] += 1
        else:
            unexplained.append((path.name, sorted(mine - theirs)[:3], sorted(theirs - mine)[:3]))
    assert unexplained == []
    page = (ROOT / "docs" / "calendar.md").read_text()
    assert {name: f"| {name} | {count:,} |" in page for name, count in counts.items()} == dict.fromkeys(
        counts, True
    ), counts


def test_what_is_written_is_read_back_the_same(read: dict[Path, ReadCalendar]) -> None:
    for path, calendar in read.items():
        events = [found.event for found in calendar.events]
        again = read_calendar(write_calendar(events, stamp_ms=0), None)
        assert [_alike(found.event) for found in again.events] == [_alike(event) for event in events], path


def _alike(event: Event) -> Event:
    """The parts of a rule stand in another order."""
    return (
        event if event.rule is None else replace(event, rule=";".join(sorted(event.rule.upper().split(";"))))
    )
