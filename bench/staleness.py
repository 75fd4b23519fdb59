"""`staleness`: from an acknowledged command to an answer that shows it, under load, and whether the stated age is true.

Everything runs as real processes: dispatchers, workers, a projection, a dashboard. An outside prober
(prober.py) schedules tasks of its own beside the load and holds every answer against its claim. At the end
a dispatcher is stopped (the stated age must rise as fast as time passes, and name a bucket of its), and the
projection is killed and started again.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.harness import Bench, Benchmark, Result
from bench.prober import Prober, Seen, wait_for
from bench.raw.records import HANDLER
from bench.stats import percentile, ratio
from bench.system import System, system
from tickstream.errors import SendFailed
from tickstream.ingest import Client, Item
from tickstream.ops.processes import ManagedProcess, tickstream_command
from tickstream.settings import Settings

RATE_PER_S: Final = 2_000
SECONDS: Final = 1_800.0
WORKERS: Final = 2
_READY_S: Final = 60.0
_LEAD_MS: Final = 2_000
"""From scheduling to the instant of a task of the load."""
_BATCHES_PER_S: Final = 10
_STOPPED_S: Final = 4.0
"""Below the session of the dispatchers' group: the lanes stay where they are."""
_SETTLES_S: Final = 1.5
"""After the stop, until what was under way is in the answers."""
_FRESH_MS: Final = 2_000
_BACK_S: Final = 60.0
_SLOPE: Final = (0.8, 1.2)


class _Stopped(NamedTuple):
    """What the answers said while a dispatcher stood still."""

    slope: float
    """Stated age gained per time passed."""
    named: bool
    """Whether the slowest bucket was one of the dispatcher's."""


def run(bench: Bench) -> Result:
    """Load, then a stopped dispatcher, then a killed projection; the prober runs through all of it."""
    seconds = 10.0 if bench.quick else bench.options.seconds
    rate = bench.options.rate
    settings = bench.cluster.installation("staleness")
    with ExitStack() as owned:
        running = owned.enter_context(system(settings, workers=WORKERS))
        data_dir = Path(owned.enter_context(tempfile.TemporaryDirectory(prefix="tickstream-bench-")))
        projection = owned.enter_context(_projection(settings, data_dir))
        projection.wait_event("ready", _READY_S)
        dashboard = owned.enter_context(_dashboard(data_dir))
        prober = Prober(settings, str(dashboard.wait_event("ready", _READY_S)["url"]))
        seen = owned.enter_context(prober.running())
        owned.enter_context(_load(settings, rate))
        bench.say(f"{rate} tasks/s for {seconds:g} s")
        _let_pass(seconds)
        loaded = Seen(list(seen.http_ms), list(seen.stream_ms), list(seen.stated_ms))
        bench.say("a dispatcher is stopped")
        stopped = _stop_a_dispatcher(running, prober)
        _wait_until_fresh(prober)
        bench.say("the projection is killed, and started again")
        projection.kill()
        began = time.monotonic()
        again = owned.enter_context(_projection(settings, data_dir))
        again.wait_event("ready", _READY_S)
        _wait_until_fresh(prober)
        back_s = time.monotonic() - began
        _let_pass(2.0)
    return _result(rate, seconds, loaded, seen, stopped, back_s)


def _projection(settings: Settings, data_dir: Path) -> ManagedProcess:
    command = tickstream_command(
        *("projection", "run", "--json", f"--data={data_dir}"),
        *(f"--bootstrap={settings.bootstrap}", f"--prefix={settings.prefix}"),
    )
    return ManagedProcess.start(command, name="projection")


def _dashboard(data_dir: Path) -> ManagedProcess:
    command = tickstream_command("dashboard", "run", "--json", "--port=0", f"--data={data_dir}")
    return ManagedProcess.start(command, name="dashboard")


def _wait_until_fresh(prober: Prober) -> None:
    """Until the status states a small age. Raises SendFailed with what it states instead."""
    try:
        wait_for(lambda: _status(prober)["staleness_ms"] < _FRESH_MS, _BACK_S)
    except TimeoutError as error:
        stated = _status(prober)
        behind = {b["bucket"]: b["lag_ms"] for b in stated["buckets"]}
        raise SendFailed(f"after {_BACK_S:g} s the buckets are still behind, ms: {behind}") from error


def _status(prober: Prober) -> dict[str, Any]:
    """The status. Raises SendFailed when there is none for long."""
    found: list[dict[str, Any]] = []

    def answered() -> bool:
        answer = prober.ask("/api/status")
        found.extend([answer] if answer is not None else [])
        return answer is not None

    try:
        wait_for(answered, _BACK_S)
    except TimeoutError as error:
        raise SendFailed("the dashboard does not answer any more") from error
    return found[0]


def _stop_a_dispatcher(running: System, prober: Prober) -> _Stopped:
    pid = running.dispatcher_pids[0]
    cluster = prober.ask("/api/cluster") or {"buckets": []}
    own = {b["bucket"] for b in cluster["buckets"] if f"-{pid}-" in (b["owner"] or "")}
    os.kill(pid, signal.SIGSTOP)
    try:
        _let_pass(_SETTLES_S)
        first, last = _status(prober), {}
        until = time.monotonic() + _STOPPED_S - _SETTLES_S
        while time.monotonic() < until:
            _let_pass(0.1)
            last = _status(prober)
    finally:
        os.kill(pid, signal.SIGCONT)
    passed = last["as_of"] - first["as_of"]
    slope = (last["staleness_ms"] - first["staleness_ms"]) / passed if passed else 0.0
    return _Stopped(round(slope, 3), last["slowest_bucket"] in own)


def _let_pass(seconds: float) -> None:
    """The run's own length; nothing is waited for."""
    time.sleep(seconds)


# --------------------------------------------------------------------------- the load


@contextmanager
def _load(settings: Settings, rate: int) -> Iterator[None]:
    """Tasks are scheduled at the rate, by a process of its own, for as long as it lasts."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    process = context.Process(target=_schedule, args=(settings, rate, stop))
    process.start()
    try:
        yield
    finally:
        stop.set()
        process.join()


def _schedule(settings: Settings, rate: int, stop: Event) -> None:
    share, number, due = rate // _BATCHES_PER_S, 0, time.monotonic()
    with Client(settings) as client:
        while not stop.is_set():
            at_ms = int(time.time() * 1_000) + _LEAD_MS
            items = (
                Item(
                    f"load:{number + n:09d}", run_at_ts=at_ms + n * 100 // share, payload=b"", handler=HANDLER
                )
                for n in range(share)
            )
            for result in client.schedule_many(items):
                if result.error is not None:
                    raise result.error
            number += share
            due += 1 / _BATCHES_PER_S
            stop.wait(max(0.0, due - time.monotonic()))


# --------------------------------------------------------------------------- the result


def _result(rate: int, seconds: float, loaded: Seen, seen: Seen, stopped: _Stopped, back_s: float) -> Result:
    if not loaded.http_ms or not loaded.stream_ms:
        raise SendFailed("none of the prober's tasks was ever seen")
    true = seen.false_claims == 0 and seen.backward == 0
    return Result(
        metrics={
            **_ms("visible", loaded.http_ms),
            **_ms("stream", loaded.stream_ms),
            **_ms("stated", loaded.stated_ms),
            "probes": len(seen.http_ms),
            "false_claims": seen.false_claims,
            "backward": seen.backward,
            "stopped_slope_ratio": stopped.slope,
            "stopped_named": int(stopped.named),
            "projection_back_s": round(back_s, 2),
        },
        floor={},
        ratio={
            # How much later than it had to be said: 1 is the stated age itself.
            "visible_over_stated": ratio(
                percentile(loaded.http_ms, 0.5), max(1.0, percentile(loaded.stated_ms, 0.5))
            ),
        },
        settings={"rate_per_s": rate, "seconds": seconds, "workers": WORKERS},
        ok=true and stopped.named and _SLOPE[0] <= stopped.slope <= _SLOPE[1],
    )


def _ms(name: str, samples: list[float]) -> dict[str, float]:
    return {
        f"{name}_p50_ms": round(percentile(samples, 0.50), 1),
        f"{name}_p99_ms": round(percentile(samples, 0.99), 1),
        f"{name}_max_ms": round(max(samples), 1),
    }


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rate", type=int, default=RATE_PER_S, help="tasks a second (%(default)s)")
    parser.add_argument(
        "--for", dest="seconds", type=float, default=SECONDS, help="seconds under load (%(default)s)"
    )


BENCHMARK: Final = Benchmark(
    "staleness",
    "acknowledged command → visible over HTTP and SSE, and whether the stated age is true",
    run,
    _options,
)
