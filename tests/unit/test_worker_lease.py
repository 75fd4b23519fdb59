"""A run is lost here before it is lost to the dispatcher; heartbeats go out together."""

import random
from math import inf

import pytest

from tickstream.worker.lease import CLAIM_AFTER_S, MARGIN, PROGRESS_S, Lease, Leased, to_renew


class Held(Leased):
    def __init__(self, started: float, lease_s: float = 9.0, claimed: bool = True) -> None:
        self.lease = Lease(started, lease_s, 3_600.0)
        if claimed:
            self.lease.asked(started)
            self.lease.acked(started)


def test_an_unclaimed_run_cannot_be_lost_only_late() -> None:
    lease = Lease(100.0, 9.0, 60.0)
    assert (lease.claim_at, lease.lost_at, lease.beat_at) == (100.0 + CLAIM_AFTER_S, inf, inf)
    assert lease.next_at() == lease.timeout_at == 160.0


def test_the_lease_counts_from_the_sending_of_what_is_acknowledged() -> None:
    lease = Lease(100.0, 9.0, 60.0)
    lease.asked(100.1)
    # Whether the claim arrived is not known; the dispatcher may count from now.
    assert lease.lost_at == pytest.approx(100.1 + 9 * (1 - MARGIN))
    assert lease.beat_at == inf
    lease.acked(100.2)
    assert lease.beat_at == pytest.approx(103.1)
    lease.asked(103.1)
    assert lease.lost_at == pytest.approx(100.2 + 9 * (1 - MARGIN))
    lease.acked(103.1)
    assert lease.lost_at == pytest.approx(103.1 + 9 * (1 - MARGIN))
    lease.acked(102.0)
    assert lease.lost_at == pytest.approx(103.1 + 9 * (1 - MARGIN))


def test_what_is_lost_is_never_renewed() -> None:
    run = Held(100.0)
    run.lease.lost = True
    assert run.lease.beat_at == inf
    assert to_renew([run], 200.0) == []


def test_news_is_told_within_a_second() -> None:
    run = Held(100.0)
    run.lease.news = True
    assert run.lease.beat_at == 100.0 + PROGRESS_S
    run.lease.asked(101.0)
    assert run.lease.beat_at == 104.0


def test_runs_that_began_at_different_times_beat_together() -> None:
    runs = [Held(100.0), Held(101.4), Held(101.6), Held(100.0, claimed=False)]
    assert to_renew(runs, 102.9) == []
    assert to_renew(runs, 103.0) == runs[:2]


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_delayed_or_lost_the_worker_gives_up_before_the_dispatcher(seed: int) -> None:
    """The dispatcher counts a whole lease from the arrival of each report; messages take any time, or never arrive."""
    rng = random.Random(seed)
    lease_s = rng.choice((0.3, 1.0, 10.0))
    now = start = 100.0
    lease = Lease(start, lease_s, 1e9)
    arrivals: list[tuple[float, float, bool]] = []  # (arrives at, sent at, acknowledged)
    expires = inf
    lease.asked(now)
    arrivals.append((now + rng.random() * lease_s, now, True))
    while now < start + 60 * lease_s:
        now += rng.random() * lease_s / 10
        for arrival in [a for a in arrivals if a[0] <= now]:
            arrivals.remove(arrival)
            at, sent_at, acknowledged = arrival
            if at < expires:
                expires = at + lease_s
            if acknowledged:
                lease.acked(sent_at)
        if now >= lease.lost_at:
            lease.lost = True
            break
        if lease.beat_at <= now:
            lease.asked(now)
            if rng.random() < 0.8:
                arrivals.append((now + rng.random() * lease_s / 2, now, rng.random() < 0.9))
        assert now < expires
    assert lease.lost_at <= expires
