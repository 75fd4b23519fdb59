"""What may be deleted of the inputs: applied, and older than the window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from tickstream.dispatcher.ports import Input
from tickstream.dispatcher.purge import Place, Purge, purgeable
from tickstream.errors import BrokerUnavailable
from tickstream.model import InputPosition, Progress
from tickstream.testing import ManualClock

IDS = {Input.COMMANDS: b"c" * 16, Input.REPORTS: b"r" * 16}
COMMANDS, REPORTS = (Input.COMMANDS, 0), (Input.REPORTS, 0)


def progress(commands: int, reports: int) -> dict[int, Progress]:
    positions = (
        InputPosition(IDS[Input.COMMANDS], commands, 3, 1),
        InputPosition(IDS[Input.REPORTS], reports, 0, 1),
    )
    return {0: Progress(*positions, 0, 0, 0, "2026a", 0)}


@pytest.mark.parametrize(
    ("applied", "young", "gone"),
    [
        (50, None, 50),  # all are old: up to what is applied
        (50, 30, 30),  # the window begins before
        (50, 80, 50),  # what is old and not applied stays
        (20, None, None),  # nothing new to delete
        (50, 20, None),
    ],
)
def test_never_above_progress_and_never_into_the_window(
    applied: int, young: int | None, gone: int | None
) -> None:
    starts = {COMMANDS: 20, REPORTS: 0}
    first_young = {} if young is None else {COMMANDS: young}
    found = purgeable(progress(applied, 0), IDS, starts, first_young)
    assert found == ({} if gone is None else {COMMANDS: gone})


def test_a_progress_of_a_former_topic_deletes_nothing() -> None:
    ids = IDS | {Input.COMMANDS: b"x" * 16}
    assert purgeable(progress(50, 7), ids, {COMMANDS: 0, REPORTS: 0}, {}) == {REPORTS: 7}


@dataclass
class Logs:
    """Inputs of one bucket, a record a second since 1,000."""

    deleted: dict[Place, int] = field(default_factory=dict)
    away: bool = False

    def topic_ids(self) -> Mapping[Input, bytes]:
        return IDS

    def starts(self) -> Mapping[Place, int]:
        if self.away:
            raise BrokerUnavailable("nobody there")
        return {COMMANDS: 0, REPORTS: 0}

    def first_since(self, wall_ms: int) -> Mapping[Place, int]:
        return dict.fromkeys((COMMANDS, REPORTS), max(0, wall_ms // 1000 - 1_000))

    def delete_before(self, offsets: Mapping[Place, int]) -> None:
        self.deleted.update(offsets)


def test_the_window_is_counted_back_from_now() -> None:
    logs, events = Logs(), list[Mapping[str, object]]()
    purge = Purge(logs, ManualClock(1_100_000), 60_000, events.append)
    purge.run(progress(90, 5))
    assert logs.deleted == {COMMANDS: 40, REPORTS: 5}
    assert events == [{"event": "inputs_purged", "partitions": 2, "records": 45}]


def test_a_broker_that_is_away_is_asked_again_another_time() -> None:
    logs, events = Logs(away=True), list[Mapping[str, object]]()
    purge = Purge(logs, ManualClock(1_100_000), 60_000, events.append)
    purge.run(progress(90, 5))
    assert [e["event"] for e in events] == ["purge_failed"]
    logs.away = False
    purge.run(progress(90, 5))
    assert logs.deleted


@pytest.mark.parametrize(("window_ms", "every_s"), [(0, 1.0), (24 * 3_600_000, 600.0), (60_000, 6.0)])
def test_how_often(window_ms: int, every_s: float) -> None:
    assert Purge(Logs(), ManualClock(), window_ms, lambda _: None).every_s == every_s
