"""Runs and leases, told through the harness: claims, expiry, retries, hand-backs, late words."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tickstream.dispatcher.records import work_partition
from tickstream.dispatcher.runs import RELEASE_MS, backoff_ms
from tickstream.model import NO_RETRY, BoundCall, Outcome, Phase, RunTerms, SignalKind, VerdictKind
from tickstream.testing import Harness, HarnessWorker
from tickstream.worker import App, Context

app = App()
SECOND = timedelta(seconds=1)
TERMS = RunTerms(lease_ms=10_000, attempts=3, backoff_ms=1_000)


@app.handler("job")
def job(ctx: Context) -> None:
    """Played by the tests."""


def call(terms: RunTerms = TERMS) -> BoundCall:
    return job.bind()._replace(terms=terms)


@pytest.fixture
def worker(tick: Harness) -> HarnessWorker:
    """A worker with the task `t` dispatched to it."""
    tick.client.schedule("t", run_at=tick.now, call=call())
    return tick.worker(app)


def outcomes(tick: Harness) -> list[Outcome]:
    return [h.outcome for h in tick.history]


class TestLeases:
    def test_a_worker_that_dies_loses_its_lease(self, tick: Harness, worker: HarnessWorker) -> None:
        dead = worker.claim()
        tick.advance(9 * SECOND)
        assert tick.work() == ()
        tick.advance(2 * SECOND)
        heir = tick.worker(app, "heir").claim()
        assert heir.work.attempt == 2
        dead.succeed()
        assert outcomes(tick) == [Outcome.LEASE_EXPIRED]
        heir.succeed()
        assert outcomes(tick) == [Outcome.LEASE_EXPIRED, Outcome.SUCCEEDED]

    def test_heartbeats_keep_it(self, tick: Harness, worker: HarnessWorker) -> None:
        run = worker.claim()
        for _ in range(10):
            tick.advance(5 * SECOND)
            run.heartbeat()
        run.succeed()
        assert outcomes(tick) == [Outcome.SUCCEEDED]

    def test_only_the_holders_heartbeats_count(self, tick: Harness, worker: HarnessWorker) -> None:
        run = worker.claim()
        other = worker.again(run.work)
        tick.advance(6 * SECOND)
        other.heartbeat()
        tick.advance(5 * SECOND)
        assert outcomes(tick) == [Outcome.LEASE_EXPIRED]

    def test_a_later_claim_takes_over_and_the_displaced_is_told(
        self, tick: Harness, worker: HarnessWorker
    ) -> None:
        first = worker.claim()
        second = worker.again(first.work)
        second.claim()
        assert [(s.run_id, s.kind) for s in tick.signals] == [(first.run_id, SignalKind.SUPERSEDED)]
        first.fail()
        assert outcomes(tick) == []
        second.fail()
        assert outcomes(tick) == [Outcome.ATTEMPT_FAILED]

    def test_success_of_the_displaced_is_a_success(self, tick: Harness, worker: HarnessWorker) -> None:
        first = worker.claim()
        worker.again(first.work).claim()
        first.succeed()
        assert outcomes(tick) == [Outcome.SUCCEEDED]

    def test_a_success_that_was_only_late_counts_until_the_next_attempt_is_out(
        self, tick: Harness, worker: HarnessWorker
    ) -> None:
        run = worker.claim()
        run.fail()  # say, a time-out that the worker saw
        assert tick.work() == ()
        run.succeed()
        tick.advance(timedelta(minutes=1))
        assert outcomes(tick) == [Outcome.ATTEMPT_FAILED, Outcome.SUCCEEDED]
        assert tick.work() == ()

    def test_work_that_nobody_claimed_does_not_expire(self, tick: Harness, worker: HarnessWorker) -> None:
        tick.advance(timedelta(hours=1))
        assert outcomes(tick) == []
        worker.take().succeed()
        assert outcomes(tick) == [Outcome.SUCCEEDED]

    def test_the_last_expiry_gives_the_work_up(self, tick: Harness, worker: HarnessWorker) -> None:
        for _ in range(3):
            worker.claim()
            tick.advance(11 * SECOND)
        assert outcomes(tick) == [Outcome.LEASE_EXPIRED, Outcome.LEASE_EXPIRED, Outcome.DEAD]
        assert tick.phase("t") is Phase.DEAD
        assert tick.work() == ()


class TestRetries:
    def test_a_failure_is_tried_again_after_a_pause_that_doubles(
        self, tick: Harness, worker: HarnessWorker
    ) -> None:
        worker.take().fail("Error: one")
        tick.advance(0.79 * SECOND)
        assert tick.work() == ()
        tick.advance(0.21 * SECOND)
        worker.take().fail("Error: two")
        tick.advance(1.59 * SECOND)
        assert tick.work() == ()
        tick.advance(0.41 * SECOND)
        worker.take().fail("Error: three")
        assert outcomes(tick) == [Outcome.ATTEMPT_FAILED, Outcome.ATTEMPT_FAILED, Outcome.DEAD]
        assert [h.error for h in tick.history] == ["Error: one", "Error: two", "Error: three"]
        assert [h.attempt for h in tick.history] == [1, 2, 3]

    def test_an_error_that_is_not_to_be_retried_is_the_end(
        self, tick: Harness, worker: HarnessWorker
    ) -> None:
        worker.take().fail(retry_ms=NO_RETRY)
        assert outcomes(tick) == [Outcome.DEAD]

    def test_the_handler_may_name_the_pause(self, tick: Harness, worker: HarnessWorker) -> None:
        worker.take().fail(retry_ms=60_000)
        tick.advance(59.9 * SECOND)
        assert tick.work() == ()
        tick.advance(0.1 * SECOND)
        assert [w.attempt for w in tick.work()] == [2]

    def test_a_restart_in_between_forgets_nothing(self) -> None:
        assert backoff_ms(TERMS, 1, "t@1") == backoff_ms(TERMS, 1, "t@1")

    @pytest.mark.parametrize(
        ("failures", "least", "most"), [(1, 800, 1_000), (3, 3_200, 4_000), (99, 480_000, 600_000)]
    )
    def test_backoff_doubles_is_capped_and_spread(self, failures: int, least: int, most: int) -> None:
        pauses = {backoff_ms(TERMS, failures, f"t@{n}") for n in range(200)}
        assert least <= min(pauses) < max(pauses) <= most


class TestHandBacks:
    def test_work_handed_back_is_dispatched_elsewhere_and_is_no_failure(
        self, tick: Harness, worker: HarnessWorker
    ) -> None:
        for n in range(8):
            run = worker.take()
            assert run.work.attempt == n + 1
            run.release()
            pause_ms = min(RELEASE_MS[1], RELEASE_MS[0] << n)
            tick.advance(timedelta(milliseconds=pause_ms - 1))
            assert tick.work() == ()
            tick.advance(timedelta(milliseconds=1))
        worker.take().succeed()
        assert outcomes(tick) == [Outcome.SUCCEEDED]

    def test_what_a_worker_held_is_sent_on_at_once_and_its_pauses_stay_what_they_were(
        self, tick: Harness, worker: HarnessWorker
    ) -> None:
        worker.take().release()
        tick.advance(timedelta(milliseconds=RELEASE_MS[0]))
        for attempt in (2, 3, 4):
            run = worker.take()
            assert run.work.attempt == attempt
            run.release(pause_ms=0)
            tick.tick()
        worker.take().release()
        tick.advance(timedelta(milliseconds=2 * RELEASE_MS[0] - 1))
        assert tick.work() == ()
        tick.advance(timedelta(milliseconds=1))
        worker.take().succeed()
        assert outcomes(tick) == [Outcome.SUCCEEDED]

    def test_attempts_visit_every_partition_before_they_come_back(self) -> None:
        for buckets in range(1, 70):
            for bucket in (0, buckets - 1):
                visited = [work_partition(bucket, attempt, buckets) for attempt in range(1, buckets + 1)]
                assert visited[0] == bucket
                assert sorted(visited) == list(range(buckets))


class TestCancel:
    def test_no_attempt_follows_a_cancel(self, tick: Harness, worker: HarnessWorker) -> None:
        run = worker.claim()
        verdict = tick.client.cancel("t")
        assert (verdict.kind, verdict.detail) == (VerdictKind.TOO_LATE, "no further attempt will be made")
        run.fail()
        tick.advance(timedelta(minutes=5))
        assert outcomes(tick) == [Outcome.DEAD]
        assert tick.work() == ()

    def test_a_waiting_attempt_is_called_off(self, tick: Harness, worker: HarnessWorker) -> None:
        worker.take().fail()
        assert tick.client.cancel("t").kind is VerdictKind.TOO_LATE
        tick.advance(timedelta(minutes=5))
        assert outcomes(tick) == [Outcome.ATTEMPT_FAILED, Outcome.CANCELLED]
        assert tick.phase("t") is Phase.CANCELLED

    def test_what_was_too_late_stays_too_late(self, tick: Harness, worker: HarnessWorker) -> None:
        worker.take().fail()
        tick.client.cancel("t")
        # It was dispatched: `cancelled` would say that it never was.
        assert tick.client.cancel("t").kind is VerdictKind.TOO_LATE

    def test_running_work_is_asked_to_stop_only_on_request(
        self, tick: Harness, worker: HarnessWorker
    ) -> None:
        run = worker.claim()
        tick.client.cancel("t")
        assert tick.signals == []
        tick.client.cancel("t", running=True)
        assert [(s.run_id, s.kind) for s in tick.signals] == [(run.run_id, SignalKind.CANCELLED)]

    def test_a_replacement_calls_a_waiting_attempt_off(self, tick: Harness, worker: HarnessWorker) -> None:
        worker.take().fail()
        tick.client.schedule("t", run_at=tick.now + 60 * SECOND, call=call())
        tick.advance(59 * SECOND)
        assert tick.work() == ()
        assert outcomes(tick) == [Outcome.ATTEMPT_FAILED, Outcome.CANCELLED]
        tick.advance(2 * SECOND)
        assert [w.attempt for w in tick.work()] == [1]

    def test_a_run_of_an_old_definition_is_not_retried(self, tick: Harness, worker: HarnessWorker) -> None:
        old = worker.take()
        tick.client.schedule("t", run_at=tick.now + 60 * SECOND, call=call())
        old.fail()
        assert outcomes(tick) == [Outcome.DEAD]
        assert tick.phase("t") is Phase.SCHEDULED


@pytest.mark.parametrize("word", ["claim", "heartbeat", "succeed", "fail", "release"])
def test_a_word_on_what_has_ended_changes_nothing(tick: Harness, worker: HarnessWorker, word: str) -> None:
    run = worker.take()
    run.succeed()
    getattr(run, word)()
    tick.advance(timedelta(minutes=5))
    assert outcomes(tick) == [Outcome.SUCCEEDED]
    assert tick.work() == ()


@pytest.mark.parametrize("word", ["claim", "heartbeat", "succeed", "fail", "release"])
def test_a_word_of_an_earlier_attempt_changes_nothing(
    tick: Harness, worker: HarnessWorker, word: str
) -> None:
    old = worker.claim()
    tick.advance(11 * SECOND)
    heir = worker.claim()
    getattr(old, word)()
    assert outcomes(tick) == [Outcome.LEASE_EXPIRED]
    heir.succeed()
    assert outcomes(tick) == [Outcome.LEASE_EXPIRED, Outcome.SUCCEEDED]
