"""`year`: recurring tasks over many zones through a simulated year, every occurrence held against dateutil.

The engine, its records and its due index on the harness's clock: no broker. dateutil steps each rule on the wall
clock, and Python's zoneinfo makes instants of that: nothing expected here comes from the expander. Tasks know nothing
of one another, so each processor has its share of them in a harness of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import time
from bisect import bisect_right
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

import tzdata
from dateutil.rrule import rrulestr

from bench.harness import Bench, Benchmark, Result
from tickstream.codec import encode_body
from tickstream.model import (
    NEVER,
    Body,
    Command,
    Options,
    Outcome,
    Overlap,
    Recurrence,
    RecurrenceKind,
    Report,
    ReportKind,
    Verb,
    VerdictKind,
    Work,
)
from tickstream.testing import Harness

YEAR: Final = 2027
DAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
FULL_TASKS: Final = 100_000
"""Some 6 million occurrences in a year."""
SMALL_TASKS: Final = 3_500
"""Some 200,000."""
_SEED: Final = 20_270_314


class Kind(NamedTuple):
    """What many tasks have in common, and when dateutil says that it occurs."""

    zone: str
    start: datetime
    rule: str
    expected: list[int]
    """ms, UTC, in order, from the beginning of the year."""


class Year(NamedTuple):
    """What a year came to."""

    tasks: int
    zones: frozenset[str]
    dispatched: int
    wrong: int
    """Dispatched at an instant that was not the task's next one."""
    early: int
    skipped: int
    missing: int
    """Expected and not dispatched."""


def simulate(tasks: int, say: Callable[[str], None], seed: int = _SEED) -> Year:
    """The year, on a fresh harness. Another seed has other schedules."""
    dice = random.Random(seed)
    chosen = [_kind(dice) for _ in range(min(4_000, max(100, tasks // 4)))]
    tick = Harness()
    tick.clock.advance(_ms(datetime(YEAR, 1, 1, tzinfo=UTC)) - tick.clock.wall_ms())
    say(f"{tasks} tasks of {len(chosen)} schedules")
    kind_of = {f"t{n}": chosen[n % len(chosen)] for n in range(tasks)}
    for task_id, kind in kind_of.items():
        verdict = tick.send(_command(tick, task_id, kind))
        if verdict.kind is not VerdictKind.SCHEDULED:
            raise AssertionError(f"{kind.rule} in {kind.zone}: {verdict}")
    turn = dict.fromkeys(kind_of, 0)
    dispatched = wrong = early = skipped = 0
    end = datetime(YEAR + 1, 1, 1, tzinfo=UTC)
    month = 0
    while tick.now < end:
        if tick.now.month != month:
            month = tick.now.month
            say(f"{tick.now:%Y-%m-%d}: {dispatched} dispatched")
        tick.advance(timedelta(hours=1))
        reports = []
        while (work := tick.take("default")) is not None:
            expected, place = kind_of[work.task_id].expected, turn[work.task_id]
            wrong += place >= len(expected) or work.occurrence_ts != expected[place]
            early += work.decided_ms < work.occurrence_ts
            turn[work.task_id] = place + 1
            dispatched += 1
            reports.append(_succeeded(work, tick.clock.wall_ms()))
        tick.report(*reports, worker="bench")
        skipped += sum(h.occurrences for h in tick.history if h.outcome is Outcome.SKIPPED)
        tick.history.clear()
        tick.log.clear()
    now = tick.clock.wall_ms()
    missing = sum(bisect_right(kind.expected, now) - turn[task_id] for task_id, kind in kind_of.items())
    zones = frozenset(kind.zone for kind in chosen)
    return Year(tasks, zones, dispatched, wrong, early, skipped, missing)


def run(bench: Bench) -> Result:
    """The full year, or with --quick the small one."""
    tasks = bench.options.tasks or (SMALL_TASKS if bench.quick else FULL_TASKS)
    processes = bench.options.processes or len(os.sched_getaffinity(0))
    began = time.perf_counter()
    years = _share(tasks, processes)
    took_s = time.perf_counter() - began
    dispatched = sum(year.dispatched for year in years)
    lost = sum(max(0, year.missing) + year.skipped for year in years)
    wrong = sum(year.wrong for year in years)
    early = sum(year.early for year in years)
    return Result(
        metrics={
            "tasks": sum(year.tasks for year in years),
            "ran": dispatched,
            "early": early,
            "lost": lost,
            "duplicates": wrong,
            "year_s": round(took_s, 1),
            "occurrence_us": round(took_s / max(1, dispatched) * 1e6, 1),
        },
        floor={},
        ratio={},
        settings={
            "year": YEAR,
            "zones": len(frozenset().union(*(year.zones for year in years))),
            "tzdata": str(tzdata.IANA_VERSION),
            "processes": processes,
        },
        ok=not (lost or wrong or early or any(year.missing for year in years)),
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """How much of it, and on how many processors."""
    parser.add_argument("--tasks", type=int, default=0, help=f"recurring tasks (default {FULL_TASKS})")
    parser.add_argument("--processes", type=int, default=0, help="default: one a processor")


def _share(tasks: int, processes: int) -> list[Year]:
    """The year of each share, at the same time."""
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        shares = [tasks // processes + (n < tasks % processes) for n in range(processes)]
        return list(pool.map(_one_share, shares, range(processes)))


def _one_share(tasks: int, number: int) -> Year:
    """In its own process."""

    def say(line: str) -> None:
        print(f"{number}: {line}", file=sys.stderr, flush=True)

    return simulate(tasks, say, _SEED + number)


# --------------------------------------------------------------------------- schedules, and what dateutil says


def _kind(dice: random.Random) -> Kind:
    """Mostly weekly; at night, when clocks change, more often than by day."""
    zone = dice.choice(zones())
    hour = dice.choice((0, 1, 2, 3, dice.randrange(24)))
    start = datetime(dice.randrange(1990, YEAR), dice.randrange(1, 13), dice.randrange(1, 29))
    start = start.replace(hour=hour, minute=dice.choice((0, 15, 30, dice.randrange(60))))
    shape = dice.random()
    if shape < 0.9:
        days = ",".join(sorted(dice.sample(DAYS, 1 + (dice.random() < 0.1)), key=DAYS.index))
        rule = f"FREQ=WEEKLY;BYDAY={days}"
    elif shape < 0.93:
        rule = "FREQ=DAILY" + dice.choice(("", ";INTERVAL=2", ";BYMONTH=3,4,9,10,11"))
    else:
        rule = "FREQ=MONTHLY;" + dice.choice(("BYDAY=-1SU", "BYDAY=2SU", "BYMONTHDAY=-1", "BYMONTHDAY=1,15"))
    return Kind(zone, start, rule, _expected(zone, start, rule))


def _expected(zone: str, start: datetime, rule: str) -> list[int]:
    """dateutil's wall clock times as instants: in a gap by the offset before it, in a fold the first (PEP 495)."""
    found: Any = rrulestr(rule, dtstart=start)
    info = zone_info(zone)
    walls = found.between(datetime(YEAR - 1, 12, 28), datetime(YEAR + 1, 1, 5), inc=True)
    instants = {_ms(wall.replace(tzinfo=info).astimezone(UTC)) for wall in walls}
    return sorted(at for at in instants if at >= _ms(datetime(YEAR, 1, 1, tzinfo=UTC)))


def zones() -> list[str]:
    """Every zone of the pinned data, by its name."""
    return resources.files(tzdata).joinpath("zones").read_text().split()


def zone_info(zone: str) -> ZoneInfo:
    """Python's own reading of the pinned data."""
    with resources.files(tzdata).joinpath("zoneinfo", *zone.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=zone)


def _ms(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


# --------------------------------------------------------------------------- commands and reports


def _command(tick: Harness, task_id: str, kind: Kind) -> Command:
    recurrence = Recurrence(
        RecurrenceKind.RRULE,
        kind.rule,
        zone=kind.zone,
        start=kind.start.isoformat(),
        overlap=Overlap.ALLOW,  # runs are reported once an hour
    )
    body = encode_body(Body("h", b"", {}, {}))
    options = Options(recurrence=recurrence)
    return Command(tick.new_id(), Verb.SCHEDULE, task_id, NEVER, "default", options, body)


def _succeeded(work: Work, now_ms: int) -> Report:
    run_id = work.work_number.to_bytes(16, "big")
    return Report(
        ReportKind.SUCCEEDED,
        work.task_id,
        work.occurrence_ts,
        work.attempt,
        run_id,
        "h",
        now_ms,
        now_ms,
        now_ms,
        "",
    )


BENCHMARK: Final = Benchmark(
    "year",
    "recurring tasks over all zones through a simulated year, every occurrence against dateutil; no broker",
    run,
    add_options,
    broker=False,
)
