"""Three brokers in three racks: where a projection reads, by its client's own statistics."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.projection_rig import ProjectionRig, asked, following
from tests.waiting import eventually
from tickstream.broker import DevBroker, Runtime
from tickstream.broker.config import RACKS
from tickstream.settings import Settings

pytestmark = [pytest.mark.kafka, pytest.mark.chaos]
BASE_MS = 1_800_000_000_000


@pytest.fixture(scope="module")
def cluster(kafka_runtime: Runtime) -> Iterator[DevBroker]:
    with DevBroker.start(runtime=kafka_runtime, nodes=3) as cluster:
        yield cluster


class Statistics:
    """What a projection's consumer of `timers` and `history` last said of itself."""

    def __init__(self, settings: Settings, rack: str | None) -> None:
        kafka: dict[str, Any] = {"statistics.interval.ms": "200", "stats_cb": self._hear}
        self.settings = replace(settings, kafka=kafka | ({} if rack is None else {"client.rack": rack}))
        self._client_id = f"{settings.prefix}projection"
        self._said: Mapping[str, Any] = {"brokers": {}, "topics": {}}
        self._times = 0

    def _hear(self, text: str) -> None:
        said = json.loads(text)
        if said["client_id"] == self._client_id:
            self._said = said
            self._times += 1

    def read_at(self) -> dict[tuple[str, int], int]:
        """(topic, partition) → the node that it is fetched from."""
        return {place: said["broker"] for place, said in self._partitions()}

    def led_by(self) -> dict[tuple[str, int], int]:
        """(topic, partition) → the node that leads it."""
        return {place: said["leader"] for place, said in self._partitions()}

    def _partitions(self) -> Iterator[tuple[tuple[str, int], Mapping[str, Any]]]:
        for topic, told in self._said["topics"].items():
            for said in told["partitions"].values():
                if said["partition"] >= 0:
                    yield (topic, said["partition"]), said

    def fetches(self) -> Counter[int]:
        """Node → fetch requests that were sent to it, as of now."""
        # The one that comes next may have been written before the call.
        enough = self._times + 2
        assert eventually(lambda: self._times >= enough)
        return Counter({said["nodeid"]: said["req"]["Fetch"] for said in self._said["brokers"].values()})


def test_a_projection_reads_from_the_replica_in_its_rack(
    cluster: DevBroker, prefix: str, tmp_path: Path
) -> None:
    with ProjectionRig(cluster.bootstrap, prefix, tmp_path, replication=3) as rig, ExitStack() as stages:
        for task in range(20):
            rig.act("schedule", task, BASE_MS)
        rig.commit()
        logs = {(topic, bucket) for topic in (rig.names.timers, rig.names.history) for bucket in (0, 1)}

        plain = Statistics(rig.settings, rack=None)
        with following(plain.settings, rig.data_dir), asked(rig.data_dir) as client:
            assert rig.all_rows(client) == rig.expected()
            assert eventually(lambda: plain.read_at().keys() == logs and plain.read_at() == plain.led_by())

        node, rack = 2, RACKS[1]
        near = Statistics(rig.settings, rack)
        stages.enter_context(following(near.settings, rig.data_dir))
        client = stages.enter_context(asked(rig.data_dir))
        assert eventually(lambda: near.read_at() == dict.fromkeys(logs, node))
        assert set(near.led_by().values()) - {node}, "some of it has its leader elsewhere"
        before = near.fetches()
        for turn in range(5):
            for task in range(20, 40):
                rig.act("schedule", task, BASE_MS + turn)
            rig.commit()
        assert rig.all_rows(client) == rig.expected()
        sent = near.fetches() - before
        assert sent.keys() == {node}, "nothing is asked of anybody else any more"
