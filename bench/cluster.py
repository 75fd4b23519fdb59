"""The Kafka that a benchmark runs on: a dev broker of its own, or the one that TICKSTREAM_BOOTSTRAP names.

Owns the broker and the topics under its prefix; nothing is measured here.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from tickstream.broker import DevBroker, Progress, Runtime, provision
from tickstream.errors import BrokerUnavailable
from tickstream.kafka import Admin
from tickstream.model import DEFAULT_QUEUE
from tickstream.settings import Settings, cache_dir
from tickstream.topics import TopicNames, topic_table

BUCKETS = 8
LANES = 4
_LEADERS_S = 15.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """A broker that serves, and a prefix that nobody else uses."""

    settings: Settings
    runtime: Runtime
    """Java and class path of a Kafka, for its own tools."""
    version: str
    owned_pids: tuple[int, ...]
    """Of the broker's processes, when they are ours."""

    def installation(
        self,
        name: str,
        *,
        queues: tuple[str, ...] = (DEFAULT_QUEUE,),
        buckets: int = BUCKETS,
        lanes: int = LANES,
    ) -> Settings:
        """Settings of a fresh installation under its own prefix: every topic of the product's table."""
        settings = replace(self.settings, prefix=f"{self.settings.prefix}{name}.")
        table = topic_table(TopicNames(settings.prefix), buckets=buckets, lanes=lanes, queues=queues)
        admin = Admin(settings)
        admin.create(table)
        _wait_for_leaders(admin, [(topic.name, p) for topic in table for p in range(topic.partitions)])
        return settings


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A cluster for one run; topics, processes and directories are gone afterwards.

    Raises BrokerUnavailable.
    """
    runtime = provision(cache_dir(), progress=_show)
    prefix = f"bench{uuid.uuid4().hex[:8]}."
    with ExitStack() as owned:
        if os.environ.get("TICKSTREAM_BOOTSTRAP"):
            settings = replace(Settings.from_env(), prefix=prefix)
            owned.callback(_delete_topics, settings)
            yield Cluster(settings, runtime, "external", ())
        else:
            broker = owned.enter_context(DevBroker.start(runtime=runtime))
            yield Cluster(Settings(broker.bootstrap, prefix), runtime, runtime.kafka_version, broker.pids)


def _wait_for_leaders(admin: Admin, partitions: list[tuple[str, int]]) -> None:
    """A topic is seen a moment before its leaders serve it; a benchmark would count that moment."""
    deadline = time.monotonic() + _LEADERS_S
    while True:
        try:
            admin.ends(partitions)
        except BrokerUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def _delete_topics(settings: Settings) -> None:
    admin = Admin(settings)
    ours = [name for name in admin.partitions() if name.startswith(settings.prefix)]
    if ours:
        admin.delete_topics(ours)


def _show(progress: Progress) -> None:
    print(f"downloading Kafka: {progress.bytes_done * 100 // progress.bytes_total} %", file=sys.stderr)
