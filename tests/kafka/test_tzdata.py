"""Two real releases of the zone data on a real broker: a restart with the newer one, and an upgrade of two processes.

The dispatchers run in this process, on a clock that is set between the releases and moved on by hand.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import pytest

from tests.kafka.rig import BODY, SESSION_MS, Rig
from tests.waiting import eventually
from tests.zone_releases import download, reckoning
from tickstream import Client, recurring
from tickstream.codec import PROGRESS, decode_progress, decode_work, timers_key
from tickstream.dispatcher.process import run_dispatcher
from tickstream.model import NEVER, Command, History, Options, Outcome, Verb, VerdictKind
from tickstream.ops.tz_diff import InZones, TaskMove, standing, task_moves
from tickstream.recurrence.zone_changes import zone_changes
from tickstream.recurrence.zone_data import ZoneData, pinned, zone_data
from tickstream.settings import LaneSettings

OLDER: Final = "2022.1"
"""Mexico and Jordan still move their clocks, Kazakhstan has two zones, Greenland and Paraguay are an hour further west."""
MOVED: Final = ("America/Mexico_City", "Asia/Almaty", "America/Nuuk", "America/Asuncion")
STAYED: Final = ("Europe/Berlin", "Asia/Tokyo")
HOUR: Final = timedelta(hours=1)
HOURS: Final = (0, 3, 6, 9, 12, 15, 18, 21)
_STEP_MS: Final = 12 * 3_600_000
_YEAR_MS: Final = 365 * 86_400_000
FIRST: Final = date(datetime.now(UTC).year + 1, 6, 10)
"""The broker's clock is today's, and nothing occurs before a command was accepted."""


class MovedClock:
    """Wall time that stands ahead of the machine's by as much as it is told."""

    def __init__(self, start: datetime) -> None:
        self.ahead_ms = round(start.timestamp() * 1_000) - time.time_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms

    def monotonic(self) -> float:
        return time.monotonic()


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> ZoneData:
    return zone_data(download(OLDER, tmp_path_factory.mktemp("wheels")))


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock(datetime(FIRST.year, FIRST.month, FIRST.day, tzinfo=UTC) - timedelta(days=1))


class Site:
    """Dispatchers of one installation, and what they said."""

    def __init__(self, rig: Rig, clock: MovedClock) -> None:
        self.rig = rig
        self.clock = clock
        self.events: list[Mapping[str, object]] = []
        self._numbers = count()

    @contextmanager
    def dispatcher(self, zones: ZoneData, index: int | None = None) -> Iterator[None]:
        """One with these zone data, from its first lane to its end; with an empty store, or that of an `index`."""
        number = next(self._numbers) if index is None else index
        stop, since = threading.Event(), len(self.events)

        def run() -> None:
            run_dispatcher(
                self.rig.settings,
                data_dir=self.rig.data,
                index=number,
                lane=LaneSettings(session_ms=SESSION_MS),
                events=self.events.append,
                stop=stop,
                clock=self.clock,
                zones=zones,
            )

        thread = threading.Thread(target=run, name=f"dispatcher-{number}")
        thread.start()
        try:
            assert eventually(lambda: bool(self.said("lane_active", since)), 30)
            yield
        finally:
            stop.set()
            thread.join(30)
        assert not thread.is_alive()

    def said(self, event: str, since: int = 0) -> list[Mapping[str, object]]:
        return [e for e in self.events[since:] if e["event"] == event]

    def define(self) -> None:
        """A task for each of some hours of the day in each zone; daily from FIRST on."""
        for zone in (*MOVED, *STAYED):
            for hour in HOURS:
                asked = recurring(
                    rrule="FREQ=DAILY",
                    start=f"{FIRST}T{hour:02}:30:00",
                    zone=zone,
                    misfire="all",
                    overlap="allow",
                )
                options = Options(recurrence=asked)
                self.rig.send(
                    Command(
                        self.rig.command_id(),
                        Verb.SCHEDULE,
                        f"{zone}@{hour}",
                        NEVER,
                        "default",
                        options,
                        BODY,
                    )
                )
        self.rig.flush()
        self.wait_applied()

    def until(self, at_ms: int) -> None:
        """Half a day at a time."""
        while (left_ms := at_ms - self.clock.wall_ms()) > 0:
            self.clock.ahead_ms += min(_STEP_MS, left_ms)
            self.wait_applied()

    def wait_applied(self) -> None:
        """Until every bucket's Progress is of a moment after this one: what is due by now went with it."""
        now = self.clock.wall_ms()
        behind = set(range(self.rig.buckets))
        for partition, _, key, value in self.rig.read(self.rig.names.timers, until=lambda _: not behind):
            if key == timers_key(PROGRESS) and decode_progress(value or b"").applied_before_ms >= now:
                behind.discard(partition)

    def dispatched(self) -> dict[str, list[int]]:
        """Occurrences by task, in the order of the log; none early."""
        by_task: dict[str, list[int]] = defaultdict(list)
        for *_, value in self.rig.read(self.rig.names.work("default")):
            work = decode_work(value)
            assert work.attempt == 1
            assert work.decided_ms >= work.occurrence_ts
            by_task[work.task_id].append(work.occurrence_ts)
        return by_task

    def beforehand(self, older: ZoneData) -> list[TaskMove]:
        """What `tz diff` says of the tasks that are there."""
        now = self.clock.wall_ms()
        changes = zone_changes(older, pinned(), now // 1_000, (now + _YEAR_MS) // 1_000)
        with Client(self.rig.settings) as client:
            wanted = InZones(change.zone for change in changes)
            tasks = standing(client.changelog.tasks(wanted, range(self.rig.buckets)))
        return task_moves(tasks, changes, older, pinned(), now + _YEAR_MS)

    def moves(self) -> list[History]:
        return [h for h in self.rig.history() if h.outcome is Outcome.MOVED]


def instants(data: ZoneData, task_id: str, days: int) -> list[int]:
    """Where Python has the task's first occurrences, by the TZif file of that release."""
    zone, _, hour = task_id.partition("@")
    info = ZoneInfo.from_file(BytesIO(data.bytes_of(zone)), key=zone)
    walls = (datetime(FIRST.year, 6, FIRST.day + n, int(hour), 30, tzinfo=info) for n in range(days))
    return [round(wall.astimezone(UTC).timestamp() * 1_000) for wall in walls]


def noon(day: int) -> int:
    """UTC noon of a day, the first one is 0; ms."""
    return round(datetime(FIRST.year, 6, FIRST.day + day, 12, tzinfo=UTC).timestamp() * 1_000)


TASKS: Final = tuple(f"{zone}@{hour}" for zone in (*MOVED, *STAYED) for hour in HOURS)


def test_a_restart_with_newer_zone_data(
    broker: str, prefix: str, tmp_path: Path, older: ZoneData, clock: MovedClock
) -> None:
    with Rig(broker, prefix, tmp_path) as rig:
        site = Site(rig, clock)
        with site.dispatcher(older):
            site.define()
            site.until(noon(1))
            told = site.beforehand(older)
        switched = clock.wall_ms()
        with site.dispatcher(pinned()):
            site.until(noon(3))
            end = clock.wall_ms()
        expected, moved = {}, {}
        for task_id in TASKS:
            before, after = instants(older, task_id, 6), instants(pinned(), task_id, 6)
            place = sum(at <= switched for at in before)
            expected[task_id] = before[:place] + [at for at in after[place:] if at <= end]
            if before[place] != after[place]:
                moved[task_id] = (before[place], after[place])
        assert {zone.partition("@")[0] for zone in moved} == set(MOVED)
        assert {move.task_id: (move.before_ms, move.after_ms) for move in told} == moved
        assert all(move.is_next for move in told)
        assert site.dispatched() == expected
        moves = site.moves()
        assert {h.task_id: (h.occurrence_ts, h.through_ts) for h in moves} == moved
        assert len(moves) == len(moved) == len(site.said("occurrence_moved"))
        assert all(h.error.startswith(f"tzdata 2022a -> {pinned().release}: ") for h in moves)


def test_an_upgrade_of_two_processes_one_after_the_other(
    broker: str, prefix: str, tmp_path: Path, older: ZoneData, clock: MovedClock
) -> None:
    """Old; old and new; old again, which moves nothing back; new for good. Every day of every task once."""
    with Rig(broker, prefix, tmp_path) as rig:
        site = Site(rig, clock)
        with site.dispatcher(older):
            site.define()
            site.until(noon(0))
            with site.dispatcher(pinned()):
                site.until(noon(1))
                half = {h.task_id for h in site.moves()}
            site.until(noon(2))
            assert {h.task_id for h in site.moves()} == half
            with site.dispatcher(pinned()):
                site.until(noon(3))
                since = len(site.events)
            assert eventually(lambda: len(site.said("lane_active", since)) > 0, 30)
        with site.dispatcher(pinned()):
            switched = clock.wall_ms()
            site.until(noon(5))
        ran = site.dispatched()
        for task_id in TASKS:
            days = list(zip(instants(older, task_id, 7), instants(pinned(), task_id, 7), strict=True))
            done = [i for at in ran[task_id] for i, places in enumerate(days) if at in places]
            assert done == list(range(len(ran[task_id]))), task_id
            assert [days[i][1] for i, at in enumerate(ran[task_id]) if at > switched] == [
                at for at in ran[task_id] if at > switched
            ]
            assert days[len(done)][1] > clock.wall_ms() - 1_000, task_id
        assert 0 < len(half) < len(MOVED) * len(HOURS)
        alarms = [str(e["reason"]) for e in site.said("alarm")]
        assert any(f"tzdata 2022a of this process is older than {pinned().release}" in a for a in alarms)


def test_a_calendars_busy_time_after_a_restart_with_newer_zone_data(
    broker: str, prefix: str, tmp_path: Path, older: ZoneData, clock: MovedClock
) -> None:
    """In June Mexico's clock is an hour behind where 2022.1 has it: the event at nine comes an hour later."""
    day = f"{FIRST}T"
    with Rig(broker, prefix, tmp_path) as rig, reckoning() as use:
        site = Site(rig, clock)
        use(older)
        with site.dispatcher(older), Client(rig.settings) as client:
            room = client.calendar("room-7", zone=MOVED[0])
            here = room.add("here", f"{day}09:00:00", duration=HOUR, rrule="FREQ=DAILY;COUNT=3")
            there = room.add("there", f"{day}15:30:00", duration=HOUR, zone="UTC")
            assert (here.kind, there.kind) == (VerdictKind.SCHEDULED, VerdictKind.SCHEDULED)
        use(pinned())
        with site.dispatcher(pinned(), index=0), Client(rig.settings) as client:
            assert eventually(lambda: bool(site.said("conflict_found")), 30)
            room = client.calendar("room-7", zone=MOVED[0])
            left = room.conflicts(room.event("x", f"{day}14:00:00", duration=HOUR, zone="UTC"))
            come = room.conflicts(room.event("x", f"{day}15:00:00", duration=HOUR / 2, zone="UTC"))
        assert left.kind is VerdictKind.CLEAR
        assert [met.with_uid for met in come.conflicts] == ["here"]
        assert site.said("busy_time_reckoned")
        (record,) = [h for h in rig.history() if h.outcome is Outcome.CONFLICT]
        assert record.task_id == "{room-7}there"
        assert "meets 'here'" in record.error
        assert {h.task_id for h in site.moves()} == {"{room-7}here"}
