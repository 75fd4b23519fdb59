"""A dispatcher's figures for Prometheus, taken when they are asked for. docs/metrics.md lists them.

No counting and no decision may enter here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from tickstream.dispatcher.ownership import LaneStatus
from tickstream.dispatcher.tally import Histogram, LaneTally
from tickstream.dispatcher.vitals import DispatcherVitals
from tickstream.health import Words, health_server

_HEAD: Final = "tickstream_dispatcher_"
_EVENTS: Final = {
    "take_overs": ("lane_active", "Lanes taken over."),
    "lanes_lost": ("lane_lost", "Lanes given back or lost."),
    "aborted_transactions": ("transaction_aborted", "Transactions that were aborted and decided again."),
    "clock_steps": ("clock_stepped", "Steps of the wall clock."),
    "occurrences_moved": ("occurrence_moved", "Occurrences that newer zone data moved."),
    "alarms": ("alarm", "Alarms: each wants a person."),
    "memberships_lost": ("membership_lost", "Times that the group threw this process out."),
}
"""Counter → the event that it counts."""
_WORDS: Final = Words("the main thread hangs", "no lanes yet, or not all of them are active")


class DispatcherMetrics(Collector):
    """See DispatcherVitals."""

    def __init__(self, vitals: DispatcherVitals) -> None:
        self._vitals = vitals

    def collect(self) -> Iterable[Metric]:
        """See Collector."""
        tallies = self._vitals.tallies()
        yield from _timed(tallies)
        yield from self._now()
        yield from self._so_far(tallies)

    def _now(self) -> Iterator[Metric]:
        vitals = self._vitals
        yield GaugeMetricFamily(
            _HEAD + "ready", "Whether all its lanes are active.", value=float(vitals.ready())
        )
        lanes = GaugeMetricFamily(_HEAD + "lanes", "Lanes by where they stand.", labels=("status",))
        counts = vitals.lanes()
        for status in LaneStatus:
            lanes.add_metric((status.value,), counts.get(status, 0))
        yield lanes
        backlog = vitals.backlog()
        yield GaugeMetricFamily(
            _HEAD + "due_backlog", "Due entries not dispatched, at most 1,000 a bucket.", value=backlog.due
        )
        yield GaugeMetricFamily(
            _HEAD + "oldest_overdue_seconds", "Age of the oldest of them, 0: none.", value=backlog.oldest_s
        )
        if (age_s := vitals.applied_age_s()) is not None:
            yield GaugeMetricFamily(
                _HEAD + "applied_age_seconds",
                "Everything accepted longer ago than this is applied, in every bucket.",
                value=age_s,
            )
        yield GaugeMetricFamily(
            _HEAD + "restore_left_records",
            "Offsets that restores under way still have to read.",
            value=vitals.left(),
        )
        if (sizes := vitals.sizes()) is not None:
            yield GaugeMetricFamily(
                _HEAD + "live_tasks",
                "Tasks with a definition in the store, as RocksDB estimates.",
                value=sizes.specs,
            )
            yield GaugeMetricFamily(
                _HEAD + "states", "Tasks and stubs in the store, as RocksDB estimates.", value=sizes.states
            )
            store = GaugeMetricFamily(_HEAD + "store_bytes", "Size of the store.", labels=("part",))
            store.add_metric(("files",), sizes.files_bytes)
            store.add_metric(("memory",), sizes.memory_bytes)
            yield store

    def _so_far(self, tallies: list[LaneTally]) -> Iterator[Metric]:
        told = self._vitals.told()
        for name, (event, what) in _EVENTS.items():
            yield CounterMetricFamily(_HEAD + name, what, value=told.get(event, 0))
        yield CounterMetricFamily(
            _HEAD + "fenced", "Lanes lost because another process claimed them.", value=self._vitals.fenced
        )
        yield CounterMetricFamily(
            _HEAD + "dispatched", "Work records committed.", value=sum(t.dispatched for t in tallies)
        )
        inputs = CounterMetricFamily(_HEAD + "messages", "Messages applied.", labels=("input",))
        inputs.add_metric(("commands",), sum(t.commands for t in tallies))
        inputs.add_metric(("reports",), sum(t.reports for t in tallies))
        yield inputs


def _timed(tallies: list[LaneTally]) -> Iterator[Metric]:
    lateness = HistogramMetricFamily(
        _HEAD + "lateness_seconds", "Of first attempts: due → decided → committed.", labels=("stage",)
    )
    _add(lateness, ("due_to_decided",), tallies, lambda t: t.due_to_decided)
    _add(lateness, ("decided_to_committed",), tallies, lambda t: t.decided_to_committed)
    yield lateness
    for name, what, pick in _PLAIN:
        histogram = HistogramMetricFamily(_HEAD + name, what, labels=())
        _add(histogram, (), tallies, pick)
        yield histogram


_Pick = Callable[[LaneTally], Histogram]
_PLAIN: Final[tuple[tuple[str, str, _Pick], ...]] = (
    ("commit_seconds", "A transaction, from its beginning to its commit.", lambda t: t.commit),
    (
        "command_lag_seconds",
        "Accepted → committed, of the oldest command of each transaction.",
        lambda t: t.command_lag,
    ),
    ("transaction_partitions", "Partitions that a transaction touched.", lambda t: t.partitions),
)


def _add(
    family: HistogramMetricFamily, labels: tuple[str, ...], tallies: list[LaneTally], pick: _Pick
) -> None:
    histograms = [pick(tally) for tally in tallies] or [pick(LaneTally())]
    bounds = [*(f"{bound:g}" for bound in histograms[0].bounds), "+Inf"]
    counts = accumulate(map(sum, zip(*(h.counts for h in histograms), strict=True)))
    family.add_metric(labels, list(zip(bounds, counts, strict=True)), sum(h.sum for h in histograms))


@contextmanager
def dispatcher_health(vitals: DispatcherVitals, host: str, port: int) -> Iterator[int]:
    """Serve it, see health.health_server. Raises InvalidInput."""
    with health_server(vitals, DispatcherMetrics(vitals), _WORDS, host, port) as bound:
        yield bound
