"""Any rule, any two clocks, any moment between them: every wall clock time has its turn once, at the newer instant.

What is expected is reckoned by Python's zoneinfo from the list of wall clock times; nothing of it is the expander's.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.zone_releases import ZONE, instant, python_zone, release
from tickstream.model import Outcome
from tickstream.testing import Harness

DAY: Final = timedelta(days=1)
BEGAN: Final = datetime(2027, 1, 1, tzinfo=UTC)
LIKE: Final = (
    "UTC",
    "America/New_York",
    "America/Halifax",
    "America/Bogota",
    "America/Santiago",
    "Europe/London",
    "Europe/Berlin",
    "Africa/Casablanca",
    "Africa/Cairo",
    "Asia/Kolkata",
    "Asia/Tokyo",
    "Australia/Lord_Howe",
    "Pacific/Chatham",
    "Pacific/Kiritimati",
    "Pacific/Pago_Pago",
)
NEAR_CHANGES: Final = tuple(
    datetime(2027, month, day, tzinfo=UTC)
    for month, day in ((2, 10), (3, 14), (3, 28), (4, 4), (9, 5), (10, 31), (11, 7))
)

moments = st.builds(
    lambda day, seconds: day + timedelta(seconds=seconds),
    st.sampled_from(NEAR_CHANGES),
    st.integers(-3 * 86_400, 3 * 86_400),
)
hours = st.sets(st.integers(0, 23), min_size=1, max_size=3)
minutes = st.sets(st.sampled_from((0, 15, 30, 45)), min_size=1, max_size=2)


@settings(deadline=None)
@given(
    before=st.sampled_from(LIKE),
    after=st.sampled_from(LIKE),
    hours=hours,
    minutes=minutes,
    moment=moments,
    listed=st.booleans(),
)
def test_every_wall_clock_time_once(
    before: str, after: str, hours: set[int], minutes: set[int], moment: datetime, *, listed: bool
) -> None:
    # Where the clock that is given up has just been moved, or was about to be, times it had put in another
    # order cannot be told apart (docs/time-zones.md).
    assume(_steady(before, moment - 2 * DAY, moment + 2 * DAY))
    tick = Harness(zones=release("2026a", before))
    tick.advance(moment - 4 * DAY - tick.now)
    begin = tick.clock.wall_ms()
    start = (moment - 6 * DAY).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    walls = [start + timedelta(days=d, hours=h, minutes=m) for d in range(12) for h in hours for m in minutes]
    if listed:
        asked = {"rrule": "FREQ=DAILY;COUNT=1", "rdate": [wall.isoformat() for wall in walls]}
        walls.append(start)
    else:
        of_day = f"BYHOUR={','.join(map(str, hours))};BYMINUTE={','.join(map(str, minutes))}"
        asked = {"rrule": f"FREQ=DAILY;{of_day}"}
    tick.client.schedule(
        "t",
        payload=b"",
        handler="h",
        zone=ZONE,
        overlap="allow",
        misfire="all",
        start=start.isoformat(),
        **asked,
    )
    tick.advance(moment - tick.now)
    tick.take_over(release("2026b", after))
    tick.advance(4 * DAY)
    ran = [work.occurrence_ts for work in tick.work()]
    passed = sum(h.occurrences - 1 for h in tick.history if h.outcome is Outcome.MOVED)
    assert (ran, passed) == _expected(before, after, walls, begin, moment)


def _expected(
    before: str, after: str, walls: list[datetime], begin: int, moment: datetime
) -> tuple[list[int], int]:
    """What runs from `begin` to four days after `moment`, and how many are passed over."""
    now = round(moment.timestamp() * 1_000)
    end = now + 4 * 86_400_000
    ran = {at for wall in walls if begin <= (at := instant(before, wall)) <= now}
    left = {instant(after, wall) for wall in walls if instant(before, wall) > now}
    floor = max(ran, default=-1)
    return sorted(ran | {at for at in left if floor < at <= end}), sum(at <= floor for at in left)


def _steady(like: str, start: datetime, end: datetime) -> bool:
    zone = python_zone(like)
    hours = int((end - start) / timedelta(hours=1))
    return len({(start + timedelta(hours=n)).astimezone(zone).utcoffset() for n in range(hours)}) == 1
