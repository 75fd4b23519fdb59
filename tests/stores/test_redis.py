"""`ctx.once` in Redis: what it keeps apart, and, as plainly, what it cannot."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import redis

from tests.stores.victim import context
from tests.waiting import eventually
from tickstream.errors import InvalidInput, RunBusy, RunDisplaced
from tickstream.worker import RedisIdempotency


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client
        client.flushdb()


@pytest.mark.parametrize("decoded", [False, True])
def test_the_second_attempt_finds_what_the_first_one_did(
    redis_url: str, client: redis.Redis, decoded: bool
) -> None:
    with redis.Redis.from_url(redis_url, decode_responses=decoded) as own:
        with context("mail:1", 1).once(own) as run:
            assert run.first
            run.result = {"für": [1, None]}
        with context("mail:1", 2).once(own) as run:
            assert not run.first
            assert run.result == {"für": [1, None]}


def test_two_attempts_at_a_time_make_one_effect(redis_url: str, client: redis.Redis) -> None:
    """Fifty keys, eight runs of one and the same attempt on each at the same moment."""
    threads, keys = 8, 50
    barrier = threading.Barrier(threads)
    store = RedisIdempotency(client)

    def attempt(number: int) -> list[int]:
        made = []
        for key in range(keys):
            ctx = context(f"race:{key}", 1)
            ctx.run_id = number.to_bytes(16)
            barrier.wait()
            try:
                with ctx.once(store) as run:
                    if run.first:
                        made.append(key)
            except RunBusy:
                continue
        return made

    with ThreadPoolExecutor(threads) as pool:
        made = sorted(key for keys_made in pool.map(attempt, range(1, threads + 1)) for key in keys_made)
    assert made == list(range(keys))


def test_a_key_is_forgotten_when_its_time_is_over(client: redis.Redis) -> None:
    store = RedisIdempotency(client, kept_for=timedelta(milliseconds=50))
    with context("mail:2", 1).once(store) as run:
        assert run.first
    assert eventually(lambda: client.dbsize() == 0)


def test_a_mark_that_expired_under_its_run_is_told_to_it(client: redis.Redis) -> None:
    store = RedisIdempotency(client, busy_for=timedelta(milliseconds=50))
    once = context("mail:3", 1).once(store)
    assert once.__enter__().first
    assert eventually(lambda: client.dbsize() == 0)
    with pytest.raises(RunDisplaced, match="made twice"):
        once.__exit__(None, None, None)


def test_a_url_will_do(redis_url: str, client: redis.Redis) -> None:
    with context("mail:4", 1).once(RedisIdempotency.from_url(redis_url)) as run:
        assert run.first
    with pytest.raises(InvalidInput, match="millisecond"):
        RedisIdempotency(client, kept_for=timedelta(0))


def test_best_effort_means_that_a_death_in_between_makes_the_effect_again(client: redis.Redis) -> None:
    """The effect lies elsewhere; nobody can know whether the dead run made it."""
    effects = []
    context("mail:5", 1).once(client).__enter__()
    effects.append(1)
    with context("mail:5", 2).once(client) as run:
        assert run.first
        effects.append(2)
    assert effects == [1, 2]
