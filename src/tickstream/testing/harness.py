"""tickstream in one object for tests: client, dispatcher and workers around the real engine.

No broker, no thread, no sleep: time passes when `advance` says so, and everything that falls due
on the way happens in order, at its instant.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from datetime import datetime, timedelta

from tickstream.clock import moment_of
from tickstream.codec import (
    encode_batch,
    encode_command,
    encode_reports,
)
from tickstream.dispatcher.bucket import BucketTurn
from tickstream.dispatcher.decision import Rules
from tickstream.dispatcher.gates import Gates
from tickstream.dispatcher.leases import Expired, LeaseBook
from tickstream.dispatcher.moving import is_moving, taken_over
from tickstream.dispatcher.ports import OutRecord
from tickstream.dispatcher.records import encode_outcome
from tickstream.dispatcher.sweep import Sweep
from tickstream.model import (
    DEFAULT_QUEUE,
    NEVER,
    Command,
    DueEntry,
    History,
    InputPosition,
    Phase,
    Progress,
    Report,
    Signal,
    Verdict,
    Work,
    bucket_of,
)
from tickstream.recurrence.zone_data import ZoneData, in_use
from tickstream.settings import EngineSettings
from tickstream.testing.clients import HarnessClient
from tickstream.testing.clock import ManualClock
from tickstream.testing.memory import MemoryTimers
from tickstream.testing.workers import HarnessWorker
from tickstream.topics import TopicNames
from tickstream.worker.app import App

BUCKETS = 8
_NAMES = TopicNames("test.")


class Harness:
    """The whole of tickstream on a virtual clock."""

    def __init__(
        self,
        *,
        engine: EngineSettings | None = None,
        queues: tuple[str, ...] = (DEFAULT_QUEUE,),
        zones: ZoneData | None = None,
    ) -> None:
        """`zones`: the dispatcher's zone data, None: those that the process uses."""
        self.clock = ManualClock()
        self.client = HarnessClient(self)
        self.history: list[History] = []
        """Every outcome so far, in order."""
        self.alarms: list[str] = []
        """What a person must hear of."""
        self.signals: list[Signal] = []
        """Every request to running work to stop."""
        self.notices: list[dict[str, object]] = []
        """Every event that a dispatcher would have told of a decision."""
        self.log: list[OutRecord] = []
        """Every record that a dispatcher would have committed."""
        self._engine = engine or EngineSettings()
        self._rules = Rules(self._engine, frozenset(queues), zones=zones or in_use())
        self._timers = MemoryTimers()
        self._progress = [_fresh_progress() for _ in range(BUCKETS)]
        self._work: dict[str, deque[Work]] = defaultdict(deque)
        self._leases = LeaseBook()
        self._gates = [Gates({}, (), self.clock.wall_ms()) for _ in range(BUCKETS)]
        self._ids = 0
        self._sweeps: dict[int, Sweep] = {}
        self.take_over(self._rules.zones)

    @property
    def now(self) -> datetime:
        """The virtual instant, aware, UTC."""
        return moment_of(self.clock.wall_ms())

    def take_over(self, zones: ZoneData | None = None) -> None:
        """Another dispatcher goes on, with these zone data; None: with the same."""
        zones = zones or self._rules.zones or in_use()
        self._rules = self._rules._replace(zones=zones)
        self._timers.reckon_busy()
        self._progress = [taken_over(progress, zones.release) for progress in self._progress]
        now = self.clock.wall_ms()
        moving = [is_moving(progress, zones.release) for progress in self._progress]
        self._sweeps = {bucket: Sweep(bucket, now) for bucket in range(BUCKETS) if moving[bucket]}

    def advance(self, by: timedelta) -> None:
        """Let time pass, stopping at every instant at which something is due."""
        end = self.clock.wall_ms() + by // timedelta(milliseconds=1)
        self.tick()
        while (at := self._next_ms()) is not None and at <= end:
            self.clock.advance(max(0, at - self.clock.wall_ms()))
            self.tick()
        self.clock.advance(max(0, end - self.clock.wall_ms()))

    def tick(self) -> None:
        """Do what is due now."""
        # The end probe is answered at once here: whatever deadline has passed may expire.
        licence = dict.fromkeys(range(BUCKETS), self.clock.monotonic())
        for lease in self._leases.expired(licence):
            self._turn(lease.bucket, expired=lease)
        while (due := self._due()) or self._sweeps:
            for bucket, entries in due.items():
                self._turn(bucket, due=entries)
            self._sweep()

    def _sweep(self) -> None:
        """A page of every bucket in which older zone data may have placed something."""
        for bucket, sweep in list(self._sweeps.items()):
            moves = sweep.page(self._timers, self._rules)
            if sweep.ended:
                del self._sweeps[bucket]
            self._turn(bucket, moves=moves, placed=sweep.ended)

    def _due(self) -> dict[int, list[DueEntry]]:
        """Bucket → what is due now, or leaves a gate."""
        now = self.clock.wall_ms()
        due = self._timers.due_everywhere(now)
        for bucket, gates in enumerate(self._gates):
            if leaving := gates.leaving(bucket, self._timers, now):
                due.setdefault(bucket, []).extend(leaving)
        return due

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

    def send_everywhere(self, command: Command) -> list[Verdict]:
        """Put a command into every bucket's log and apply it."""
        value = encode_batch("harness", 0, [encode_command(command)])
        return [verdict for bucket in range(BUCKETS) for verdict in self._turn(bucket, commands=value)]

    def report(self, *reports: Report, worker: str) -> None:
        """Put a worker's reports into their buckets' logs, one message a bucket, and apply them."""
        by_bucket: dict[int, list[Report]] = defaultdict(list)
        for report in reports:
            by_bucket[bucket_of(report.task_id, BUCKETS)].append(report)
        for bucket, some in by_bucket.items():
            self._turn(bucket, reports=encode_reports(worker, some))

    def take(self, queue: str) -> Work | None:
        """The next dispatched run that may start now, None when there is none."""
        waiting, now = self._work[queue], self.clock.wall_ms()
        work = next((work for work in waiting if work.not_before_ms <= now), None)
        if work is not None:
            waiting.remove(work)
        return work

    def new_id(self) -> bytes:
        """16 bytes, another every time, the same in every run of a test."""
        self._ids += 1
        return self._ids.to_bytes(16, "big")

    def _next_ms(self) -> int | None:
        """The next instant at which something is due, or a lease is over."""
        now = self.clock.wall_ms()
        instants = [self._timers.next_due_ms(), *(gates.next_open_ms(now) for gates in self._gates)]
        deadline = self._leases.next_deadline()
        if deadline is not None:
            left_ms = int((deadline - self.clock.monotonic()) * 1000) + 1
            instants.append(self.clock.wall_ms() + max(1, left_ms))
        return min((at for at in instants if at is not None), default=None)

    def _turn(
        self,
        bucket: int,
        *,
        commands: bytes | None = None,
        reports: bytes | None = None,
        due: list[DueEntry] | None = None,
        expired: Expired | None = None,
        moves: Sequence[str] = (),
        placed: bool = False,
    ) -> list[Verdict]:
        """One transaction of one bucket."""
        now = self.clock.wall_ms()
        # Nothing is ever under way here: all that was accepted is applied.
        progress = self._progress[bucket]._replace(applied_before_ms=now)
        turn = BucketTurn(bucket, BUCKETS, self._timers, progress, self._rules, self._gates[bucket], now)
        if commands is not None:
            turn.commands(progress.commands.offset, 0, now, commands)
        if reports is not None:
            turn.reports(progress.reports.offset, 0, reports)
        for entry in due or ():
            turn.due(entry)
        if expired is not None:
            turn.expired(expired)
        for task_id in moves:
            turn.moves(task_id)
        if placed:
            turn.placed()
        outcome = turn.outcome()
        # Encoded as a dispatcher would, so that what cannot be written fails here too.
        encoded = encode_outcome(outcome, _NAMES, BUCKETS)
        self._timers.apply(outcome)
        self._progress[bucket] = outcome.progress
        outcome.gates.commit()
        held = self.clock.monotonic()
        self._leases.follow(bucket, outcome.after, outcome.leases, outcome.heartbeats, held)
        self.history.extend(outcome.history)
        self.signals.extend(outcome.signals)
        self.alarms.extend(outcome.alarms)
        self.notices.extend(outcome.notices)
        self.log.extend(encoded.records)
        for queue, work in outcome.work:
            self._work[queue].append(work)
        return [reply.verdict for reply in outcome.replies]


def _fresh_progress() -> Progress:
    start = InputPosition(bytes(16), 0, 0, NEVER)
    return Progress(start, start, 0, 0, 0, "", 0)
