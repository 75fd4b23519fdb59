"""A list of a hundred thousand rows: scrolled and walked, with only what is in sight in the document."""

import json
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, Route, expect

from tests.browser.board import DEADLINE_S, NOW, Board

MOST = 100_000
IN_THE_DOCUMENT = 100
"""More than fit on the screen and lie just beyond; far fewer than there are."""
SCROLL = """async (word) => {
  const view = document.querySelector("#listing-rows"), note = document.querySelector("#listing .note");
  let most = 0;
  const scroll = async () => {
    view.scrollTop = view.scrollHeight;
    await new Promise(requestAnimationFrame);
    most = Math.max(most, view.querySelectorAll("tbody tr").length);
  };
  while (!note.textContent.includes(word)) await scroll();
  await scroll(); // to the end of what came last
  return most;
}"""

expect.set_options(timeout=DEADLINE_S * 1000)


def test_a_long_list_is_scrolled_to_its_end(board: Board, url: str, page: Page) -> None:
    rows = 2_500
    for n in range(rows):
        board.schedule(f"many:{n:04}", NOW + 10_000 + n)
    board.commit()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/api/tasks?" in request.url else None)
    page.goto(f"{url}/#/list")
    expect(page.get_by_role("link", name="many:0000")).to_be_visible()
    table = page.locator("#listing table")
    expect(table).to_have_attribute("aria-rowcount", "-1")
    assert page.evaluate(SCROLL, "that is all") <= IN_THE_DOCUMENT
    last = page.get_by_role("link", name="many:2499")
    expect(last).to_be_in_viewport()
    expect(table).to_have_attribute("aria-rowcount", str(rows + 1))
    expect(page.locator("#listing tbody tr").last).to_have_attribute("aria-rowindex", str(rows + 1))
    expect(page.locator("#listing thead th").first).to_be_in_viewport()
    assert len([one for one in asked if "cursor=" in one]) == 3


def test_it_is_walked_by_keyboard(board: Board, url: str, page: Page) -> None:
    for n in range(450):
        board.schedule(f"many:{n:03}", NOW + 10_000 + n)
    board.commit()
    page.goto(f"{url}/#/list")
    expect(page.locator("#listing .note")).to_contain_text("that is all")
    first = page.get_by_role("link", name="many:000")
    first.focus()
    for _ in range(120):
        page.keyboard.press("ArrowDown")
    reached = page.get_by_role("link", name="many:120")
    expect(reached).to_be_focused()
    expect(reached).to_be_in_viewport()
    expect(first).to_have_count(0)
    # What had the focus leaves the document: the list keeps it.
    reached.focus()
    page.locator("#listing-rows").evaluate("view => { view.scrollTop = view.scrollHeight; }")
    expect(page.get_by_role("link", name="many:449")).to_be_in_viewport()
    expect(page.locator("#listing-rows")).to_be_focused()
    page.keyboard.press("Home")
    expect(first).to_be_in_viewport()
    expect(first).to_have_attribute("tabindex", "0")
    page.keyboard.press("Tab")
    expect(first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#task-h")).to_have_text("Task many:000")


def test_a_hundred_thousand_rows_are_few_elements(url: str, page: Page) -> None:
    """The server's part is played here: filling an index with that many would take longer than the test."""

    def answer(route: Route) -> None:
        query = parse_qs(urlsplit(route.request.url).query)
        first, limit = int(query.get("cursor", ["0"])[0]), int(query["limit"][0])
        rows = [
            {
                "task_id": f"many:{n}", "occurrence_ts": NOW + n, "state": "scheduled", "queue": "q",
                "handler": "h", "started_ms": None, "error": "",
            }
            for n in range(first, first + limit)
        ]  # fmt: skip
        stamps = {"as_of": NOW, "visited": limit, "cursor": str(first + limit)}
        route.fulfill(body=json.dumps({"rows": rows, **stamps}), content_type="application/json")

    page.route("**/api/tasks?*", answer)
    page.goto(f"{url}/#/list")
    expect(page.get_by_role("link", name="many:0", exact=True)).to_be_visible()
    assert page.evaluate(SCROLL, "more than is kept") <= IN_THE_DOCUMENT
    expect(page.locator("#listing .note")).to_contain_text("100,000 rows found")
    expect(page.get_by_role("link", name=f"many:{MOST - 1}")).to_be_in_viewport()
    for part in (0.25, 0.5, 0.75):
        page.locator("#listing-rows").evaluate(f"view => {{ view.scrollTop = {part} * view.scrollHeight; }}")
        expect(page.get_by_role("link", name=f"many:{int(part * MOST)}")).to_be_in_viewport()
        assert page.locator("#listing tbody tr").count() <= IN_THE_DOCUMENT
    page.get_by_role("button", name="Go on after these").click()
    expect(page.get_by_role("link", name=f"many:{MOST}", exact=True)).to_be_in_viewport()
