"""`recurrence`: µs to find the next occurrence, at four ages of a rule, for every frequency.

Beside it in the same run the engines that would have been taken instead: python-dateutil, and the same
interface in Rust (python-dateutil-rs). No broker is in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Final

from bench.harness import Bench, Benchmark, Result
from tickstream.recurrence import Rrule, compile_schedule
from tickstream.settings import cache_dir

ZONE: Final = "America/New_York"
START: Final = "2000-01-03T09:00:00"
RULES: Final = {
    "yearly": "FREQ=YEARLY;BYMONTH=11;BYDAY=4TH",
    "monthly": "FREQ=MONTHLY;BYDAY=-1FR",
    "weekly": "FREQ=WEEKLY;BYDAY=MO,WE,FR",
    "daily": "FREQ=DAILY",
    "hourly": "FREQ=HOURLY;INTERVAL=6",
    "minutely": "FREQ=MINUTELY;INTERVAL=15",
    "secondly": "FREQ=SECONDLY;INTERVAL=30",
}
"""Ordinary rules, one for each frequency."""
AGES_S: Final = {"1d": 86_400, "1y": 31_557_600, "10y": 315_576_000, "100y": 3_155_760_000}
RUST: Final = "python-dateutil-rs==0.1.7"
_CALLS: Final = 300
"""For one figure, one after the other."""
_PEER_LIMIT_S: Final = 3.0
"""A peer that would walk longer than this for one answer is not asked."""


def run(bench: Bench) -> Result:
    """Every rule at every age, ours and the peers'."""
    rounds = 2 if bench.quick else 7
    bench.say("tickstream")
    mine = {
        f"{name}_{age}_us_per_next": _ours_us(rule, age_s, rounds)
        for name, rule in RULES.items()
        for age, age_s in AGES_S.items()
    }
    bench.say("dateutil")
    limit_s = 0.3 if bench.quick else _PEER_LIMIT_S
    dateutil = _peer_us(None, limit_s)
    bench.say(RUST)
    engine = _rust_engine(bench)
    rust = {} if engine is None else _peer_us(engine, limit_s)
    against = {**_against("dateutil", mine, dateutil), **_against("rust", mine, rust)}
    return Result(
        metrics={"max_us_per_next": max(mine.values()), "age_ratio": _age_ratio(mine), **mine},
        floor={**dateutil, **{f"rust_{name}": figure for name, figure in rust.items()}},
        ratio={"floor": against["dateutil_1d"], **against},
        settings={
            "start": f"{START} {ZONE}; the peers without a zone",
            "rules": RULES,
            "dateutil": version("python-dateutil"),
            "rust": RUST if rust else "not installed here",
            "not asked": f"what would take a peer longer than {limit_s:g} s for one answer",
        },
    )


def _ours_us(rule: str, age_s: int, rounds: int) -> float:
    """µs a call by the median of `rounds`; the first, which fills caches, is not counted."""
    start_ms = round(datetime.fromisoformat(START).replace(tzinfo=UTC).timestamp() * 1_000)
    next_after = compile_schedule(Rrule(START, rule, ZONE)).next_after
    taken = []
    for _ in range(rounds + 1):
        instant = start_ms + age_s * 1_000
        began = time.perf_counter()
        for _ in range(_CALLS):
            # A yearly rule would leave the calendar: hence an hour on, not the occurrence itself.
            next_after(instant)
            instant += 3_600_000
        taken.append((time.perf_counter() - began) / _CALLS * 1e6)
    return round(median(taken[1:]), 2)


def _age_ratio(figures: Mapping[str, float]) -> float:
    """The largest ratio, over the frequencies, of the slowest age to the youngest."""
    ratios = []
    for name in RULES:
        by_age = [figures[f"{name}_{age}_us_per_next"] for age in AGES_S]
        ratios.append(max(by_age) / by_age[0])
    return round(max(ratios), 2)


def _against(peer: str, mine: Mapping[str, float], theirs: Mapping[str, float]) -> dict[str, float]:
    """Our time over the peer's at every age, by the median of the rules that the peer was asked for."""
    found = {}
    for age in AGES_S:
        names = [name for name in theirs if name.endswith(f"_{age}_us_per_next")]
        if names:
            found[f"{peer}_{age}"] = float(f"{median(mine[name] / theirs[name] for name in names):.2g}")
    return found


def _peer_us(path: Path | None, limit_s: float) -> dict[str, float]:
    """The figures of the engine on `path`, or of the installed one, by our names."""
    question = {"rules": RULES, "start": START, "ages_s": list(AGES_S.values()), "limit_s": limit_s}
    script = Path(__file__).with_name("rrule_peer.py")
    environment = {**os.environ, "PYTHONPATH": str(path)} if path is not None else dict(os.environ)
    done = subprocess.run(
        [sys.executable, str(script)],
        input=json.dumps(question),
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    answer: dict[str, list[float | None]] = json.loads(done.stdout)
    return {
        f"{name}_{age}_us_per_next": round(figure, 2)
        for name, figures in answer.items()
        for age, figure in zip(AGES_S, figures, strict=True)
        if figure is not None
    }


def _rust_engine(bench: Bench) -> Path | None:
    """Where the Rust engine lies: in a directory of its own, since it takes dateutil's name. None when pip fails."""
    directory = cache_dir() / "bench" / RUST
    if directory.is_dir():
        return directory
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run(
        [*pip, "--target", str(directory), RUST], check=False, capture_output=True, text=True
    )
    if done.returncode:
        bench.say(f"no {RUST}: {done.stderr.strip().splitlines()[-1:]}")
        return None
    return directory


BENCHMARK: Final = Benchmark(
    "recurrence", "next occurrence of a rule at any age, other engines beside it", run, broker=False
)
