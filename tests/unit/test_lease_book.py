"""The leases of a lane as values: who holds what until when, and when it may be said to have ended."""

from __future__ import annotations

from tickstream.dispatcher.decision import Lease
from tickstream.dispatcher.leases import Expired, LeaseBook
from tickstream.model import NEVER, Report, ReportKind, Rev, RunState, TaskState

LEASE = Lease("t", 1_000, 1, b"holder", 10_000)


def book(now: float = 0.0) -> LeaseBook:
    held = LeaseBook()
    held.begin(3, LEASE, now)
    return held


def heartbeat(run_id: bytes = b"holder", attempt: int = 1) -> Report:
    return Report(ReportKind.HEARTBEAT, "t", 1_000, attempt, run_id, "", 0, 0, 0, "")


def state(*runs: RunState) -> TaskState:
    return TaskState(Rev(1, 0), NEVER, 1_000, runs, None, NEVER, ())


def test_a_lease_ends_only_with_a_licence_later_than_its_deadline() -> None:
    held = book()
    assert held.expired({3: 10.0}) == []
    assert held.expired({2: 99.0}) == [], "another bucket's licence"
    assert held.expired({3: 10.1}) == [Expired(3, "t", 1_000, 1, b"holder")]


def test_what_expired_is_asked_for_again_until_it_is_dropped() -> None:
    held = book()
    assert held.expired({3: 11.0}) == held.expired({3: 11.0}) != []
    held.keep_only(3, "t", None)
    assert held.expired({3: 11.0}) == []
    assert len(held) == 0


def test_a_heartbeat_of_the_holder_renews_it() -> None:
    held = book()
    held.renew(3, heartbeat(), 8.0)
    assert held.expired({3: 17.9}) == []
    assert held.expired({3: 18.1}) != []


def test_a_heartbeat_of_anybody_else_does_not() -> None:
    held = book()
    held.renew(3, heartbeat(b"other"), 8.0)
    held.renew(3, heartbeat(attempt=2), 8.0)
    assert held.expired({3: 11.0}) != []


def test_only_what_the_task_has_out_is_kept() -> None:
    held = book()
    held.keep_only(3, "t", state(RunState(1_000, 1, Rev(1, 0), 0, b"holder")))
    assert len(held) == 1
    held.keep_only(3, "t", state(RunState(1_000, 2, Rev(1, 0), 0, b"", retry_at_ms=5)))
    assert len(held) == 0
    assert held.next_deadline() is None


def test_the_next_deadline_is_a_lower_bound() -> None:
    held = book()
    held.begin(3, LEASE._replace(task_id="u", lease_ms=5_000), 0.0)
    assert held.next_deadline() == 5.0
    held.keep_only(3, "u", None)
    assert held.next_deadline() == 10.0
