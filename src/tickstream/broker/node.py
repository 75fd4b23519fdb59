"""One Kafka process of the dev broker: format, start, wait until it serves, signal, stop.

Knows one node; what nodes have to do with each other is cluster.py's.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import Executor
from pathlib import Path

from tickstream.broker.config import HOST, NodeConfig, properties, render
from tickstream.broker.runtime import Runtime
from tickstream.clock import Clock
from tickstream.errors import BrokerUnavailable

_LAUNCHER = Path(__file__).with_name("launcher.py")
_POLL_S = 0.05
_FORMAT_TIMEOUT_S = 60
_TAIL_LINES = 25

_JVM_OPTIONS = (
    # Small, and quick to start on few cores.
    "-Xms256m",
    "-Xmx384m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    # Says "Kafka Server started".
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)
_STARTED = b"Kafka Server started"
_PORT_TAKEN = b"Address already in use"


class PortTaken(BrokerUnavailable):
    """Another process took a port between its choice and its use: choose others and start again."""


class Node:
    """A node's directory and, while it runs, its process.

    `spawner` must keep one thread as long as the node may live: the process dies with the thread that
    started it (launcher.py). `server_options` are for the JVM of the node itself, not of the formatting tool.
    """

    def __init__(
        self,
        runtime: Runtime,
        directory: Path,
        spawner: Executor,
        clock: Clock,
        server_options: tuple[str, ...] = (),
    ) -> None:
        self._runtime = runtime
        self._directory = directory
        self._spawner = spawner
        self._clock = clock
        cached = () if runtime.aot_cache is None else (f"-XX:AOTCache={runtime.aot_cache}",)
        self._jvm_options = (*_JVM_OPTIONS, *cached)
        self._server_options = server_options
        self._process: subprocess.Popen[bytes] | None = None
        self._config: NodeConfig | None = None
        self._log_start = 0

    @property
    def data_dir(self) -> Path:
        """What Kafka stores."""
        return self._directory / "data"

    @property
    def log(self) -> Path:
        """What the process printed, over all its starts."""
        return self._directory / "server.log"

    @property
    def pid(self) -> int | None:
        """The process id, unless the process has ended."""
        if self._process is None or self._process.poll() is not None:
            return None
        return self._process.pid

    def configure(self, config: NodeConfig, cluster_id: str) -> None:
        """Write the configuration, and format the storage unless it is. Raises BrokerUnavailable."""
        self._config = config
        self._directory.mkdir(parents=True, exist_ok=True)
        self._properties.write_text(render(properties(config)), "ascii")
        if (self.data_dir / "meta.properties").exists():
            return
        command = self._runtime.command(
            "kafka.tools.StorageTool",
            "format",
            "-t",
            cluster_id,
            "-c",
            str(self._properties),
            jvm_options=self._jvm_options,
        )
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_FORMAT_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise BrokerUnavailable(
                f"formatting {self.data_dir} took more than {_FORMAT_TIMEOUT_S} s"
            ) from error
        if done.returncode != 0:
            raise BrokerUnavailable(
                f"{self.data_dir} could not be formatted for Kafka:\n{_tail(done.stdout + done.stderr)}"
            )

    def start(self) -> None:
        """Start the process; `wait_ready` tells when it serves."""
        options = (*self._jvm_options, *self._server_options)
        command = self._runtime.command("kafka.Kafka", str(self._properties), jvm_options=options)
        launch = [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), *command]
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            self._process = self._spawner.submit(
                subprocess.Popen,
                launch,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A session of its own: Ctrl-C at the terminal reaches the caller, who then stops it in order.
                start_new_session=True,
            ).result()

    def wait_ready(self, deadline: float) -> None:
        """Return once the node serves clients. Raises PortTaken, BrokerUnavailable with the log's end.

        `deadline` is on the clock's monotonic time.
        """
        process = self._running()
        while not self._serves():
            try:
                code = process.wait(_POLL_S)
            except subprocess.TimeoutExpired:
                if self._clock.monotonic() >= deadline:
                    raise BrokerUnavailable(self._failure("is not ready in time")) from None
            else:
                raise self._ended(code)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process. Raises BrokerUnavailable when there is none."""
        self._running().send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone. A node that has ended stays so."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def ask_to_stop(self) -> None:
        """SIGTERM, also to a paused process. `reap` waits for the end."""
        if self._process is not None:
            self._process.terminate()
            self._process.send_signal(signal.SIGCONT)

    def reap(self, deadline: float) -> None:
        """Wait for the end of the process until `deadline` (monotonic), then SIGKILL it."""
        if self._process is None:
            return
        try:
            self._process.wait(max(0.0, deadline - self._clock.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()

    @property
    def _properties(self) -> Path:
        return self._directory / "server.properties"

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise BrokerUnavailable(f"the dev broker's node in {self._directory} is not running")
        return self._process

    def _serves(self) -> bool:
        return (
            _STARTED in self._output()
            and self._config is not None
            and _accepts(self._config.address.broker_port)
        )

    def _output(self) -> bytes:
        """What this start of the process has printed so far."""
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read()

    def _ended(self, code: int) -> BrokerUnavailable:
        if _PORT_TAKEN in self._output():
            return PortTaken(self._failure("found its port taken"))
        return BrokerUnavailable(self._failure(f"ended with exit code {code} while starting"))

    def _failure(self, what: str) -> str:
        return f"the dev broker's node in {self._directory} {what}; it printed:\n{_tail(self._output().decode('utf-8', 'replace'))}"


def _accepts(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


def _tail(text: str) -> str:
    return "\n".join(text.rstrip().splitlines()[-_TAIL_LINES:]) or "(nothing)"
