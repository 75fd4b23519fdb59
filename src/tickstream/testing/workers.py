"""The harness's workers: dispatched runs, executed by the worker's own code or played by a test.

No broker, no thread.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tickstream.codec import decode_body
from tickstream.model import NEVER, Report, ReportKind, Work
from tickstream.worker.app import App
from tickstream.worker.execution import Execution
from tickstream.worker.run import Run

if TYPE_CHECKING:
    from tickstream.testing.harness import Harness


class HarnessWorker:
    """Takes dispatched runs and executes them through the worker's own code."""

    def __init__(self, harness: Harness, app: App, name: str, queue: str) -> None:
        self._harness = harness
        self._app = app
        self._name = name
        self._queue = queue

    def run_all(self) -> list[Report]:
        """Execute every dispatched run, report the outcomes, and return the reports."""
        reports = []
        while (work := self._harness.take(self._queue)) is not None:
            report = self.execute(work)
            self._harness.report(report, worker=self._name)
            reports.append(report)
        return reports

    def take(self) -> HarnessRun:
        """The next dispatched run, not claimed: as a worker has it that finishes at once, or dies.

        Raises LookupError when none waits.
        """
        work = self._harness.take(self._queue)
        if work is None:
            raise LookupError(f"no run waits in queue {self._queue!r}")
        return HarnessRun(self._harness, self._name, work)

    def again(self, work: Work) -> HarnessRun:
        """Another run of work that was delivered before, as Kafka does after a crash."""
        return HarnessRun(self._harness, self._name, work)

    def claim(self) -> HarnessRun:
        """The next dispatched run, claimed. Raises LookupError when none waits."""
        run = self.take()
        run.claim()
        return run

    def execute(self, work: Work) -> Report:
        """Run the handler of `work` here and now, and send what it schedules.

        Raises KeyError when the app has no handler of that name.
        """
        body = decode_body(work.body)
        handler = self._app.handlers[body.handler]
        done: list[Report] = []
        execution = Execution(
            self._harness.clock, self._harness.new_id, lambda _run, report: done.append(report)
        )
        run = Run(_Nobody(), work.bucket, 0, work, body, handler, self._harness.clock.wall_ms())
        if handler.is_async:
            asyncio.run(execution.run_async(run))
        else:
            execution.run(run)
        for made in run.ctx.follow_ups if run.ctx else ():
            self._harness.client.schedule(made.task_id, **made.request())
        return done[0]


class HarnessRun:
    """A run in the hands of a worker that the test plays."""

    def __init__(self, harness: Harness, worker: str, work: Work) -> None:
        self._harness = harness
        self._worker = worker
        self.work = work
        self.run_id = harness.new_id()

    def claim(self) -> None:
        """Say that it runs, and is to be held by this run."""
        self._say(ReportKind.CLAIMED)

    def heartbeat(self) -> None:
        """Say that it still runs."""
        self._say(ReportKind.HEARTBEAT)

    def succeed(self) -> None:
        """Report success."""
        self._say(ReportKind.SUCCEEDED)

    def fail(self, error: str = "Error: failed", *, retry_ms: int = NEVER) -> None:
        """Report a failure."""
        self._say(ReportKind.FAILED, error, retry_ms)

    def release(self, pause_ms: int = NEVER) -> None:
        """Hand it back unstarted. `pause_ms`: before it is sent out again, NEVER: as the dispatcher has it."""
        self._say(ReportKind.RELEASED, retry_ms=pause_ms)

    def _say(self, kind: ReportKind, error: str = "", retry_ms: int = NEVER) -> None:
        now = self._harness.clock.wall_ms()
        work = self.work
        handler = decode_body(work.body).handler
        report = Report(
            kind,
            work.task_id,
            work.occurrence_ts,
            work.attempt,
            self.run_id,
            handler,
            now,
            now,
            now,
            error,
            retry_ms,
        )
        self._harness.report(report, worker=self._worker)


class _Nobody:
    """Owns the runs of a harness: there is no slot to free and no offset to commit."""

    def finished(self) -> None: ...

    def acked(self, run: Run, kind: ReportKind) -> None: ...
