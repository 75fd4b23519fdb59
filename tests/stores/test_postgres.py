"""`ctx.once` in PostgreSQL: effect and key commit together, whoever dies, waits or comes too late."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta

import psycopg
import pytest

from tests.stores.victim import OCCURRENCE, context, kill_at, pay, pay_once
from tests.waiting import eventually
from tickstream.errors import InvalidInput, RunBusy, StoreNotPrepared
from tickstream.worker import Context, Fence, PostgresIdempotency

KILLS = 200
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT INTO tickstream_once%'"

Connection = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def database(postgres: str) -> Iterator[str]:
    with psycopg.connect(postgres, autocommit=True) as connection:
        PostgresIdempotency.prepare(connection)
        PostgresIdempotency.prepare(connection)
        connection.execute("CREATE TABLE payments (task_id text NOT NULL, attempt int NOT NULL)")
        yield postgres
        connection.execute("DROP TABLE payments, tickstream_once")


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    with psycopg.connect(database) as connection:
        yield connection
        connection.rollback()


def rows(database: str, task_id: str) -> list[int]:
    with psycopg.connect(database) as connection:
        found = connection.execute("SELECT attempt FROM payments WHERE task_id = %s ORDER BY 1", (task_id,))
        return [row[0] for row in found]


def insert(connection: Connection, task_id: str, attempt: int = 1) -> None:
    connection.execute("INSERT INTO payments (task_id, attempt) VALUES (%s, %s)", (task_id, attempt))


def test_the_second_attempt_finds_what_the_first_one_did(database: str) -> None:
    for attempt in (1, 2):
        with psycopg.connect(database) as connection, context("mail:1", attempt).once(connection) as run:
            assert run.first is (attempt == 1)
            if run.first:
                insert(connection, "mail:1", attempt)
                run.result = {"id": 7}
            assert run.result == {"id": 7}
    assert rows(database, "mail:1") == [1]


def test_an_effect_that_raises_leaves_neither_row_nor_key(database: str) -> None:
    def fails() -> None:
        with psycopg.connect(database) as connection, context("mail:2", 1).once(connection):
            insert(connection, "mail:2")
            raise KeyError("the handler's own")

    with pytest.raises(KeyError, match="the handler's own"):
        fails()
    assert rows(database, "mail:2") == []
    with psycopg.connect(database) as connection, context("mail:2", 2).once(connection) as run:
        assert run.first


def test_inside_an_open_transaction_the_callers_commit_decides(connection: Connection, database: str) -> None:
    insert(connection, "before")
    with context("mail:3", 1).once(connection) as run:
        assert run.first
    connection.rollback()
    assert rows(database, "before") == []
    with context("mail:3", 2).once(connection) as run:
        assert run.first


def test_a_connection_in_autocommit_has_a_transaction_for_the_block(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        with context("mail:4", 1).once(connection) as run:
            assert run.first
            insert(connection, "mail:4")
            assert rows(database, "mail:4") == []
        assert rows(database, "mail:4") == [1]


def test_several_effects_of_one_run_are_told_apart_by_name(connection: Connection) -> None:
    ctx = context("mail:5", 1)
    firsts = []
    for name in ("", "charge", "ship", "charge"):
        with ctx.once(connection, name) as run:
            firsts.append(run.first)
    assert firsts == [True, True, True, False]


def test_two_attempts_at_a_time_make_one_effect(database: str) -> None:
    """Fifty keys, eight threads on each at the same moment."""
    threads = 8
    barrier = threading.Barrier(threads)

    def attempt(number: int) -> int:
        made = 0
        with psycopg.connect(database) as connection:
            for key in range(50):
                barrier.wait()
                with context(f"race:{key}", number).once(connection) as run:
                    if run.first:
                        insert(connection, f"race:{key}", number)
                        made += 1
                connection.commit()
        return made

    with ThreadPoolExecutor(threads) as pool:
        made = list(pool.map(attempt, range(1, threads + 1)))
    assert sum(made) == 50
    assert [len(rows(database, f"race:{key}")) for key in range(50)] == [1] * 50


class Undone(Exception):
    """Ends a transaction by a rollback."""


@pytest.mark.parametrize("commits", [True, False])
def test_the_second_waits_for_the_first_and_then_knows(database: str, commits: bool) -> None:
    with psycopg.connect(database, autocommit=True) as watching, ThreadPoolExecutor(1) as pool:
        with suppress(Undone), psycopg.connect(database) as first, context("mail:6", 1).once(first) as run:
            assert run.first
            insert(first, "mail:6", 1)
            second = pool.submit(pay_once, database, "mail:6", 2, lambda _point: None)
            assert eventually(lambda: watching.execute(WAITING).fetchone() == (1,))
            if not commits:
                raise Undone
        second.result(10)
    assert rows(database, "mail:6") == [1 if commits else 2]


def test_a_hung_transaction_makes_the_key_busy_and_not_the_attempt_wait_for_ever(database: str) -> None:
    with psycopg.connect(database) as hung, psycopg.connect(database) as late:
        with context("mail:7", 1).once(hung) as run:
            assert run.first
            store = PostgresIdempotency(late, wait=timedelta(milliseconds=100))
            with pytest.raises(RunBusy, match="mail:7@"), context("mail:7", 2).once(store):
                raise AssertionError("the block must not be entered")
        # The connection is as good as before, and its own lock_timeout is untouched.
        assert late.execute("SHOW lock_timeout").fetchone() == ("0",)
        hung.rollback()


def test_the_handlers_own_lock_timeout_stays(connection: Connection) -> None:
    connection.execute("SET lock_timeout = '7s'")
    with context("mail:8", 1).once(connection) as run:
        assert run.first
        assert connection.execute("SHOW lock_timeout").fetchone() == ("7s",)


def test_the_fence_is_on_record(connection: Connection) -> None:
    with context("mail:9", 3).once(connection):
        pass
    found = connection.execute(
        "SELECT work_number, claim_offset, run_id FROM tickstream_once WHERE key LIKE 'mail:9@%'"
    )
    assert found.fetchone() == (*Fence(3, 30), (3).to_bytes(16))


def test_keys_are_forgotten_when_told_to(connection: Connection) -> None:
    with context("mail:10", 1).once(connection):
        pass
    connection.execute("UPDATE tickstream_once SET begun_at = now() - interval '8 days'")
    with context("mail:11", 1).once(connection):
        pass
    assert PostgresIdempotency.prune(connection, timedelta(days=7)) == 1


def test_a_missing_table_is_said_with_what_to_do(postgres: str) -> None:
    with (
        psycopg.connect(postgres) as connection,
        pytest.raises(StoreNotPrepared, match="prepare"),
        context("mail:12", 1).once(connection),
    ):
        raise AssertionError("the block must not be entered")


def test_a_result_that_is_no_json_undoes_the_effect(database: str) -> None:
    def unreadable() -> None:
        with psycopg.connect(database) as connection, context("mail:13", 1).once(connection) as run:
            insert(connection, "mail:13")
            run.result = object()

    with pytest.raises(InvalidInput, match="cannot be written as JSON"):
        unreadable()
    assert rows(database, "mail:13") == []


def test_any_row_factory_will_do(database: str) -> None:
    with psycopg.connect(database, row_factory=psycopg.rows.dict_row) as connection:
        for attempt in (1, 2):
            with context("mail:14", attempt).once(connection) as run:
                assert run.first is (attempt == 1)


def test_a_context_outside_a_worker_will_do(connection: Connection) -> None:
    with Context("mail:15", OCCURRENCE).once(connection) as run:
        assert run.first


@pytest.mark.chaos
def test_killed_between_effect_and_commit_it_is_rolled_back(database: str) -> None:
    kill_at("effect", pay_once, database, "mail:16", 1)
    pay_once(database, "mail:16", 2, lambda _point: None)
    assert rows(database, "mail:16") == [2]


@pytest.mark.chaos
def test_killed_between_effect_and_report_two_hundred_times_there_is_one_row_each(database: str) -> None:
    for n in range(KILLS):
        kill_at("effect" if n % 2 else "commit", pay_once, database, f"kill:{n}", 1)
        pay_once(database, f"kill:{n}", 2, lambda _point: None)
    assert [rows(database, f"kill:{n}") for n in range(KILLS)] == [[1], [2]] * (KILLS // 2)


@pytest.mark.chaos
def test_without_the_store_the_same_kill_leaves_two(database: str) -> None:
    kill_at("commit", pay, database, "mail:17", 1)
    pay(database, "mail:17", 2, lambda _point: None)
    assert rows(database, "mail:17") == [1, 2]
