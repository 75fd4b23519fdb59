"""`ingest`: how fast one dispatcher process applies Schedule commands from a filled topic.

The floor is a raw transactional loop in one process that reads the same messages and writes as many records
of the same size: no codec, no engine, no store.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from bench import asking, bulk
from bench.environment import cpu_s
from bench.harness import Bench, Benchmark, Result
from bench.raw import runs
from bench.stats import ratio
from bench.system import alarms, start_dispatcher, wait_active
from tickstream.settings import Settings

COUNT: Final = 200_000
_DAY_MS: Final = 24 * 3_600_000
_TIMEOUT_S: Final = 300.0
_MODES: Final = {"many": bulk.PER_MESSAGE, "single": 1}
"""Commands a message: what `schedule_many` sends, and what `schedule` does."""


class Applied(NamedTuple):
    """What the dispatcher did with a filled topic."""

    seconds: float
    """From the first active lane to the last command applied."""
    cpu_s: float
    """Of the process, its start included."""
    alarms: int


def run(bench: Bench) -> Result:
    """Floor, dispatcher, floor; for arrays and for single commands."""
    count = 20_000 if bench.quick else bench.options.n
    metrics: dict[str, float] = {"tasks": count}
    floor: dict[str, float] = {}
    alarms = 0
    tomorrow = int(time.time() * 1_000) + _DAY_MS
    for mode, per_message in _MODES.items():
        settings = bench.cluster.installation(mode)
        bare = bench.cluster.installation(f"{mode}floor")
        bench.say(f"{count} commands, {per_message} a message")
        for topics in (settings, bare):
            bulk.fill_commands(topics, range(count), lambda n: tomorrow + n, per_message=per_message)
        floors = [runs.scheduled_per_s(bare, elements=per_message)]
        applied = apply(settings)
        if not bench.quick:
            floors.append(runs.scheduled_per_s(bare, elements=per_message))
        metrics[f"{mode}_per_s"] = round(count / applied.seconds)
        metrics[f"{mode}_cpu_s"] = round(applied.cpu_s, 2)
        floor[f"raw_{mode}_per_s"] = round(sum(floors) / len(floors))
        alarms += applied.alarms
    return Result(
        metrics | {"alarms": alarms},
        floor,
        ratio={
            "floor": ratio(metrics["many_per_s"], floor["raw_many_per_s"]),
            "single": ratio(metrics["single_per_s"], floor["raw_single_per_s"]),
        },
        settings={
            "transactional": runs.transactional_settings() | {"processes": 1},
            "commands_a_message": _MODES,
        },
    )


def apply(settings: Settings, *options: str) -> Applied:
    """Start one dispatcher with these options, and wait until it has applied what lies in `commands`."""
    with (
        tempfile.TemporaryDirectory(prefix="tickstream-bench-") as data,
        start_dispatcher(settings, Path(data), *options) as dispatcher,
    ):
        active = wait_active(dispatcher)
        ended_ms = asking.applied_all(settings, timeout_s=_TIMEOUT_S)
        used = cpu_s(dispatcher.pid)
        began_ms = min(event["at_ms"] for event in active)
        return Applied((ended_ms - began_ms) / 1_000, used, len(alarms(dispatcher, began_ms)))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--n", type=int, default=COUNT, help="commands of each kind (%(default)s)")


BENCHMARK: Final = Benchmark(
    "ingest", "Schedule commands applied by one process, over a raw transactional loop", run, _options
)
