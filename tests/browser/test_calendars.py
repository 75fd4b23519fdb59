"""Calendars on the page: a week and a month, on the calendar's clock or the viewer's, by mouse and by keyboard."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.board import DEADLINE_S, Board, serving
from tests.browser.conftest import Watch
from tickstream.calendar import Event, Override, Status, Transparency, parse_length
from tickstream.calendar.stored import Booking, OnConflict
from tickstream.calendar.values import Details

HOSTILE = "<img src=x onerror=alert(1)>\u202e"
NEW_YORK = "America/New_York"

expect.set_options(timeout=DEADLINE_S * 1000)


def booked(uid: str, start: str, length: str = "PT1H", zone: str | None = NEW_YORK, **more: Any) -> Booking:
    return Booking(
        "room-7", NEW_YORK, OnConflict.ALLOW, Event(uid, start, zone, parse_length(length), **more)
    )


BOOKINGS = (
    # NOW is Tuesday, 10 March 2026, 08:00:30 in New York: two days before, its clock was put forward.
    booked(
        "standup",
        "2026-02-02T08:00:30",
        "PT15M",
        rule="FREQ=DAILY",
        overrides=(Override("2026-03-12T08:00:30", "2026-03-12T16:00:00"),),
        details=Details("Standup", "Room 7", "Two minutes each", ("mailto:anna@example.org",)),
    ),
    booked("review", "2026-03-10T08:10:00", details=Details("Design review")),
    booked("rota", "2026-03-01T02:30:00", rule="FREQ=WEEKLY", details=Details("Rota")),
    booked("maybe", "2026-03-11T10:00:00", status=Status.TENTATIVE),
    booked("lunch", "2026-03-11T12:00:00", transparency=Transparency.TRANSPARENT),
    booked("fair", "2026-03-14", "P2D", None, details=Details("Fair")),
    booked(HOSTILE, "2026-03-13T09:00:00"),
)


def _fill(board: Board) -> None:
    for booking in BOOKINGS:
        board.book(booking)
    board.commit()


def _fits(page: Page) -> None:
    for width in (320, 390, 1280):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") == width
    page.set_viewport_size({"width": 1280, "height": 900})


def _names(page: Page) -> list[str]:
    """What a screen reader says of each occurrence, in order."""
    shown = page.locator("#calendar-grid .chip").all()
    return [chip.evaluate(_NAME) for chip in shown]


_NAME = """node => [...node.childNodes].filter((child) => child.ariaHidden !== "true")
    .map((child) => child.textContent).join("")"""


def test_a_week_by_time_with_what_meets_what(board: Board, url: str, page: Page) -> None:
    page.goto(f"{url}/#/calendars")
    expect(page.locator("#calendars .verdict")).to_have_text("There is no calendar yet")
    _fill(board)
    page.reload()
    row = page.locator("#calendar-table tbody tr")
    expect(row).to_contain_text("room-77America/New_York")
    row.get_by_role("link", name="room-7").click()
    expect(page.locator("#calendar-span")).to_have_text("9 to 15 March 2026")
    expect(page.locator("#calendars > .verdict")).to_have_text("6 occurrences want time that is taken")
    assert _names(page)[:4] == [
        "Standup, Mon 9 Mar 08:00 to 08:15, Room 7",
        "Standup, Tue 10 Mar 08:00 to 08:15, Room 7, meets review",
        "Design review, Tue 10 Mar 08:10 to 09:10, meets standup",
        "Standup, Wed 11 Mar 08:00 to 08:15, Room 7",
    ]
    assert "maybe, Wed 11 Mar 10:00 to 11:00, tentative" in _names(page)
    assert "lunch, Wed 11 Mar 12:00 to 13:00, does not block" in _names(page)
    assert "Standup, Thu 12 Mar 16:00 to 16:15, Room 7, changed by hand" in _names(page)
    assert _names(page).count("Fair, Sat 14 Mar to Sun 15 Mar, meets standup and rota") == 2
    expect(page.locator(".day.today h4")).to_contain_text("Tue 10 March, today, 2")
    expect(page.locator(".chip", has_text="<img src=x onerror=alert(1)>⟨U+202E⟩").first).to_be_visible()
    assert page.locator("main img").count() == 0
    # What overlaps stands side by side.
    first, second = (page.locator(".day.today .chip").nth(n).bounding_box() for n in (0, 1))
    assert first is not None
    assert second is not None
    assert first["x"] + first["width"] <= second["x"] + 1
    _fits(page)
    page.locator("#calendar-zone").select_option("yours")
    expect(page.locator("#calendar-zone option").nth(1)).to_have_text("yours (Europe/Berlin)")
    expect(page.locator(".day.today .chip").first).to_contain_text("Tue 10 Mar 13:00 to 13:15")
    board.book(booked("late", "2026-03-10T15:00:00", details=Details("Late entry")))
    board.commit()
    page.reload()
    expect(page.locator(".day.today .chip")).to_have_count(3)


def test_an_event_says_when_it_takes_place_next(board: Board, url: str, page: Page) -> None:
    _fill(board)
    page.goto(f"{url}/#/calendars/room-7?on=2026-03-08")
    clock_change = page.locator(".chip", has_text="Rota")
    expect(clock_change).to_contain_text("clock put forward: that time does not exist")
    clock_change.click()
    occasion = page.get_by_role("region", name="Rota")
    expect(page.locator("#occasion-h")).to_be_focused()
    expect(occasion.locator(".facts")).to_contain_text("Sun 8 Mar 03:30 to 04:30 (America/New_York)")
    expect(occasion.locator(".facts")).to_contain_text("Sun 8 Mar 08:30 to 09:30")
    expect(occasion.locator(".facts")).to_contain_text("FREQ=WEEKLY")
    expect(occasion.locator("li")).to_have_count(5)
    expect(occasion.locator("li").first).to_have_text("Sun 15 Mar 02:30 to 03:30, meets fair")
    _fits(page)
    page.keyboard.press("Escape")
    expect(page.locator("#occasion")).to_be_hidden()
    clock_change.click()
    occasion.get_by_role("link", name="rota").click()
    expect(page.locator("#task-h bdi")).to_have_text("{room-7}rota")


def test_a_month_and_the_way_about_by_keyboard(board: Board, url: str, page: Page) -> None:
    _fill(board)
    page.goto(f"{url}/#/calendars/room-7")
    expect(page.locator(".week")).to_be_visible()
    page.keyboard.press("m")
    expect(page.locator("#calendar-span")).to_have_text("March 2026")
    tenth = page.get_by_role("link", name="10 March: 2 occurrences, 2 in conflict")
    expect(tenth).to_be_visible()
    expect(page.locator(".month tbody tr")).to_have_count(6)
    _fits(page)
    page.keyboard.press("j")
    expect(page.locator("#calendar-span")).to_have_text("April 2026")
    page.keyboard.press("k")
    page.keyboard.press("k")
    expect(page.locator("#calendar-span")).to_have_text("February 2026")
    page.keyboard.press("t")
    page.get_by_role("button", name="Later").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#calendar-span")).to_have_text("April 2026")
    expect(page.get_by_role("button", name="Later")).to_be_focused()
    page.keyboard.press("t")
    tenth.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#calendar-span")).to_have_text("9 to 15 March 2026")
    page.get_by_role("link", name="Design review").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#occasion-h")).to_have_text("Design review")
    expect(page.locator("#occasion .facts")).to_contain_text("standup, Tue 10 Mar 08:00 to 08:15")
    page.go_back()
    expect(page.locator("#occasion")).to_be_hidden()
    page.goto(f"{url}/#/calendars/nobody?on=2026-03-10")
    expect(page.locator("#calendars > .verdict")).to_have_text("Nothing takes place in this week")
    expect(page.locator("#calendars > .note")).to_contain_text("It never had an event")


def test_a_subscriber_is_given_a_key(board: Board, page: Page) -> None:
    _fill(board)
    watch: Watch = page.watch  # type: ignore[attr-defined]
    with serving(board, token="open sesame") as url:
        watch.refusals = True
        page.goto(url)
        page.get_by_label("Token", exact=True).fill("open sesame")
        page.keyboard.press("Enter")
        page.get_by_role("link", name="Calendars").click()
        page.locator("#calendar-table").get_by_role("link", name="room-7").click()
        address = page.get_by_role("link", name="Subscribe").get_attribute("href")
        assert address is not None
        assert address.startswith("/calendars/room-7.ics?key=")
        feed = page.request.get(f"{url}{address}")
        assert feed.headers["content-type"] == "text/calendar; charset=utf-8"
        assert feed.text().count("BEGIN:VEVENT") == len(BOOKINGS) + 1
        page.goto("about:blank")
