"""`/livez`, `/readyz` and `/metrics` of a worker, for whoever restarts, routes and watches it.

The standard library's server: three answers a few times a minute need no framework. It reads
counters that others keep; no decision may enter here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, Protocol

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tickstream.errors import InvalidInput
from tickstream.model import ReportKind

_REQUEST_S: Final = 5.0


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
    """Answers on `host`:`port` (0: a free one, which is yielded). Raises InvalidInput when it is taken."""
    registry = CollectorRegistry()
    registry.register(WorkerMetrics(vitals))
    try:
        server = ThreadingHTTPServer((host, port), _handler(vitals, registry))
    except OSError as error:
        raise InvalidInput(
            f"the health endpoints cannot listen on {host}:{port} ({error.strerror}); choose another --health-port"
        ) from error
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="health", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(vitals: Vitals, registry: CollectorRegistry) -> type[BaseHTTPRequestHandler]:
    class Answer(BaseHTTPRequestHandler):
        """One request."""

        timeout = _REQUEST_S

        def do_GET(self) -> None:
            """Answer a probe or a scrape."""
            match self.path.partition("?")[0]:
                case "/livez":
                    self._say(vitals.alive(), "alive", "a thread of the worker has ended")
                case "/readyz":
                    self._say(vitals.ready(), "ready", "no partitions yet, or ending")
                case "/metrics":
                    self._send(200, generate_latest(registry), CONTENT_TYPE_LATEST)
                case _:
                    self._send(404, b"there are /livez, /readyz and /metrics\n", "text/plain; charset=utf-8")

        def _say(self, good: bool, yes: str, no: str) -> None:
            text = f"{yes if good else no}\n".encode()
            self._send(200 if good else 503, text, "text/plain; charset=utf-8")

        def _send(self, status: int, body: bytes, content_type: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Probes are no news."""

    return Answer
