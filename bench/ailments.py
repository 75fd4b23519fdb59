"""What can become of a worker in the middle of a task: how it is brought about, and what is left of the worker.

Strikes and heals; measures nothing.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple

from bench.handlers import blocking, hanging, lasting
from bench.link import Link, linked_process
from bench.system import ROOT, start_worker, worker_command
from tickstream.model import DEFAULT_RETRY, BoundCall, Retry
from tickstream.ops.processes import ManagedProcess
from tickstream.settings import Settings

TASK_S: Final = 10.0
TIMEOUT: Final = timedelta(seconds=4)
"""Of the handler that hangs where it has one."""
_SHORT_S: Final = 1.0
"""The attempt of it that comes back: well within the timeout."""
_BACKOFF: Final = timedelta(milliseconds=100)


class Worker(NamedTuple):
    """A worker process, and the link through which it reaches the broker, where that can be cut."""

    process: ManagedProcess
    link: Link | None = None


class Ailment(NamedTuple):
    """One way to fail. The fields in the order in which they matter to a strike."""

    name: str
    call: Callable[[str, int], BoundCall]
    """(journal, how often it is struck) → what the task runs."""
    strike: Callable[[Worker], None]
    recover: Callable[[Worker], bool]
    """Once the next attempt runs: whether the worker goes on, or is to be replaced."""
    at_start: bool = False
    """Whether the handler itself fails, from its start on; else it is struck at a random moment."""
    timeout: timedelta | None = None
    retry: Retry = DEFAULT_RETRY
    linked: bool = False


def _lasting(journal: str, _strikes: int) -> BoundCall:
    return lasting.bind(journal, TASK_S)


def _kill(worker: Worker) -> None:
    worker.process.kill()


def _stop(worker: Worker) -> None:
    worker.process.send(signal.SIGSTOP)


def _cut(worker: Worker) -> None:
    assert worker.link is not None
    worker.link.cut()


def _nothing(_worker: Worker) -> None:
    pass


def _gone(_worker: Worker) -> bool:
    return False


def _continue(worker: Worker) -> bool:
    worker.process.send(signal.SIGCONT)
    return True


def _heal(worker: Worker) -> bool:
    assert worker.link is not None
    worker.link.heal()
    return True


def _end(worker: Worker) -> bool:
    worker.process.kill()
    return False


def _unharmed(_worker: Worker) -> bool:
    return True


KILLED: Final = Ailment("worker", _lasting, _kill, _gone)
"""SIGKILL. Named for its figures: `worker_takeover_…`."""
STOPPED: Final = Ailment("stopped", _lasting, _stop, _continue)
"""SIGSTOP, and SIGCONT once the next attempt runs: what it then says is late."""
PARTITIONED: Final = Ailment("partitioned", _lasting, _cut, _heal, linked=True)
"""Its connections carry nothing, until the next attempt runs."""
BLOCKED: Final = Ailment(
    "blocked",
    lambda journal, strikes: blocking.bind(journal, TASK_S, strikes),
    _nothing,
    _end,
    at_start=True,
)
"""An async handler that blocks its event loop, from its start."""
HUNG: Final = Ailment(
    "hung",
    lambda journal, strikes: hanging.bind(journal, _SHORT_S, strikes),
    _nothing,
    _unharmed,
    at_start=True,
    timeout=TIMEOUT,
    retry=Retry(backoff=_BACKOFF),
)
"""A handler in a thread that hangs past its timeout. The worker lives, and its lease is renewed until then."""

AILMENTS: Final = {ailment.name: ailment for ailment in (KILLED, STOPPED, PARTITIONED, BLOCKED, HUNG)}


@contextmanager
def worker_of(settings: Settings, queue: str, *, linked: bool) -> Iterator[Worker]:
    """A worker of the queue; `linked`: with a link that can be cut. Raises NoNetwork."""
    if not linked:
        with start_worker(settings, queue, queue=queue) as process:
            yield Worker(process)
        return
    with tempfile.TemporaryDirectory(prefix="tickstream-bench-") as scratch:
        command = worker_command(settings, queue)
        with linked_process(command, settings.bootstrap, Path(scratch), queue, cwd=ROOT) as linked_worker:
            yield Worker(*linked_worker)
