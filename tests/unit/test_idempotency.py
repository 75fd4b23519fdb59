"""What every idempotency store does, shown on the one in memory; the real servers are in tests/stores."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tickstream.errors import InvalidInput, MissingExtra, RunBusy, RunDisplaced
from tickstream.worker import (
    Context,
    Fence,
    IdempotencyStore,
    MemoryIdempotency,
    PostgresIdempotency,
    RedisIdempotency,
)
from tickstream.worker.idempotency.protocol import Busy, Done, Fresh

OCCURRENCE = 1_767_225_600_000


def context(attempt: int, fence: Fence | None = None) -> Context:
    return Context(
        "mail:1",
        OCCURRENCE,
        attempt,
        run_id=attempt.to_bytes(16),
        fence=fence or Fence(attempt, 0),
    )


@pytest.fixture
def store() -> MemoryIdempotency:
    return MemoryIdempotency()


def test_the_second_attempt_finds_what_the_first_one_did(store: MemoryIdempotency) -> None:
    with context(1).once(store) as run:
        assert run.first
        run.result = {"id": 7}
    with context(2).once(store) as run:
        assert not run.first
        assert run.result == {"id": 7}


def test_an_effect_that_raises_gives_the_key_back(store: MemoryIdempotency) -> None:
    with pytest.raises(KeyError), context(1).once(store):
        raise KeyError("the handler's own")
    with context(1).once(store) as run:
        assert run.first


def test_a_run_without_a_higher_fence_finds_the_key_busy(store: MemoryIdempotency) -> None:
    with context(1, Fence(5, 9)).once(store):
        for fence in (Fence(5, 9), Fence(5, 8), Fence(4, 99)):
            with pytest.raises(RunBusy, match=f"run {(1).to_bytes(16).hex()}"), context(2, fence).once(store):
                raise AssertionError("the block must not be entered")


def test_a_later_holder_takes_over_and_the_displaced_run_is_told(store: MemoryIdempotency) -> None:
    displaced = context(1, Fence(5, 9)).once(store)
    displaced.__enter__()
    with context(2, Fence(6, 1)).once(store) as run:
        assert run.first
        with pytest.raises(RunDisplaced):
            displaced.__exit__(None, None, None)


def test_a_displaced_run_that_fails_leaves_the_key_to_its_successor(store: MemoryIdempotency) -> None:
    displaced = context(1, Fence(5, 9)).once(store)
    displaced.__enter__()
    with context(2, Fence(6, 1)).once(store):
        displaced.__exit__(KeyError, KeyError(), None)
    with context(3).once(store) as run:
        assert not run.first


def test_the_steps_answer_in_words_that_can_be_matched(store: MemoryIdempotency) -> None:
    one, two, fence = b"1" * 16, b"2" * 16, Fence(0, 0)
    assert store.begin("k", one, fence) == Fresh()
    # A repeat whose answer was lost on the way is no other run.
    assert store.begin("k", one, fence) == Fresh()
    assert store.begin("k", two, fence) == Busy(one)
    store.complete("k", one, b"7")
    assert store.begin("k", two, fence) == store.begin("k", one, fence) == Done(b"7")
    store.abandon("k", one)
    assert store.begin("k", two, fence) == Done(b"7")


def test_two_runs_at_a_time_make_one_effect(store: MemoryIdempotency) -> None:
    barrier = threading.Barrier(8)

    def attempt(number: int) -> bool:
        barrier.wait()
        return store.begin("k", number.to_bytes(16), Fence(0, 0)) == Fresh()

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(8))) == 1


def test_a_claim_that_cannot_be_had_begins_nothing(store: MemoryIdempotency) -> None:
    class Refusing:
        def fence(self) -> Fence:
            raise TimeoutError("no acknowledgement")

    ctx = Context("mail:1", OCCURRENCE, link=Refusing())  # type: ignore[arg-type]
    with pytest.raises(TimeoutError), ctx.once(store):
        raise AssertionError("the block must not be entered")
    assert store.begin(ctx.idempotency_key, b"", Fence(0, 0)) == Fresh()


@pytest.mark.parametrize(("result", "says"), [({1, 2}, "written as JSON"), ("x" * 70_000, "limit is 65536")])
def test_a_result_that_cannot_be_kept_is_said(store: MemoryIdempotency, result: object, says: str) -> None:
    once = context(1).once(store)
    once.__enter__().result = result
    with pytest.raises(InvalidInput, match=says):
        once.__exit__(None, None, None)


def test_a_key_that_cannot_be_given_back_does_not_hide_the_handlers_error(
    store: MemoryIdempotency, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def gone(*_: object) -> None:
        raise ConnectionError("the store is gone")

    monkeypatch.setattr(store, "abandon", gone)
    with pytest.raises(KeyError), context(1).once(store):
        raise KeyError("the handler's own")
    assert "could not be given back" in caplog.text


def test_only_what_can_keep_keys_is_taken(store: MemoryIdempotency) -> None:
    assert isinstance(store, IdempotencyStore)
    with pytest.raises(InvalidInput, match=r"once\(dict\): a psycopg Connection"):
        context(1).once({})


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"pip install 'tickstream\[postgres\]'"):
        PostgresIdempotency(object())  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(MissingExtra, match=r"pip install 'tickstream\[redis\]'"):
        RedisIdempotency.from_url("redis://nowhere")
