"""`spike` and `dispatch`: timers in great number that one dispatcher process has to hand out at once.

`spike`: all due within one second, while the process runs and commands keep coming. `dispatch`: the same
after the dispatchers were away, and nothing else to do. The floor is the transactional loop of one process
fed by a heap of as many timers: it writes records of the same sizes and keeps nothing.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Final

from bench import bulk
from bench.asking import RATE_PER_S, Answered, Asking
from bench.environment import cpu_s, rss_bytes
from bench.fired import Fired, fired
from bench.harness import Bench, Benchmark, Result
from bench.raw import runs
from bench.stats import latency, percentile, ratio
from bench.system import alarms, start_dispatcher, wait_active
from tickstream.errors import SendFailed
from tickstream.settings import Settings

SPIKE: Final = 1_000_000
DISPATCH: Final = 200_000
_ROOM_PER_S: Final = 8_000
"""Timers a second that are trusted to be in place before their instant."""
DRAIN_PER_S: Final = 3_000
"""Below this it is given up."""
_LEAD_S: Final = 20.0
_WITHIN_MS: Final = 1_000
BEFORE_S: Final = 2.0
"""Commands begin so long before the instant."""


def run_spike(bench: Bench) -> Result:
    """Floor, spike, floor."""
    count = 20_000 if bench.quick else bench.options.n
    floors = [_floor(bench, count)]
    settings = bench.cluster.installation("spike")
    instant_ms, expected = fill(bench, settings, count)
    with (
        tempfile.TemporaryDirectory(prefix="tickstream-bench-") as data,
        start_dispatcher(settings, Path(data)) as dispatcher,
    ):
        wait_active(dispatcher, timeout_s=max(1.0, instant_ms / 1_000 - BEFORE_S - time.time()))
        time.sleep(max(0.0, instant_ms / 1_000 - BEFORE_S - time.time()))
        before = cpu_s(dispatcher.pid)
        with Asking(settings, bench.options.commands) as asking:
            bench.say(f"{count} timers fall due")
            done = fired(settings, expected, until_s=instant_ms / 1_000 + 10 + count / DRAIN_PER_S)
        answered = asking.answered(instant_ms, done.last_ms)
        told = alarms(dispatcher, instant_ms)
        used, resident = cpu_s(dispatcher.pid) - before, rss_bytes(dispatcher.pid)
    for alarm in told:
        bench.say(f"not clean: {dict(alarm)}")
    if not bench.quick:
        floors.append(_floor(bench, count))
    result = _result(count, done, (done.last_ms - instant_ms) / 1_000, floors, len(told))
    figures = {**result.metrics, **_commands(answered), "cpu_s": round(used, 2), "rss_bytes": resident}
    return Result(figures, result.floor, result.ratio, result.settings, result.ok and not answered.unanswered)


def run_dispatch(bench: Bench) -> Result:
    """Floor, the backlog, floor."""
    count = 20_000 if bench.quick else bench.options.n
    floors = [_floor(bench, count)]
    settings = bench.cluster.installation("dispatch")
    instant_ms, expected = fill(bench, settings, count)
    with tempfile.TemporaryDirectory(prefix="tickstream-bench-") as data:
        with start_dispatcher(settings, Path(data)) as dispatcher:
            wait_active(dispatcher, timeout_s=max(1.0, instant_ms / 1_000 - time.time()))
        if time.time() * 1_000 > instant_ms:
            raise SendFailed(
                "the timers fell due before the dispatcher had stopped; is the machine this busy?"
            )
        time.sleep(max(0.0, (instant_ms + _WITHIN_MS) / 1_000 - time.time()))
        bench.say(f"{count} timers are overdue")
        with start_dispatcher(settings, Path(data)) as dispatcher:
            done = fired(settings, expected, until_s=time.time() + 20 + count / DRAIN_PER_S)
            told = alarms(dispatcher, instant_ms)
    if not bench.quick:
        floors.append(_floor(bench, count))
    return _result(count, done, (done.last_ms - done.first_ms) / 1_000, floors, len(told))


def _floor(bench: Bench, count: int) -> float:
    bench.say(f"floor: {count} timers on bare lanes, one process")
    return runs.drained_per_s(bench.cluster.installation(f"floor{time.time_ns()}"), count)


def fill(bench: Bench, settings: Settings, count: int) -> tuple[int, dict[str, int]]:
    """The changelog of timers that fall due within one second, some time from now; that second, and who."""
    instant_ms = int((time.time() + _LEAD_S + count / _ROOM_PER_S) * 1_000)
    expected = {bulk.task_id(n): instant_ms + n * 7_919 % _WITHIN_MS for n in range(count)}
    bench.say(f"{count} timers into the changelog")
    bulk.fill_changelog(settings, count, lambda n: expected[bulk.task_id(n)])
    return instant_ms, expected


def _commands(answered: Answered) -> dict[str, float]:
    """Accepted → applied, of commands accepted between the instant and the last timer."""
    count = len(answered.waits_ms) + answered.unanswered
    if not answered.waits_ms:
        return {"commands": count, "unanswered": answered.unanswered}
    return {
        "commands": count,
        "unanswered": answered.unanswered,
        "commands_p50_ms": percentile(answered.waits_ms, 0.5),
        "commands_p99_ms": percentile(answered.waits_ms, 0.99),
        "commands_max_ms": max(answered.waits_ms),
    }


def _result(count: int, done: Fired, seconds: float, floors: list[float], told: int) -> Result:
    per_s, raw = len(done.late_ms) / seconds, sum(floors) / len(floors)
    return Result(
        metrics={
            "timers": count,
            "drained_per_s": round(per_s),
            "drained_s": round(seconds, 2),
            **latency(done.late_ms, "due_to_decided"),
            "lost": done.lost,
            "duplicates": done.duplicates,
            "early": done.early,
            "alarms": told,
        },
        floor={"raw_drained_per_s": round(raw)},
        ratio={"floor": ratio(per_s, raw)},
        settings={"transactional": runs.transactional_settings() | {"processes": 1}},
        ok=not (done.lost or done.duplicates or done.early),
    )


def _spike_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--n", type=int, default=SPIKE, help="timers (%(default)s)")
    parser.add_argument(
        "--commands", type=float, default=RATE_PER_S, help="commands a second meanwhile (%(default)s)"
    )


def _dispatch_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--n", type=int, default=DISPATCH, help="timers (%(default)s)")


SPIKE_BENCHMARK: Final = Benchmark(
    "spike", "timers due in the same second on one process, and commands meanwhile", run_spike, _spike_options
)
DISPATCH_BENCHMARK: Final = Benchmark(
    "dispatch", "a backlog of due timers handed out by one process", run_dispatch, _dispatch_options
)
