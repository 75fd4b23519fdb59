"""Every view: light and dark without a finding of axe-core, which npm fetches when the tests run; and by keyboard alone.

With TICKSTREAM_ARTIFACTS naming a directory, pictures of all views are left there, to be looked at.
"""

import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.board import DEADLINE_S, NOW, Board
from tests.browser.test_calendars import BOOKINGS

AXE = "axe-core@4.14.1"
DOWNLOAD_S = 60
VIEWS = {
    "": "#coming tbody tr",
    "failures": "#failure-groups > li",
    "queues": "#queue-table tbody tr",
    "running": "#run-table tbody tr",
    "charts": "#worst-seconds tbody tr",
    "cluster": "#lane-table tbody tr",
    "list": "#listing tbody tr",
    "task/bad:1": "#occurrences tbody tr",
    "calendars": "#calendar-table tbody tr",
    "calendars/room-7": ".week .chip.conflict",
    "calendars/room-7?view=month": ".month .chip.conflict",
    f"calendars/room-7?event={NOW}%20standup": "#occasion-next li",
}
"""By address, what is there once the view has its answer."""

_FINDINGS = """async () => (await axe.run()).violations.map(
    (found) => `${found.impact}: ${found.id}: ${found.nodes.map((node) => node.target.join(" ")).join(", ")}`)"""

expect.set_options(timeout=DEADLINE_S * 1000)


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed: apt-get install npm")
    folder: Path = tmp_path_factory.mktemp("axe")
    subprocess.run([npm, "pack", AXE, "--silent"], cwd=folder, check=True, timeout=DOWNLOAD_S)
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as files:
        script = files.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


def _fill(board: Board) -> None:
    """Something for every view."""
    board.schedule("soon:1", NOW + 5_000)
    board.schedule("late:1", NOW - 60_000, queue="mail")
    board.schedule("bad:1", NOW - 9_000)
    board.dispatch("bad:1")
    board.end("bad:1", error="Timeout")
    board.schedule("run:1", NOW - 5_000)
    board.dispatch("run:1")
    board.claim("run:1")
    for booking in BOOKINGS:
        board.book(booking)
    board.broker(workers={"default": ("w1",), "mail": ()})
    board.commit()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_view_has_a_finding(board: Board, url: str, page: Page, axe: str, scheme: str) -> None:
    _fill(board)
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(url)
    page.evaluate(axe)
    found = {}
    for view, there in VIEWS.items():
        page.evaluate("address => { location.hash = address }", f"#/{view}")
        expect(page.locator(there).first).to_be_visible()
        found[view] = page.evaluate(_FINDINGS)
        _photograph(page, view, scheme)
    assert found == {view: [] for view in VIEWS}


def _photograph(page: Page, view: str, scheme: str) -> None:
    """Leave a picture of the view, and one at the width of a phone, where the run keeps such things."""
    kept = os.environ.get("TICKSTREAM_ARTIFACTS")
    if not kept:
        return
    folder = Path(kept) / "pages"
    folder.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^a-z0-9]+", "-", view.partition("%20")[0]) or "overview"
    page.screenshot(path=folder / f"{name}-{scheme}.png", full_page=True)
    page.set_viewport_size({"width": 390, "height": 844})
    page.screenshot(path=folder / f"{name}-{scheme}-phone.png", full_page=True)
    page.set_viewport_size({"width": 1280, "height": 900})


_WALKED = """() => {
    const node = document.activeElement;
    if (node === document.body) return null;
    node.dataset.walked = "";
    return getComputedStyle(node).outlineStyle;
}"""
_MISSED = """() => [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"]')]
    .filter((node) => node.checkVisibility({ visibilityProperty: true }) && !node.disabled && !("walked" in node.dataset))
    .map((node) => node.outerHTML)"""


def test_tab_reaches_everything_in_every_view_and_shows_where_it_is(
    board: Board, url: str, page: Page
) -> None:
    _fill(board)
    for view, there in VIEWS.items():
        page.goto("about:blank")
        page.goto(f"{url}/#/{view}")
        expect(page.locator(there).first).to_be_visible()
        page.keyboard.press("p")  # what is read stands still
        outlines = []
        for _ in range(200):
            page.keyboard.press("Tab")
            outline = page.evaluate(_WALKED)
            if outline is None:
                break
            outlines.append(outline)
        assert set(outlines) == {"solid"}, view
        assert page.evaluate(_MISSED) == [], view
