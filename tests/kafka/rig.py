"""Real dispatcher processes on their own topics, and what the log says of them afterwards."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tests.waiting import eventually
from tickstream.codec import (
    PROGRESS,
    decode_history,
    decode_progress,
    decode_work,
    encode_batch,
    encode_body,
    encode_command,
    encode_reports,
    timers_key,
)
from tickstream.kafka import Admin, TopicPartition, place, plain_producer, state_consumer
from tickstream.model import (
    DEFAULT_OPTIONS,
    NEVER,
    Body,
    Command,
    History,
    Report,
    ReportKind,
    Verb,
    Work,
    bucket_key,
    bucket_of,
)
from tickstream.ops.processes import ManagedProcess, tickstream_command
from tickstream.settings import Settings
from tickstream.topics import TopicNames, topic_table

BODY = encode_body(Body("noop", b"{}", {}, {}))
SESSION_MS = 1_000


class Rig:
    """Topics under a prefix of their own, and the dispatchers started on them."""

    def __init__(self, bootstrap: str, prefix: str, data: Path, *, buckets: int = 4, lanes: int = 2) -> None:
        self.settings = Settings(bootstrap, prefix)
        self.names = TopicNames(prefix)
        self.buckets = buckets
        self.lanes = lanes
        self.admin = Admin(self.settings)
        self.admin.create(topic_table(self.names, buckets=buckets, lanes=lanes))
        self.data = data
        self._producer = plain_producer(self.settings, "rig")
        self._running = ExitStack()
        self._commands = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    # ------------------------------------------------------------------ processes

    def dispatcher(
        self, name: str, *, kill_at: str = "", standby: bool = False, options: tuple[str, ...] = ()
    ) -> ManagedProcess:
        """A dispatcher process with a store of its own, by name."""
        command = tickstream_command(
            "dispatcher",
            "run",
            "--json",
            f"--bootstrap={self.settings.bootstrap}",
            f"--prefix={self.settings.prefix}",
            f"--data={self.data / name}",
            f"--session-ms={SESSION_MS}",
            *([f"--kill-at={kill_at}"] if kill_at else []),
            *(["--standby=all"] if standby else []),
            *options,
        )
        assert command[0] == sys.executable
        return self._running.enter_context(ManagedProcess.start(command, name=name))

    def wait_active(
        self, process: ManagedProcess, lanes: int | None = None, timeout_s: float = 30, *, since: int = 0
    ) -> None:
        """Until the process has become active on that many lanes (all of them), from event `since` on."""
        wanted = set(range(self.lanes))
        seen: set[int] = set()

        def enough(event: object) -> bool:
            if isinstance(event, dict) and event.get("event") == "lane_active":
                seen.add(event["lane"])
            return len(seen & wanted) >= (lanes or self.lanes)

        process.wait_event(enough, timeout_s, since=since)

    # ------------------------------------------------------------------ inputs

    def schedule(self, count: int, *, first_in_ms: int, over_ms: int, name: str = "t") -> dict[str, int]:
        """Acked Schedule commands; returns task_id → run_at. Instants are spread evenly."""
        start = time.time_ns() // 1_000_000 + first_in_ms
        due = {f"{name}:{n}": start + n * over_ms // count for n in range(count)}
        for task_id, at in due.items():
            self.send(
                Command(self.command_id(), Verb.SCHEDULE, task_id, at, "default", DEFAULT_OPTIONS, BODY)
            )
        self.flush()
        return due

    def cancel(self, task_id: str) -> None:
        """A Cancel command, unacked until `flush`."""
        self.send(Command(self.command_id(), Verb.CANCEL, task_id, NEVER, "", DEFAULT_OPTIONS, b""))

    def send(self, command: Command) -> None:
        """Produce one command to its bucket."""
        value = encode_batch("rig", -1, [encode_command(command)])
        key = bucket_key(command.task_id).encode()
        self._producer.produce(self.names.commands, value, key, bucket_of(command.task_id, self.buckets))
        self._producer.poll(0)

    def send_raw(self, topic: str, bucket: int, value: bytes, key: bytes | None = None) -> None:
        """Produce any bytes."""
        self._producer.produce(topic, value, key, bucket)

    def recreate(self, topic: str) -> None:
        """Delete the topic, and create it anew and empty."""
        self.admin.delete_topics([topic])
        assert eventually(lambda: topic not in self.admin.partitions(), 20)
        self.admin.create(topic_table(self.names, buckets=self.buckets, lanes=self.lanes))

    def report(self, work: Work) -> None:
        """Report a run as succeeded, as a worker does."""
        now = time.time_ns() // 1_000_000
        report = Report(
            ReportKind.SUCCEEDED,
            work.task_id,
            work.occurrence_ts,
            work.attempt,
            os.urandom(16),
            "noop",
            now,
            now,
            now,
            "",
        )
        self._producer.produce(
            self.names.reports,
            encode_reports("rig", [report]),
            bucket_key(work.task_id).encode(),
            work.bucket,
        )

    def flush(self) -> None:
        """Wait until everything sent is acked."""
        assert self._producer.flush(20) == 0

    def command_id(self) -> bytes:
        """Another id every time."""
        self._commands += 1
        return self._commands.to_bytes(16, "big")

    # ------------------------------------------------------------------ what the log says

    def read(
        self,
        topic: str,
        *,
        isolation: str = "read_committed",
        until: Callable[[int], bool] | None = None,
        timeout_s: float = 30,
    ) -> Iterator[tuple[int, int, bytes | None, bytes | None]]:
        """(partition, offset, key, value) of a topic: to its present end, or until `until(count)`."""
        partitions = [(topic, p) for p in range(self.admin.partitions()[topic])]
        starts, ends = self.admin.starts(partitions), self.admin.ends(partitions)
        consumer = state_consumer(self.settings, "rig-read", isolation=isolation)
        here = [TopicPartition(t, p, starts[t, p]) for t, p in partitions]
        consumer.assign(here)
        deadline, count = time.monotonic() + timeout_s, 0
        try:
            while time.monotonic() < deadline:
                for message in consumer.consume(500, 0.05):
                    assert message.error() is None, message.error()
                    count += 1
                    _, partition, offset = place(message)
                    yield partition, offset, message.key(), message.value()
                if until is not None:
                    if until(count):
                        return
                elif all(
                    # A partition that has nothing to read has no position either.
                    ends[tp.topic, tp.partition] in (starts[tp.topic, tp.partition], tp.offset)
                    for tp in consumer.position(here)
                ):
                    return
        finally:
            consumer.close()
        raise AssertionError(f"{topic}: {count} records, not what was waited for, after {timeout_s:g} s")

    def work(self, *, at_least: int, timeout_s: float = 30) -> list[Work]:
        """Committed Work records, once there are that many."""
        until = lambda count: count >= at_least  # noqa: E731
        return [
            decode_work(value)
            for *_, value in self.read(self.names.work("default"), until=until, timeout_s=timeout_s)
        ]

    def history(self, *, at_least: int = 0, timeout_s: float = 30) -> list[History]:
        """Committed History records, once there are that many."""
        until = (lambda count: count >= at_least) if at_least else None
        return [
            decode_history(value)
            for *_, value in self.read(self.names.history, until=until, timeout_s=timeout_s)
        ]

    def wait_applied(self, timeout_s: float = 30) -> None:
        """Until every bucket's Progress says that all accepted before now is applied."""
        now = time.time_ns() // 1_000_000
        behind = set(range(self.buckets))
        for partition, _, key, value in self.read(
            self.names.timers, until=lambda _: not behind, timeout_s=timeout_s
        ):
            if key == timers_key(PROGRESS) and decode_progress(value or b"").applied_before_ms >= now:
                behind.discard(partition)

    def assert_each_once(self, due: dict[str, int], *, timeout_s: float = 30) -> None:
        """Exactly one committed Work record per task, none missing, none early (G3, G4)."""
        self.work(at_least=len(due), timeout_s=timeout_s)
        # A surplus record could still be on its way: wait until everything accepted is applied.
        self.wait_applied(timeout_s)
        work = [decode_work(value) for *_, value in self.read(self.names.work("default"))]
        runs = Counter((w.task_id, w.occurrence_ts, w.attempt) for w in work)
        assert set(runs) == {(task_id, at, 1) for task_id, at in due.items()}
        assert [run for run, count in runs.items() if count > 1] == []
        assert [w for w in work if w.decided_ms < w.occurrence_ts] == []
