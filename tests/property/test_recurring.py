"""Every occurrence that falls due has exactly one first work record or one recorded skip, whatever happens.

`TICKSTREAM_RECURRING=2000` makes the long run; without it a short one.
"""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tickstream import App, recurring
from tickstream.codec import decode_work
from tickstream.model import NEVER, Outcome
from tickstream.recurrence import between
from tickstream.recurrence.stored import schedule_of
from tickstream.testing import Harness

STORIES: Final = int(os.environ.get("TICKSTREAM_RECURRING", "40"))
app: Final = App()
NEW_YORK: Final = {"zone": "America/New_York"}
START: Final = {"start": "2027-03-01T01:30:00"}

KINDS: Final[list[dict[str, Any]]] = [
    {"every": timedelta(seconds=90)},
    {"every": timedelta(minutes=7)},
    {"every": timedelta(minutes=30), "start": datetime(2027, 3, 14, 6, 10, tzinfo=UTC)},
    {"cron": "*/10 * * * *", **NEW_YORK},
    {"cron": "15,45 1-3 * * *", **NEW_YORK, "fold": "both"},
    {"cron": "*/15 * * * *", **NEW_YORK, "subday": "wall", "gap": "skip"},
    {"rrule": "FREQ=DAILY;BYHOUR=1,2,3;BYMINUTE=0,30", **NEW_YORK, **START},
    {"rrule": "FREQ=MINUTELY;INTERVAL=13;COUNT=2000", **NEW_YORK, **START},
    {"rrule": "FREQ=HOURLY;UNTIL=20270314T080000Z", **NEW_YORK, **START},
]
POLICIES: Final = st.fixed_dictionaries(
    {
        "misfire": st.sampled_from(["latest", "all", "skip"]),
        "overlap": st.sampled_from(["skip", "allow", "queue", "cancel_running"]),
        "grace": st.sampled_from([timedelta(0), timedelta(minutes=1), timedelta(minutes=25)]),
        "jitter": st.sampled_from([timedelta(0), timedelta(seconds=9), timedelta(hours=2)]),
    }
)
STEPS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("advance"), st.integers(1, 2_500)),
        st.tuples(st.just("down"), st.integers(1, 9_000)),
        st.tuples(st.sampled_from(["succeed", "fail", "claim"]), st.integers(1, 5)),
        st.tuples(st.sampled_from(["pause", "resume", "hold", "open", "again"]), st.just(1)),
    ),
    max_size=10,
)


def _step(tick: Harness, ask: dict[str, Any], step: str, size: int) -> None:
    match step:
        case "advance":
            tick.advance(timedelta(seconds=size))
        case "down":
            tick.clock.advance(size * 1_000)
            tick.tick()
        case "succeed" | "fail" | "claim":
            for _ in range(min(size, len(tick.work()))):
                run = tick.worker(app).take()
                {"succeed": run.succeed, "fail": run.fail, "claim": run.claim}[step]()
            tick.tick()
        case "pause" | "resume":
            getattr(tick.client, step)("t")
        case "hold":
            tick.client.queues.pause("default")
        case "open":
            tick.client.queues.resume("default")
        case "again":
            tick.client.schedule("t", payload=b"", handler="h", **ask)


def _finish(tick: Harness) -> None:
    """Nothing is paused, and all that is in flight or waits comes to its end."""
    tick.client.resume("t")
    tick.client.queues.resume("default")
    for _ in range(9):  # leases, retries, jitter
        tick.advance(timedelta(minutes=20))
        while tick.work():
            tick.worker(app).take().succeed()
            tick.tick()


def _turns(tick: Harness, expected: list[int]) -> Counter[int]:
    """How often each occurrence had its turn; a record of skips speaks of as many as lie in its range."""
    turns: Counter[int] = Counter()
    for record in tick.log:
        if record.topic == "test.work.default" and record.value is not None:
            work = decode_work(record.value)
            assert work.decided_ms >= work.occurrence_ts  # none early
            turns[work.occurrence_ts] += work.attempt == 1
    for skip in tick.history:
        if skip.outcome is Outcome.SKIPPED:
            last = skip.occurrence_ts if skip.through_ts == NEVER else skip.through_ts
            spoken_of = [ts for ts in expected if skip.occurrence_ts <= ts <= last]
            assert len(spoken_of) == skip.occurrences
            assert skip.error
            turns.update(spoken_of)
    return turns


@settings(max_examples=STORIES, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(KINDS), POLICIES, STEPS)
def test_every_occurrence_has_its_turn_once(
    kind: dict[str, Any], policies: dict[str, Any], steps: list[tuple[str, int]]
) -> None:
    tick = Harness()
    tick.advance(datetime(2027, 3, 14, 5, 0, 0, 1000, UTC) - tick.now)
    ask = {**kind, **policies}
    accepted_ms = tick.clock.wall_ms()
    tick.client.schedule("t", payload=b"", handler="h", **ask)
    for step, size in steps:
        _step(tick, ask, step, size)
    _finish(tick)
    now = tick.clock.wall_ms()
    jitter_ms = policies["jitter"] // timedelta(milliseconds=1)
    expected = [p.next_occurrence_ts for p in between(schedule_of(recurring(**ask)), accepted_ms, now + 1)]
    turns = _turns(tick, expected)
    assert set(turns) <= set(expected)
    missing = [ts for ts in expected if turns[ts] != 1 and ts <= now - jitter_ms]
    assert not missing, [(ts, turns[ts]) for ts in missing]
    assert max(turns.values(), default=1) == 1
