"""What a dispatcher tells Prometheus: counted from real transactions of a lane on a store, without a broker."""

import random
import urllib.error
import urllib.request
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.lane_kit import Bench, World, run
from tickstream.dispatcher.metrics import DispatcherMetrics, dispatcher_health
from tickstream.dispatcher.ownership import LaneStatus
from tickstream.dispatcher.tally import SECONDS, Histogram
from tickstream.dispatcher.vitals import DispatcherVitals
from tickstream.errors import InvalidInput
from tickstream.timer_store import TimerStore

HEAD = "tickstream_dispatcher_"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TimerStore]:
    with TimerStore(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def bench(store: TimerStore) -> Bench:
    return Bench(World(), store)


@pytest.fixture
def told() -> list[Mapping[str, object]]:
    return []


@pytest.fixture
def vitals(bench: Bench, store: TimerStore, told: list[Mapping[str, object]]) -> DispatcherVitals:
    vitals = DispatcherVitals(told.append, bench.clock)
    vitals.opened(store)
    return vitals


def value(vitals: DispatcherVitals, name: str, **labels: str) -> float | None:
    registry = CollectorRegistry()
    registry.register(DispatcherMetrics(vitals))
    return registry.get_sample_value(HEAD + name, labels)


def test_a_timer_that_fires_is_counted_by_how_late_it_was(bench: Bench, vitals: DispatcherVitals) -> None:
    lane = bench.take_over()
    lane.tally = vitals.tally(lane.number)
    vitals.begun(lane)
    at = bench.clock.wall_ms() + 1_000
    bench.world.incoming.append(bench.schedule(0, at))
    run(lane)
    assert value(vitals, "messages_total", input="commands") == 1
    assert value(vitals, "dispatched_total") == 0
    assert (value(vitals, "live_tasks") or 0) >= 1
    assert value(vitals, "due_backlog") == 0

    bench.clock.advance(1_300)
    assert value(vitals, "due_backlog") == 1
    assert value(vitals, "oldest_overdue_seconds") == pytest.approx(0.3)
    run(lane)
    assert value(vitals, "dispatched_total") == 1
    assert value(vitals, "due_backlog") == 0
    late = {"stage": "due_to_decided"}
    assert value(vitals, "lateness_seconds_bucket", le="0.2", **late) == 0
    assert value(vitals, "lateness_seconds_bucket", le="0.5", **late) == 1
    assert value(vitals, "lateness_seconds_sum", **late) == pytest.approx(0.3)
    assert value(vitals, "lateness_seconds_count", stage="decided_to_committed") == 1
    assert value(vitals, "commit_seconds_count") == 2
    # Of the second transaction: Progress and state in `timers`, and work.
    assert value(vitals, "transaction_partitions_bucket", le="2") == 2


def test_events_are_counted_as_they_pass(vitals: DispatcherVitals, told: list[Mapping[str, object]]) -> None:
    events: list[Mapping[str, object]] = [
        {"event": "lane_active", "lane": 1},
        {"event": "lane_lost", "lane": 1, "fenced": True},
        {"event": "lane_lost", "lane": 2, "reason": "given back"},
        {"event": "clock_stepped", "by_ms": 500},
        {"event": "bucket_restoring", "bucket": 3, "done": 40, "total": 100},
        {"event": "bucket_restoring", "bucket": 4, "done": 1, "total": 10},
        {"event": "bucket_restored", "bucket": 4},
    ]
    for event in events:
        vitals.event(event)
    assert told == events
    assert value(vitals, "take_overs_total") == 1
    assert value(vitals, "lanes_lost_total") == 2
    assert value(vitals, "fenced_total") == 1
    assert value(vitals, "clock_steps_total") == 1
    assert value(vitals, "restore_left_records") == 60


def test_it_is_ready_when_all_its_lanes_are_active(bench: Bench, vitals: DispatcherVitals) -> None:
    vitals.looked({})
    assert not vitals.ready()
    vitals.event({"event": "lane_assigned", "lane": 0})
    vitals.looked({0: LaneStatus.ACTIVE, 1: LaneStatus.CLAIMING})
    assert not vitals.ready()
    vitals.looked({0: LaneStatus.ACTIVE, 1: LaneStatus.ACTIVE})
    assert vitals.ready()
    assert value(vitals, "lanes", status="active") == 2
    assert vitals.alive()
    bench.clock.advance(61_000)
    assert not vitals.alive()


def test_it_answers_over_http(vitals: DispatcherVitals) -> None:
    with dispatcher_health(vitals, "127.0.0.1", 0) as port:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
        assert {"tickstream_dispatcher_lateness_seconds", "tickstream_dispatcher_store_bytes"} <= {
            family.name for family in families
        }
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz")
        with pytest.raises(InvalidInput, match="--health-port"), dispatcher_health(vitals, "127.0.0.1", port):
            pass


def test_every_metric_is_in_the_documentation(vitals: DispatcherVitals) -> None:
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    told = [metric.name for metric in DispatcherMetrics(vitals).collect()]
    assert [name for name in (*told, HEAD + "applied_age_seconds") if name not in page] == []


def test_many_values_are_counted_as_one_by_one() -> None:
    choice = random.Random(3)
    values = [choice.expovariate(3) for _ in range(500)] + list(SECONDS)
    together, alone = Histogram(SECONDS), Histogram(SECONDS)
    for one in values:
        alone.add(one)
    together.add_all(list(values))
    assert together.counts == alone.counts
    assert sum(together.counts[: bisect_left(SECONDS, 1.0) + 1]) == sum(one <= 1.0 for one in values)
    assert together.sum == pytest.approx(alone.sum)
