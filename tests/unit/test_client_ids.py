"""Command ids: version 7, rising, and different."""

import uuid
from concurrent.futures import ThreadPoolExecutor

from tests.unit.client_doubles import ManualClock
from tickstream.clock import SystemClock
from tickstream.ingest.ids import CommandIds


def test_an_id_is_a_uuid_of_version_7_with_its_time() -> None:
    clock = ManualClock(1_900_000_000_123)
    made = uuid.UUID(bytes=CommandIds(clock).next())
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert made.int >> 80 == 1_900_000_000_123


def test_ids_rise_even_when_the_clock_steps_back() -> None:
    clock = ManualClock()
    ids = CommandIds(clock)
    made = []
    for step in (0, 0, 1, 0, -3_600, 0, 1):
        clock.advance(step)
        made.append(ids.next())
    assert made == sorted(set(made))


def test_the_largest_start_of_a_millisecond_leaves_the_variant_alone() -> None:
    ids = CommandIds(ManualClock(), entropy=lambda size: b"\xff" * size)
    made = [uuid.UUID(bytes=ids.next()) for _ in range(3)]
    assert {(u.version, u.variant) for u in made} == {(7, uuid.RFC_4122)}


def test_threads_never_share_an_id() -> None:
    ids = CommandIds(SystemClock())
    with ThreadPoolExecutor(8) as pool:
        made = [
            one for many in pool.map(lambda _: [ids.next() for _ in range(2_000)], range(8)) for one in many
        ]
    assert len(set(made)) == len(made)
