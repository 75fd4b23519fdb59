"""`import`: how soon a single command is applied while `schedule_many` imports very many tasks.

One client imports; another sends single commands at a steady rate, each of which asks for its verdict.
Accepted → applied is measured with the import under way, and, as the floor, the same commands with nothing
else going on. The import runs paced, as it does by default, and with --unpaced as fast as Kafka takes it,
which shows what the pace is for.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from bench.asking import RATE_PER_S, Answered, Asking, applied_all
from bench.harness import Bench, Benchmark, Result
from bench.raw.records import HANDLER, payload
from bench.stats import percentile, ratio
from bench.system import alarms, start_dispatcher, wait_active
from tickstream.errors import SendFailed
from tickstream.ingest import Client, Item
from tickstream.settings import Settings

TASKS: Final = 1_000_000
_ALONE_S: Final = 10.0
_FAR_MS: Final = 30 * 24 * 3_600_000
_APPLIED_S: Final = 300.0


class _Imported(NamedTuple):
    seconds: float
    """Until all was acknowledged."""
    applied_s: float
    """Until all was applied."""
    answered: Answered


def run(bench: Bench) -> Result:
    """Commands alone, then the same during an import, on one dispatcher process."""
    count = 40_000 if bench.quick else bench.options.n
    settings = bench.cluster.installation("system")
    with (
        tempfile.TemporaryDirectory(prefix="tickstream-bench-") as data,
        start_dispatcher(settings, Path(data)) as dispatcher,
    ):
        wait_active(dispatcher)
        bench.say("commands with nothing else going on")
        alone = _alone(settings, 2.0 if bench.quick else _ALONE_S)
        began_ms = time.time() * 1_000
        bench.say(
            f"{count} tasks imported{' unpaced' if bench.options.unpaced else ''}, and commands meanwhile"
        )
        imported = _import(settings, count, paced=not bench.options.unpaced)
        told = alarms(dispatcher, began_ms)
    waits, floor = imported.answered.waits_ms, alone.waits_ms
    p99, floor_p99 = percentile(waits, 0.99), percentile(floor, 0.99)
    return Result(
        metrics={
            "tasks": count,
            "accepted_per_s": round(count / imported.seconds),
            "applied_per_s": round(count / imported.applied_s),
            "commands": len(waits),
            "unanswered": imported.answered.unanswered,
            "commands_p50_ms": percentile(waits, 0.5),
            "commands_p99_ms": p99,
            "commands_max_ms": max(waits),
            "alarms": len(told),
        },
        floor={"commands_p50_ms": percentile(floor, 0.5), "commands_p99_ms": floor_p99},
        ratio={"p99": ratio(p99, floor_p99)},
        settings={"paced": not bench.options.unpaced, "commands_per_s": RATE_PER_S},
        ok=not imported.answered.unanswered,
    )


def _alone(settings: Settings, seconds: float) -> Answered:
    began = time.time()
    with Asking(settings) as asking:
        time.sleep(seconds)
    return _some(asking.answered(began * 1_000, time.time() * 1_000))


def _import(settings: Settings, count: int, *, paced: bool) -> _Imported:
    choice, when = random.Random(5), int(time.time() * 1_000) + _FAR_MS
    items = (
        Item(f"i:{n:08d}", run_at_ts=when, payload=payload(choice), handler=HANDLER) for n in range(count)
    )
    with Asking(settings) as asking, Client(settings) as client:
        began = time.time()
        refused = sum(result.error is not None for result in client.schedule_many(items, paced=paced))
        accepted = time.time()
        applied_ms = applied_all(settings, timeout_s=_APPLIED_S)
    if refused:
        raise SendFailed(f"{refused} of {count} tasks were not accepted")
    answered = _some(asking.answered(began * 1_000, applied_ms))
    return _Imported(accepted - began, applied_ms / 1_000 - began, answered)


def _some(answered: Answered) -> Answered:
    if not answered.waits_ms:
        raise SendFailed("no command was answered")
    return answered


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--n", type=int, default=TASKS, help="tasks (%(default)s)")
    parser.add_argument("--unpaced", action="store_true", help="as fast as Kafka takes them")


BENCHMARK: Final = Benchmark(
    "import", "single commands while schedule_many imports very many tasks", run, _options
)
