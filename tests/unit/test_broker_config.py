"""The dev broker's pure parts: configuration text, pinned jars, the container's variables."""

from pathlib import PurePosixPath

import pytest

from tickstream.broker.config import NodeAddress, NodeConfig, dev_properties, properties, render
from tickstream.broker.container import IMAGE, container_environment
from tickstream.broker.jars import KAFKA_VERSION, ROOTS, LockedJar, locked_jars, parse_lock, render_lock
from tickstream.errors import BrokerUnavailable

ONE = (NodeAddress(1, 20001, 20011),)
THREE = (*ONE, NodeAddress(2, 20002, 20012), NodeAddress(3, 20003, 20013))
DATA = PurePosixPath("/data/node")


def test_a_single_node_replicates_nothing() -> None:
    made = properties(NodeConfig(1, ONE, DATA))
    copies = {key: value for key, value in made.items() if key.endswith((".factor", ".isr", ".replicas"))}
    assert set(copies.values()) == {"1"}
    assert len(copies) == 7


def test_three_nodes_keep_three_copies_and_need_two() -> None:
    made = properties(NodeConfig(2, THREE, DATA))
    factors = {value for key, value in made.items() if key.endswith(".replication.factor")}
    in_sync = {value for key, value in made.items() if key.endswith((".min.isr", "min.insync.replicas"))}
    assert factors == {"3"}
    assert in_sync == {"2"}
    assert made["controller.quorum.voters"] == "1@127.0.0.1:20011,2@127.0.0.1:20012,3@127.0.0.1:20013"
    assert made["node.id"] == "2"


def test_three_nodes_stand_in_three_racks_and_one_in_none() -> None:
    made = [properties(NodeConfig(node, THREE, DATA)) for node in (1, 2, 3)]
    assert [node["broker.rack"] for node in made] == ["a", "b", "c"]
    assert {node["replica.selector.class"] for node in made} == {
        "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    }
    assert not {"broker.rack", "replica.selector.class"} & properties(NodeConfig(1, ONE, DATA)).keys()


def test_a_node_listens_on_the_loopback_only() -> None:
    made = properties(NodeConfig(2, THREE, DATA))
    assert made["listeners"] == "PLAINTEXT://127.0.0.1:20002,CONTROLLER://127.0.0.1:20012"
    assert made["advertised.listeners"] == "PLAINTEXT://127.0.0.1:20002"


def test_the_promises_rest_on_these_settings() -> None:
    made = dev_properties(1)
    assert made["unclean.leader.election.enable"] == "false"
    assert made["auto.create.topics.enable"] == "false"
    assert made["group.min.session.timeout.ms"] == "1000"
    assert made["group.initial.rebalance.delay.ms"] == "0"


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (lambda: NodeConfig(1, THREE[:2], DATA), "1 or 3 nodes"),
        (lambda: NodeConfig(4, THREE, DATA), "node 4"),
        (lambda: NodeConfig(1, ONE, PurePosixPath("/data/a,b")), "commas"),
    ],
)
def test_what_cannot_run_is_refused(config: object, says: str) -> None:
    assert callable(config)
    with pytest.raises(BrokerUnavailable, match=says):
        config()


def test_properties_are_written_as_java_reads_them() -> None:
    written = render({"log.dirs": "/tmp/Bücher\\x/😀", "node.id": "1", "pad": " x"})
    assert written == "log.dirs=/tmp/B\\u00fccher\\\\x/\\ud83d\\ude00\nnode.id=1\npad=\\ x\n"


def test_the_lock_holds_what_was_asked_for() -> None:
    jars = locked_jars()
    assert {str(jar) for jar in jars} >= set(ROOTS)
    assert len({jar.path for jar in jars}) == len(jars)
    assert parse_lock(render_lock(jars)) == jars
    assert {jar.version for jar in jars if jar.group == "org.apache.kafka"} == {KAFKA_VERSION}


def test_a_jar_lies_where_maven_puts_it() -> None:
    jar = LockedJar("org.slf4j", "slf4j-api", "1.7.36", 1, "00")
    assert jar.path == PurePosixPath("org/slf4j/slf4j-api/1.7.36/slf4j-api-1.7.36.jar")


def test_a_container_runs_the_same_kafka_with_the_same_settings() -> None:
    variables = container_environment(20001)
    assert IMAGE.endswith(KAFKA_VERSION)
    assert variables["KAFKA_ADVERTISED_LISTENERS"] == "PLAINTEXT://127.0.0.1:20001"
    for key, value in dev_properties(1).items():
        assert variables["KAFKA_" + key.upper().replace(".", "_")] == value
