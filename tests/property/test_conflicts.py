"""Conflicts of random pairs of series against a brute-force oracle: dateutil expands, intervals are compared pairwise.

The oracle shares no code with the engine. `TICKSTREAM_PAIRS=20000` makes the long run; without it a short one.
"""

from __future__ import annotations

import os
import random
from datetime import UTC, date, datetime, timedelta
from itertools import takewhile
from typing import Any, Final, NamedTuple

from dateutil.rrule import rrulestr
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.rules import pinned
from tickstream.calendar import (
    Added,
    Busy,
    Event,
    Length,
    MemoryOccupancy,
    Override,
    Status,
    Transparency,
    busy_time,
    check,
    expand,
)

PAIRS: Final = int(os.environ.get("TICKSTREAM_PAIRS", "400"))
ZONES: Final = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "Africa/Cairo",
    "America/Santiago",
)
CALENDAR_ZONE: Final = "Europe/Berlin"
FROM: Final = datetime(2026, 1, 1, tzinfo=UTC)
HORIZON: Final = datetime(2027, 1, 1, tzinfo=UTC)
DAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


class Changed(NamedTuple):
    """An occurrence changed by hand: which (by its place in the rule), by how much, how long, whether it is cancelled."""

    place: int
    shift: timedelta
    minutes: int
    cancelled: bool


class Series(NamedTuple):
    """One random event, as both sides are given it."""

    start: datetime
    zone: str | None
    all_day: bool
    rule: str | None
    minutes: int
    days: int
    """Nominal ones, on top of `minutes`; all that an all-day event has."""
    excluded: tuple[int, ...]
    """Places in the rule."""
    extra: tuple[timedelta, ...]
    """RDATE, as distances from the start."""
    changed: tuple[Changed, ...]
    transparent: bool
    status: str


def series(seed: random.Random) -> Series:
    """A random event around the changes of 2026; most have a rule."""
    all_day = seed.random() < 0.15
    month, day = seed.choice(
        [(1, 5), (3, 6), (3, 26), (4, 2), (4, 22), (10, 1), (10, 22), (10, 30), (12, 20)]
    )
    hour, minute = (0, 0) if all_day else (seed.randrange(24), seed.choice([0, 0, 15, 30, 45]))
    freq = seed.choice(["DAILY", "DAILY", "WEEKLY", "WEEKLY", "MONTHLY", "YEARLY"])
    parts = [f"FREQ={freq}"]
    if seed.random() < 0.4:
        parts.append(f"INTERVAL={seed.randrange(1, 4)}")
    if freq == "WEEKLY" and seed.random() < 0.5:
        parts.append("BYDAY=" + ",".join(sorted(seed.sample(DAYS, seed.randrange(1, 4)))))
    if freq == "MONTHLY" and seed.random() < 0.6:
        parts.append(seed.choice(["BYMONTHDAY=-1", "BYDAY=2TU", "BYDAY=-1FR", "BYMONTHDAY=13,26"]))
    if seed.random() < 0.5:
        parts.append(f"COUNT={seed.randrange(1, 30)}")
    excluded = tuple(sorted(seed.sample(range(12), seed.choice([0, 0, 1, 3]))))
    places = [place for place in range(12) if place not in excluded]
    lengths = [0, 15, 30, 60, 60, 90, 240, 480, 1_440, 1_560, 4_320, 20_000]
    return Series(
        start=datetime(2026, month, day, hour, minute) + timedelta(days=seed.randrange(0, 4)),
        zone=seed.choice([*ZONES, None]),
        all_day=all_day,
        rule=";".join(parts) if seed.random() < 0.85 else None,
        minutes=0 if all_day else seed.choice(lengths),
        days=seed.choice([1, 1, 1, 2, 9]) if all_day else seed.choice([0, 0, 0, 0, 1, 2]),
        excluded=excluded,
        extra=tuple(
            timedelta(days=seed.randrange(0, 60), hours=0 if all_day else seed.randrange(0, 24))
            for _ in range(seed.choice([0, 0, 1, 2]))
        ),
        changed=tuple(
            Changed(
                place,
                timedelta(days=seed.randrange(-3, 4), hours=0 if all_day else seed.randrange(-6, 7)),
                seed.choice([30, 60, 600]),
                seed.random() < 0.3,
            )
            for place in seed.sample(places, seed.choice([0, 0, 1, 2]))
        ),
        transparent=seed.random() < 0.1,
        status=seed.choice(["confirmed"] * 8 + ["tentative", "cancelled"]),
    )


# --------------------------------------------------------------------------- the oracle


def instant(wall: datetime, zone: str | None) -> datetime:
    """fold=0 reads a gap with the offset before it, as RFC 5545 does."""
    return wall.replace(tzinfo=pinned(zone or CALENDAR_ZONE)).astimezone(UTC)


def walls(asked: Series) -> list[datetime]:
    """What the rule names on the wall clock, up to the horizon."""
    if asked.rule is None:
        return [asked.start]
    rule: Any = rrulestr(asked.rule, dtstart=asked.start)
    return list(takewhile(lambda wall: wall < datetime(2027, 1, 3), rule))


def intervals(asked: Series) -> list[tuple[datetime, datetime]]:
    """The stretches that block, with a start before the horizon, in order."""

    def end(wall: datetime, begun: datetime, days: int, minutes: int) -> datetime:
        until = instant(wall + timedelta(days=days), asked.zone) if days else begun
        return until + timedelta(minutes=minutes)

    named = walls(asked)
    dropped = {instant(named[place], asked.zone) for place in asked.excluded if place < len(named)}
    starts = {instant(wall, asked.zone): wall for wall in reversed(named)}
    for distance in asked.extra:
        starts.setdefault(instant(asked.start + distance, asked.zone), asked.start + distance)
    blocks = {
        begun: (begun, end(wall, begun, asked.days, asked.minutes))
        for begun, wall in starts.items()
        if begun not in dropped
    }
    for changed in asked.changed:
        if changed.place < len(named):
            identity = instant(named[changed.place], asked.zone)
            blocks.pop(identity, None)
            wall = named[changed.place] + changed.shift
            begun = instant(wall, asked.zone)
            if not changed.cancelled:
                days, minutes = (1, 0) if asked.all_day else (0, changed.minutes)
                blocks[identity] = (begun, end(wall, begun, days, minutes))
    if asked.transparent or asked.status == "cancelled":
        return []
    return sorted(block for block in blocks.values() if block[0] < block[1] and block[0] < HORIZON)


def expected(candidate: Series, others: list[Series]) -> list[tuple[datetime, int, datetime]]:
    """Every overlap by comparing each with each; -1: with itself."""
    mine = [block for block in intervals(candidate) if block[1] > FROM]
    found = [
        (mine[i][0], -1, mine[k][0]) for i in range(len(mine)) for k in range(i + 1, len(mine))
        if mine[i][0] < mine[k][1] and mine[k][0] < mine[i][1]
    ]  # fmt: skip
    for number, other in enumerate(others):
        theirs = intervals(other)
        found += [
            (start, number, begun)
            for start, end in mine
            for begun, until in theirs
            if start < until and begun < end
        ]
    return sorted(found)


# --------------------------------------------------------------------------- the engine


def event(asked: Series, uid: str) -> Event:
    """The same as the engine is given it. Identities that two places share are given once."""

    def written(wall: datetime) -> str:
        return wall.date().isoformat() if asked.all_day else wall.isoformat()

    named = walls(asked)
    return Event(
        uid=uid,
        start=written(asked.start),
        zone=asked.zone,
        length=Length(asked.days, asked.minutes * 60_000),
        rule=asked.rule,
        rdate=tuple(Added(written(asked.start + distance)) for distance in asked.extra),
        exdate=tuple(written(named[place]) for place in asked.excluded if place < len(named)),
        overrides=tuple(
            Override(
                written(named[changed.place]),
                written(named[changed.place] + changed.shift),
                length=Length(days=1) if asked.all_day else Length(ms=changed.minutes * 60_000),
                status=Status.CANCELLED if changed.cancelled else None,
            )
            for changed in asked.changed
            if changed.place < len(named)
        ),
        status=Status(asked.status),
        transparency=Transparency.TRANSPARENT if asked.transparent else Transparency.OPAQUE,
    )


def ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000)


def utc(instant_ms: int) -> datetime:
    return datetime.fromtimestamp(instant_ms / 1_000, UTC)


def found(candidate: Series, others: list[Series]) -> list[tuple[datetime, int, datetime]]:
    start_ms, horizon_ms = ms(FROM), ms(HORIZON)
    occupancy = MemoryOccupancy()
    for number, other in enumerate(others):
        occupancy.add(busy_time(expand(event(other, str(number)), CALENDAR_ZONE), start_ms, horizon_ms))
    checked = check(expand(event(candidate, "candidate"), CALENDAR_ZONE), occupancy, start_ms, horizon_ms)
    return sorted(
        (utc(c.occurrence.start_ms), -1 if c.with_itself else int(c.busy.uid), utc(c.busy.start_ms))
        for c in checked.conflicts
    )


def test_every_pair_of_series_conflicts_where_the_oracle_says() -> None:
    meeting = 0
    for number in range(PAIRS):
        seed = random.Random(number)
        candidate, other = series(seed), series(seed)
        right = expected(candidate, [other])
        assert found(candidate, [other]) == right, (number, candidate, other)
        meeting += bool(right)
    # Most pairs meet: a test that compares nothing with nothing shows nothing.
    assert meeting > PAIRS / 4


@settings(max_examples=max(PAIRS // 20, 20), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32), st.integers(2, 6))
@example(0, 3)
def test_a_calendar_of_several_series_too(number: int, others: int) -> None:
    seed = random.Random(number)
    candidate, *rest = (series(seed) for _ in range(others))
    assert found(candidate, rest) == expected(candidate, rest)


STRETCHES = st.lists(
    st.tuples(st.integers(0, 400), st.integers(1, 300) | st.integers(1, 300_000)), min_size=1, max_size=40
)


@settings(max_examples=max(PAIRS // 4, 50), deadline=None)
@given(STRETCHES, STRETCHES)
def test_added_and_removed_busy_time_is_as_if_it_had_always_been_so(
    kept: list[tuple[int, int]], gone: list[tuple[int, int]]
) -> None:
    hour = 3_600_000
    stay = [
        Busy(at * hour, (at + length) * hour, f"a{i}", at, tentative=False)
        for i, (at, length) in enumerate(kept)
    ]
    leave = [
        Busy(at * hour, (at + length) * hour, f"b{i}", at, tentative=False)
        for i, (at, length) in enumerate(gone)
    ]
    occupancy = MemoryOccupancy(leave)
    occupancy.add(stay)
    occupancy.add(stay)
    occupancy.remove(leave)
    occupancy.remove(leave)
    assert len(occupancy) == len(stay)
    today = date(1970, 1, 1)
    candidate = Event("x", f"{today}T00:00:00", "UTC", Length(ms=2 * hour), "FREQ=DAILY;COUNT=20")
    checked = check(expand(candidate, None), occupancy, 0, 10**12)
    mine = range(0, 20 * 24, 24)
    assert sorted((c.occurrence.start_ms // hour, c.busy.uid) for c in checked.conflicts) == sorted(
        (at, b.uid) for at in mine for b in stay if at * hour < b.end_ms and b.start_ms < (at + 2) * hour
    )
