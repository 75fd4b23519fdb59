"""`conflicts`: ms to check a weekly two-year series against a calendar of 1,000 to 200,000 occurrences, in RocksDB.

Beside it what the same answer costs at least: the expansion alone, and one bare seek an occurrence. Then the same through
Kafka: dry runs against 50,000 occurrences, from a client to a dispatcher and back.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Final

from rocksdict import Rdict, RdictIter, WriteBatch

from bench.harness import Bench, Benchmark, Result
from bench.system import start_dispatcher, wait_active
from tickstream.calendar import (
    Busy,
    Checked,
    Event,
    Expansion,
    Length,
    MemoryOccupancy,
    Occupancy,
    Overlaid,
    busy_time,
    check,
)
from tickstream.calendar.occupancy import DAY_MS, HOUR_MS
from tickstream.ingest import Client
from tickstream.model import VerdictKind
from tickstream.recurrence import wall_clock_instant
from tickstream.timer_store.busy import StoredOccupancy, busy_key, busy_value, calendar_prefix
from tickstream.timer_store.rocks import store_options

SIZES: Final = {"1k": 1_000, "10k": 10_000, "50k": 50_000, "200k": 200_000}
"""Occurrences in the calendar."""
DAYS: Final = 800
"""The horizon, further than the series reaches."""
CANDIDATE: Final = Event(
    "weekly",
    "2026-03-03T12:00:00",
    "Europe/Berlin",
    Length(ms=HOUR_MS - 60_000),
    "FREQ=WEEKLY;BYDAY=TU;COUNT=104",
)
SERIES: Final = 125
ASKING: Final = 16
QUARTER_MS: Final = HOUR_MS // 4
_START_MS: Final = 1_772_323_200_000
"""2026-03-01, UTC."""
_HORIZON_MS: Final = _START_MS + DAYS * DAY_MS
_LONG_EACH: Final = 500
"""One stretch in so many lasts for days."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument("--checks", type=int, default=60, help="checks for one figure (default 60)")
    parser.add_argument("--asked", type=int, default=2_000, help="dry runs through Kafka (default 2,000)")


def run(bench: Bench) -> Result:
    """Every size, with a slot that is free and one that is taken every week."""
    checks = 10 if bench.quick else bench.options.checks
    metrics: dict[str, float] = {}
    floor = {"ms_per_expansion": _ms(_expanded, checks)}
    for name, size in SIZES.items():
        bench.say(f"{size:,} occurrences")
        with _calendar(size) as calendar:
            figures = calendar.figures(checks)
        floor[f"ms_per_seeks_{name}"] = figures.pop("seeks")
        metrics.update({f"ms_per_{what}_{name}": figure for what, figure in figures.items()})
    bench.say("through Kafka")
    metrics.update(_end_to_end(bench, 200 if bench.quick else bench.options.asked))
    return Result(
        metrics={
            **metrics,
            "check_200k_to_1k_ratio": metrics["ms_per_check_200k"] / metrics["ms_per_check_1k"],
            "add_200k_to_1k_ratio": metrics["ms_per_add_200k"] / metrics["ms_per_add_1k"],
        },
        floor=floor,
        ratio={
            "floor": metrics["ms_per_check_50k"] / (floor["ms_per_expansion"] + floor["ms_per_seeks_50k"]),
        },
        settings={
            "candidate": f"{CANDIDATE.start} {CANDIDATE.zone}, an hour, {CANDIDATE.rule}",
            "horizon": f"{DAYS} days",
            "checks": checks,
            "through_kafka": f"{ASKING} threads of one client, one dispatcher process, one calendar; "
            f"{SERIES} daily series, so {SERIES * 400:,} occurrences up to the horizon; an hourly slot that is free each week",
            "occupancy": f"15 to 90 minutes on any day but in the hour checked; one in {_LONG_EACH} lasts two days",
        },
    )


def _candidate(number: int) -> Expansion:
    """The candidate a second later each time, so that no cache has it."""
    return Expansion(replace(CANDIDATE, start=f"2026-03-03T12:00:{number % 60:02d}"), None)


def _ms(action: Callable[[Expansion], object], times: int) -> float:
    """ms for one, by the median; the first, which fills caches, is not counted."""
    taken = []
    for number in range(times + 1):
        candidate = _candidate(number)
        began = time.perf_counter()
        action(candidate)
        taken.append((time.perf_counter() - began) * 1e3)
    return round(median(taken[1:]), 3)


def _check(candidate: Expansion, occupancy: Occupancy) -> Checked:
    return check(candidate, occupancy, _START_MS, _HORIZON_MS, limit=100)


def _expanded(candidate: Expansion) -> tuple[Busy, ...]:
    return busy_time(candidate, _START_MS, _HORIZON_MS)


class _Calendar:
    """A store that holds one calendar."""

    def __init__(self, db: Rdict) -> None:
        self._db: Final = db
        self._column: Final = db.get_column_family("busy")
        self._handle: Final = db.get_column_family_handle("busy")
        self._prefix: Final = calendar_prefix(0, "room-7")

    def put(self, stretches: Iterable[Busy]) -> None:
        """Write them in one batch."""
        batch = WriteBatch(raw_mode=True)
        for stretch in stretches:
            batch.put(busy_key(self._prefix, stretch), busy_value(stretch), self._handle)
        self._db.write(batch)

    def flush(self) -> None:
        """Move all to files, as after a restart."""
        self._column.flush()

    def figures(self, checks: int) -> dict[str, float]:
        """ms for each of the things measured."""
        stored = StoredOccupancy(self._column, self._prefix, _status)
        found = _check(_candidate(0), stored)
        if found.conflicts:
            raise AssertionError(f"the free slot is not free: {found}")
        added = _expanded(_candidate(0))
        overlaid = Overlaid(stored, MemoryOccupancy(added), frozenset())
        figures = {
            "check": _ms(lambda candidate: _check(candidate, stored), checks),
            # In a transaction that has added to this calendar already.
            "overlaid_check": _ms(lambda candidate: _check(candidate, overlaid), checks),
            "seeks": _ms(lambda _: self._seeks(stored), checks),
            "add": _ms(lambda _: self.put(added), checks),
        }
        self.put(busy._replace(uid="rival") for busy in added)
        return {**figures, "refusal": _ms(lambda candidate: _check(candidate, stored), checks)}

    def _seeks(self, occupancy: StoredOccupancy) -> None:
        cursor = occupancy.cursor(0)
        for week in range(104):
            cursor.seek(_START_MS + week * 7 * DAY_MS)


def _end_to_end(bench: Bench, count: int) -> dict[str, float]:
    """Dry runs a second with several asking at once, and ms for one that is asked alone."""
    settings = bench.cluster.installation("calendar")
    with (
        tempfile.TemporaryDirectory(prefix="tickstream-bench-") as data,
        start_dispatcher(settings, Path(data)) as dispatcher,
        Client(settings) as client,
        ThreadPoolExecutor(ASKING) as threads,
    ):
        wait_active(dispatcher)
        room = client.calendar("room-7", zone="Europe/Berlin", timeout=timedelta(seconds=60))
        day = datetime.now(UTC).date() + timedelta(days=1)
        for number in range(SERIES):
            # 13:00 to 11:45: noon stays free.
            start = datetime.combine(day, datetime.min.time()) + timedelta(hours=13, minutes=number * 11)
            verdict = room.add(
                f"series-{number}",
                start.isoformat(),
                duration=timedelta(minutes=15),
                rrule="FREQ=DAILY",
                on_conflict="allow",
            )
            if verdict.kind is not VerdictKind.SCHEDULED:
                raise AssertionError(f"the calendar was not filled: {verdict}")

        def ask(number: int) -> float:
            candidate = room.event(
                "weekly",
                f"{day}T12:00:{number % 60:02d}",
                duration=timedelta(minutes=45),
                rrule="FREQ=WEEKLY;COUNT=104",
            )
            began = time.perf_counter()
            verdict = room.conflicts(candidate)
            if verdict.kind is not VerdictKind.CLEAR:
                raise AssertionError(f"the free slot is not free: {verdict}")
            return (time.perf_counter() - began) * 1e3

        alone = [ask(number) for number in range(60)]
        began = time.perf_counter()
        for _ in threads.map(ask, range(count)):
            pass
        taken = time.perf_counter() - began
    return {"checks_per_s": round(count / taken, 1), "ms_per_check_asked_alone": round(median(alone), 2)}


@contextmanager
def _calendar(size: int) -> Iterator[_Calendar]:
    options = store_options(64 * 1024 * 1024)
    with tempfile.TemporaryDirectory(prefix="tickstream-bench-") as directory:
        db = Rdict(str(Path(directory)), options, column_families={"busy": options})
        try:
            calendar = _Calendar(db)
            calendar.put(_stretches(size))
            calendar.flush()
            yield calendar
        finally:
            db.close()


def _stretches(size: int) -> Iterator[Busy]:
    """Busy time all over the horizon that leaves the candidate's hour free."""
    chance = random.Random(size)
    noons = [
        wall_clock_instant("Europe/Berlin", datetime(2026, 3, 3, 12) + timedelta(weeks=week)) * 1_000
        for week in range(DAYS // 7)
    ]
    made = 0
    while made < size:
        minutes = 2 * 24 * 60 if made % _LONG_EACH == 0 else chance.choice([15, 30, 30, 60, 60, 90])
        start = _START_MS + chance.randrange(DAYS * 96) * QUARTER_MS
        end = start + minutes * 60_000
        week = min(max((start - noons[0]) // (7 * DAY_MS), 0), len(noons) - 2)
        if all(end <= noon or start >= noon + HOUR_MS for noon in noons[max(week - 1, 0) : week + 3]):
            yield Busy(start, end, f"event-{made}", start, tentative=False)
            made += 1


def _status(rows: RdictIter) -> None:
    rows.status()


BENCHMARK: Final = Benchmark(
    "conflicts",
    "a weekly two-year series against calendars of 1,000 to 200,000 occurrences",
    run,
    add_options,
)
