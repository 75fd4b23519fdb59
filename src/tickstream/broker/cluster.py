"""The dev broker: a Kafka cluster of one or three nodes on this machine that lives no longer than its owner.

Owns its processes and its directory; decides nothing about topics and speaks no Kafka.
"""

from __future__ import annotations

import base64
import json
import random
import signal
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from itertools import repeat
from pathlib import Path
from types import TracebackType
from typing import Self

from tickstream.broker.config import NODE_COUNTS, NodeAddress, NodeConfig
from tickstream.broker.node import Node, PortTaken
from tickstream.broker.ports import free_ports
from tickstream.broker.runtime import Runtime
from tickstream.clock import Clock, SystemClock
from tickstream.errors import BrokerUnavailable

_STOP_S = 5.0
_STARTS = 3
_SYSTEM_CLOCK = SystemClock()


class DevBroker:
    """A running cluster; make it with `start`, use it in a `with`, or call `stop`.

    Its processes are killed by the kernel when this process dies, however it dies. Nodes are counted
    from 0 here. Not for use by several threads at once.
    """

    def __init__(
        self, runtime: Runtime, nodes: int, directory: Path | None, ready_s: float, clock: Clock
    ) -> None:
        """Nothing runs yet: use `start`."""
        if nodes not in NODE_COUNTS:
            raise BrokerUnavailable(f"a dev broker has 1 or 3 nodes, not {nodes}")
        self._clock = clock
        self._ready_s = ready_s
        self._owned = ExitStack()
        self._temporary = directory is None
        if directory is None:
            temporary = tempfile.TemporaryDirectory(prefix="tickstream-broker-", ignore_cleanup_errors=True)
            directory = Path(self._owned.enter_context(temporary))
        self.directory = directory.resolve()
        # One thread that stays: processes die with the thread that started them.
        spawner = self._owned.enter_context(ThreadPoolExecutor(1, thread_name_prefix="dev-broker"))
        self._nodes = tuple(
            Node(runtime, self.directory / f"node-{number}", spawner, clock) for number in range(nodes)
        )
        self._addresses: tuple[NodeAddress, ...] = ()

    @classmethod
    def start(
        cls,
        *,
        runtime: Runtime,
        nodes: int = 1,
        directory: Path | None = None,
        port: int | None = None,
        ready_s: float = 60.0,
        clock: Clock = _SYSTEM_CLOCK,
        choice: random.Random | None = None,
    ) -> DevBroker:
        """Start the cluster and return once every node serves clients.

        Without `directory` the data lives in a temporary one that `stop` removes; with one it is kept,
        and a later start there goes on with the same data (and ports, if they are free). `port` fixes
        the first node's. Raises BrokerUnavailable, with the end of the log, when the cluster is not up
        within `ready_s` seconds.
        """
        broker = cls(runtime, nodes, directory, ready_s, clock)
        try:
            broker._start(port, choice or random.Random())
        except BaseException:
            broker.stop()
            raise
        return broker

    @property
    def bootstrap(self) -> str:
        """`host:port` of every node, for clients."""
        return ",".join(address.bootstrap for address in self._addresses)

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the nodes that run."""
        return tuple(pid for node in self._nodes if (pid := node.pid) is not None)

    def kill(self, node: int = 0) -> None:
        """SIGKILL a node and wait until it is gone."""
        self._nodes[node].kill()

    def pause(self, node: int = 0) -> None:
        """SIGSTOP a node: it holds its connections and answers nothing. Raises BrokerUnavailable if it is down."""
        self._nodes[node].send(signal.SIGSTOP)

    def resume(self, node: int = 0) -> None:
        """SIGCONT a paused node. Raises BrokerUnavailable if it is down."""
        self._nodes[node].send(signal.SIGCONT)

    def restart(self, node: int = 0) -> None:
        """Start a node again, on its data and ports, and wait until it serves; one that runs is stopped first.

        After a kill the node waits until its old session is over (3 s). Raises BrokerUnavailable.
        """
        stopped = self._nodes[node]
        self._stop([stopped])
        stopped.start()
        stopped.wait_ready(self._clock.monotonic() + self._ready_s)

    def stop(self) -> None:
        """End every node: SIGTERM, and SIGKILL after 5 s. May be called again.

        With a temporary directory it is SIGKILL at once, and the directory goes too: there is nothing to
        keep in order, and of three nodes the last would wait in vain for a quorum.
        """
        if self._temporary:
            for node in self._nodes:
                node.kill()
        self._stop(self._nodes)
        self._owned.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _stop(self, nodes: Iterable[Node]) -> None:
        nodes = tuple(nodes)
        deadline = self._clock.monotonic() + _STOP_S
        for node in nodes:
            node.ask_to_stop()
        for node in nodes:
            node.reap(deadline)

    def _start(self, port: int | None, choice: random.Random) -> None:
        deadline = self._clock.monotonic() + self._ready_s
        kept_id, former = self._read_identity()
        cluster_id = kept_id or _new_cluster_id(choice)
        if port is not None and former and former[0].broker_port != port:
            former = ()
        for attempt in range(_STARTS):
            # The ports of the last run first: whoever still holds its address finds it again.
            self._addresses = former if former and attempt == 0 else self._choose(port, choice)
            try:
                self._bring_up(cluster_id, deadline)
            except PortTaken:
                self._stop(self._nodes)
                if attempt == _STARTS - 1 or port is not None:
                    raise
            else:
                return

    def _choose(self, port: int | None, choice: random.Random) -> tuple[NodeAddress, ...]:
        count = len(self._nodes)
        ports = free_ports(2 * count, choice)
        client_ports = ports[:count] if port is None else (port, *ports[1:count])
        return tuple(NodeAddress(i + 1, client_ports[i], ports[count + i]) for i in range(count))

    def _bring_up(self, cluster_id: str, deadline: float) -> None:
        self._write_identity(cluster_id)
        with ThreadPoolExecutor(len(self._nodes)) as pool:
            configs = [NodeConfig(a.node_id, self._addresses, n.data_dir) for a, n in self._placed()]
            list(pool.map(Node.configure, self._nodes, configs, repeat(cluster_id)))
        for node in self._nodes:
            node.start()
        for node in self._nodes:
            node.wait_ready(deadline)

    def _placed(self) -> Iterable[tuple[NodeAddress, Node]]:
        return zip(self._addresses, self._nodes, strict=True)

    @property
    def _identity(self) -> Path:
        return self.directory / "cluster.json"

    def _read_identity(self) -> tuple[str, tuple[NodeAddress, ...]]:
        """The cluster id of the directory and its last addresses; both empty for a new one."""
        if not self._identity.exists():
            return "", ()
        kept = json.loads(self._identity.read_text("utf-8"))
        addresses = tuple(NodeAddress(**address) for address in kept["addresses"])
        if len(addresses) != len(self._nodes):
            raise BrokerUnavailable(
                f"{self.directory} holds a cluster of {len(addresses)}, not of {len(self._nodes)} nodes: "
                "start it with as many, or use another directory"
            )
        return kept["cluster_id"], addresses

    def _write_identity(self, cluster_id: str) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        kept = {"cluster_id": cluster_id, "addresses": [asdict(address) for address in self._addresses]}
        self._identity.write_text(json.dumps(kept), "utf-8")


def _new_cluster_id(choice: random.Random) -> str:
    """16 random bytes as Kafka writes ids: base64url without padding."""
    content = bytearray(choice.randbytes(16))
    content[0] &= 0x7F  # no id may begin with "-": StorageTool would take it for an option
    return base64.urlsafe_b64encode(content).decode("ascii").rstrip("=")
