"""Chromium, driven by Playwright; a watch on what a page must not do."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from tests.browser.board import Board, serving

HERE = Path(__file__).parent
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DEADLINE_MS = 10_000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The hook sees the items of the whole run, not of this folder only.
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)


# Per module, since an open Playwright keeps a running event loop in this thread: asyncio.run of a test
# elsewhere would refuse to start.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser with a fresh profile."""
    executable = shutil.which("chromium")
    if executable is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        yield browser
        browser.close()


class Watch:
    """What a page did that it must not do.

    `outage`, `refusals`: the server is away, or answers no, on purpose; the console tells of that too.
    """

    def __init__(self, page: Page) -> None:
        self.faults: list[str] = []
        self.hosts: set[str] = set()
        self.outage = False
        self.refusals = False
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.faults.append(f"page error: {error}"))
        page.on("dialog", lambda dialog: self.faults.append(f"dialog: {dialog.message}"))
        page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        expected = (self.outage and "net::ERR" in message.text) or (self.refusals and "401" in message.text)
        if message.type in ("error", "warning") and not expected:
            self.faults.append(f"console: {message.text}")

    def _request(self, request: Request) -> None:
        self.hosts.add(urlsplit(request.url).netloc)


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    """An installation in which nothing has happened yet."""
    board = Board(tmp_path)
    board.commit()
    yield board
    board.index.close()


@pytest.fixture
def url(board: Board) -> Iterator[str]:
    """The dashboard's address on that installation."""
    with serving(board) as url:
        yield url


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page in Berlin; the test fails on errors in its console and on requests to elsewhere."""
    context = browser.new_context(timezone_id="Europe/Berlin", viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(DEADLINE_MS)
    page.watch = Watch(page)  # type: ignore[attr-defined]
    yield page
    watch: Watch = page.watch  # type: ignore[attr-defined]
    context.close()
    assert watch.faults == []
    assert len(watch.hosts) <= 1, f"requests went to {watch.hosts}"
