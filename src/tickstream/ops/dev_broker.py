"""The dev broker as people meet it: with a progress bar on the first download, and with its topics.

How Kafka is fetched and run is the broker package's.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from pathlib import Path

from rich.console import Console
from rich.progress import DownloadColumn
from rich.progress import Progress as ProgressBar

from tickstream.broker import Progress, Runtime, provision
from tickstream.broker.config import HOST
from tickstream.errors import InvalidInput
from tickstream.kafka import Admin
from tickstream.ops.topics import wanted_topics
from tickstream.settings import Settings
from tickstream.topics import TopicNames


def kafka_runtime(cache: Path, console: Console) -> Runtime:
    """Kafka and a Java from the cache, downloaded with a progress bar the first time.

    Raises BrokerUnavailable.
    """
    columns = (*ProgressBar.get_default_columns(), DownloadColumn())
    with ProgressBar(*columns, console=console, transient=True) as bar:
        return provision(cache, progress=_shown_by(bar))


def _shown_by(bar: ProgressBar) -> Callable[[Progress], None]:
    def show(progress: Progress) -> None:
        if not bar.task_ids:
            bar.add_task("Downloading Kafka, this once", total=progress.bytes_total)
        bar.update(bar.task_ids[0], completed=progress.bytes_done)

    return show


def require_free(port: int) -> None:
    """Kafka itself says in sixty lines of Java that its port is taken. Raises InvalidInput."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise InvalidInput(
                f"cannot listen on {HOST}:{port} ({error.strerror}); pass another --port, or none for a free one"
            ) from None


def create_topics(settings: Settings, queues: Iterable[str] = ()) -> list[str]:
    """Create what is missing for one machine; the names created. Raises BrokerUnavailable, LayoutMismatch."""
    admin = Admin(settings)
    table = wanted_topics(TopicNames(settings.prefix), admin.partitions(), queues=queues)
    return admin.create(table)
