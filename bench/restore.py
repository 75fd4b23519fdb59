"""`restore`: how long the timers of a dispatcher are away when it starts: cold, warm, alone and as two.

The floor reads the same changelog and decodes every record, in one process, and keeps nothing.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from bench import bulk
from bench.cluster import BUCKETS
from bench.environment import rss_bytes
from bench.harness import Bench, Benchmark, Result
from bench.raw import echo
from bench.stats import ratio
from bench.system import start_dispatcher, wait_active
from tickstream.codec import PROGRESS, SPEC, decode_progress, decode_spec, decode_state, split_timers_key
from tickstream.settings import Settings
from tickstream.topics import TopicNames

COUNT: Final = 1_000_000
STUBS: Final = 7_200_000
"""Of an hour at 2,000 tasks a second."""
_WEEK_MS: Final = 7 * 24 * 3_600_000
_TIMEOUT_S: Final = 900.0
_SETTLE_S: Final = 3.0


class Start(NamedTuple):
    """One start of a dispatcher, until all lanes are active."""

    whole_s: float
    """From the command."""
    restore_s: float
    """From the first lane's Claim."""
    restored: int
    """Records read from the changelog."""
    rss_bytes: int


def run(bench: Bench) -> Result:
    """Floor, cold, warm, killed, two processes; then once more with stubs."""
    count = 20_000 if bench.quick else bench.options.n
    stubs = count if bench.quick else bench.options.stubs
    settings = bench.cluster.installation("restore")
    far = int(time.time() * 1_000) + _WEEK_MS
    bench.say(f"{count} timers into the changelog")
    bulk.fill_changelog(settings, count, lambda n: far + n)
    raw_s = _raw_s(bench, settings)
    with tempfile.TemporaryDirectory(prefix="tickstream-bench-") as one:
        cold = _started(bench, settings, Path(one), "cold")
        warm = _started(bench, settings, Path(one), "warm")
        killed = _started(bench, settings, Path(one), "warm, to be killed", kill=True)
        again = _started(bench, settings, Path(one), "warm after a kill")
    with tempfile.TemporaryDirectory(prefix="tickstream-bench-") as two:
        two_cold = _started(bench, settings, Path(two), "two processes, cold", processes=2)
        two_warm = _started(bench, settings, Path(two), "two processes, warm", processes=2)
    dead_s, detected_s = _standby_s(bench, settings)
    metrics: dict[str, float] = {
        "timers": count,
        "cold_per_s": round(count / cold.restore_s),
        "cold_s": cold.whole_s,
        "cold_restore_s": cold.restore_s,
        "cold_rss_bytes": cold.rss_bytes,
        "warm_s": warm.whole_s,
        "warm_restore_s": warm.restore_s,
        "warm_again_s": killed.whole_s,
        "killed_s": again.whole_s,
        "killed_restore_s": again.restore_s,
        "two_cold_s": two_cold.whole_s,
        "two_warm_s": two_warm.whole_s,
        "standby_from_kill_s": dead_s,
        "standby_takeover_s": detected_s,
        "stubs": stubs,
    }
    floor = {"raw_per_s": round(count / raw_s), "raw_s": round(raw_s, 2)}
    ratios = {"floor": ratio(count / cold.restore_s, count / raw_s)}
    if stubs:
        with_stubs = bench.cluster.installation("stubs")
        bench.say(f"{count} timers and {stubs} stubs into the changelog")
        now = int(time.time() * 1_000)
        bulk.fill_changelog(with_stubs, count, lambda n: far + n, stubs=stubs, ended_ms=now, forget_ms=far)
        raw_stubs_s = _raw_s(bench, with_stubs)
        with tempfile.TemporaryDirectory(prefix="tickstream-bench-") as one:
            cold = _started(bench, with_stubs, Path(one), "with stubs, cold")
            warm = _started(bench, with_stubs, Path(one), "with stubs, warm")
        metrics |= {
            "stubs_cold_s": cold.whole_s,
            "stubs_cold_restore_s": cold.restore_s,
            "stubs_cold_rss_bytes": cold.rss_bytes,
            "stubs_warm_s": warm.whole_s,
        }
        floor["raw_stubs_s"] = round(raw_stubs_s, 2)
        ratios["stubs"] = ratio(raw_stubs_s, cold.restore_s)
    return Result(metrics, floor, ratios)


def _standby_s(bench: Bench, settings: Settings) -> tuple[float, float]:
    """SIGKILL one of two processes that keep each other's buckets warm: until all is active again, s.

    From the kill, and from when the group gave the lanes to the other: the owner is then detected dead.
    """
    bench.say("two processes with --standby all, one of them killed")
    with (
        tempfile.TemporaryDirectory(prefix="tickstream-bench-") as data,
        start_dispatcher(settings, Path(data), "--standby=all", "--no-restart", processes=2) as dispatcher,
    ):
        wait_active(dispatcher, timeout_s=_TIMEOUT_S)
        first = next(e["pid"] for e in dispatcher.events if e["event"] == "lane_active")
        # The second one joins when its copies are warm, and then gets lanes.
        dispatcher.wait_event(lambda e: e["event"] == "lane_active" and e["pid"] != first, _TIMEOUT_S)
        time.sleep(_SETTLE_S)
        owners = {e["lane"]: e["pid"] for e in dispatcher.events if e["event"] == "lane_active"}
        lost = [lane for lane, pid in owners.items() if pid == first]
        seen, killed = len(dispatcher.events), time.time()
        os.kill(first, signal.SIGKILL)
        back = [
            dispatcher.wait_event(
                lambda e, lane=lane: e["event"] == "lane_active" and e["lane"] == lane, _TIMEOUT_S, since=seen
            )
            for lane in lost
        ]
        given = min(e["at_ms"] for e in dispatcher.events[seen:] if e["event"] == "lane_assigned")
        last = max(e["at_ms"] for e in back)
    return round(last / 1_000 - killed, 2), round((last - given) / 1_000, 2)


# --------------------------------------------------------------------------- the floor


def _raw_s(bench: Bench, settings: Settings) -> float:
    bench.say("floor: read and decode it")
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(read_and_decode_s, settings).result()


def read_and_decode_s(settings: Settings) -> float:
    """Seconds to read the changelog from its start and to decode every record's key and value."""
    began = time.perf_counter()
    for message in echo.committed(settings, TopicNames(settings.prefix).timers, BUCKETS):
        kind, _ = split_timers_key(message.key())
        value = message.value() or b""
        if kind == SPEC:
            decode_spec(value)
        elif kind == PROGRESS:
            decode_progress(value)
        else:
            decode_state(value)
    return time.perf_counter() - began


# --------------------------------------------------------------------------- starts


def _started(
    bench: Bench, settings: Settings, data: Path, what: str, *, processes: int = 1, kill: bool = False
) -> Start:
    """Start, wait until every lane is active, and stop in order (or by SIGKILL)."""
    began = time.time()
    with start_dispatcher(settings, data, processes=processes) as dispatcher:
        active = wait_active(dispatcher, timeout_s=_TIMEOUT_S)
        last_ms = max(event["at_ms"] for event in active)
        claimed_ms = min(e["at_ms"] for e in dispatcher.events if e["event"] == "lane_claimed")
        told = Start(
            round(last_ms / 1_000 - began, 2),
            round(max(0.001, (last_ms - claimed_ms) / 1_000), 3),
            sum(event["restored"] for event in active),
            sum(map(rss_bytes, dispatcher.child_pids if processes > 1 else (dispatcher.pid,))),
        )
        if kill:
            dispatcher.kill()
    bench.say(f"{what}: {told.whole_s:g} s, restored {told.restored} records in {told.restore_s:g} s")
    return told


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--n", type=int, default=COUNT, help="timers (%(default)s)")
    parser.add_argument(
        "--stubs",
        type=int,
        default=STUBS,
        help="stubs of done tasks in the second part, 0: none (%(default)s)",
    )


BENCHMARK: Final = Benchmark(
    "restore", "take-over from the changelog, cold and warm, over reading it", run, _options
)
