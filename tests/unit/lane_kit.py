"""A lane and its take-over on ports that answer as they are told: no broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tickstream.codec import decode_signal, decode_work, encode_batch, encode_command, encode_reports
from tickstream.dispatcher.lane import Lane, LanePorts
from tickstream.dispatcher.ports import Input, InputRecord, LogFacts, LogRecord, OutRecord, Side
from tickstream.dispatcher.takeover import TakeOver
from tickstream.errors import BucketStopped, RecordRefused, RetryTransaction
from tickstream.model import DEFAULT_OPTIONS, Command, Report, ReportKind, Signal, Verb, bucket_of
from tickstream.recurrence.zone_data import ZoneData, in_use
from tickstream.settings import EngineSettings, LaneSettings
from tickstream.testing import ManualClock
from tickstream.timer_store import TimerStore
from tickstream.topics import TopicNames

NAMES = TopicNames("t.")
BUCKETS = (0, 2)
COMMANDS_ID, REPORTS_ID, TIMERS_ID = b"c" * 16, b"r" * 16, b"t" * 16
TASK = next(f"task{n}" for n in range(99) if bucket_of(f"task{n}", 4) == 0)


@dataclass
class World:
    """A log of one lane in memory, and everything that may go wrong with it. Implements all ports."""

    log: list[list[LogRecord]] = field(default_factory=lambda: [[] for _ in range(4)])
    """`timers`, committed, by bucket."""
    committed: list[OutRecord] = field(default_factory=list)
    incoming: list[InputRecord | BucketStopped] = field(default_factory=list)
    replies: list[tuple[str, int, bytes]] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    aborts: int = 0
    """That many flushes fail before one succeeds."""
    refuses: Callable[[OutRecord], bool] = lambda _: False
    """What the log does not take for its content."""
    commit_error: Exception | None = None
    ends: dict[tuple[Input, int], int] | None = None
    starts: int = 0
    purged_by_claim: int | None = None
    """Where the inputs start once the next transaction is committed: a newer owner purged them."""
    one_at_a_time: bool = False
    """Each poll brings one record."""
    stretch: int = 10**6
    """Changelog records of a bucket that one read brings."""
    commands_id: bytes = COMMANDS_ID
    assigned: dict[tuple[Input, int], tuple[int, int]] = field(default_factory=dict)
    _open: list[OutRecord] = field(default_factory=list)
    _asked: bool = False

    # Transactions
    def connect(self) -> None:
        self.calls.append("connect")

    def init(self, side: Side) -> None:
        self.calls.append(f"init {side.value}")

    def begin(self, side: Side) -> None:
        self.calls.append(f"begin {side.value}")
        self._open = []

    def produce(self, side: Side, records: Sequence[OutRecord]) -> None:
        self._open.extend(records)

    def flush(self, side: Side) -> None:
        if any(self.refuses(record) for record in self._open):
            raise RecordRefused("too large")
        if self.aborts:
            self.aborts -= 1
            raise RetryTransaction("not delivered")

    def commit(self, side: Side) -> Mapping[int, int]:
        if self.commit_error:
            raise self.commit_error
        if self.purged_by_claim is not None:
            self.starts = self.purged_by_claim
        marks = {}
        for record in self._open:
            self.committed.append(record)
            if record.topic == NAMES.timers:
                own = self.log[record.partition]
                own.append(LogRecord(record.partition, len(own), record.key, record.value))
                if record.marks is not None:
                    marks[record.marks] = len(own) - 1
        return marks

    def abort(self, side: Side) -> None:
        self.calls.append(f"abort {side.value}")

    # Inputs
    def assign(self, positions: Mapping[tuple[Input, int], tuple[int, int]]) -> None:
        self.assigned.update(positions)

    def poll(self, timeout_s: float, limit: int) -> Sequence[InputRecord]:
        if self.incoming and isinstance(self.incoming[0], BucketStopped):
            raise self.incoming.pop(0)  # type: ignore[misc]
        many = 1 if self.one_at_a_time else len(self.incoming)
        taken, self.incoming = self.incoming[:many], self.incoming[many:]
        return taken  # type: ignore[return-value]

    def positions(self) -> Mapping[tuple[Input, int], int]:
        return {}

    # Ends
    def ask(self) -> None:
        self._asked = True

    def pending(self) -> bool:
        return self._asked

    def answer(self) -> Mapping[tuple[Input, int], int] | None:
        if not self._asked or self.ends is None:
            return None
        self._asked = False
        return self.ends

    # Replies, Facts
    def send(self, client_id: str, partition: int, value: bytes) -> None:
        self.replies.append((client_id, partition, value))

    def signal(self, run_id: bytes, value: bytes) -> None:
        self.signals.append(decode_signal(value))

    def queues(self) -> frozenset[str]:
        return frozenset({"default"})

    def facts(self) -> LogFacts:
        starts = {(source, b): self.starts for source in Input for b in BUCKETS}
        ids = {Input.COMMANDS: self.commands_id, Input.REPORTS: REPORTS_ID}
        return LogFacts(ids, TIMERS_ID, starts, dict.fromkeys(BUCKETS, 0))


@dataclass
class Facts:
    """The facts' port of a World: `log` is the name of something else there."""

    world: World

    def log(self) -> LogFacts:
        return self.world.facts()

    def queues(self) -> frozenset[str]:
        return self.world.queues()


@dataclass
class MemoryChangelog:
    """Reads the World's `timers` back."""

    world: World
    at: dict[int, int] = field(default_factory=dict)

    def open(self, offsets: Mapping[int, int]) -> None:
        self.at.update({b: max(0, o) for b, o in offsets.items()})

    def read(self, timeout_s: float, limit: int) -> Sequence[LogRecord]:
        many = self.world.stretch
        found = [r for b, at in self.at.items() for r in self.world.log[b][at : at + many]]
        self.at = {b: min(len(self.world.log[b]), at + many) for b, at in self.at.items()}
        return found

    def positions(self) -> Mapping[int, int]:
        return dict(self.at)

    def done(self, bucket: int) -> None:
        self.at.pop(bucket)

    def close(self) -> None: ...


class Bench:
    """A lane's parts around one World."""

    def __init__(self, world: World, store: TimerStore) -> None:
        self.world = world
        self.store = store
        self.clock = ManualClock()
        self.events: list[Mapping[str, object]] = []
        self.ports = LanePorts(world, world, world, world, Facts(world))

    def take_over(self, zones: ZoneData | None = None) -> Lane:
        zones = zones or in_use()
        take_over = TakeOver(
            0, "me", 0, BUCKETS, zones, NAMES, self.ports, lambda: MemoryChangelog(self.world), self.store,
            self.clock, self.events.append,
        )  # fmt: skip
        steps = take_over.steps()
        while True:
            try:
                next(steps)
            except StopIteration as active:
                return Lane(
                    0, 4, NAMES, self.ports, self.store, self.clock, EngineSettings(),
                    LaneSettings(batch_open_ms=0), self.events.append, active.value, take_over.leases,
                    latecomers=take_over, zones=zones,
                )  # fmt: skip

    def schedule(self, offset: int, at_ms: int, task_id: str = TASK) -> InputRecord:
        command = Command(
            offset.to_bytes(16, "big"), Verb.SCHEDULE, task_id, at_ms, "default", DEFAULT_OPTIONS, b""
        )
        value = encode_batch("client", 1, [encode_command(command)])
        return InputRecord(Input.COMMANDS, 0, offset, 5, self.clock.wall_ms(), value)

    def say(self, kind: ReportKind, offset: int) -> None:
        """A worker's word on the first attempt of TASK."""
        (work,) = [decode_work(r.value) for r in self.world.committed if r.topic == NAMES.work("default")]
        now = self.clock.wall_ms()
        report = Report(kind, TASK, work.occurrence_ts, 1, b"r" * 16, "h", now, now, now, "")
        value = encode_reports("w", [report])
        self.world.incoming.append(InputRecord(Input.REPORTS, 0, offset, 5, now, value))

    def attempts(self) -> list[int]:
        """The attempts dispatched so far."""
        work = [decode_work(r.value) for r in self.world.committed if r.topic == NAMES.work("default")]
        return [w.attempt for w in work]

    def alarms(self) -> list[str]:
        return [str(e["reason"]) for e in self.events if e["event"] == "alarm"]


def run(lane: Lane) -> list[str]:
    """One round of the loop; the points it passed."""
    return list(lane.run_once())
