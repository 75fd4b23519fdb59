"""`audit`: memory and speed of `tickstream audit` over topics full of clean lives, at a tenth of them and at all.

The audit is the command itself, in a process of its own; its peak of resident memory is the kernel's word.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from bench.cluster import BUCKETS
from bench.harness import Bench, Benchmark, Result
from bench.raw import echo, runs
from bench.raw.configuration import CONSUMER, PRODUCER, with_cluster
from bench.stats import ratio
from tickstream.clock import SystemClock
from tickstream.codec import (
    PROGRESS,
    STATE,
    encode_batch,
    encode_command,
    encode_history,
    encode_progress,
    encode_reports,
    encode_state,
    encode_work,
    timers_key,
)
from tickstream.errors import SendFailed, TickstreamError
from tickstream.kafka import partitioner
from tickstream.model import (
    DEFAULT_OPTIONS,
    DEFAULT_QUEUE,
    DEFAULT_TERMS,
    NEVER,
    Command,
    History,
    InputPosition,
    Outcome,
    Progress,
    Report,
    ReportKind,
    Rev,
    TaskState,
    Verb,
    Work,
)
from tickstream.ops.processes import tickstream_command
from tickstream.settings import Settings
from tickstream.topics import TopicNames

RECORDS: Final = 1_000_000
_RECORDS_A_LIFE: Final = 5
"""Command, state, work, report, history."""
_LIVES_A_PROGRESS: Final = 200
_AGO_MS: Final = 60_000
"""How long ago everything was due: past every grace."""
_BODY: Final = bytes(100)


class Audited(NamedTuple):
    """One run of the command."""

    seconds: float
    rss_bytes: int
    records: int


class Lives:
    """Clean lives of one-shots, produced as clients, dispatchers and workers leave them; counts run on."""

    def __init__(self, settings: Settings, due_ms: int) -> None:
        self._names = TopicNames(settings.prefix)
        # Not the product's: this one waits for a busy broker as long as it takes.
        more = {"delivery.report.only.error": True, "message.timeout.ms": 0}
        self._producer = Producer(with_cluster(settings, PRODUCER | more))
        self._bucket_of_key = partitioner()
        self._due_ms = due_ms
        self._lives = 0
        self._numbers: Counter[int] = Counter()
        """Bucket → lives in it; of which each is one command, one report, one Work, one History."""

    def produce(self, lives: int) -> None:
        """So many more, and wait until they are in the log. Raises SendFailed when one cannot be."""
        for _ in range(lives):
            self._live()
        self._producer.flush()

    def _live(self) -> None:
        self._lives += 1
        task_id = f"task-{self._lives:09d}"
        key = task_id.encode()
        bucket = self._bucket_of_key(key, BUCKETS)
        offset = self._numbers[bucket]
        self._numbers[bucket] = number = offset + 1
        identity = number.to_bytes(12, "big") + bucket.to_bytes(4, "big")
        due, rev, names = self._due_ms + self._lives % 1_000, Rev(offset, 0), self._names
        started = due + 20
        command = Command(identity, Verb.SCHEDULE, task_id, due, DEFAULT_QUEUE, DEFAULT_OPTIONS, _BODY)
        self._put(names.commands, bucket, None, encode_batch("bench", NEVER, [encode_command(command)]))
        terms = DEFAULT_TERMS
        work = Work(bucket, number, task_id, due, 1, rev, due + 5, terms.lease_ms, terms.timeout_ms, _BODY)
        self._put(names.work(DEFAULT_QUEUE), bucket, key, encode_work(work))
        report = Report(
            ReportKind.SUCCEEDED, task_id, due, 1, identity, "noop", started, started, started + 1, ""
        )
        self._put(names.reports, bucket, None, encode_reports("bench", [report]))
        history = History(
            number,
            task_id,
            due,
            1,
            rev,
            Outcome.SUCCEEDED,
            started + 5,
            DEFAULT_QUEUE,
            "noop",
            "bench",
            identity,
            due + 5,
            started,
            started,
            started + 1,
            "",
        )
        self._put(names.history, bucket, key, encode_history(history))
        stub = TaskState(rev, NEVER, due, (), Outcome.SUCCEEDED, started + 5, (), started + 3_600_000)
        self._put(names.timers, bucket, timers_key(STATE, task_id), encode_state(stub))
        if number % _LIVES_A_PROGRESS == 0:
            here = InputPosition(bytes(16), number, 0, 0)
            progress = Progress(here, here, due, number, number, "2026a", 0)
            self._put(names.timers, bucket, timers_key(PROGRESS), encode_progress(progress))

    def _put(self, topic: str, partition: int, key: bytes | None, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key, partition, _refused)
            except BufferError:
                self._producer.poll(0.1)
            else:
                return


def _refused(error: KafkaError | None, message: Message) -> None:
    if error is not None:
        raise SendFailed(f"a record for {message.topic()} was refused: {error.str()}")


def run(bench: Bench) -> Result:
    """Fill the topics to a tenth, audit; fill them up, audit again; read the same records raw."""
    settings = bench.cluster.installation("audit")
    most = 50_000 if bench.quick else bench.options.n
    lives = Lives(settings, SystemClock().wall_ms() - _AGO_MS)
    few = most // 10 // _RECORDS_A_LIFE
    bench.say(f"producing {few * _RECORDS_A_LIFE:,} records")
    lives.produce(few)
    small = _audited(bench, settings)
    bench.say(f"producing {most:,} records in all")
    lives.produce(most // _RECORDS_A_LIFE - few)
    large = _audited(bench, settings)
    work = TopicNames(settings.prefix).work(DEFAULT_QUEUE)
    bench.say("raw consume")
    raw = echo.consume_per_s(settings, work, runs.ends(settings, work))
    per_s = large.records / large.seconds
    return Result(
        metrics={
            "records": large.records,
            "rss_bytes": large.rss_bytes,
            "tenth_rss_bytes": small.rss_bytes,
            "rss_ratio": round(large.rss_bytes / small.rss_bytes, 3),
            "audit_s": round(large.seconds, 1),
            "audited_per_s": round(per_s),
        },
        floor={"consume_per_s": round(raw)},
        ratio={"floor": ratio(per_s, raw)},
        settings={"consume": CONSUMER | {"isolation.level": "read_committed"}},
    )


def _audited(bench: Bench, settings: Settings) -> Audited:
    """Run the command. Raises TickstreamError when it finds a fault: there is none."""
    bench.say("audit")
    command = tickstream_command(
        "audit",
        "--json",
        "--late-ms=60000",
        f"--bootstrap={settings.bootstrap}",
        f"--prefix={settings.prefix}",
    )
    with tempfile.NamedTemporaryFile("r") as measured:
        # This process is large: whatever it starts would begin with its peak.
        start = [sys.executable, "-m", "bench.peak", measured.name]
        done = subprocess.run([*start, *command], stdout=subprocess.PIPE, stderr=sys.stderr, check=False)
        if done.returncode != 0:
            raise TickstreamError(
                f"the audit of clean topics ended with {done.returncode}: {done.stdout.decode()[:500]}"
            )
        took = json.load(measured)
    records = sum(json.loads(done.stdout)["records"].values())
    return Audited(took["seconds"], took["rss_bytes"], records)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--n", type=int, default=RECORDS, help="records in all topics together (%(default)s)")


BENCHMARK: Final = Benchmark(
    "audit", "memory and speed of the audit, at a tenth and at all of the records", run, _options
)
