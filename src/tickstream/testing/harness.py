"""tickstream in one object for tests: client, dispatcher and workers around the real engine.

No broker, no thread, no sleep: time passes when `advance` says so, and everything that falls due
on the way happens in order, at its instant.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from tickstream.codec import (
    decode_body,
    encode_batch,
    encode_command,
    encode_reports,
)
from tickstream.dispatcher.bucket import BucketTurn
from tickstream.dispatcher.engine import Rules
from tickstream.dispatcher.ports import OutRecord
from tickstream.dispatcher.records import encode_outcome
from tickstream.ingest.request import IfExistsLike, Requests, cancel_command, schedule_command
from tickstream.model import (
    DEFAULT_QUEUE,
    NEVER,
    BoundCall,
    Command,
    DueEntry,
    History,
    InputPosition,
    Phase,
    Progress,
    Report,
    ReportKind,
    Verdict,
    Work,
    bucket_of,
)
from tickstream.settings import EngineSettings
from tickstream.testing.clock import ManualClock
from tickstream.testing.memory import MemoryTimers
from tickstream.topics import TopicNames
from tickstream.worker.app import App
from tickstream.worker.run import Execution, Run

BUCKETS = 8
_NAMES = TopicNames("test.")


class Harness:
    """The whole of tickstream on a virtual clock."""

    def __init__(
        self, *, engine: EngineSettings | None = None, queues: tuple[str, ...] = (DEFAULT_QUEUE,)
    ) -> None:
        self.clock = ManualClock()
        self.client = HarnessClient(self)
        self.history: list[History] = []
        """Every outcome so far, in order."""
        self.log: list[OutRecord] = []
        """Every record that a dispatcher would have committed."""
        self._engine = engine or EngineSettings()
        self._rules = Rules(self._engine, frozenset(queues))
        self._timers = MemoryTimers()
        self._progress = [_fresh_progress() for _ in range(BUCKETS)]
        self._work: dict[str, deque[Work]] = defaultdict(deque)
        self._ids = 0

    @property
    def now(self) -> datetime:
        """The virtual instant, aware, UTC."""
        return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=self.clock.wall_ms())

    def advance(self, by: timedelta) -> None:
        """Let time pass, stopping at every instant at which something is due."""
        end = self.clock.wall_ms() + by // timedelta(milliseconds=1)
        self.tick()
        while (at := self._timers.next_due_ms()) is not None and at <= end:
            self.clock.advance(max(0, at - self.clock.wall_ms()))
            self.tick()
        self.clock.advance(max(0, end - self.clock.wall_ms()))

    def tick(self) -> None:
        """Do what is due now."""
        while due := self._timers.due(self.clock.wall_ms()):
            for bucket, entries in due.items():
                self._turn(bucket, due=entries)

    def phase(self, task_id: str) -> Phase | None:
        """Where the task stands, None when it is not known (any more)."""
        state = self._timers.state(bucket_of(task_id, BUCKETS), task_id)
        return state and state.phase

    def work(self, queue: str = DEFAULT_QUEUE) -> tuple[Work, ...]:
        """Runs dispatched and not taken by a worker yet."""
        return tuple(self._work[queue])

    def worker(self, app: App, name: str = "worker", queue: str = DEFAULT_QUEUE) -> HarnessWorker:
        """A worker of `queue` with the handlers of `app`."""
        return HarnessWorker(self, app, name, queue)

    # ------------------------------------------------------------------ what client and worker send

    def send(self, command: Command) -> Verdict:
        """Put a command into its bucket's log, apply it, and return its verdict."""
        value = encode_batch("harness", 0, [encode_command(command)])
        (verdict,) = self._turn(bucket_of(command.task_id, BUCKETS), commands=value)
        return verdict

    def report(self, report: Report, worker: str) -> None:
        """Put a worker's report into its bucket's log and apply it."""
        self._turn(bucket_of(report.task_id, BUCKETS), reports=encode_reports(worker, [report]))

    def take(self, queue: str) -> Work | None:
        """The next dispatched run, None when there is none."""
        waiting = self._work[queue]
        return waiting.popleft() if waiting else None

    def new_id(self) -> bytes:
        """16 bytes, another every time, the same in every run of a test."""
        self._ids += 1
        return self._ids.to_bytes(16, "big")

    def _turn(
        self,
        bucket: int,
        *,
        commands: bytes | None = None,
        reports: bytes | None = None,
        due: list[DueEntry] | None = None,
    ) -> list[Verdict]:
        """One transaction of one bucket."""
        now = self.clock.wall_ms()
        # Nothing is ever under way here: all that was accepted is applied.
        progress = self._progress[bucket]._replace(applied_before_ms=now)
        turn = BucketTurn(bucket, BUCKETS, self._timers, progress, self._rules, now)
        if commands is not None:
            turn.commands(progress.commands.offset, 0, now, commands)
        if reports is not None:
            turn.reports(progress.reports.offset, 0, reports)
        for entry in due or ():
            turn.due(entry)
        outcome = turn.outcome()
        # Encoded as a dispatcher would, so that what cannot be written fails here too.
        encoded = encode_outcome(outcome, _NAMES)
        self._timers.apply(outcome)
        self._progress[bucket] = outcome.progress
        self.history.extend(outcome.history)
        self.log.extend(encoded.records)
        for queue, work in outcome.work:
            self._work[queue].append(work)
        return [reply.verdict for reply in outcome.replies]


class HarnessClient:
    """Like Client, but every call is answered at once with its verdict."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._requests = Requests()

    def schedule(
        self,
        task_id: str,
        *,
        run_at: datetime | None = None,
        run_at_ts: int | None = None,
        payload: bytes | None = None,
        handler: str = "",
        call: BoundCall | None = None,
        queue: str | None = None,
        labels: Mapping[str, str] | None = None,
        if_exists: IfExistsLike = "replace",
        allow_past: bool = False,
    ) -> Verdict:
        """As Client.schedule with wait. Raises InvalidInput and its kinds."""
        checked = self._requests.checked(
            task_id, run_at, run_at_ts, payload, handler, call, queue, labels, if_exists, allow_past
        )
        command = schedule_command(self._harness.new_id(), checked)
        verdict = self._harness.send(command)
        self._harness.tick()
        return verdict

    def cancel(self, task_id: str) -> Verdict:
        """As Client.cancel."""
        return self._harness.send(cancel_command(self._harness.new_id(), task_id))


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
            self._harness.report(report, self._name)
            reports.append(report)
        return reports

    def claim(self) -> Work:
        """Take the next run without executing it, as a worker does that is about to die."""
        work = self._harness.take(self._queue)
        if work is None:
            raise LookupError(f"no run waits in queue {self._queue!r}")
        return work

    def succeed(self, work: Work) -> Report:
        """Report a claimed run as succeeded."""
        return self._word(work, ReportKind.SUCCEEDED, "")

    def fail(self, work: Work, error: str) -> Report:
        """Report a claimed run as failed."""
        return self._word(work, ReportKind.FAILED, error)

    def execute(self, work: Work) -> Report:
        """Run the handler of `work` here and now. Raises KeyError when the app has none of that name."""
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
        return done[0]

    def _word(self, work: Work, kind: ReportKind, error: str) -> Report:
        now = self._harness.clock.wall_ms()
        handler = decode_body(work.body).handler
        run_id = self._harness.new_id()
        report = Report(
            kind, work.task_id, work.occurrence_ts, work.attempt, run_id, handler, now, now, now, error
        )
        self._harness.report(report, self._name)
        return report


class _Nobody:
    """Owns the runs of a harness: there is no slot to free and no offset to commit."""

    def finished(self) -> None: ...

    def acked(self, run: Run) -> None: ...


def _fresh_progress() -> Progress:
    start = InputPosition(bytes(16), 0, 0, NEVER)
    return Progress(start, start, 0, 0, 0, "", 0)
