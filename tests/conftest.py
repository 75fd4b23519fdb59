"""What tests of several folders share: the one broker of a run, and names of one's own on it."""

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

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
    if shared := getattr(request.config, "workerinput", {}).get("bootstrap"):
        yield shared
    else:
        with _broker(lambda: request.getfixturevalue("kafka_runtime")) as bootstrap:
            yield bootstrap


@contextmanager
def _broker(runtime: Callable[[], Runtime]) -> Iterator[str]:
    if external := os.environ.get("TICKSTREAM_BOOTSTRAP"):
        yield external
    elif os.environ.get("TICKSTREAM_TEST_BROKER") == "testcontainers":
        with container_broker() as bootstrap:
            yield bootstrap
    else:
        with DevBroker.start(runtime=runtime()) as own:
            yield own.bootstrap


class _SharedBroker:
    """One broker for all processes of a parallel run (`-n`): started by the process that controls them."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._bootstrap: str | None = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a test process, before it starts, where the broker is."""
        if self._bootstrap is None:
            console = Console(stderr=True)
            self._bootstrap = self._open.enter_context(
                _broker(lambda: dev_broker.kafka_runtime(cache_dir(), console))
            )
        node.workerinput["bootstrap"] = self._bootstrap

    def pytest_unconfigure(self) -> None:
        """Stop it when the run is over, however it ended."""
        self._open.close()


def pytest_configure(config: pytest.Config) -> None:
    """Only the controlling process shares a broker; test processes are told of it."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_SharedBroker(), "shared-broker")


@pytest.fixture
def prefix() -> str:
    """A topic prefix that no other test uses."""
    return f"t{uuid.uuid4().hex[:12]}."
