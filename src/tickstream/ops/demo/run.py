"""The demo from its first step to its last.

What runs is cast.py's, what is done to the tasks plan.py's, whether it went well the audit's.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from tickstream.broker import DevBroker
from tickstream.clock import Clock, SystemClock, iso_utc
from tickstream.errors import InvalidInput, TickstreamError
from tickstream.ingest.client import Client
from tickstream.kafka import Admin
from tickstream.model import DEFAULT_QUEUE
from tickstream.ops.audit import Report, audit
from tickstream.ops.demo.cast import Cast, Stage, start_cast
from tickstream.ops.demo.changes import Changes
from tickstream.ops.demo.display import Display
from tickstream.ops.demo.plan import plan_changes, quiet_moment
from tickstream.ops.demo.watch import Watch
from tickstream.ops.dev_broker import create_topics, kafka_runtime
from tickstream.ops.journal import JournalWriter
from tickstream.ops.load import TaskFile
from tickstream.ops.task_file import TaskLine
from tickstream.settings import Settings, dashboard_token
from tickstream.topics import TopicNames

TASKS: Final = "tasks.jsonl"
_LEAD_MS: Final = 6_000
"""From the load's start to the first instant: longer than the load takes."""
_DRAIN_S: Final = 5.0
_LOAD_S: Final = 60.0
_LEAST_WINDOW_S: Final = 5.0
_LOOK_S: Final = 1.0
_DEV_SESSION_MS: Final = 2_000
_STOCK_SESSION_MS: Final = 6_000
"""What stock brokers allow at least."""
_SEED: Final = 7


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What the caller decides."""

    examples: Path
    """The directory with the application and the tasks."""
    cache: Path
    """Where Kafka is kept between runs."""
    environ: Mapping[str, str]
    """Of the processes that are started; TICKSTREAM_BOOTSTRAP in it names a broker to use."""
    for_s: float | None = None
    """How long it lasts from when the broker is up, without the audit; None: until it is stopped."""
    session_ms: int | None = None
    """Of dispatchers and workers; None: the shortest that such a broker allows."""
    ends_when_done: bool = False
    """End by itself when everything has run."""


@dataclass(frozen=True, slots=True)
class DemoResult:
    """How it went."""

    report: Report
    tasks: int
    verdicts: Mapping[str, Mapping[str, int]]
    """Of the cancels and replaces."""
    seconds: float
    dashboard: str

    def to_json(self) -> dict[str, Any]:
        """The audit's fields, and the demo's own."""
        return {
            **self.report.to_json(),
            "tasks": self.tasks,
            "verdicts": self.verdicts,
            "seconds": round(self.seconds, 1),
            "dashboard": self.dashboard,
        }


def find_examples(*places: Path) -> Path:
    """The first of `places` that holds the demo's tasks. Raises InvalidInput."""
    for place in places:
        if (place / TASKS).is_file():
            return place.resolve()
    raise InvalidInput(
        f"the demo's tasks and handlers were not found in {' or '.join(map(str, places))}; "
        "run it in a checkout of tickstream"
    )


@dataclass(slots=True)
class Demo:
    """One run of it."""

    options: DemoOptions
    display: Display
    stop: threading.Event
    clock: Clock = field(default_factory=SystemClock)

    def run(self) -> DemoResult:
        """Play it, and audit. Raises TickstreamError when a step fails, KeyboardInterrupt when stopped early.

        However it ends, no process, topic or file of it is left.
        """
        with ExitStack() as stack:
            stage = stack.enter_context(self._stage())
            began_s = self.clock.monotonic()
            create_topics(stage.settings)
            self.display.say("starting 2 dispatchers, 2 workers, projection and dashboard")
            cast = start_cast(stage, Admin(stage.settings).layout(), stack)
            self.display.say(f"dashboard: {cast.url}")
            self._go_on()
            journal = stage.directory / "journal.jsonl"
            tasks = self._load(stage, journal, began_s)
            verdicts = self._play(stage, cast, journal, tasks, began_s)
            self.display.say("stopping the workers, then reading all topics for the audit")
            cast.stop_workers()
            # The dispatchers go on: whatever falls due until the audit has read is dispatched.
            report = audit(stage.settings, journal=journal, clock=self.clock, session_ms=stage.session_ms)
            return DemoResult(report, len(tasks), verdicts, self.clock.monotonic() - began_s, cast.url)

    @contextmanager
    def _stage(self) -> Iterator[Stage]:
        """A broker with names of one's own on it, and a directory; all gone afterwards."""
        environ = self.options.environ
        with ExitStack() as stack:
            directory = Path(stack.enter_context(_temporary()))
            if environ.get("TICKSTREAM_BOOTSTRAP"):
                given = Settings.from_env(environ)
                settings = Settings(given.bootstrap, f"demo-{uuid.uuid4().hex[:8]}.", given.kafka)
                session_ms = _STOCK_SESSION_MS
                stack.callback(_take_away, settings)
                self.display.say(f"using the broker at {settings.bootstrap}, prefix {settings.prefix}")
            else:
                runtime = kafka_runtime(self.options.cache, self.display.console)
                self.display.say(f"starting Apache Kafka {runtime.kafka_version}")
                broker = stack.enter_context(DevBroker.start(runtime=runtime))
                settings, session_ms = Settings(broker.bootstrap), _DEV_SESSION_MS
            self._go_on()
            yield Stage(
                settings, self.options.session_ms or session_ms, directory, self.options.examples, environ
            )

    def _load(self, stage: Stage, journal: Path, began_s: float) -> list[TaskLine]:
        """Load the tasks with the real command, the first due in a few seconds; those loaded, by instant."""
        path = self._tasks_in_time(stage, began_s)
        start_ms = self.clock.wall_ms() + _LEAD_MS
        loader = stage.start(
            "load", "task", "load", str(path), f"--start={iso_utc(start_ms)}", f"--journal={journal}"
        )
        with loader:
            loaded = loader.wait_event("loaded", _LOAD_S)
            code = loader.wait(_LOAD_S)
        if code != 0:
            raise TickstreamError(f"the tasks could not be loaded:\n{loader.output_tail()}")
        self.display.say(f"loaded {loaded['accepted']:,} tasks, the first due at {iso_utc(start_ms)}")
        tasks = TaskFile(path, start_ms=start_ms, queues={DEFAULT_QUEUE}).tasks()
        return sorted(tasks, key=lambda task: task.run_at_ms)

    def _tasks_in_time(self, stage: Stage, began_s: float) -> Path:
        """The task file, or the part of it that falls due before the time given is over."""
        whole = self.options.examples / TASKS
        if self.options.for_s is None:
            return whole
        left_s = self.options.for_s - (self.clock.monotonic() - began_s) - _LEAD_MS / 1_000 - _DRAIN_S
        window_s = max(left_s, _LEAST_WINDOW_S)
        lines = whole.read_text("utf-8").splitlines()
        kept = [line for line in lines if json.loads(line)["offset_s"] <= window_s]
        if len(kept) == len(lines):
            return whole
        self.display.say(f"leaving out {len(lines) - len(kept):,} tasks that fall due later than that")
        part = stage.directory / TASKS
        part.write_text("\n".join(kept), "utf-8")
        return part

    def _play(
        self, stage: Stage, cast: Cast, path: Path, tasks: list[TaskLine], began_s: float
    ) -> dict[str, dict[str, int]]:
        """Disturb the run while it goes on, until it is to end; the verdicts on what was asked."""
        plan = plan_changes(tasks, Random(_SEED), start_ms=self.clock.wall_ms())
        with (
            JournalWriter(path) as journal,
            Client(stage.settings) as client,
            Watch(cast.url, dashboard_token(stage.environ)) as watch,
            Changes(plan, client, journal, self.clock) as changes,
        ):
            self._until_the_end(cast, watch, changes, journal, [t.run_at_ms for t in tasks], began_s)
            self._drain(watch)
        return changes.verdicts

    def _until_the_end(
        self,
        cast: Cast,
        watch: Watch,
        changes: Changes,
        journal: JournalWriter,
        run_at_ms: list[int],
        began_s: float,
    ) -> None:
        kill_at_ms = quiet_moment(run_at_ms)
        ends_s = float("inf") if self.options.for_s is None else began_s + self.options.for_s
        told_done = False
        while self.clock.monotonic() < ends_s:
            to_kill_s = (kill_at_ms - self.clock.wall_ms()) / 1_000
            if self.stop.wait(_LOOK_S if cast.killed else min(_LOOK_S, max(0, to_kill_s))):
                return
            cast.check()
            if not cast.killed and self.clock.wall_ms() >= kill_at_ms:
                cast.kill_one_of_each(journal, self.clock)
                self.display.say("killed a dispatcher and a worker (SIGKILL)")
            seen = watch.look()
            if seen is None:
                continue
            self.display.show(seen.line((self.clock.wall_ms() - run_at_ms[0]) / 1_000))
            if seen.drained and changes.done() and self.clock.wall_ms() > run_at_ms[-1]:
                if self.options.ends_when_done:
                    return
                if not told_done and self.options.for_s is None:
                    self.display.say(f"all has run; have a look at {cast.url}, Ctrl-C ends with the audit")
                told_done = True

    def _drain(self, watch: Watch) -> None:
        """Give what is out a moment to come in."""
        deadline = self.clock.monotonic() + _DRAIN_S
        pause = threading.Event()
        while self.clock.monotonic() < deadline:
            seen = watch.look()
            if seen is not None and seen.in_flight == 0:
                return
            pause.wait(_LOOK_S / 4)

    def _go_on(self) -> None:
        if self.stop.is_set():
            raise KeyboardInterrupt


def _temporary() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="tickstream-demo-", ignore_cleanup_errors=True)


def _take_away(settings: Settings) -> None:
    """Delete the topics and groups of this demo from a broker that is somebody else's."""
    admin = Admin(settings)
    names = TopicNames(settings.prefix)
    admin.delete_topics([name for name in admin.partitions() if name.startswith(settings.prefix)])
    admin.delete_groups([names.dispatcher_group(0), names.worker_group(DEFAULT_QUEUE)])
