"""The shop of the examples on a real PostgreSQL: it does what it says."""

from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

from examples import shop
from tests.stores.victim import OCCURRENCE
from tickstream import Context, Fence, RetryIn
from tickstream.model import NEVER, NO_RETRY


@pytest.fixture
def connection(postgres: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[psycopg.Connection]:
    monkeypatch.setattr(shop, "DATABASE", postgres)
    shop.prepare()
    with psycopg.connect(postgres, autocommit=True) as connection:
        yield connection
        connection.execute("DROP TABLE charges, parcels, invoices, tickstream_once")


def attempt(number: int, task_id: str = "order:4711", **headers: str) -> Context:
    return Context(task_id, OCCURRENCE, number, fence=Fence(number, 0), headers=headers)


def test_an_order_is_charged_once_and_followed_by_one_parcel(connection: psycopg.Connection) -> None:
    runs = [attempt(number) for number in (1, 2, 3)]
    results = [shop.charge.call(ctx, shop.charge.bind(4711, 1999).payload) for ctx in runs]
    assert results == [{"order": 4711, "cents": 1999}] * 3
    assert connection.execute("SELECT * FROM charges").fetchall() == [(4711, 1999)]
    (parcel,) = {(made.task_id, made.run_at_ts) for ctx in runs for made in ctx.follow_ups}
    assert parcel == (f"order:4711@{OCCURRENCE}/ship", OCCURRENCE + 60_000)


def test_parcels_of_both_versions_are_shipped(connection: psycopg.Connection) -> None:
    shop.ship.call(attempt(1, "a"), b'{"order":1}')
    shop.ship.call(attempt(1, "b", v="2"), shop.ship.bind(2, "bike").payload)
    found = connection.execute("SELECT * FROM parcels ORDER BY 1").fetchall()
    assert found == [(1, "post"), (2, "bike")]


def test_a_long_run_goes_on_where_it_was_stopped(connection: psycopg.Connection) -> None:
    stopped = attempt(1)
    stopped.cancelled = True
    with pytest.raises(RetryIn, match="stopped before order 10"):
        shop.invoices(stopped, 10, 14)
    assert shop.invoices(attempt(2), 10, 12) == 2
    assert shop.invoices(attempt(3), 10, 14) == 4
    found = connection.execute("SELECT order_id FROM invoices ORDER BY 1").fetchall()
    assert found == [(10,), (11,), (12,), (13,)]


def test_its_policy_says_what_is_tried_again() -> None:
    with pytest.raises(shop.CardRefused) as refused:
        shop.charge(attempt(1), 1, 0)
    assert shop.charge.retry_ms(refused.value, 1) == NO_RETRY
    assert shop.charge.retry_ms(psycopg.OperationalError(), 2) == timedelta(seconds=1) // timedelta(
        milliseconds=1
    )
    assert shop.charge.retry_ms(psycopg.OperationalError(), 5) == NEVER
