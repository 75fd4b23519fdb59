"""The dev broker as its users see it: it serves, keeps data, dies with its owner, and leaves nothing behind."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tickstream.broker import DevBroker, Runtime, provision
from tickstream.errors import BrokerUnavailable
from tickstream.settings import cache_dir

DEADLINE_S = 30.0


def create(bootstrap: str, topic: str) -> None:
    client = AdminClient({"bootstrap.servers": bootstrap})
    client.create_topics([NewTopic(topic, 1)])[topic].result(DEADLINE_S)


def produce(bootstrap: str, topic: str, *values: bytes) -> None:
    """Returns once every value is acknowledged."""
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": 20_000})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(DEADLINE_S) == 0
    assert errors == [None] * len(values)


def consume(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        messages = consumer.consume(count, DEADLINE_S)
        return [value for message in messages if (value := message.value()) is not None]
    finally:
        consumer.close()


def alive(pid: int) -> bool:
    """Whether the process runs; one that only waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def eventually(condition: Callable[[], bool], deadline_s: float = DEADLINE_S) -> bool:
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture(scope="module")
def own(kafka_runtime: Runtime) -> Iterator[DevBroker]:
    """A broker that these tests may kill."""
    with DevBroker.start(runtime=kafka_runtime) as broker:
        yield broker


def test_the_shared_broker_carries_messages(broker: str, prefix: str) -> None:
    create(broker, prefix + "echo")
    produce(broker, prefix + "echo", b"one", b"two")
    assert consume(broker, prefix + "echo", 2) == [b"one", b"two"]


def test_a_topic_is_never_made_by_a_typo(broker: str, prefix: str) -> None:
    client = AdminClient({"bootstrap.servers": broker})
    client.list_topics(prefix + "typo", timeout=DEADLINE_S)
    assert prefix + "typo" not in client.list_topics(timeout=DEADLINE_S).topics


def test_acknowledged_data_survives_a_kill(own: DevBroker, prefix: str) -> None:
    create(own.bootstrap, prefix + "kept")
    produce(own.bootstrap, prefix + "kept", b"before")
    address = own.bootstrap

    own.kill()
    assert own.pids == ()
    with pytest.raises(BrokerUnavailable, match="not running"):
        own.pause()
    own.restart()

    assert own.bootstrap == address
    produce(address, prefix + "kept", b"after")
    assert consume(address, prefix + "kept", 2) == [b"before", b"after"]


def test_a_paused_broker_answers_nothing_until_it_is_resumed(own: DevBroker) -> None:
    own.pause()
    try:
        with pytest.raises(KafkaException):
            AdminClient({"bootstrap.servers": own.bootstrap}).list_topics(timeout=0.5)
    finally:
        own.resume()
    assert AdminClient({"bootstrap.servers": own.bootstrap}).list_topics(timeout=DEADLINE_S).brokers


def test_two_brokers_run_side_by_side(broker: str, own: DevBroker, prefix: str) -> None:
    for bootstrap, value in ((broker, b"left"), (own.bootstrap, b"right")):
        create(bootstrap, prefix + "same")
        produce(bootstrap, prefix + "same", value)
    assert consume(broker, prefix + "same", 1) == [b"left"]
    assert consume(own.bootstrap, prefix + "same", 1) == [b"right"]


def test_a_kept_directory_goes_on_where_it_was(kafka_runtime: Runtime, tmp_path: Path, prefix: str) -> None:
    def start() -> DevBroker:
        return DevBroker.start(runtime=kafka_runtime, directory=tmp_path)

    with start() as first:
        address = first.bootstrap
        create(address, prefix + "kept")
        produce(address, prefix + "kept", b"still here")
    with start() as second:
        assert second.bootstrap == address
        assert consume(address, prefix + "kept", 1) == [b"still here"]
    # Its port is taken meanwhile: it comes back on another one.
    host, _, port = address.partition(":")
    with socket.create_server((host, int(port))), start() as third:
        assert third.bootstrap != address
        assert consume(third.bootstrap, prefix + "kept", 1) == [b"still here"]


def test_a_broker_that_cannot_start_says_why(kafka_runtime: Runtime, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BrokerUnavailable, match=rf"(?s)port taken.*{port}"):
            DevBroker.start(runtime=kafka_runtime, directory=tmp_path, port=port)


OWNER = """
import sys, time
from tickstream.broker import DevBroker, provision
from tickstream.settings import cache_dir

with DevBroker.start(runtime=provision(cache_dir())) as broker:
    print(broker.pids[0], broker.directory, flush=True)
    sys.stdin.read()
"""


@contextmanager
def owner() -> Iterator[tuple[subprocess.Popen[str], int, Path]]:
    """Another process with a broker of its own, the broker's pid and its directory."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    directory = ""
    try:
        assert process.stdout is not None
        pid, directory = process.stdout.readline().split()
        yield process, int(pid), Path(directory)
    finally:
        process.kill()
        process.communicate()
        if directory:  # a killed owner cannot remove it
            shutil.rmtree(directory, ignore_errors=True)


@pytest.mark.usefixtures("kafka_runtime")
def test_the_broker_dies_with_a_killed_owner() -> None:
    with owner() as (process, broker_pid, _):
        assert alive(broker_pid)
        process.send_signal(signal.SIGKILL)
        process.wait(DEADLINE_S)
        assert eventually(lambda: not alive(broker_pid))


@pytest.mark.usefixtures("kafka_runtime")
def test_an_owner_that_ends_leaves_nothing() -> None:
    with owner() as (process, broker_pid, directory):
        assert os.getsid(broker_pid) != os.getsid(process.pid)  # Ctrl-C there does not reach it
        process.communicate(timeout=DEADLINE_S)
        assert not alive(broker_pid)
        assert not directory.exists()


def test_three_nodes_serve_with_one_dead(kafka_runtime: Runtime, prefix: str) -> None:
    with DevBroker.start(runtime=kafka_runtime, nodes=3) as cluster:
        assert len(cluster.pids) == 3
        create(cluster.bootstrap, prefix + "safe")
        produce(cluster.bootstrap, prefix + "safe", b"one")
        cluster.kill(2)
        produce(cluster.bootstrap, prefix + "safe", b"two")
        assert consume(cluster.bootstrap, prefix + "safe", 2) == [b"one", b"two"]


def test_a_second_provision_finds_the_first(kafka_runtime: Runtime) -> None:
    seen: list[object] = []
    began = time.monotonic()
    assert provision(cache_dir(), progress=seen.append) == kafka_runtime
    assert time.monotonic() - began < 1
    assert seen == []


def test_kafkas_own_tools_run(kafka_runtime: Runtime) -> None:
    command = kafka_runtime.command("org.apache.kafka.tools.ProducerPerformance", "--help")
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert "--throughput" in done.stdout + done.stderr
