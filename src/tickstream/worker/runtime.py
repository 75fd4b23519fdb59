"""A worker process: readers, slots and the reporter put together, started, and ended in order.

    reader (a thread a queue) ── runs ──▶ slots (threads, a loop) ── outcomes ──▶ reporter (a thread)
        ▲                                                                             │
        └────────────────────────── acknowledged reports ─────────────────────────────┘

Decisions are not made here: offsets are ledger.py's, messages outbox.py's, amounts intake.py's.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from tickstream.clock import Clock, SystemClock
from tickstream.errors import InvalidInput, UnknownQueue
from tickstream.kafka import Admin, plain_producer
from tickstream.model import Report
from tickstream.settings import Settings
from tickstream.topics import TopicNames
from tickstream.worker.app import App
from tickstream.worker.events import Events
from tickstream.worker.reader import QueueReader
from tickstream.worker.reporter import Reporter
from tickstream.worker.run import Execution, Run, run_ids
from tickstream.worker.slots import HandlerPool

_SYSTEM_CLOCK = SystemClock()


def run_worker(
    app: App,
    settings: Settings,
    *,
    queues: Sequence[str],
    concurrency: int,
    grace_s: float,
    worker_id: str,
    events: Callable[[Mapping[str, object]], None],
    stop: threading.Event,
    kill: threading.Event | None = None,
    session_ms: int = 10_000,
    clock: Clock = _SYSTEM_CLOCK,
    new_run_id: Callable[[], bytes] | None = None,
) -> None:
    """Run the work of `queues` with the handlers of `app` until `stop` is set.

    Sync handlers run in up to `concurrency` threads, async ones up to as many at a time on one
    loop. After `stop` what runs may end within `grace_s` seconds and is reported and committed;
    `kill` ends that at once, and unreported work is delivered again. Events: ready, assigned,
    revoked, lost, draining, drained, commit_failed, alarm. Raises InvalidInput, UnknownQueue,
    BrokerUnavailable or LayoutMismatch before anything runs; BrokerUnavailable or SendFailed when a
    Kafka client cannot go on.
    """
    _check(app, settings, queues, concurrency)
    told = Events(events, clock)
    kill = kill or threading.Event()
    reporter = Reporter(
        plain_producer(settings, worker_id, linger_ms=0),
        TopicNames(settings.prefix).reports,
        worker_id,
        clock,
        told,
    )

    def finished(run: Run, report: Report) -> None:
        run.owner.finished()
        reporter.put(run, report)

    pool = HandlerPool(concurrency, Execution(clock, new_run_id or run_ids(), finished))
    readiness = _Readiness(queues, told)
    readers = [
        QueueReader(
            queue,
            app.handlers,
            settings,
            concurrency=concurrency,
            grace_s=grace_s,
            session_ms=session_ms,
            worker_id=worker_id,
            submit=pool.submit,
            assigned=readiness.assigned,
            clock=clock,
            events=told,
            stop=stop,
            kill=kill,
        )
        for queue in queues
    ]
    try:
        _serve(readers, reporter, stop, kill, grace_s)
    finally:
        pool.close()


def _serve(
    readers: Sequence[QueueReader],
    reporter: Reporter,
    stop: threading.Event,
    kill: threading.Event,
    grace_s: float,
) -> None:
    """Until stopped, or until a thread fails: then the others are stopped and its error is raised."""
    with ThreadPoolExecutor(len(readers) + 1, thread_name_prefix="worker") as threads:
        reporting = threads.submit(reporter.serve)
        reading = [threads.submit(reader.serve) for reader in readers]
        try:
            wait([*reading, reporting], return_when=FIRST_COMPLETED)
        finally:
            stop.set()
            _end(reading, reporting, reporter, kill, grace_s)
    for thread in (*reading, reporting):
        thread.result()


def _end(
    reading: Sequence[Future[None]],
    reporting: Future[None],
    reporter: Reporter,
    kill: threading.Event,
    grace_s: float,
) -> None:
    """Readers first: they wait for the reporter's acknowledgements."""
    if reporting.done():
        # Its acknowledgements will not come any more.
        kill.set()
    wait(reading)
    reporter.close()
    if kill.is_set() or not wait([reporting], timeout=grace_s).done:
        reporter.give_up()


def _check(app: App, settings: Settings, queues: Sequence[str], concurrency: int) -> None:
    if not app.handlers:
        raise InvalidInput("the app has no handlers; register one with @app.handler()")
    if concurrency < 1:
        raise InvalidInput(f"concurrency={concurrency}: must be at least 1")
    if not queues or len(set(queues)) < len(queues):
        raise InvalidInput(f"queues={list(queues)}: name at least one queue, and none twice")
    known = Admin(settings).layout().queues
    for queue in queues:
        if queue not in known:
            raise UnknownQueue(queue, sorted(known))


class _Readiness:
    """Says `ready` once, when every queue has partitions."""

    def __init__(self, queues: Sequence[str], events: Events) -> None:
        self._queues = sorted(queues)
        self._missing = set(queues)
        self._events = events
        self._lock = threading.Lock()

    def assigned(self, queue: str) -> None:
        """`queue` has partitions now. Any thread."""
        with self._lock:
            if queue not in self._missing:
                return
            self._missing.discard(queue)
            if not self._missing:
                self._events.emit("ready", pid=os.getpid(), queues=self._queues)
