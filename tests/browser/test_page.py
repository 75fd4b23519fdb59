"""The dashboard's page in a real browser: what it says, that it lives, and what it withstands."""

from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Page, expect

from tests.browser.board import DEADLINE_S, NOW, Board, serving
from tests.browser.conftest import Watch
from tickstream.projection.application import PAGE

MINUTE = 60_000
HOSTILE = {
    "<img src=x onerror=alert(1)>": "<img src=x onerror=alert(1)>",
    "</td></table><script>alert(2)</script>": "</td></table><script>alert(2)</script>",
    "طلب:٤٢/تذكير": "طلب:٤٢/تذكير",
    "pay\u202egpj.exe": "pay⟨U+202E⟩gpj.exe",
    "a/../b?c=d#e%2F&f": "a/../b?c=d#e%2F&f",
    "{calendar}uid ${alert(3)}": "{calendar}uid ${alert(3)}",
    "x" * 255: "x" * 255,
}
"""Ids and how they are shown: as they are, but for invisible controls that would reorder them."""

expect.set_options(timeout=DEADLINE_S * 1000)


def _row(page: Page, section: str, task_id: str) -> list[str]:
    row = page.locator(f"#{section} tbody tr", has=page.get_by_role("link", name=task_id, exact=True))
    # Reading texts waits for nothing: each list of the page has a request of its own.
    expect(row).to_have_count(1)
    return [text.strip() for text in row.locator("th, td").all_inner_texts()]


def _lively(board: Board) -> None:
    """Something in every state."""
    board.schedule("soon:1", NOW + 5_000, queue="mail", handler="send")
    board.schedule("soon:2", NOW + 65_000, handler="send")
    board.schedule("out:1", NOW - 4_000, queue="mail", handler="send")
    board.dispatch("out:1")
    for n in range(3):
        board.schedule(f"done:{n}", NOW - 20_000 - n, handler="send")
        board.dispatch(f"done:{n}")
        board.end(f"done:{n}")
    for n in range(2):
        board.schedule(f"failed:{n}", NOW - 30_000 + n, handler="charge")
        board.dispatch(f"failed:{n}")
        board.end(f"failed:{n}", error="CardDeclined: no funds")
    board.schedule("gone:1", NOW - 10_000, handler="send")
    board.cancel("gone:1")
    board.commit(behind_ms=400)


def test_it_answers_what_someone_on_call_asks(board: Board, url: str, page: Page) -> None:
    _lively(board)
    page.goto(url)
    expect(page.locator("#live")).to_have_text("Live")
    expect(page.locator("#late .verdict")).to_have_text("Nothing is late")
    expect(page.locator("#truth .verdict")).to_have_text("Yes, as of 0.4 s ago")
    expect(page.locator("#truth .detail")).to_contain_text("before 13:00:29")
    expect(page.locator("#where .verdict")).to_have_text("99 % start within 16 ms")
    expect(page.locator("#stages tbody tr").nth(1)).to_contain_text("decided → fetched")
    expect(page.locator("#coming tbody tr")).to_have_count(2)
    assert _row(page, "coming", "soon:1") == ["13:00:35", "5.0 s", "soon:1", "mail", "send"]
    assert _row(page, "out", "out:1") == ["13:00:26", "dispatched", "4.0 s", "out:1", "–"]
    expect(page.locator("#finished tbody tr")).to_have_count(6)
    assert _row(page, "finished", "done:0") == ["13:00:10", "16 ms", "40 ms", "succeeded", "done:0", "send"]
    assert _row(page, "finished", "gone:1")[3] == "cancelled"
    expect(page.locator("#failed tbody tr")).to_have_count(1)
    assert _row(page, "failed", "failed:1")[1:4] == ["2", "charge", "CardDeclined: no funds"]
    expect(page.locator("#total-dead")).to_have_text("2")
    expect(page.locator("#chart-says")).to_have_text(
        "Nothing in the last hour. 1 task in the next hour, most at 13:01 (1)."
    )
    due = page.locator("#coming time").first
    expect(due).to_have_attribute("title", "2026-03-10T12:00:35.000Z")
    expect(page.locator("#zone")).to_have_text("Europe/Berlin (GMT+1)")


def test_nothing_yet_is_said_in_words(url: str, page: Page) -> None:
    page.goto(url)
    expect(page.locator("#coming .note")).to_have_text("Nothing is scheduled.")
    expect(page.locator("#out .note")).to_have_text("Nothing is out.")
    expect(page.locator("#failed .note")).to_have_text("Nothing has failed.")
    expect(page.locator("#finished .note")).to_contain_text("Nothing that was due")


def test_late_tasks_are_named_with_their_queue(board: Board, url: str, page: Page) -> None:
    board.schedule("late:1", NOW - 4 * MINUTE, queue="mail")
    board.schedule("late:2", NOW - 9_000, queue="billing")
    board.commit()
    page.goto(url)
    expect(page.locator("#late .verdict")).to_have_text("2 tasks late")
    expect(page.locator("#late .detail")).to_have_text(
        "The oldest has waited 4 min, since 12:56:30, in the queue mail."
    )
    expect(page.locator("#late-queues tbody tr")).to_have_text(["mail112:56:30", "billing113:00:21"])
    assert _row(page, "overdue", "late:1")[:3] == ["12:56:30", "4 min", "late:1"]
    expect(page).to_have_title("2 late · tickstream")


def test_what_fell_due_a_moment_ago_is_not_called_late(board: Board, url: str, page: Page) -> None:
    board.schedule("just:1", NOW - 900)
    board.commit(behind_ms=700)
    page.goto(url)
    expect(page.locator("#late .detail")).to_have_text(
        "1 task fell due in the last 0.9 s and is being handed out."
    )
    expect(page.locator("#late .verdict")).to_have_text("Nothing is late")


def test_it_says_when_it_is_not_true_and_who_holds_it_back(board: Board, url: str, page: Page) -> None:
    board.schedule("unseen:1", NOW - 3_000)
    board.commit(held_back={2: 42_000})
    page.goto(url)
    expect(page.locator("#truth .verdict")).to_have_text("42 s behind")
    expect(page.locator("#truth .detail")).to_contain_text("up to 12:59:48: bucket 2 holds it back")
    expect(page.locator("#late .verdict")).to_have_text("Not known")
    expect(page.locator("#late .detail")).to_contain_text("1 task fell due since and is not seen handed out")
    expect(page.locator("#live")).to_have_text("42 s behind")
    page.get_by_text("Every bucket").click()
    expect(page.locator("#bucket-table tbody tr").nth(2)).to_contain_text("stands still")


def test_it_lives_without_a_reload(board: Board, url: str, page: Page) -> None:
    page.goto(url)
    expect(page.locator("#coming .note")).to_have_text("Nothing is scheduled.")
    board.schedule("fresh:1", NOW + 5_000)
    board.commit()
    link = page.locator("#coming").get_by_role("link", name="fresh:1")
    link.focus()
    board.wall.now += 6_000
    board.dispatch("fresh:1")
    board.commit()
    expect(page.locator("#out").get_by_role("link", name="fresh:1")).to_be_visible()
    expect(link).to_have_count(0)
    board.end("fresh:1")
    board.schedule("fresh:2", board.wall.now + 5_000)
    board.commit()
    expect(page.locator("#finished").get_by_role("link", name="fresh:1")).to_be_visible()
    # What is being read does not lose its place: the row's element stays while its neighbours change.
    kept = page.locator("#coming").get_by_role("link", name="fresh:2")
    kept.focus()
    board.schedule("fresh:0", board.wall.now + 1_000)
    board.commit()
    expect(page.locator("#coming tbody tr")).to_have_count(2)
    expect(kept).to_be_focused()


def test_runs_and_retries_are_told_with_who_and_since_when(board: Board, url: str, page: Page) -> None:
    for task_id in ("held:1", "waits:1", "done:1"):
        board.schedule(task_id, NOW - 6_004, handler="send")
        board.dispatch(task_id)
        board.claim(task_id, worker="worker-7", after_ms=1_000)
        board.fail(task_id, error="SmtpError: greylisted", retry_in_ms=3_200, expired=task_id == "held:1")
    for task_id in ("held:1", "done:1"):
        board.wall.now = NOW
        board.retry(task_id)
        board.claim(task_id, worker="worker-8", after_ms=0)
    board.end("done:1")
    board.wall.now = NOW + 4_000
    board.heartbeat("held:1", 370, "37 of 100")
    board.wall.now = NOW + 5_200
    board.fail("waits:1", error="SmtpError: full", retry_in_ms=60_000)
    board.commit()
    page.goto(url)
    expect(page.locator("#out .aside")).to_have_text("1 running, 1 retrying")
    assert _row(page, "out", "held:1")[1:5] == ["running", "2.0 s", "held:1", "worker-8"]
    assert _row(page, "out", "waits:1")[1:5] == ["retrying", "in 1 min", "waits:1", "–"]
    expect(page.locator("#total-retrying")).to_have_text("1")

    page.locator("#out").get_by_role("link", name="held:1").click()
    expect(page.locator("#task .verdict")).to_have_text("Running on worker-8 for 2.0 s, attempt 2")
    expect(page.locator("#task .detail")).to_have_text(
        "37 %, 37 of 100; heard of 1.2 s ago. Attempt 1: SmtpError: greylisted"
    )
    rows = page.locator("#attempts tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("running2")
    expect(rows.nth(1)).to_contain_text("lease expired1")
    expect(rows.nth(1)).to_contain_text("worker-7SmtpError: greylisted")
    page.goto(f"{url}/#/task/waits:1")
    expect(page.locator("#task .verdict")).to_have_text("Retrying: attempt 3 in 1 min")
    expect(page.locator("#attempts tbody tr")).to_have_count(2)
    page.goto(f"{url}/#/task/done:1")
    expect(page.locator("#attempts tbody tr").first).to_contain_text("succeeded2")
    expect(page.locator("#task .detail")).to_have_text("")
    page.set_viewport_size({"width": 320, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 320


def test_pause_holds_it_still(board: Board, url: str, page: Page) -> None:
    page.goto(url)
    expect(page.locator("#coming .note")).to_have_text("Nothing is scheduled.")
    page.keyboard.press("p")
    expect(page.locator("#live")).to_contain_text("Paused at")
    board.schedule("later:1", NOW + 5_000)
    board.commit()
    with page.expect_event("console", lambda message: message.text == "a second status"):
        page.evaluate(_AFTER_TWO_STATUSES)
    expect(page.locator("#coming tbody tr")).to_have_count(0)
    page.get_by_role("button", name="Go on").click()
    expect(page.locator("#coming").get_by_role("link", name="later:1")).to_be_visible()
    expect(page.locator("#live")).to_have_text("Live")


_AFTER_TWO_STATUSES = """async () => {
    const reader = (await fetch("api/stream")).body.pipeThrough(new TextDecoderStream()).getReader();
    for (let seen = 0; seen < 2; ) seen += (await reader.read()).value.split("event: status").length - 1;
    await reader.cancel();
    console.log("a second status");
}"""


def test_a_lost_server_is_seen_and_found_again(board: Board, page: Page) -> None:
    watch: Watch = page.watch  # type: ignore[attr-defined]
    with serving(board) as url:
        page.goto(url)
        expect(page.locator("#live")).to_have_text("Live")
        watch.outage = True
    expect(page.locator("#live")).to_contain_text("Not live")
    expect(page.get_by_role("alert")).to_contain_text("What you see is from")
    expect(page).to_have_title("not live · tickstream")
    board.schedule("meanwhile:1", NOW + 5_000)
    board.commit()
    with serving(board, port=urlsplit(url).port or 0):
        expect(page.locator("#live")).to_have_text("Live")
        expect(page.get_by_role("alert")).to_be_hidden()
        expect(page.locator("#coming").get_by_role("link", name="meanwhile:1")).to_be_visible()
        page.goto("about:blank")


def test_an_index_that_is_not_there_yet_is_an_error_in_words(
    board: Board, tmp_path: Path, page: Page
) -> None:
    watch: Watch = page.watch  # type: ignore[attr-defined]
    watch.outage = True
    real, board.data_dir = board.data_dir, tmp_path / "nothing"
    with serving(board) as url:
        page.goto(url)
        expect(page.get_by_role("alert")).to_contain_text("No index yet")
        expect(page.locator("#live")).to_have_text("No answers yet")
        expect(page.locator("#late .verdict")).to_have_text("Not known")
        expect(page.locator("#coming .note")).to_have_text("Not known yet.")
    board.data_dir = real


def test_hostile_ids_are_text(board: Board, url: str, page: Page) -> None:
    for n, task_id in enumerate(HOSTILE):
        board.schedule(task_id, NOW + 5_000 + n, handler=task_id, labels={task_id: "<b>bold</b>"})
    board.commit()
    page.goto(url)
    for n, shown in enumerate(HOSTILE.values()):
        link = page.locator("#coming tbody tr").nth(n).get_by_role("link")
        expect(link).to_have_text(shown)
        link.click()
        expect(page.locator("#task-h bdi")).to_have_text(shown)
        expect(page.locator("#task .verdict")).to_contain_text("Scheduled: due in 5.0 s")
        expect(page.locator("#task .facts")).to_contain_text(f"{shown}: <b>bold</b>")
        assert page.locator("main img, main script, main b").count() == 0
        page.go_back()


def test_by_keyboard(board: Board, url: str, page: Page) -> None:
    _lively(board)
    page.goto(url)
    expect(page.locator("#coming tbody tr")).to_have_count(2)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    walk = []
    for _ in range(40):
        page.keyboard.press("Tab")
        focused = page.locator(":focus")
        if focused.count() == 0:
            break
        assert focused.evaluate("node => getComputedStyle(node).outlineStyle") == "solid"
        walk.append(focused.evaluate("node => node.textContent.trim() || node.id"))
    assert walk[:4] == ["tickstream", "wanted", "Find", "Pause"]
    assert [name for name in walk if ":" in name][:2] == ["failed:1", "out:1"]
    page.keyboard.press("/")
    expect(page.get_by_label("Find a task by its id")).to_be_focused()
    page.keyboard.type("failed:1/p")
    page.keyboard.press("Backspace")
    page.keyboard.press("Backspace")
    page.keyboard.press("Enter")
    expect(page.locator("#task .verdict")).to_contain_text("Dead: given up")
    expect(page.locator("#task-h")).to_be_focused()
    expect(page.locator("#occurrences tbody")).to_contain_text("CardDeclined: no funds")
    page.go_back()
    expect(page.locator("#coming")).to_be_visible()


def test_an_unknown_id_leads_to_those_that_begin_like_it(board: Board, url: str, page: Page) -> None:
    _lively(board)
    page.goto(f"{url}/#/task/done")
    expect(page.locator("#task .verdict")).to_have_text("No task has this id")
    page.get_by_text("Look for ids that begin like this").click()
    expect(page.locator("#listing tbody tr")).to_have_count(3)
    expect(page.locator("#listing .note")).to_contain_text("that is all")


def test_thousands_that_ended_at_once_do_not_hide(board: Board, url: str, page: Page) -> None:
    for n in range(300):
        board.schedule(f"burst:{n:03}", NOW - 20_000)
        board.dispatch(f"burst:{n:03}")
        board.end(f"burst:{n:03}")
    board.commit()
    page.goto(url)
    expect(page.locator("#finished tbody tr")).to_have_count(15)
    expect(page.locator("#finished .aside")).to_contain_text("some of those due in the last 2")


def test_a_minute_of_the_chart_opens_its_list(board: Board, url: str, page: Page) -> None:
    board.schedule("peak:1", NOW + 30 * MINUTE)
    board.commit()
    page.goto(url)
    page.locator("#chart rect.scheduled").click()
    expect(page.locator("#listing").get_by_role("link", name="peak:1")).to_be_visible()
    page.get_by_role("link", name="← Everything").click()
    page.get_by_text("The same as a table").click()
    expect(page.locator("#minute-table tbody tr")).to_have_text("13:30:0011 scheduled")


def test_the_chart_is_moved_in_time_and_seen_wider(board: Board, url: str, page: Page) -> None:
    board.schedule("near:1", NOW + 3 * MINUTE)
    board.schedule("far:1", NOW + 30 * 60 * MINUTE)
    board.commit()
    page.goto(url)
    says = page.locator("#chart-says")
    expect(says).to_contain_text("1 task in the next hour")
    page.get_by_role("button", name="Closer").click()
    expect(says).to_have_text("1 task due from 12:53 to 13:08, most at 13:03 (1).")
    expect(page.locator("#load-sight")).to_contain_text("15 minutes")
    expect(page.get_by_role("button", name="Closer")).to_be_disabled()
    for _ in range(3):
        page.get_by_role("button", name="Wider").click()
    expect(says).to_have_text("1 task due from 9 Mar, 13:00 to 11 Mar, 13:00, most at 13:00 (1).")
    page.get_by_role("button", name="Later", exact=True).focus()
    page.keyboard.press("Enter")
    expect(says).to_have_text("2 tasks due from 13:00 to 12 Mar, 13:00, most at 13:00 (1).")
    expect(page.locator("#minutes")).to_be_hidden()
    page.locator("#chart rect.scheduled").last.click()
    expect(page.locator("#listing tbody tr")).to_have_count(1)
    expect(page.locator("#listing").get_by_role("link", name="far:1")).to_be_visible()
    page.go_back()
    page.get_by_role("button", name="Now").click()
    expect(says).to_contain_text("1 task in the next hour")


def test_nothing_runs_out_of_a_narrow_screen(board: Board, url: str, page: Page) -> None:
    _lively(board)
    for task_id in HOSTILE:
        board.schedule(task_id, NOW + 5_000, queue="q" * 60, handler=task_id)
    board.schedule("late:" + "y" * 200, NOW - MINUTE, queue="q" * 60)
    board.commit()
    page.goto(url)
    expect(page.locator("#coming tbody tr")).to_have_count(9)
    for view in ("#/", f"#/task/{'x' * 255}", "#/list?state=scheduled"):
        page.goto(f"{url}/{view}")
        expect(page.locator("main table:visible td").first).to_be_visible()
        for width in (320, 390, 820):
            page.set_viewport_size({"width": width, "height": 844})
            assert page.evaluate("document.documentElement.scrollWidth") == width, view


def test_a_token_is_asked_for_and_then_used(board: Board, page: Page) -> None:
    watch: Watch = page.watch  # type: ignore[attr-defined]
    with serving(board, token="open sesame") as url:
        watch.refusals = True
        page.goto(url)
        page.get_by_label("Token", exact=True).fill("open sesame")
        page.keyboard.press("Enter")
        expect(page.locator("#live")).to_have_text("Live")
        expect(page.locator("#truth .verdict")).to_contain_text("Yes")
        page.goto("about:blank")


def test_it_is_small_and_soon_there(url: str, page: Page) -> None:
    assert sum(path.stat().st_size for path in PAGE.iterdir()) <= 200_000
    page.goto(url)
    expect(page.locator("#live")).to_have_text("Live")
    paints = page.evaluate("performance.getEntriesByName('first-contentful-paint').map(e => e.startTime)")
    # Under 1 s on an idle machine; here others compute too.
    assert paints[0] < 3_000
