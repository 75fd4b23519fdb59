"""The page at the end of the whole path: real broker, dispatcher, worker, projection and dashboard processes."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Page, expect

from tests.kafka.worker_app import note
from tickstream.ingest import Client
from tickstream.kafka import Admin
from tickstream.ops.processes import ManagedProcess, tickstream_command
from tickstream.settings import Settings
from tickstream.topics import TopicNames, topic_table

pytestmark = pytest.mark.kafka
DEADLINE_MS = 20_000


class Installation(NamedTuple):
    """What a test needs to reach."""

    dispatcher: ManagedProcess
    url: str


@pytest.fixture
def settings(broker: str, prefix: str) -> Iterator[Settings]:
    settings = Settings(broker, prefix)
    admin = Admin(settings)
    table = topic_table(TopicNames(prefix), buckets=4, lanes=1)
    admin.create(table)
    yield settings
    admin.delete_topics([topic.name for topic in table])


@pytest.fixture
def installation(settings: Settings, tmp_path: Path) -> Iterator[Installation]:
    environment = os.environ | {
        "TICKSTREAM_BOOTSTRAP": settings.bootstrap,
        "TICKSTREAM_PREFIX": settings.prefix,
    }
    index = f"--data={tmp_path / 'index'}"
    with ExitStack() as running:

        def start(*arguments: str) -> ManagedProcess:
            command = tickstream_command(*arguments, "--json")
            return running.enter_context(ManagedProcess.start(command, env=environment, name=arguments[0]))

        dispatcher = start("dispatcher", "run", f"--data={tmp_path / 'timers'}", "--session-ms=2000")
        worker = start("worker", "run", "tests.kafka.worker_app:app", "--session-ms=2000")
        projection = start("projection", "run", index)
        dashboard = start("dashboard", "run", index, "--port=0")
        dispatcher.wait_event("lane_active")
        worker.wait_event("ready")
        projection.wait_event("ready")
        yield Installation(dispatcher, str(dashboard.wait_event("ready")["url"]))


def test_a_task_passes_through_the_page(settings: Settings, installation: Installation, page: Page) -> None:
    expect.set_options(timeout=DEADLINE_MS)
    page.goto(installation.url)
    expect(page.locator("#truth .verdict")).to_contain_text("Yes, as of")
    with Client(settings) as client:
        due = datetime.now(UTC) + timedelta(seconds=3)
        client.schedule("order:7", run_at=due, call=note.bind()).receipt()
    link = {"name": "order:7", "exact": True}
    expect(page.locator("#coming").get_by_role("link", **link)).to_be_visible()
    expect(page.locator("#finished").get_by_role("link", **link)).to_be_visible()
    expect(page.locator("#late .verdict")).to_have_text("Nothing is late")
    expect(page.locator("#where .detail")).to_contain_text("Of 1 run that ended")
    page.locator("#finished").get_by_role("link", **link).click()
    expect(page.locator("#task .verdict")).to_contain_text("Succeeded")
    page.go_back()

    # A dispatcher that hangs: the page says how far behind it is, and where.
    installation.dispatcher.send(signal.SIGSTOP)
    expect(page.locator("#truth .verdict")).to_contain_text("s behind")
    expect(page.locator("#truth .detail")).to_contain_text("holds it back")
