"""What tests of several folders share: the one broker of a run, and names of one's own on it."""

import os
import uuid
from collections.abc import Callable, Iterator

import pytest
from rich.console import Console
from rich.progress import DownloadColumn
from rich.progress import Progress as ProgressBar

from tickstream.broker import DevBroker, Progress, Runtime, provision
from tickstream.broker.container import container_broker
from tickstream.settings import cache_dir


@pytest.fixture(scope="session")
def kafka_runtime(pytestconfig: pytest.Config) -> Runtime:
    """Kafka's jars and a Java, downloaded on the very first run."""
    # Straight to the terminal: pytest would keep a minute's download to itself.
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with (
        capture.global_and_fixture_disabled(),
        ProgressBar(
            *ProgressBar.get_default_columns(), DownloadColumn(), console=Console(stderr=True)
        ) as bar,
    ):
        return provision(cache_dir(), progress=_shown_by(bar))


def _shown_by(bar: ProgressBar) -> Callable[[Progress], None]:
    def show(progress: Progress) -> None:
        if not bar.task_ids:
            bar.add_task("Downloading Kafka", total=progress.bytes_total)
        bar.update(bar.task_ids[0], completed=progress.bytes_done)

    return show


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> Iterator[str]:
    """The bootstrap address of the run's Kafka; do not kill it, start a DevBroker of your own for that.

    TICKSTREAM_BOOTSTRAP names one that runs already; TICKSTREAM_TEST_BROKER=testcontainers starts a container.
    """
    if external := os.environ.get("TICKSTREAM_BOOTSTRAP"):
        yield external
    elif os.environ.get("TICKSTREAM_TEST_BROKER") == "testcontainers":
        with container_broker() as bootstrap:
            yield bootstrap
    else:
        with DevBroker.start(runtime=request.getfixturevalue("kafka_runtime")) as dev_broker:
            yield dev_broker.bootstrap


@pytest.fixture
def prefix() -> str:
    """A topic prefix that no other test uses."""
    return f"t{uuid.uuid4().hex[:12]}."
