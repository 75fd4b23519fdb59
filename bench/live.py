"""`live`: recurring tasks on a real broker for some minutes, every occurrence held against dateutil.

Dispatchers and workers as processes, real clocks. What is expected is arithmetic, or dateutil's steps on the wall clock
that Python's zoneinfo makes instants of; what came is read from the topics. Neither the expander nor the audit may
enter here.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from dateutil.rrule import rrulestr

from bench.cluster import BUCKETS
from bench.harness import Bench, Benchmark, Result
from bench.raw import echo
from bench.raw.records import HANDLER
from bench.stats import latency
from bench.system import DISPATCHERS, system
from bench.year import DAYS, zone_info, zones
from tickstream import recurring
from tickstream.codec import decode_history, decode_work
from tickstream.errors import SendFailed
from tickstream.ingest import Client, Item, ItemResult
from tickstream.model import DEFAULT_QUEUE, History, Outcome, Recurrence, VerdictKind, Work
from tickstream.settings import Settings
from tickstream.topics import TopicNames

TASKS: Final = 2_000
MINUTES: Final = 3
MOST_MINUTES: Final = 30
"""So that the minutes of the run, in the hours of the run, name none between a task's acceptance and its start."""
_SEED: Final = 20_270_314
_READY_PER_S: Final = 10
"""Recurring tasks a second that dateutil is trusted to expand, and the system to admit, before the first instant."""
_LEAD_S: Final = 5.0
_ANSWER: Final = timedelta(seconds=30)
_DRAIN_S: Final = 30.0
_MINUTE_MS: Final = 60_000


class Live(NamedTuple):
    """One task: how it recurs, and when dateutil says that it occurs."""

    recurrence: Recurrence
    zone: str
    expected: tuple[int, ...]
    """ms, UTC."""


class Reckoned(NamedTuple):
    """What the topics say of the tasks."""

    ran: int
    """Occurrences with one work record at their instant, and one success."""
    lost: int
    """Expected, and without work or without a success."""
    duplicates: int
    """Surplus work records and ends of an occurrence."""
    early: int
    """Decided or started before their instant."""
    off_rule: int
    """Work, or an end, at an instant that was not expected."""
    skipped: int


def plan(count: int, start_ms: int, minutes: int, seed: int = _SEED) -> dict[str, Live]:
    """Tasks of every kind over all zones whose occurrences all lie in the `minutes` from `start_ms` on.

    `start_ms`: a whole minute, later than everything is accepted.
    """
    dice = random.Random(seed)
    makers = (_every, _cron, _steps, _daily, _weekly)
    return {f"live:{n:05d}": makers[n % len(makers)](dice, start_ms, minutes) for n in range(count)}


def reckon(tasks: Mapping[str, Live], works: Iterable[Work], history: Iterable[History]) -> Reckoned:
    """Held against each other. Pure."""
    expected = {(task_id, at) for task_id, live in tasks.items() for at in live.expected}
    worked: Counter[tuple[str, int]] = Counter()
    ended: Counter[tuple[str, int]] = Counter()
    succeeded: set[tuple[str, int]] = set()
    early = skipped = 0
    for work in works:
        worked[work.task_id, work.occurrence_ts] += 1
        early += work.decided_ms < work.occurrence_ts
    for end in history:
        if end.outcome is Outcome.SKIPPED:
            skipped += end.occurrences
        elif end.outcome.terminal:
            ended[end.task_id, end.occurrence_ts] += 1
            early += end.started_ms < end.occurrence_ts
            if end.outcome is Outcome.SUCCEEDED:
                succeeded.add((end.task_id, end.occurrence_ts))
    ran = expected & worked.keys() & succeeded
    surplus = (sum(n - 1 for n in counted.values()) for counted in (worked, ended))
    off_rule = len((worked.keys() | ended.keys()) - expected)
    return Reckoned(len(ran), len(expected - ran), sum(surplus), early, off_rule, skipped)


def run(bench: Bench) -> Result:
    """Schedule everything, let it run for as long as was asked, and read what became of it."""
    count, minutes = (100, 1) if bench.quick else (bench.options.tasks, bench.options.minutes)
    settings = bench.cluster.installation("live")
    names = TopicNames(settings.prefix)
    with system(settings, workers=bench.options.workers) as running:
        soon_ms = int((time.time() + _LEAD_S + count / _READY_PER_S) * 1_000)
        start_ms = -(-soon_ms // _MINUTE_MS) * _MINUTE_MS
        tasks = plan(count, start_ms, minutes)
        occurrences = sum(len(live.expected) for live in tasks.values())
        _schedule(settings, tasks)
        if time.time() * 1_000 > start_ms:
            raise SendFailed("scheduling took longer than the lead; is the machine this busy?")
        bench.say(f"{count} recurring tasks, {occurrences} occurrences within {minutes} min")
        end_s = start_ms / 1_000 + minutes * 60
        time.sleep(max(0.0, end_s - time.time()))
        # A task that has had its last occurrence leaves nothing else in `history`.
        ended = echo.read_all(
            settings, names.history, BUCKETS, at_least=occurrences, until_s=end_s + _DRAIN_S
        )
        worked = echo.read_all(settings, names.work(DEFAULT_QUEUE), BUCKETS)
        alarms = running.alarms(start_ms)
    for alarm in alarms:
        bench.say(f"not clean: {dict(alarm)}")
    works = [decode_work(message.value) for message in worked]
    history = [decode_history(message.value) for message in ended]
    found = reckon(tasks, works, history)
    late = [h.started_ms - h.occurrence_ts for h in history if h.outcome is Outcome.SUCCEEDED]
    if not late:
        raise SendFailed(f"none of {occurrences} occurrences ran; {running.dispatcher.output_tail()}")
    return Result(
        metrics={
            "tasks": count,
            "scheduled": occurrences,
            **found._asdict(),
            "alarms": len(alarms),
            "run_s": minutes * 60,
            **latency(late),
        },
        floor={},
        ratio={},
        settings={
            "zones": len({live.zone for live in tasks.values()}),
            "dispatcher_processes": DISPATCHERS,
            "worker_processes": bench.options.workers,
        },
        ok=found == Reckoned(occurrences, 0, 0, 0, 0, 0),
    )


def _schedule(settings: Settings, tasks: Mapping[str, Live]) -> None:
    """Raises SendFailed when a task is not admitted."""
    items = (
        Item(task_id, payload=b"", handler=HANDLER, recurrence=live.recurrence)
        for task_id, live in tasks.items()
    )
    with Client(settings) as client:
        answers = [answer for answer in client.schedule_many(items, wait=_ANSWER) if not _accepted(answer)]
    if answers:
        raise SendFailed(f"{len(answers)} tasks were not accepted; the first: {answers[0]}")


def _accepted(answer: ItemResult) -> bool:
    return answer.verdict is not None and answer.verdict.kind is VerdictKind.SCHEDULED


# --------------------------------------------------------------------------- the kinds, and what dateutil says


def _every(dice: random.Random, start_ms: int, minutes: int) -> Live:
    """Anchored at any ms of its first interval."""
    step_ms = dice.choice((5_000, 7_500, 10_000))
    first_ms, end_ms = start_ms + dice.randrange(step_ms), start_ms + minutes * _MINUTE_MS
    asked = recurring(
        every=timedelta(milliseconds=step_ms), start=_utc(first_ms), end=_utc(end_ms), overlap="allow"
    )
    return Live(asked, "UTC", tuple(range(first_ms, end_ms, step_ms)))


def _cron(dice: random.Random, start_ms: int, minutes: int) -> Live:
    """Some seconds of every minute."""
    zone, seconds = dice.choice(zones()), _seconds(dice)
    start, end = _utc(start_ms), _utc(start_ms + minutes * _MINUTE_MS)
    asked = recurring(cron=f"{seconds} * * * * *", zone=zone, start=start, end=end, overlap="allow")
    return Live(asked, zone, _minutely(start_ms, minutes, f"BYSECOND={seconds}"))


def _steps(dice: random.Random, start_ms: int, minutes: int) -> Live:
    """A step in elapsed time from a start on the zone's clock."""
    zone, step = dice.choice(zones()), dice.choice((5, 6, 9, 10))
    asked = recurring(
        rrule=f"FREQ=SECONDLY;INTERVAL={step}",
        zone=zone,
        start=_utc(start_ms).astimezone(zone_info(zone)),
        end=_utc(start_ms + minutes * _MINUTE_MS),
        overlap="allow",
    )
    return Live(asked, zone, tuple(range(start_ms, start_ms + minutes * _MINUTE_MS, step * 1_000)))


def _daily(dice: random.Random, start_ms: int, minutes: int) -> Live:
    return _old(dice, start_ms, minutes, "FREQ=DAILY")


def _weekly(dice: random.Random, start_ms: int, minutes: int) -> Live:
    return _old(dice, start_ms, minutes, f"FREQ=WEEKLY;BYDAY={','.join(DAYS)}")


def _old(dice: random.Random, start_ms: int, minutes: int, rule: str) -> Live:
    """A rule that began years ago and names the minutes of the run on its zone's clock, and no others around it."""
    zone = dice.choice(zones())
    info = zone_info(zone)
    shown = [_utc(start_ms + n * _MINUTE_MS).astimezone(info) for n in range(minutes)]
    hours = ",".join(map(str, sorted({at.hour for at in shown})))
    named = ",".join(map(str, sorted({at.minute for at in shown})))
    rule = f"{rule};BYHOUR={hours};BYMINUTE={named};BYSECOND={_seconds(dice)}"
    begun = datetime(dice.randrange(1990, shown[0].year), dice.randrange(1, 13), dice.randrange(1, 29))
    end_ms = start_ms + minutes * _MINUTE_MS
    asked = recurring(rrule=rule, zone=zone, start=begun.isoformat(), end=_utc(end_ms), overlap="allow")
    found: Any = rrulestr(rule, dtstart=begun)
    walls = found.between(
        shown[0].replace(tzinfo=None) - timedelta(hours=2),
        shown[-1].replace(tzinfo=None) + timedelta(hours=2),
    )
    instants = {round(wall.replace(tzinfo=info).timestamp() * 1_000) for wall in walls}
    return Live(asked, zone, tuple(sorted(at for at in instants if start_ms <= at < end_ms)))


def _minutely(start_ms: int, minutes: int, parts: str) -> tuple[int, ...]:
    """Of so many minutes from `start_ms` on: dateutil on the clock of UTC, whose seconds are every zone's."""
    start = _utc(start_ms).replace(tzinfo=None)
    found: Any = rrulestr(f"FREQ=MINUTELY;{parts}", dtstart=start)
    walls = found.between(start, start + timedelta(minutes=minutes), inc=True)
    instants = (round(wall.replace(tzinfo=UTC).timestamp() * 1_000) for wall in walls)
    return tuple(at for at in instants if at < start_ms + minutes * _MINUTE_MS)


def _seconds(dice: random.Random) -> str:
    """Some seconds of a minute, as a rule and a cron expression name them."""
    return ",".join(map(str, sorted(dice.sample(range(60), dice.choice((4, 8, 12))))))


def _utc(ms: int) -> datetime:
    return datetime.fromtimestamp(ms // 1_000, UTC) + timedelta(milliseconds=ms % 1_000)


def add_options(parser: argparse.ArgumentParser) -> None:
    """How many, and for how long."""
    parser.add_argument("--tasks", type=int, default=TASKS, help="recurring tasks (%(default)s)")
    parser.add_argument(
        "--minutes",
        type=int,
        default=MINUTES,
        choices=range(1, MOST_MINUTES + 1),
        metavar="N",
        help=f"of real time, at most {MOST_MINUTES} (%(default)s)",
    )
    parser.add_argument("--workers", type=int, default=1, help="worker processes (%(default)s)")


BENCHMARK: Final = Benchmark(
    "live",
    "recurring tasks on a real broker over real minutes, every occurrence against dateutil",
    run,
    add_options,
)
