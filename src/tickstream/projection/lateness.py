"""Lateness as small histograms with log-scaled buckets: cheap to add to, good to 6.25 %.

No clock, no database may enter here. Below 32 ms a bucket is one millisecond wide; above, every
power of two is cut into 16 (the layout of HdrHistogram with one significant hex digit).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final

from tickstream.model import NEVER, History

_LINEAR: Final = 16
_LONGEST_MS: Final = 1 << 40
"""35 years; what is later is counted there."""


class Stage(IntEnum):
    """Where lateness arises. The value is the key's byte."""

    TOTAL = 0
    """due → started"""
    DECIDE = 1
    """due → decided by the dispatcher"""
    FETCH = 2
    """decided → fetched by a worker (includes the commit)"""
    START = 3
    """fetched → the handler started"""

    @property
    def label(self) -> str:
        """Its name in answers, by the instants it lies between."""
        return _LABELS[self]


_LABELS: Final = {
    Stage.TOTAL: "due_to_started",
    Stage.DECIDE: "due_to_decided",
    Stage.FETCH: "decided_to_fetched",
    Stage.START: "fetched_to_started",
}


def stages(outcome: History) -> Iterator[tuple[Stage, int]]:
    """The lateness of each stage in ms, for what ran; nothing where a time is not known."""
    due, decided, fetched, started = (
        outcome.occurrence_ts,
        outcome.decided_ms,
        outcome.fetched_ms,
        outcome.started_ms,
    )
    if NEVER not in (decided, fetched, started):
        yield Stage.TOTAL, started - due
        yield Stage.DECIDE, decided - due
        yield Stage.FETCH, fetched - decided
        yield Stage.START, started - fetched


def bucket_of(ms: int) -> int:
    """The histogram bucket of `ms`. Clocks of two machines may disagree: what is negative counts as 0."""
    ms = min(max(ms, 0), _LONGEST_MS)
    if ms < _LINEAR:
        return ms
    octave = ms.bit_length() - 5
    return octave * _LINEAR + (ms >> octave)


def upper_ms(bucket: int) -> int:
    """The largest lateness that falls into `bucket`, ms: what a percentile states, never too small."""
    if bucket < _LINEAR:
        return bucket
    octave = bucket // _LINEAR - 1
    return ((bucket - octave * _LINEAR + 1) << octave) - 1


def merge(histograms: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """The sum of histograms."""
    total: dict[int, int] = {}
    for histogram in histograms:
        for bucket, count in histogram.items():
            total[bucket] = total.get(bucket, 0) + count
    return total


def percentile(histogram: Mapping[int, int], share: float) -> int | None:
    """The lateness in ms that `share` (0-1) of all stay within; None of nothing."""
    total = sum(histogram.values())
    rank = share * total
    seen = 0
    for bucket in sorted(histogram):
        seen += histogram[bucket]
        if seen >= rank and seen:
            return upper_ms(bucket)
    return None


def histogram_of(shown: Iterable[Sequence[int]]) -> dict[int, int]:
    """The histogram that a summary shows."""
    return {bucket_of(upper): count for upper, count in shown}


def summary(histograms: Mapping[int, Mapping[int, int]]) -> dict[str, Any]:
    """By stage, percentiles in ms, None of nothing; and the histogram itself, [upper ms, how many]."""
    return {stage.label: _percentiles(histograms.get(stage, {})) for stage in Stage}


def _percentiles(histogram: Mapping[int, int]) -> dict[str, Any]:
    shares = (("p50_ms", 0.5), ("p90_ms", 0.9), ("p99_ms", 0.99), ("max_ms", 1.0))
    return {
        "count": sum(histogram.values()),
        **{name: percentile(histogram, share) for name, share in shares},
        "histogram": [[upper_ms(bucket), count] for bucket, count in sorted(histogram.items())],
    }
