"""The processes of the demo: the commands a person would start, and the two of them that get killed.

What is done to the tasks is not known here.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tickstream.clock import Clock
from tickstream.ops.journal import JournalWriter
from tickstream.ops.processes import ManagedProcess, Matches, ProcessFailed, tickstream_command
from tickstream.settings import Settings
from tickstream.topics import Layout

_READY_S: Final = 60.0
_DISPATCHERS: Final = 2
_WORKERS: Final = 2
APPLICATION: Final = "examples.demo_app:app"


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the demo plays."""

    settings: Settings
    session_ms: int
    """Of dispatchers and workers: as short as the broker allows."""
    directory: Path
    """For stores, files and nothing that is kept."""
    examples: Path
    environ: Mapping[str, str]

    def start(self, name: str, *arguments: str) -> ManagedProcess:
        """Start `tickstream ARGUMENT… --json` on this stage."""
        environ = {
            **self.environ,
            "TICKSTREAM_BOOTSTRAP": self.settings.bootstrap,
            "TICKSTREAM_PREFIX": self.settings.prefix,
            # What they put aside goes where everything goes, whatever end they meet.
            "TMPDIR": str(self.directory),
        }
        command = tickstream_command(*arguments, "--json")
        # The application is imported as examples.…, so they run where `examples` lies.
        return ManagedProcess.start(command, env=environ, cwd=self.examples.parent, name=name)


@dataclass(frozen=True, slots=True)
class Cast:
    """Everything that runs, once it is ready."""

    dispatcher: ManagedProcess
    workers: tuple[ManagedProcess, ...]
    projection: ManagedProcess
    dashboard: ManagedProcess
    url: str
    """The dashboard's address."""
    killed: list[ManagedProcess]

    def kill_one_of_each(self, journal: JournalWriter, clock: Clock) -> None:
        """SIGKILL a dispatcher process and a worker; the journal says when."""
        is_first = self.dispatcher.wait_event(lambda e: e["event"] == "process_spawned" and e["index"] == 0)
        journal.kill("dispatcher", is_first["pid"], clock.wall_ms())
        os.kill(is_first["pid"], signal.SIGKILL)
        worker = self.workers[0]
        journal.kill("worker", worker.pid, clock.wall_ms())
        self.killed.append(worker)
        worker.kill()

    def check(self) -> None:
        """Raise ProcessFailed when one has ended that was not killed on purpose."""
        for process in (self.dispatcher, *self.workers, self.projection, self.dashboard):
            if process.returncode is not None and process not in self.killed:
                raise ProcessFailed(
                    f"{process.name} ended with exit code {process.returncode}; it printed:\n{process.output_tail()}"
                )

    def stop_workers(self) -> None:
        """Let running handlers end, then the workers, at the same time."""
        with ThreadPoolExecutor(len(self.workers)) as pool:
            list(pool.map(ManagedProcess.stop, self.workers))


def start_cast(stage: Stage, layout: Layout, stack: ExitStack) -> Cast:
    """Start all processes and return once they are ready; `stack` ends them. Raises ProcessFailed."""

    def start(name: str, *arguments: str) -> ManagedProcess:
        return stack.enter_context(stage.start(name, *arguments))

    session = f"--session-ms={stage.session_ms}"
    index = f"--data={stage.directory / 'projection'}"
    dispatcher = start(
        "dispatcher",
        *("dispatcher", "run", f"--processes={_DISPATCHERS}", "--no-restart", session),
        f"--data={stage.directory / 'dispatcher'}",
    )
    projection = start("projection", "projection", "run", index)
    dashboard = start("dashboard", "dashboard", "run", index, "--port=0")
    workers = tuple(
        start(f"worker {n}", "worker", "run", APPLICATION, f"--worker-id=worker-{n}", session)
        for n in range(1, _WORKERS + 1)
    )
    for lane in range(layout.lanes):
        dispatcher.wait_event(_active(lane), _READY_S)
    for worker in workers:
        worker.wait_event("ready", _READY_S)
    projection.wait_event("ready", _READY_S)
    url = dashboard.wait_event("ready", _READY_S)["url"]
    return Cast(dispatcher, workers, projection, dashboard, url, [])


def _active(lane: int) -> Matches:
    return lambda event: event["event"] == "lane_active" and event["lane"] == lane
