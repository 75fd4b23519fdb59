"""The views besides the first, in a real browser: one question each, answered in words."""

from playwright.sync_api import Page, expect

from tests.browser.board import DEADLINE_S, NOW, Board
from tickstream.model import QueueLimits, Recurrence, RecurrenceKind
from tickstream.projection.rows import Change, ChangeKind, Owner, Payload, QueueSetting

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
    expect(page.locator("#task .verdict")).to_have_text("Faulted: no such zone")
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
    expect(first.locator("code").first).to_contain_text(
        "tickstream task list --state dead --handler charge --error-like 'Timeout after # ms' --from"
    )
    expect(first).to_contain_text("lists 3 occurrences")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    copy = first.get_by_role("button", name="Copy the command that lists 3 occurrences")
    copy.click()
    expect(copy).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == first.locator("code").first.inner_text()
    first.get_by_role("button", name="Copy the command that gives 3 occurrences another chance").click()
    assert page.evaluate("navigator.clipboard.readText()").startswith(
        "tickstream dead-letter replay --handler charge --error-like 'Timeout after # ms' --from "
    )
    expect(groups.nth(1).get_by_role("heading")).to_contain_text("</td><script>alert(")
    assert page.locator("main script").count() == 0
    _fits(page)
    first.get_by_role("link", name="all 3").click()
    expect(page.locator("#listing tbody tr")).to_have_count(3)


def test_a_payload_is_hidden_unless_it_is_kept(board: Board, url: str, page: Page) -> None:
    board.schedule("hidden:1", NOW + MINUTE, payload=Payload(1_234, "json", None))
    board.schedule("shown:1", NOW + MINUTE, payload=Payload(len(HOSTILE.encode()), "text", HOSTILE))
    board.commit()
    page.goto(f"{url}/#/task/hidden:1")
    expect(page.locator("#task .facts")).to_contain_text("1,234 bytes of JSON, hidden")
    expect(page.locator("#payload")).to_be_hidden()
    page.goto(f"{url}/#/task/shown:1")
    expect(page.locator("#payload")).to_have_text("</td><script>alert(1)</script>⟨U+202E⟩")
    expect(page.locator("#task .facts")).not_to_contain_text("hidden")
    assert page.locator("main script").count() == 0
    _fits(page)
    page.goto(f"{url}/#/task/hidden:1")
    expect(page.locator("#payload")).to_be_hidden()


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
    board.index.set_queues(1, [("default", QueueSetting(False, NOW, QueueLimits(4, 10, MINUTE)))])
    board.commit()
    expect(page.locator("#queues tbody tr")).to_have_count(3)
    expect(page.locator("#queues .verdict")).to_have_text(
        "Queue billing: 1 overdue, the oldest for 4 min. And 1 other queue."
    )
    mail = page.locator("#queues tbody tr", has_text="mail").locator("th, td").all_inner_texts()
    assert mail[:6] == ["mail", "1 waiting, 0 workers", "–", "1", "0", "0"]
    default = page.locator("#queues tbody tr", has_text="default").locator("th, td").all_inner_texts()
    assert default[:6] == [
        "default",
        "well",
        "at most 4 at once 10 starts in 1 min (in 1 of 4 buckets)",
        "0",
        "0",
        "2",
    ]
    expect(page.locator("#queues > .note")).to_have_text("Workers and members as the broker said 1.0 s ago.")
    _fits(page)
    page.locator("#queues").get_by_role("link", name="mail").click()
    expect(page.locator("#listing").get_by_role("link", name="stuck:1")).to_be_visible()


def test_runs_say_how_long_their_lease_has_left(board: Board, url: str, page: Page) -> None:
    page.goto(f"{url}/#/running")
    expect(page.locator("#runs .verdict")).to_have_text("Nothing is out")
    for n, age in enumerate((4_000, 100_000)):
        board.schedule(f"run:{n}", NOW - age, handler="render")
        board.dispatch(f"run:{n}", after_ms=0)
        board.claim(f"run:{n}", worker=f"worker-{n}", after_ms=0)
    board.schedule("out:1", NOW - 1_000)
    board.dispatch("out:1")
    board.heartbeat("run:0", 370, "37 of 100")
    board.commit()
    expect(page.locator("#run-table tbody tr")).to_have_count(2)
    expect(page.locator("#runs .verdict")).to_have_text("1 lease over")
    fresh = page.locator("#run-table tbody tr", has_text="run:0")
    expect(fresh.locator(".condition")).to_have_text("10 s left of 10 s")
    expect(fresh).to_contain_text("worker-0")
    expect(fresh).to_contain_text("37 %, 37 of 100")
    lost = page.locator("#run-table tbody tr", has_text="run:1")
    expect(lost.locator(".condition")).to_have_text("over for 1 min 30 s (of 10 s)")
    page.get_by_label("only what a worker holds").uncheck()
    expect(page.locator("#run-table tbody tr")).to_have_count(3)
    expect(page.locator("#run-table tbody tr", has_text="out:1")).to_contain_text("nobody holds it")
    _fits(page)


def test_lateness_over_time_and_what_piles_up(board: Board, url: str, page: Page) -> None:
    for n in range(3):
        at = NOW - 10 * MINUTE + n * MINUTE
        board.schedule(f"done:{n}", at)
        board.dispatch(f"done:{n}")
        board.end(f"done:{n}", start_ms=1 if n else 1_500)
    for n in range(5):
        board.schedule(f"peak:{n}", NOW + 20 * MINUTE + n, queue="mail")
    board.schedule("far:1", NOW + 5 * 60 * MINUTE)
    board.commit()
    page.goto(url)
    page.get_by_role("link", name="Over time").click()
    late = page.locator("#lateness-over-time")
    expect(late.locator(".verdict")).to_contain_text("99 % started within 1,")
    expect(late.locator(".detail")).to_contain_text("Of 3 runs. Half within")
    expect(late.locator(".detail")).to_contain_text("the worst minute began at 12:50")
    expect(late.locator("path.p99")).to_have_count(1)
    late.get_by_label("stage").select_option(label="due → decided")
    expect(late.locator("svg text").nth(1)).to_have_text("5 ms")
    late.get_by_text("Every period, by stage").click()
    expect(late.locator("tbody tr")).to_have_count(3)
    coming = page.locator("#forecast")
    expect(coming.locator(".verdict")).to_have_text("5 tasks in the next hour")
    expect(coming.locator(".detail")).to_have_text("5 in the worst second, at 13:20:30.")
    expect(coming.locator("#forecast-queues tbody tr")).to_have_text("mail5")
    _fits(page)
    page.locator("#horizon").select_option("day")
    expect(coming.locator(".verdict")).to_have_text("6 tasks in the next day")
    coming.locator("rect").first.click()
    expect(page.locator("#listing tbody tr")).to_have_count(5)
    page.go_back()
    page.locator("#worst-seconds").get_by_role("link", name="13:20:30").click()
    expect(page.locator("#listing tbody tr")).to_have_count(5)


def test_the_cluster_says_who_is_stuck_and_what_changed(board: Board, url: str, page: Page) -> None:
    owners = {n: Owner(("alpha", "omega")[n % 2], n % 2, 0, NOW - MINUTE - n % 2) for n in range(4)}
    board.index.owned(owners)
    board.index.note(Change(NOW - 9_000, ChangeKind.TZDATA, 0, {"before": "2025b", "after": "2025c"}))
    board.index.set_queues(1, [("mail", QueueSetting(True, NOW - 5_000))])
    board.broker(workers={"mail": ("w1",)}, dispatchers=("alpha", "omega"), ends=10)
    board.commit(restoring=(2,))
    page.goto(f"{url}/#/cluster")
    expect(page.locator("#cluster > .verdict")).to_have_text("1 bucket restoring")
    expect(page.locator("#lane-table tbody tr")).to_have_count(2)
    lane = page.locator("#lane-table tbody tr").nth(0).locator("th, td").all_inner_texts()
    assert (lane[0], lane[1], lane[2], lane[6]) == ("0", "alpha", "moves", "0 and 2")
    bucket = page.locator("#bucket-list tbody tr", has_text="restoring")
    expect(bucket).to_contain_text("restoring: 10 %, 18 records left")
    expect(page.locator("#change-table tbody tr .condition")).to_have_text(
        [
            "queue mail was paused (bucket 1)",
            "new zone data: 2025c, before 2025b (bucket 0)",
            "alpha took lane 0 over (buckets 0 and 2)",
            "omega took lane 1 over (buckets 1 and 3)",
        ]
    )
    expect(page.locator("#member-table tbody tr").last).to_have_text("queue mailw110.0.0.22 partitions")
    board.broker(workers={}, dispatchers=("alpha",))
    board.commit()
    expect(page.locator("#lane-table tbody tr").nth(1)).to_contain_text(
        "its owner has left; a take-over is due"
    )
    expect(page.locator("#cluster > .verdict")).to_have_text("Lane 1 needs a look")
    _fits(page)


def test_a_recurring_task_shows_its_own_clock_beside_the_viewers(board: Board, url: str, page: Page) -> None:
    nine = NOW - 30_000 + 60 * MINUTE  # 13:00 UTC, 09:00 in New York's summer
    rule = Recurrence(RecurrenceKind.CRON, "0 9 * * *", "America/New_York", start_ms=nine)
    board.schedule("report:daily", nine, recurrence=rule)
    board.commit()
    page.goto(f"{url}/#/task/report:daily")
    expect(page.locator("#task .facts")).to_contain_text("cron 0 9 * * *")
    expect(page.locator("#task .facts")).to_contain_text("14:00:00Tue 10 Mar 09:00:00 in America/New_York")
    expect(page.locator("#occurrences .there").nth(1)).to_contain_text("Mar 09:00:00")
    _fits(page)


def test_the_first_view_names_the_queue_that_nobody_works_on(board: Board, url: str, page: Page) -> None:
    board.schedule("stuck:1", NOW - 4_000, queue="mail")
    board.dispatch("stuck:1")
    board.broker(workers={"mail": ()}, waiting={"mail": 1})
    board.commit()
    page.goto(url)
    expect(page.locator("#troubled tbody tr")).to_have_text("mail1 waiting, 0 workers")
    board.broker(workers={"mail": ("w1",)})
    expect(page.locator("#troubled")).to_be_hidden()
