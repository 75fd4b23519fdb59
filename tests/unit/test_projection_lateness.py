"""Lateness histograms: narrow buckets, honest percentiles."""

from __future__ import annotations

import pytest

from tickstream.model import NEVER, History, Outcome, Rev
from tickstream.projection import lateness
from tickstream.projection.lateness import Stage


def test_buckets_are_in_order_without_gaps_and_at_most_a_sixteenth_wide() -> None:
    before = -1
    for ms in range(100_000):
        bucket = lateness.bucket_of(ms)
        assert bucket in (before, before + 1)
        before = bucket
        assert ms <= lateness.upper_ms(bucket) <= ms * 17 / 16


@pytest.mark.parametrize("ms", [-3, 0])
def test_clocks_that_disagree_count_as_no_lateness(ms: int) -> None:
    assert lateness.bucket_of(ms) == 0


def test_a_percentile_is_never_smaller_than_what_it_stands_for() -> None:
    histogram = lateness.merge([{lateness.bucket_of(ms): 1} for ms in range(1, 1_001)])
    assert 500 <= (lateness.percentile(histogram, 0.5) or 0) <= 532
    assert 990 <= (lateness.percentile(histogram, 0.99) or 0) <= 1_052
    assert lateness.percentile({}, 0.5) is None


def test_stages_split_what_ran() -> None:
    assert dict(lateness.stages(outcome(decided=103, fetched=110, started=111))) == {
        Stage.TOTAL: 11,
        Stage.DECIDE: 3,
        Stage.FETCH: 7,
        Stage.START: 1,
    }


def test_what_never_ran_has_no_lateness() -> None:
    assert dict(lateness.stages(outcome(decided=NEVER, fetched=NEVER, started=NEVER))) == {}


def outcome(*, decided: int, fetched: int, started: int) -> History:
    return History(
        1,
        "t",
        100,
        1,
        Rev(0, 0),
        Outcome.SUCCEEDED,
        120,
        "default",
        "h",
        "w",
        b"",
        decided,
        fetched,
        started,
        119,
        "",
    )
