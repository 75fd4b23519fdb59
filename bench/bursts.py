"""The limits of a transaction against what they are for: a part of `tradeoffs`.

At a steady rate no transaction comes near its limits. So the page of due timers is measured with timers that
are all due at once, commands coming meanwhile, and the batch with a filled topic of commands.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from bench import bulk, ingest, spike
from bench.asking import Asking
from bench.environment import cpu_s
from bench.fired import fired
from bench.harness import Bench
from bench.scraped import commit_ms
from bench.stats import percentile
from bench.system import start_dispatcher, wait_active
from tickstream.errors import SendFailed

PAGES: Final = (50, 400, 3_200)
"""Due timers of one bucket in a transaction."""
BATCHES: Final = (1, 10, 5_000)
"""Messages of commands in a transaction, of a hundred commands each."""
TIMERS: Final = 60_000
COMMANDS: Final = 60_000
_DAY_MS: Final = 24 * 3_600_000


class Page(NamedTuple):
    """A spike with one size of page."""

    drained_per_s: float
    p50_ms: float
    """Due → decided."""
    p99_ms: float
    commit_ms: float
    commands_p50_ms: float
    """Accepted → applied, of commands that came meanwhile."""
    commands_p99_ms: float
    cpu_pct: float


def measured(bench: Bench) -> dict[str, float]:
    """Figures by page and by batch; the lines of docs/tradeoffs.md go to the terminal."""
    pages = {size: _spike(bench, size) for size in (PAGES[1:2] if bench.quick else PAGES)}
    bench.say(
        "| page | drained/s | p50 ms | p99 ms | commit ms | commands p50 ms | commands p99 ms | CPU % |"
    )
    bench.say("|---:|---:|---:|---:|---:|---:|---:|---:|")
    for size, page in pages.items():
        bench.say("| " + " | ".join(f"{figure:.10g}" for figure in (size, *page)) + " |")
    applied = {size: _filled(bench, size) for size in (BATCHES[1:2] if bench.quick else BATCHES)}
    bench.say("| messages a batch | commands applied/s |")
    bench.say("|---:|---:|")
    for size, per_s in applied.items():
        bench.say(f"| {size} | {per_s:.10g} |")
    return {
        f"page{size}_{figure}": value
        for size, page in pages.items()
        for figure, value in page._asdict().items()
    } | {f"batch{size}_applied_per_s": per_s for size, per_s in applied.items()}


def _spike(bench: Bench, page: int) -> Page:
    count = 5_000 if bench.quick else TIMERS
    settings = bench.cluster.installation(f"page{page}")
    bench.say(f"spike, {page} timers a page")
    instant_ms, expected = spike.fill(bench, settings, count)
    instant_s = instant_ms / 1_000
    with (
        tempfile.TemporaryDirectory(prefix="tickstream-bench-") as data,
        start_dispatcher(settings, Path(data), f"--due-page={page}", "--health-port=0") as dispatcher,
    ):
        wait_active(dispatcher, timeout_s=max(1.0, instant_s - spike.BEFORE_S - time.time()))
        time.sleep(max(0.0, instant_s - spike.BEFORE_S - time.time()))
        with Asking(settings) as asking:
            time.sleep(max(0.0, instant_s - time.time()))
            before = cpu_s(dispatcher.pid)
            done = fired(settings, expected, until_s=instant_s + 10 + count / spike.DRAIN_PER_S)
            used, looked_s = cpu_s(dispatcher.pid) - before, time.time() - instant_s
        waits = asking.answered(instant_ms, done.last_ms).waits_ms
        commit = commit_ms(dispatcher)
    if done.lost or done.duplicates or done.early or not waits:
        raise SendFailed(f"a page of {page}: {done.lost} lost, {done.duplicates} doubled, {done.early} early")
    return Page(
        round(count / ((done.last_ms - instant_ms) / 1_000)),
        percentile(done.late_ms, 0.5),
        percentile(done.late_ms, 0.99),
        round(commit, 1),
        percentile(waits, 0.5),
        percentile(waits, 0.99),
        round(used / looked_s * 100, 1),
    )


def _filled(bench: Bench, batch: int) -> float:
    count = 5_000 if bench.quick else COMMANDS
    settings = bench.cluster.installation(f"batch{batch}")
    bench.say(f"a filled topic, {batch} messages a batch")
    tomorrow = int(time.time() * 1_000) + _DAY_MS
    bulk.fill_commands(settings, range(count), lambda n: tomorrow + n, per_message=bulk.PER_MESSAGE)
    return round(count / ingest.apply(settings, f"--batch-records={batch}").seconds)
