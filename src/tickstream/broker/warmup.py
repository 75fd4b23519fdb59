"""Makes the class cache with which nodes start: one throw-away node runs once, and its JVM writes down what it loaded.

Only a matter of speed: nothing may depend on the cache being there.
"""

from __future__ import annotations

import random
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tickstream.broker.config import NodeAddress, NodeConfig
from tickstream.broker.node import Node
from tickstream.broker.ports import free_ports
from tickstream.broker.runtime import Runtime
from tickstream.clock import SystemClock

AOT_SINCE_JAVA = 25
"""The first Java that writes the cache in one step (JEP 514)."""

_UP_S = 60.0
_WRITTEN_S = 120.0
_CLUSTER_ID = "dGhyb3ctYXdheS1ub2RlMQ"


def write_aot_cache(runtime: Runtime, cache: Path) -> None:
    """Run a node and stop it again; its JVM writes `cache` on the way out.

    A JVM that would not write it leaves an empty file: it is not asked again, and later ones ignore the file.
    Raises BrokerUnavailable when the node does not start.
    """
    clock = SystemClock()
    draft = cache.with_suffix(".new")
    with (
        tempfile.TemporaryDirectory(prefix="tickstream-warmup-") as temporary,
        ThreadPoolExecutor(1) as spawner,
    ):
        node = Node(runtime, Path(temporary), spawner, clock, (f"-XX:AOTCacheOutput={draft}",))
        address = NodeAddress(1, *free_ports(2, random.Random()))
        node.configure(NodeConfig(1, (address,), node.data_dir), _CLUSTER_ID)
        node.start()
        try:
            node.wait_ready(clock.monotonic() + _UP_S)
            node.ask_to_stop()
            node.reap(clock.monotonic() + _WRITTEN_S)
        finally:
            node.kill()
    draft.touch()
    draft.replace(cache)
