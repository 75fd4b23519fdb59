"""The whole system as processes: a dispatcher and workers on one installation, for as long as a `with` lasts.

Starts and ends them; schedules and measures nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.cluster import LANES
from bench.environment import cpu_s, rss_bytes
from tickstream.model import DEFAULT_QUEUE
from tickstream.ops.processes import Event, ManagedProcess, Matches, tickstream_command
from tickstream.settings import Settings

DISPATCHERS: Final = 2
CONCURRENCY: Final = 16
ROOT: Final = Path(__file__).parents[1]
_READY_S: Final = 45.0
_UNCLEAN: Final = frozenset({"alarm", "lane_lost", "process_ended", "transaction_aborted"})


@dataclass(frozen=True, slots=True)
class System:
    """The processes that run."""

    dispatcher: ManagedProcess
    workers: tuple[ManagedProcess, ...]

    @property
    def dispatcher_pids(self) -> tuple[int, ...]:
        """Of the processes that own lanes: the supervisor's children."""
        return self.dispatcher.child_pids

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """Of the worker processes."""
        return tuple(worker.pid for worker in self.workers)

    def alarms(self, since_ms: int) -> list[Event]:
        """Alarms, lost lanes and dead processes since then: a run with any is not a clean measurement.

        Before that, while the lanes are being shared out, moves are no news.
        """
        return [event for process in (self.dispatcher, *self.workers) for event in alarms(process, since_ms)]


def alarms(process: ManagedProcess, since_ms: float) -> list[Event]:
    """Of one process, as System.alarms."""
    return [e for e in process.events if e["event"] in _UNCLEAN and e.get("at_ms", 0) >= since_ms]


@contextmanager
def system(settings: Settings, *, workers: int) -> Iterator[System]:
    """Two dispatcher processes and `workers` workers, every lane active and every worker assigned.

    Raises ProcessFailed, with the end of its output, when one does not get there.
    """
    with ExitStack() as owned:
        data = Path(owned.enter_context(tempfile.TemporaryDirectory(prefix="tickstream-bench-")))
        dispatcher = owned.enter_context(start_dispatcher(settings, data, processes=DISPATCHERS))
        started = tuple(
            owned.enter_context(start_worker(settings, f"worker-{number}")) for number in range(workers)
        )
        wait_active(dispatcher)
        for worker in started:
            worker.wait_event("ready", _READY_S)
        yield System(dispatcher, started)


def start_dispatcher(settings: Settings, data: Path, *options: str, processes: int = 1) -> ManagedProcess:
    """Dispatcher processes with their stores under `data`, started and not waited for."""
    command = tickstream_command(
        "dispatcher",
        "run",
        f"--processes={processes}",
        f"--data={data}",
        f"--bootstrap={settings.bootstrap}",
        f"--prefix={settings.prefix}",
        "--json",
        *options,
    )
    return ManagedProcess.start(command, name="dispatcher")


def wait_active(
    dispatcher: ManagedProcess, *, lanes: int = LANES, timeout_s: float = _READY_S, since: int = 0
) -> list[Event]:
    """The first event of every lane, from number `since` on, that says that it is active. Raises ProcessFailed."""
    return [dispatcher.wait_event(_active(lane), timeout_s, since=since) for lane in range(lanes)]


def start_worker(
    settings: Settings, name: str, *, queue: str = DEFAULT_QUEUE, concurrency: int = CONCURRENCY
) -> ManagedProcess:
    """A worker of one queue, started and not waited for."""
    return ManagedProcess.start(worker_command(settings, queue, concurrency), cwd=ROOT, name=name)


def worker_command(settings: Settings, queue: str, concurrency: int = CONCURRENCY) -> list[str]:
    """The command line of a worker with the handlers of bench/handlers.py, to be run in ROOT."""
    return tickstream_command(
        "worker",
        "run",
        "bench.handlers:app",
        f"--queue={queue}",
        f"--concurrency={concurrency}",
        f"--bootstrap={settings.bootstrap}",
        f"--prefix={settings.prefix}",
        "--json",
    )


def _active(lane: int) -> Matches:
    return lambda event: event["event"] == "lane_active" and event["lane"] == lane


@dataclass(frozen=True, slots=True)
class Usage:
    """What some processes have used up to now."""

    cpu_s: float
    rss_bytes: int

    @classmethod
    def of(cls, pids: tuple[int, ...]) -> Usage:
        """Of these processes together."""
        return cls(sum(map(cpu_s, pids)), sum(map(rss_bytes, pids)))
