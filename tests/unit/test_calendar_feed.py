"""A calendar as a file to subscribe to: what is in it, when it counts as changed, and who may read it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from icalendar import Calendar
from starlette.testclient import TestClient

from tests.projection_log import LogWriter
from tests.unit.projection_index import fold_in, new_index
from tests.unit.test_projection_api import NOON, FixedClock
from tests.unit.test_projection_calendars import BERLIN, BOOKINGS, KINDS, booked, dashboard_over
from tickstream.calendar.ical import read_calendar
from tickstream.projection.api import create_app
from tickstream.projection.reader import IndexReader

FEED = "/calendars/room-7.ics"


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestClient]:
    with dashboard_over(tmp_path, request.param, "open sesame") as client:
        yield client


BEARER = {"Authorization": "Bearer open sesame"}


def test_a_subscriber_gets_the_calendar_by_its_own_key(client: TestClient) -> None:
    path = client.get("/api/feed?calendar=room-7", headers=BEARER).json()["path"]
    assert path.startswith(f"{FEED}?key=")
    answer = client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/calendar; charset=utf-8"
    assert answer.headers["cache-control"] == "private, no-cache"
    read = read_calendar(answer.content, BERLIN)
    assert {found.event.uid for found in read.events} == {
        b.event.uid for b in BOOKINGS if b.calendar == "room-7"
    }
    parsed = Calendar.from_ical(answer.content)
    assert (parsed["METHOD"], parsed["X-PUBLISHED-TTL"]) == ("PUBLISH", "PT15M")
    assert parsed["REFRESH-INTERVAL"].to_ical() == b"PT15M"
    assert client.head(path).status_code == 200
    # It opens this feed and nothing else.
    assert client.get(f"/calendars/anna.ics?{path.partition('?')[2]}").status_code == 401
    assert client.get(f"/api/events?calendar=room-7&{path.partition('?')[2]}").status_code == 401
    for wrong in (FEED, f"{FEED}?key=", f"{FEED}?key=%C3%BC"):
        assert client.get(wrong).status_code == 401
    assert client.get(FEED, headers=BEARER).content == answer.content


def test_it_is_sent_again_only_when_it_has_changed(client: TestClient) -> None:
    first = client.get(FEED, headers=BEARER)
    for condition in (
        {"If-None-Match": first.headers["etag"]},
        {"If-None-Match": f'"other", W/{first.headers["etag"]}'},
        {"If-Modified-Since": first.headers["last-modified"]},
        # The tag goes before the date.
        {"If-None-Match": first.headers["etag"], "If-Modified-Since": "Thu, 01 Jan 1970 00:00:00 GMT"},
    ):
        again = client.get(FEED, headers=BEARER | condition)
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
    for condition in (
        {"If-None-Match": '"other"'},
        {"If-None-Match": '"other"', "If-Modified-Since": first.headers["last-modified"]},
        {"If-Modified-Since": "Thu, 01 Jan 1970 00:00:00 GMT"},
        {"If-Modified-Since": "yesterday"},
    ):
        assert client.get(FEED, headers=BEARER | condition).status_code == 200
    assert client.get("/calendars/nobody.ics", headers=BEARER).status_code == 404


def test_a_change_within_the_same_second_is_not_missed(tmp_path: Path) -> None:
    log, other = LogWriter(0), LogWriter(1)
    now = FixedClock().wall_ms()
    other.commit(applied_before_ms=now)
    tags, dates = [], []
    with (
        new_index(tmp_path) as index,
        IndexReader(tmp_path) as reader,
        TestClient(create_app(reader, clock=FixedClock()), base_url="http://localhost") as client,
    ):
        for start, stamp in (("2026-12-07T09:00:00", NOON), ("2026-12-07T10:00:00", now)) * 2:
            log.book(booked("room-7", "review", start))
            log.commit(applied_before_ms=now)
            fold_in(index, log, other, stamp_ms=stamp)
            answer = client.get(FEED)
            tags.append(answer.headers["etag"])
            dates.append("last-modified" in answer.headers)
    assert len(set(tags)) == 4
    assert dates == [True, False, False, False]
