"""The same single-node Kafka in a container, where a container engine exists: an alternative for the tests.

testcontainers is imported only when a container is asked for; nothing else may depend on it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tickstream.broker.config import HOST, dev_properties
from tickstream.broker.jars import KAFKA_VERSION
from tickstream.broker.ports import free_ports
from tickstream.errors import BrokerUnavailable

IMAGE = f"apache/kafka:{KAFKA_VERSION}"
_READY_S = 120


def container_environment(port: int) -> Mapping[str, str]:
    """The image's variables for a node that clients on this machine reach at `port` (same number inside)."""
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:9093",
        "listeners": f"PLAINTEXT://0.0.0.0:{port},CONTROLLER://{HOST}:9093",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        **dev_properties(1),
    }
    return {f"KAFKA_{key.upper().replace('.', '_')}": value for key, value in properties.items()}


@contextmanager
def container_broker(image: str = IMAGE, *, choice: random.Random | None = None) -> Iterator[str]:
    """Run Kafka in a container for the length of the `with`; gives its bootstrap address.

    Raises BrokerUnavailable when testcontainers is not installed, no engine answers, or Kafka does not come up.
    """
    try:
        from docker.errors import DockerException  # type: ignore[import-untyped]
        from testcontainers.core.container import DockerContainer
        from testcontainers.core.wait_strategies import LogMessageWaitStrategy
    except ImportError as error:
        raise BrokerUnavailable(
            "a broker in a container needs testcontainers: pip install 'tickstream[dev]'"
        ) from error
    (port,) = free_ports(1, choice or random.Random())
    ready = LogMessageWaitStrategy("Kafka Server started").with_startup_timeout(_READY_S)
    try:
        container = DockerContainer(image).with_bind_ports(port, port).waiting_for(ready)
        for name, value in container_environment(port).items():
            container = container.with_env(name, value)
        container.start()
    except DockerException as error:
        raise BrokerUnavailable(
            f"no container engine could run {image}: {error}; start one, or unset TICKSTREAM_TEST_BROKER to use the dev broker"
        ) from error
    except (TimeoutError, RuntimeError) as error:
        container.stop()
        raise BrokerUnavailable(f"Kafka in {image} was not ready within {_READY_S} s: {error}") from error
    try:
        yield f"{HOST}:{port}"
    finally:
        container.stop()
