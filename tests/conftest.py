"""What tests of several folders share: the one broker of a run, and names of one's own on it."""

import os
import uuid
from collections.abc import Iterator

import pytest
from rich.console import Console

from tickstream.broker import DevBroker, Runtime
from tickstream.broker.container import container_broker
from tickstream.ops import dev_broker
from tickstream.settings import cache_dir


@pytest.fixture(scope="session")
def kafka_runtime(pytestconfig: pytest.Config) -> Runtime:
    """Kafka's jars and a Java, downloaded on the very first run."""
    # Straight to the terminal: pytest would keep a minute's download to itself.
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        return dev_broker.kafka_runtime(cache_dir(), Console(stderr=True))


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
        with DevBroker.start(runtime=request.getfixturevalue("kafka_runtime")) as own:
            yield own.bootstrap


@pytest.fixture
def prefix() -> str:
    """A topic prefix that no other test uses."""
    return f"t{uuid.uuid4().hex[:12]}."
