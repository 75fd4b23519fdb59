"""The configuration of a development node: KRaft, combined roles, loopback only.

Pure: values in, text out. No process is started and no file is written here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from tickstream.errors import BrokerUnavailable

HOST = "127.0.0.1"
NODE_COUNTS = (1, 3)
RACKS = ("a", "b", "c")
"""The rack of each of three nodes, in the order of their ids."""

_RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """Where a node listens on the loopback interface."""

    node_id: int
    broker_port: int
    controller_port: int

    @property
    def bootstrap(self) -> str:
        """`host:port` for clients."""
        return f"{HOST}:{self.broker_port}"


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """One node of a cluster of 1 or 3; `cluster` lists all of them, this one included."""

    node_id: int
    cluster: tuple[NodeAddress, ...]
    log_dir: PurePath

    def __post_init__(self) -> None:
        if len(self.cluster) not in NODE_COUNTS:
            raise BrokerUnavailable(f"a dev broker has 1 or 3 nodes, not {len(self.cluster)}")
        if self.node_id not in {address.node_id for address in self.cluster}:
            raise BrokerUnavailable(f"node {self.node_id} is not among the nodes of its cluster")
        if "," in str(self.log_dir):
            raise BrokerUnavailable(
                f"Kafka splits log.dirs at commas: choose a directory without one, not {self.log_dir}"
            )

    @property
    def address(self) -> NodeAddress:
        """This node's own address."""
        return next(address for address in self.cluster if address.node_id == self.node_id)


def dev_properties(node_count: int) -> dict[str, str]:
    """The settings that a development cluster needs whatever its addresses; a container takes them too.

    Replication follows production (3 copies, 2 in sync) as soon as there are three nodes.
    """
    replicas, in_sync = ("3", "2") if node_count == 3 else ("1", "1")
    # A consumer that says where it is reads from the copy that is there.
    nearby = {"replica.selector.class": _RACK_AWARE} if node_count == 3 else {}
    return {
        **nearby,
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        # Internal topics of 50 partitions each would cost a start its first seconds.
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.num.partitions": "4",
        # A first consumer gets its partitions at once, and a dead one is missed after a second or two.
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        # A transaction whose owner died is aborted soon after its timeout, not up to 10 s later.
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        # A killed node may register again only when its old session is over: 9 s by default.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        # Never serve from a replica that missed acknowledged records; never make a topic by a typo.
        "unclean.leader.election.enable": "false",
        "auto.create.topics.enable": "false",
        # 128 MiB by default, a third of the heap; 16 MiB hold the keys of a 64 MiB segment.
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
    }


def properties(config: NodeConfig) -> dict[str, str]:
    """All settings of this node, in the order in which they are written."""
    address = config.address
    rack = {"broker.rack": RACKS[config.cluster.index(address)]} if len(config.cluster) == 3 else {}
    voters = ",".join(f"{a.node_id}@{HOST}:{a.controller_port}" for a in config.cluster)
    return {
        "process.roles": "broker,controller",
        "node.id": str(config.node_id),
        "controller.quorum.voters": voters,
        "listeners": f"PLAINTEXT://{address.bootstrap},CONTROLLER://{HOST}:{address.controller_port}",
        "advertised.listeners": f"PLAINTEXT://{address.bootstrap}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(config.log_dir),
        **rack,
        **dev_properties(len(config.cluster)),
    }


def render(values: Mapping[str, str]) -> str:
    """The text of a Java properties file (ISO-8859-1 with `\\uXXXX` escapes, as java.util.Properties reads it)."""
    return "".join(f"{key}={_escaped(value)}\n" for key, value in values.items())


def _escaped(value: str) -> str:
    escaped = value.replace("\\", "\\\\")
    if escaped.startswith(" "):
        escaped = "\\" + escaped
    return "".join(char if " " <= char <= "~" else _utf16_escape(char) for char in escaped)


def _utf16_escape(char: str) -> str:
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
