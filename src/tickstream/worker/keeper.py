"""Looks after runs while they are executed: claims them, renews their leases, ends them in time.

Owns a thread that does nothing but look, so that handlers which keep the interpreter busy delay it
by milliseconds at most. When something is due is lease.py's; no Kafka client may enter here.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tickstream.clock import Clock
from tickstream.errors import BrokerUnavailable
from tickstream.ingest.client import Client
from tickstream.model import Report, ReportKind, Signal, SignalKind
from tickstream.worker.events import Events
from tickstream.worker.follow_up import FollowUp
from tickstream.worker.idempotency import Fence
from tickstream.worker.lease import CLAIM_AFTER_S, to_renew
from tickstream.worker.outbox import Entry
from tickstream.worker.run import MAX_NOTE_BYTES, Run, cut, error_text

LOOK_S: Final = 0.25
"""Between two looks at most, while something runs."""
_LEAST_S: Final = 0.01
"""Between two looks at least."""
STUCK_S: Final = 1.0
"""A slot that is not free so long after its run was ended is an alarm."""


class LeaseKeeper:
    """The leases of one worker. `serve` is its thread; everything else may be called from any.

    A run is adopted by the keeper when it has not ended after 50 ms, or asks for its fence.
    """

    def __init__(
        self, clock: Clock, events: Events, put: Callable[[Run, Report], None], client: Callable[[], Client]
    ) -> None:
        self._clock = clock
        self._events = events
        self._put = put
        self._client = client
        self._started: deque[Run] = deque()
        self._adopted: dict[bytes, Run] = {}
        """By run_id, until their slots are free."""
        self._acknowledged = threading.Condition()
        self._idle = False
        self._wake = threading.Event()
        self._closed = threading.Event()
        self.lost = 0
        """Leases lost so far."""
        self.timed_out = 0
        """Runs ended for their timeout so far."""

    # ------------------------------------------------------------------ heard from other threads

    def link(self, run: Run) -> RunKeeping:
        """See Watch."""
        return RunKeeping(self, run)

    def started(self, run: Run) -> None:
        """See Watch."""
        self._started.append(run)
        if self._idle:
            # Once is enough: others start before this thread of ours gets the interpreter.
            self._idle = False
            self._wake.set()

    def claim(self, run: Run) -> None:
        """Claim it now, if it runs and that has not happened."""
        # What was handed back has a run_id, and was never started.
        if run.run_id and run.ctx is not None and not run.ended and run.claim():
            self._adopted[run.run_id] = run
            run.lease.asked(self._clock.monotonic())
            self._put(run, run.report(ReportKind.CLAIMED, self._clock.wall_ms()))
            self._wake.set()

    def acked(self, entries: Iterable[Entry], sent_at: float, offset: int) -> None:
        """The broker has these reports, sent at `sent_at` (monotonic), in the message at `offset`."""
        for run, report in entries:
            if report.kind is ReportKind.HEARTBEAT:
                run.lease.acked(sent_at)
            elif report.kind is ReportKind.CLAIMED:
                run.lease.acked(sent_at)
                with self._acknowledged:
                    run.claim_offset = offset
                    self._acknowledged.notify_all()

    def fence(self, run: Run) -> Fence:
        """Claim it and wait for the acknowledgement. Raises BrokerUnavailable when the lease is lost first."""
        self.claim(run)
        with self._acknowledged:
            while run.claim_offset < 0:
                if run.lease.lost or run.ended or self._closed.is_set():
                    raise BrokerUnavailable(
                        f"the claim of task {run.work.task_id!r}, attempt {run.work.attempt}, was not "
                        "acknowledged while its lease lasted; the run has no fence"
                    )
                self._acknowledged.wait(LOOK_S)
        return Fence(run.work.work_number, run.claim_offset)

    def progress(self, run: Run, thousandths: int, note: str) -> None:
        """Goes out with the next heartbeat."""
        run.said = (thousandths, cut(note, MAX_NOTE_BYTES))
        run.lease.news = True

    def client(self) -> Client:
        """The worker's client."""
        return self._client()

    def signal(self, signal: Signal) -> None:
        """Somebody wants a run to stop; most are of other workers."""
        run = self._adopted.get(signal.run_id)
        if run is None or run.ended:
            return
        ctx, home = run.ctx, run.home
        if ctx is None or home is None:
            return
        self._events.emit(
            "signal", kind=signal.kind.value, task_id=signal.task_id, attempt=signal.attempt, queue=run.queue
        )
        if signal.kind is SignalKind.SUPERSEDED:
            self._lose(run)
        else:
            run.cancelled = True
            ctx.cancelled = True
            home.stop(run)

    @property
    def stuck(self) -> int:
        """Slots whose run was ended and that are not free."""
        return sum(run.ended and not run.left for run in list(self._adopted.values()))

    # ------------------------------------------------------------------ the loop

    def serve(self) -> None:
        """The thread of this keeper, until `close`."""
        while not self._closed.is_set():
            now = self._clock.monotonic()
            wait_s = self.look(now)
            self._idle = wait_s is None
            if self._idle and self._started:
                continue
            self._wake.wait(wait_s)
            self._idle = False
            self._wake.clear()
            if wait_s is not None:
                # However often it is woken: what is due together is sent together.
                self._closed.wait(_LEAST_S)

    def close(self) -> None:
        """Let `serve` return: nothing is claimed or renewed any more."""
        self._closed.set()
        self._wake.set()

    def look(self, now: float) -> float | None:
        """Do what is due; how long there is nothing to do, None: until something starts.

        One turn of `serve`, at `now` (monotonic seconds); called by nobody else at the same time.
        """
        self._adopt(now)
        running: list[Run] = []
        for run in list(self._adopted.values()):
            if run.left:
                del self._adopted[run.run_id]
            elif run.ended:
                self._tell_stuck(run, now)
            else:
                self._check(run, now)
                running.append(run)
        self._renew(running, now)
        if not self._adopted:
            return CLAIM_AFTER_S if self._started else None
        next_at = min((run.lease.next_at() for run in running), default=now + LOOK_S)
        most = CLAIM_AFTER_S if self._started else LOOK_S
        return max(_LEAST_S, min(next_at - now, most))

    def _adopt(self, now: float) -> None:
        while self._started:
            run = self._started[0]
            if not (run.left or run.ended) and run.lease.claim_at > now:
                return
            self._started.popleft()
            if not (run.left or run.ended):
                self.claim(run)

    def _check(self, run: Run, now: float) -> None:
        lease = run.lease
        if now >= lease.timeout_at:
            self._time_out(run, now)
        elif not lease.lost and now >= lease.lost_at:
            self._lose(run)

    def _time_out(self, run: Run, now: float) -> None:
        if not run.end():
            return
        failure = TimeoutError(f"it ran longer than its timeout of {run.work.timeout_ms} ms and was ended")
        self.timed_out += 1
        run.ended_at = now
        report = run.report(
            ReportKind.FAILED,
            self._clock.wall_ms(),
            error_text(failure),
            run.handler.retry_ms(failure, run.work.attempt),
        )
        self._put(run, report)
        ctx, home = run.ctx, run.home
        if ctx is not None and home is not None:
            ctx.cancelled = True
            home.stop(run)

    def _lose(self, run: Run) -> None:
        ctx, home = run.ctx, run.home
        if run.lease.lost or ctx is None or home is None:
            return
        run.lease.lost = True
        ctx.lost = True
        home.tell(run)
        self.lost += 1
        self._events.alarm(
            "lease_lost",
            f"task {run.work.task_id!r}, attempt {run.work.attempt}: its lease is gone, another attempt may run",
            queue=run.queue,
        )

    def _tell_stuck(self, run: Run, now: float) -> None:
        if 0 < run.ended_at <= now - STUCK_S:
            run.ended_at = 0.0
            self._events.emit(
                "alarm",
                kind="stuck_slot",
                reason=f"handler {run.handler.name} does not end although its run was ended (task "
                f"{run.work.task_id!r}); its slot stays taken: look at ctx.cancelled, or use executor=process",
                stuck=self.stuck,
                queue=run.queue,
            )

    def _renew(self, running: Sequence[Run], now: float) -> None:
        due = to_renew(running, now)
        homes = {run.home for run in due}
        for run in due:
            run.lease.asked(now)
        for home in homes:
            if home is not None:
                home.vouch(self._beat, [run for run in due if run.home is home])

    def _beat(self, runs: Sequence[Run]) -> None:
        """One heartbeat each; where they hung meanwhile, there may be nothing left to renew."""
        now_ms, now = self._clock.wall_ms(), self._clock.monotonic()
        for run in runs:
            if not (run.ended or run.lease.lost) and now < run.lease.lost_at:
                self._put(run, run.report(ReportKind.HEARTBEAT, now_ms))


class RunKeeping:
    """What one handler may ask of its worker (RunLink)."""

    __slots__ = ("_keeper", "_run")

    def __init__(self, keeper: LeaseKeeper, run: Run) -> None:
        self._keeper = keeper
        self._run = run

    def fence(self) -> Fence:
        """See RunLink."""
        return self._keeper.fence(self._run)

    def progress(self, thousandths: int, note: str) -> None:
        """See RunLink."""
        self._keeper.progress(self._run, thousandths, note)

    def schedule(self, made: FollowUp) -> FollowUp:
        """See RunLink."""
        return made.sent_by(self._keeper.client())
