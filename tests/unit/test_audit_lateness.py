"""Lateness, exclusion windows and take-overs of the audit, by hand-made timelines."""

from tests.audit_history import T0, Written
from tickstream.ops.audit import Report, render
from tickstream.ops.audit.journal import Journal, Kill
from tickstream.ops.audit.lateness import Histogram
from tickstream.ops.audit.verdict import judge

KILL = T0 + 10_000
SESSION = 2_000


def report_on(log: Written, *kills: int) -> Report:
    journal = Journal(kills=tuple(Kill("dispatcher", at) for at in kills))
    return judge(log.evidence(), journal, as_of_ms=T0 + 60_000, grace_ms=5_000, session_ms=SESSION)


def alive(log: Written, bucket: int, first: int, last: int) -> None:
    """An owner that commits every half second."""
    for at in range(first, last + 1, 500):
        log.progress(bucket, at=at)


def moved(log: Written, bucket: int, claimed: int, committed: int) -> None:
    """A bucket whose owner died at KILL."""
    alive(log, bucket, T0, KILL - 100)
    log.claim(bucket, at=claimed)
    alive(log, bucket, committed, T0 + 30_000)


def histogram(*ms: int) -> Histogram:
    counted = Histogram()
    for one in ms:
        counted.add(one)
    return counted


def test_nearest_rank() -> None:
    assert histogram().nearest_rank(99) is None
    assert histogram(7).nearest_rank(50) == 7
    assert histogram(*range(1, 101)).nearest_rank(50) == 50
    assert histogram(*range(1, 101)).nearest_rank(99) == 99
    assert histogram(*range(1, 102)).nearest_rank(99) == 100


def test_long_times_are_counted_to_a_two_thousandth_and_their_number_costs_nothing() -> None:
    counted = histogram(*range(0, 40_000_000, 37))
    assert counted.count > 1_000_000
    assert len(counted._counts) < 35_000
    exact = sorted(range(0, 40_000_000, 37))[counted.count // 2]
    assert abs(counted.nearest_rank(50) - exact) <= exact / 2_048
    assert histogram(-3, -2, 5).nearest_rank(50) == -2
    assert histogram(4_095, 123_456).max_ms == 123_456


def test_percentiles_are_over_first_runs_only() -> None:
    log = Written()
    for n in range(100):
        log.life(f"task-{n}", T0 + n, started_after=n + 1)
    log.report("task-0", T0, T0 + 50_000)
    report = report_on(log)
    assert (report.lateness_p50_ms, report.lateness_p99_ms, report.lateness_max_ms) == (50, 99, 100)
    assert report.takeover_max_ms is None


def test_a_take_over_lasts_until_the_first_commit_after_the_claim() -> None:
    log = Written(buckets=2, lanes=2)
    alive(log, 0, T0, T0 + 30_000)
    moved(log, 1, claimed=KILL + 2_300, committed=KILL + 2_400)
    assert report_on(log, KILL).takeover_max_ms == 2_400


def test_a_lane_commits_with_its_first_bucket() -> None:
    log = Written(buckets=4, lanes=2)
    for bucket in (0, 2):
        alive(log, bucket, T0, T0 + 30_000)
    moved(log, 1, claimed=KILL + 2_300, committed=KILL + 3_300)
    moved(log, 3, claimed=KILL + 2_300, committed=KILL + 2_500)
    assert report_on(log, KILL).takeover_max_ms == 2_500


def test_the_last_commits_of_the_dead_do_not_count_as_life() -> None:
    log = Written(buckets=1, lanes=1)
    alive(log, 0, T0, KILL)
    log.progress(0, at=KILL + 4)
    log.claim(0, at=KILL + 2_100)
    log.progress(0, at=KILL + 2_200)
    assert report_on(log, KILL).takeover_max_ms == 2_200


def test_a_planned_move_later_on_is_no_take_over() -> None:
    log = Written(buckets=2, lanes=2)
    moved(log, 1, claimed=KILL + 2_300, committed=KILL + 2_400)
    alive(log, 0, T0, KILL + 8_000)
    log.claim(0, at=KILL + 8_100)
    alive(log, 0, KILL + 8_200, T0 + 30_000)
    assert report_on(log, KILL).takeover_max_ms == 2_400


def test_a_lane_that_nobody_takes_over_counts_to_the_end_of_the_log() -> None:
    log = Written(buckets=2, lanes=2)
    alive(log, 0, T0, T0 + 30_000)
    alive(log, 1, T0, KILL)
    assert report_on(log, KILL).takeover_max_ms == 20_000


def test_a_log_that_ends_soon_after_the_kill_proves_nothing() -> None:
    log = Written(buckets=2, lanes=2)
    alive(log, 0, T0, KILL + 1_000)
    alive(log, 1, T0, KILL)
    assert report_on(log, KILL).takeover_max_ms is None


def test_what_is_due_during_a_take_over_is_left_out_of_the_percentiles_only() -> None:
    log = Written(buckets=1, lanes=1)
    moved(log, 0, claimed=KILL + 1_900, committed=KILL + 2_000)
    for n in range(97):
        log.life(f"usual-{n}", T0 + n, started_after=10)
    log.life("before", KILL - 1, started_after=30)
    log.life("during", KILL + 2_000, started_after=2_500)
    log.life("after", KILL + 2_001, started_after=20)
    report = report_on(log, KILL)
    assert report.excluded_count == 1
    assert report.excluded == 0.01
    assert (report.lateness_p99_ms, report.lateness_max_ms) == (30, 2_500)
    assert "1 due during a take-over (1.0%)" in render(report)


def test_a_window_is_never_longer_than_session_and_two_seconds() -> None:
    log = Written(buckets=1, lanes=1)
    moved(log, 0, claimed=KILL + 9_000, committed=KILL + 9_100)
    log.life("in", KILL + SESSION + 2_000)
    log.life("out", KILL + SESSION + 2_001)
    report = report_on(log, KILL)
    assert report.excluded_count == 1
    assert report.takeover_max_ms == 9_100
    assert "more than 5%" in render(report)


def test_a_kill_that_moves_no_lane_leaves_nothing_out() -> None:
    log = Written(buckets=1, lanes=1)
    alive(log, 0, T0, T0 + 30_000)
    log.life("in the middle", KILL + 10)
    report = report_on(log, KILL)
    assert report.excluded_count == 0
    assert report.takeover_max_ms is None
