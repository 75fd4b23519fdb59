"""The views besides the first, in a real browser: one question each, answered in words."""

from playwright.sync_api import Page, expect

from tests.browser.board import DEADLINE_S, NOW, Board

MINUTE = 60_000
HOSTILE = "</td><script>alert(1)</script>\u202e"

expect.set_options(timeout=DEADLINE_S * 1000)


def _fits(page: Page) -> None:
    """Nothing runs out of the screen, at the widths that people have."""
    for width in (320, 390, 1280):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") == width
    page.set_viewport_size({"width": 1280, "height": 900})


def _gated(board: Board) -> None:
    """One task in each state that does not go on by itself."""
    for n, extras in enumerate(({"held": "queue"}, {"paused": True}, {"faulted": "no such zone"})):
        (state,) = extras
        board.schedule(f"{state}:1", NOW + MINUTE + n, queue="mail")
        board.stop(f"{state}:1", **extras)


def test_every_state_has_a_word_and_a_filter(board: Board, url: str, page: Page) -> None:
    _gated(board)
    board.schedule("soon:1", NOW + 5_000)
    board.commit()
    page.goto(url)
    for state in ("held", "paused", "faulted"):
        expect(page.locator(f"#total-{state}")).to_have_text("1")
    page.get_by_role("link", name="Tasks", exact=True).click()
    expect(page.locator("#listing tbody tr")).to_have_count(4)
    page.get_by_label("held", exact=True).check()
    expect(page.locator("#listing tbody tr")).to_have_count(1)
    expect(page.locator("#listing td.state")).to_have_text("held")
    page.get_by_label("faulted", exact=True).check()
    expect(page.locator("#listing tbody tr")).to_have_count(2)
    expect(page.locator("#listing-h")).to_have_text("Tasks held and faulted")
    expect(page.get_by_label("faulted", exact=True)).to_be_focused()
    page.get_by_label("Id begins with").fill("faulted")
    page.keyboard.press("Enter")
    expect(page.locator("#listing tbody tr")).to_have_count(1)
    page.locator("#listing").get_by_role("link", name="faulted:1").click()
    expect(page.locator("#task .verdict")).to_contain_text("Faulted: a decision about it failed")
    page.goto(f"{url}/#/list")
    _fits(page)


def test_failures_come_in_groups_with_their_command(board: Board, url: str, page: Page) -> None:
    page.goto(f"{url}/#/failures")
    expect(page.locator("#failures .verdict")).to_have_text("Nothing was given up on in the last day")
    errors = [f"Timeout after {n} ms" for n in (10, 20, 35)] + [f"{HOSTILE} 'quoted'"]
    for n, error in enumerate(errors):
        board.schedule(f"bad:{n}", NOW - 30_000 + n, queue="mail", handler="charge")
        board.dispatch(f"bad:{n}")
        board.end(f"bad:{n}", error=error)
    board.commit()
    expect(page.locator("#failures .verdict")).to_have_text("4 occurrences given up on in the last day")
    groups = page.locator("#failure-groups > li")
    expect(groups).to_have_count(2)
    first = groups.nth(0)
    expect(first.get_by_role("heading")).to_have_text("3 × Timeout after # ms")
    expect(first).to_contain_text("handler charge · queue mail · first 13:00:00 · last 13:00:00")
    expect(first.locator("code")).to_contain_text(
        "tickstream task list --state dead --handler charge --error-like 'Timeout after # ms' --from"
    )
    expect(first).to_contain_text("lists 3 occurrences")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    first.get_by_role("button", name="Copy the command that lists 3 occurrences").click()
    expect(first.get_by_role("button")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == first.locator("code").inner_text()
    expect(groups.nth(1).get_by_role("heading")).to_contain_text("</td><script>alert(")
    assert page.locator("main script").count() == 0
    _fits(page)
    first.get_by_role("link", name="all 3").click()
    expect(page.locator("#listing tbody tr")).to_have_count(3)


def test_queues_say_who_works_and_what_waits(board: Board, url: str, page: Page) -> None:
    page.goto(f"{url}/#/queues")
    expect(page.locator("#queues .verdict")).to_have_text("There is no queue yet")
    board.schedule("stuck:1", NOW - 4_000, queue="mail")
    board.dispatch("stuck:1")
    board.schedule("late:1", NOW - 4 * MINUTE, queue="billing")
    board.schedule("soon:1", NOW + MINUTE, queue="default")
    board.broker(
        workers={"default": ("w1", "w2"), "mail": (), "billing": ("w3",)}, waiting={"mail": 1, "billing": 0}
    )
    board.commit()
    expect(page.locator("#queues tbody tr")).to_have_count(3)
    expect(page.locator("#queues .verdict")).to_have_text(
        "Queue billing: 1 overdue, the oldest for 4 min. And 1 other queue."
    )
    mail = page.locator("#queues tbody tr", has_text="mail").locator("th, td").all_inner_texts()
    assert mail[:5] == ["mail", "1 waiting, 0 workers", "1", "0", "0"]
    default = page.locator("#queues tbody tr", has_text="default").locator("th, td").all_inner_texts()
    assert default[:5] == ["default", "well", "0", "0", "2"]
    expect(page.locator("#queues > .note")).to_have_text("Workers and members as the broker said 1.0 s ago.")
    _fits(page)
    page.locator("#queues").get_by_role("link", name="mail").click()
    expect(page.locator("#listing").get_by_role("link", name="stuck:1")).to_be_visible()
