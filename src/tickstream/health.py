"""`/livez`, `/readyz` and `/metrics` of a process, for whoever restarts, routes and watches it.

The standard library's server: three answers a few times a minute need no framework. What it tells is
kept by others; no figure and no decision may enter here.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, NamedTuple, Protocol

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from tickstream.errors import InvalidInput

_REQUEST_S: Final = 5.0


class Probes(Protocol):
    """What a probe asks. Called from the server's threads."""

    def alive(self) -> bool:
        """Whether every part of the process goes on."""
        ...

    def ready(self) -> bool:
        """Whether it does its work."""
        ...


class Words(NamedTuple):
    """What a probe is told when the answer is no."""

    not_alive: str
    not_ready: str


@contextmanager
def health_server(probes: Probes, metrics: Collector, words: Words, host: str, port: int) -> Iterator[int]:
    """Answers on `host`:`port` (0: a free one, which is yielded). Raises InvalidInput when it is taken."""
    registry = CollectorRegistry()
    registry.register(metrics)
    try:
        server = ThreadingHTTPServer((host, port), _handler(probes, registry, words))
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


def _handler(probes: Probes, registry: CollectorRegistry, words: Words) -> type[BaseHTTPRequestHandler]:
    class Answer(BaseHTTPRequestHandler):
        """One request."""

        timeout = _REQUEST_S

        def do_GET(self) -> None:
            """Answer a probe or a scrape."""
            match self.path.partition("?")[0]:
                case "/livez":
                    self._say(probes.alive(), "alive", words.not_alive)
                case "/readyz":
                    self._say(probes.ready(), "ready", words.not_ready)
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
