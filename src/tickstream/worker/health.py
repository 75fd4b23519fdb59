"""`/livez`, `/readyz` and `/metrics` of a worker, for whoever restarts, routes and watches it.

It reads counters that others keep; no decision may enter here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tickstream import health
from tickstream.model import ReportKind

_WORDS: Final = health.Words("a thread of the worker has ended", "no partitions yet, or ending")


class Vitals(Protocol):
    """What a worker knows of itself. Read from the server's threads."""

    def alive(self) -> bool:
        """Whether every thread of it goes on."""
        ...

    def ready(self) -> bool:
        """Whether it takes work: every queue has partitions, and it is not ending."""
        ...

    def running(self) -> Mapping[str, int]:
        """Kind of slot → slots in use."""
        ...

    def unacknowledged(self) -> Mapping[str, int]:
        """Queue → runs whose outcome the broker does not have."""
        ...

    def reports(self) -> Mapping[tuple[str, ReportKind], int]:
        """(queue, kind) → reports acknowledged so far."""
        ...

    @property
    def slots(self) -> int:
        """Slots of each kind."""
        ...

    @property
    def stuck(self) -> int:
        """Slots whose run was ended and that are not free."""
        ...

    @property
    def lost(self) -> int:
        """Leases lost so far."""
        ...

    @property
    def timed_out(self) -> int:
        """Runs ended for their timeout so far."""
        ...


class WorkerMetrics(Collector):
    """A worker's figures, taken when they are asked for."""

    def __init__(self, vitals: Vitals) -> None:
        self._vitals = vitals

    def collect(self) -> Iterable[Metric]:
        """See Collector."""
        vitals = self._vitals
        yield GaugeMetricFamily(
            "tickstream_worker_ready", "Whether it takes work.", value=float(vitals.ready())
        )
        yield GaugeMetricFamily("tickstream_worker_slots", "Slots of each kind.", value=vitals.slots)
        yield GaugeMetricFamily(
            "tickstream_worker_stuck_slots",
            "Slots whose run was ended and that are not free.",
            value=vitals.stuck,
        )
        yield CounterMetricFamily(
            "tickstream_worker_leases_lost", "Leases lost while the handler ran.", value=vitals.lost
        )
        yield CounterMetricFamily(
            "tickstream_worker_timeouts", "Runs ended for their timeout.", value=vitals.timed_out
        )
        running = GaugeMetricFamily("tickstream_worker_running", "Slots in use.", labels=("executor",))
        for executor, count in vitals.running().items():
            running.add_metric((executor,), count)
        yield running
        waiting = GaugeMetricFamily(
            "tickstream_worker_unacknowledged",
            "Runs taken whose outcome the broker does not have.",
            labels=("queue",),
        )
        for queue, count in vitals.unacknowledged().items():
            waiting.add_metric((queue,), count)
        yield waiting
        reports = CounterMetricFamily(
            "tickstream_worker_reports", "Reports acknowledged by the broker.", labels=("queue", "kind")
        )
        for (queue, kind), count in vitals.reports().items():
            reports.add_metric((queue, kind.value.lower()), count)
        yield reports


@contextmanager
def health_server(vitals: Vitals, host: str, port: int) -> Iterator[int]:
    """See tickstream.health. Raises InvalidInput when the port is taken."""
    with health.health_server(vitals, WorkerMetrics(vitals), _WORDS, host, port) as bound:
        yield bound
