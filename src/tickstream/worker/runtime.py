"""A worker process: readers, slots, keeper and reporter put together, started, and ended in order.

    reader (a thread a queue) ── runs ──▶ slots (threads, a loop, processes) ── outcomes ──▶ reporter (a thread)
        ▲                                        ▲                                              ▲    │
        │                    keeper (a thread): claims, heartbeats, timeouts ───────────────────┘    │
        └───────────────────────────── acknowledged reports ─────────────────────────────────────────┘

Decisions are not made here: offsets are ledger.py's, messages outbox.py's, amounts intake.py's,
leases lease.py's, shares fair.py's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager

from tickstream.clock import Clock, SystemClock
from tickstream.errors import InvalidInput, UnknownQueue
from tickstream.ingest.client import Client
from tickstream.kafka import Admin, plain_producer
from tickstream.settings import Settings
from tickstream.topics import TopicNames
from tickstream.worker.app import App
from tickstream.worker.events import Events
from tickstream.worker.execution import Execution
from tickstream.worker.fair import Share
from tickstream.worker.health import health_server
from tickstream.worker.keeper import LeaseKeeper
from tickstream.worker.outbox import Entry
from tickstream.worker.pool import HandlerPool, Kind, kind_of
from tickstream.worker.reader import QueueReader
from tickstream.worker.reporter import Reporter
from tickstream.worker.run import run_ids
from tickstream.worker.signals import SignalTail
from tickstream.worker.vitals import Readiness, WorkerVitals

_SYSTEM_CLOCK = SystemClock()


def run_worker(
    app: App,
    settings: Settings,
    *,
    queues: Sequence[str] | Mapping[str, Share],
    concurrency: int,
    grace_s: float,
    worker_id: str,
    events: Callable[[Mapping[str, object]], None],
    stop: threading.Event,
    kill: threading.Event | None = None,
    session_ms: int = 6_000,
    executor: Kind = "thread",
    health: tuple[str, int] | None = None,
    clock: Clock = _SYSTEM_CLOCK,
    new_run_id: Callable[[], bytes] | None = None,
) -> None:
    """Run the work of `queues` with the handlers of `app` until `stop` is set.

    `concurrency`: slots of each kind, shared by the queues by their weights. `executor`: where sync
    handlers run that do not say so; "async" means none can. `health`: host and port of /livez,
    /readyz and /metrics. After `stop` what runs may end within `grace_s` seconds and is reported and
    committed; what has not by then is left to its lease. `kill` ends that at once, and unreported
    work is done again. Events: ready, health, assigned, revoked, lost, draining, drained, signal,
    commit_failed, alarm. Raises InvalidInput, UnknownQueue, BrokerUnavailable or LayoutMismatch before
    anything runs; BrokerUnavailable or SendFailed when a Kafka client cannot go on.
    """
    shares = dict(queues) if isinstance(queues, Mapping) else dict.fromkeys(queues, Share())
    _check(app, settings, queues, shares, concurrency, executor)
    told = Events(events, clock)
    kill = kill or threading.Event()
    new_run_id = new_run_id or run_ids()
    keeper: LeaseKeeper

    def acknowledged(entries: Sequence[Entry], sent_at: float, offset: int) -> None:
        keeper.acked(entries, sent_at, offset)
        for run, report in entries:
            run.owner.acked(run, report.kind)

    reporter = Reporter(
        plain_producer(settings, worker_id, linger_ms=0),
        TopicNames(settings.prefix).reports,
        worker_id,
        clock,
        told,
        acknowledged,
    )
    with ExitStack() as ending:
        client = ending.enter_context(_lazy_client(settings, worker_id))
        keeper = LeaseKeeper(clock, told, reporter.put, client)
        signals = SignalTail(settings, worker_id, keeper.signal, told)
        pool = HandlerPool(
            concurrency, shares, Execution(clock, new_run_id, reporter.put, keeper), told, executor
        )
        ending.callback(pool.close)
        readiness = Readiness(shares, told)
        readers = {
            queue: QueueReader(
                queue,
                app.handlers,
                settings,
                concurrency=concurrency,
                grace_s=grace_s,
                session_ms=session_ms,
                worker_id=worker_id,
                pool=pool,
                claim=keeper.claim,
                put=reporter.put,
                new_run_id=new_run_id,
                assigned=readiness.assigned,
                clock=clock,
                events=told,
                stop=stop,
                kill=kill,
            )
            for queue in shares
        }
        threads = _Threads(list(readers.values()), reporter, keeper, signals, stop, kill, grace_s)
        if health is not None:
            vitals = WorkerVitals(
                concurrency, readers, reporter, keeper, pool, readiness, threads.alive, stop
            )
            told.emit("health", port=ending.enter_context(health_server(vitals, *health)))
        threads.serve()


class _Threads:
    """The threads of a worker. `serve` returns when all have ended."""

    def __init__(
        self,
        readers: Sequence[QueueReader],
        reporter: Reporter,
        keeper: LeaseKeeper,
        signals: SignalTail,
        stop: threading.Event,
        kill: threading.Event,
        grace_s: float,
    ) -> None:
        self._readers = readers
        self._reporter = reporter
        self._keeper = keeper
        self._signals = signals
        self._stop = stop
        self._kill = kill
        self._grace_s = grace_s
        self._threads: list[Future[None]] = []

    def alive(self) -> bool:
        """Whether all are going on, or end as they were told to."""
        return self._stop.is_set() or not any(thread.done() for thread in self._threads)

    def serve(self) -> None:
        """Until stopped, or until a thread fails: then the others are stopped and its error is raised."""
        with ThreadPoolExecutor(len(self._readers) + 3, thread_name_prefix="worker") as executor:
            helping = [executor.submit(self._keeper.serve), executor.submit(self._signals.serve)]
            reporting = executor.submit(self._reporter.serve)
            reading = [executor.submit(reader.serve) for reader in self._readers]
            self._threads = [*reading, *helping, reporting]
            try:
                wait(self._threads, return_when=FIRST_COMPLETED)
            finally:
                self._stop.set()
                self._end(reading, reporting)
        for thread in self._threads:
            thread.result()

    def _end(self, reading: Sequence[Future[None]], reporting: Future[None]) -> None:
        """Readers first: they wait for what runs, which is kept, and for the reporter's acknowledgements."""
        if reporting.done():
            # Its acknowledgements will not come any more.
            self._kill.set()
        wait(reading)
        self._keeper.close()
        self._signals.close()
        self._reporter.close()
        if self._kill.is_set() or not wait([reporting], timeout=self._grace_s).done:
            self._reporter.give_up()


@contextmanager
def _lazy_client(settings: Settings, worker_id: str) -> Iterator[Callable[[], Client]]:
    """The client behind `ctx.schedule`, made when it is first asked for."""
    made: list[Client] = []
    lock = threading.Lock()

    def client() -> Client:
        with lock:
            if not made:
                made.append(Client(settings, client_id=worker_id))
            return made[0]

    try:
        yield client
    finally:
        for one in made:
            one.close()


def _check(
    app: App,
    settings: Settings,
    queues: Sequence[str] | Mapping[str, Share],
    shares: Mapping[str, Share],
    concurrency: int,
    executor: Kind,
) -> None:
    if not app.handlers:
        raise InvalidInput("the app has no handlers; register one with @app.handler()")
    if concurrency < 1:
        raise InvalidInput(f"concurrency={concurrency}: must be at least 1")
    if not shares or len(shares) < len(queues):
        raise InvalidInput(f"queues={list(queues)}: name at least one queue, and none twice")
    for queue, (weight, limit) in shares.items():
        if not weight > 0 or (limit is not None and limit < 1):
            raise InvalidInput(f"queue {queue!r}: its weight has to be above 0, and its limit at least 1")
    for handler in app.handlers.values():
        kind_of(handler, executor)
    known = Admin(settings).layout().queues
    for queue in shares:
        if queue not in known:
            raise UnknownQueue(queue, sorted(known))
