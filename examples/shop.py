"""A shop: an order is charged once, whatever dies in between, and shipped a minute later.

export SHOP_DATABASE='dbname=shop'
python -m examples.shop prepare               # the tables
tickstream worker run examples.shop:app       # in one terminal
python -m examples.shop order 4711 1999       # in another
"""

import os
import sys
from datetime import UTC, datetime, timedelta

import psycopg

from tickstream import App, Client, Context, Never, PostgresIdempotency, Retry

DATABASE = os.environ.get("SHOP_DATABASE", "dbname=shop")

app = App()


class CardRefused(Exception):
    """The bank said no: asking again changes nothing."""


def busy_bank(error: BaseException, attempt: int) -> timedelta | Never | None:
    """A database that restarts is back soon; for everything else the backoff is right."""
    return timedelta(seconds=1) if isinstance(error, psycopg.OperationalError) and attempt < 5 else None


@app.handler(
    lease=timedelta(seconds=10),
    timeout=timedelta(minutes=1),
    retry=Retry(attempts=8, never=(CardRefused,), when=busy_bank),
)
def charge(ctx: Context, order: int, cents: int) -> dict[str, int]:
    """Take the money. The row and the key that says it is there commit together."""
    if cents <= 0:
        raise CardRefused(f"order {order}: {cents} cents")
    with psycopg.connect(DATABASE) as connection, ctx.once(connection) as run:
        if run.first:
            connection.execute("INSERT INTO charges (order_id, cents) VALUES (%s, %s)", (order, cents))
            run.result = {"order": order, "cents": cents}
    # Every attempt that gets here asks for the same task, so there is one.
    ctx.schedule("ship", ship.bind(order, "bike"), delay=timedelta(minutes=1))
    result: dict[str, int] = run.result
    return result


def by_post(arguments: dict[str, object]) -> dict[str, object]:
    """Version 1 knew no carrier. Tasks scheduled then still arrive."""
    return {**arguments, "carrier": "post"}


@app.handler(version=2, upcast={1: by_post})
def ship(ctx: Context, order: int, carrier: str) -> None:
    """Hand the parcel over."""
    with psycopg.connect(DATABASE) as connection, ctx.once(connection) as run:
        if run.first:
            connection.execute("INSERT INTO parcels (order_id, carrier) VALUES (%s, %s)", (order, carrier))
    ctx.log.info("order %d goes by %s", order, carrier)


@app.handler(timeout=timedelta(minutes=10))
def invoices(ctx: Context, first: int, last: int) -> int:
    """A long run in a thread: it looks whether it shall stop, and says how far it is."""
    for done, order in enumerate(range(first, last)):
        if ctx.cancelled or ctx.lost:
            ctx.retry_in(timedelta(seconds=5), f"stopped before order {order}")
        with psycopg.connect(DATABASE) as connection, ctx.once(connection, f"invoice {order}") as run:
            if run.first:
                connection.execute("INSERT INTO invoices (order_id) VALUES (%s)", (order,))
        ctx.progress((done + 1) / (last - first), f"order {order}")
    return last - first


@app.on_failure
def say(ctx: Context, error: BaseException) -> None:
    """Where a real shop would count."""
    ctx.log.warning("attempt failed: %s", error)


def prepare() -> None:
    """The tables: tickstream's own, and the shop's."""
    with psycopg.connect(DATABASE) as connection:
        PostgresIdempotency.prepare(connection)
        connection.execute("CREATE TABLE IF NOT EXISTS charges (order_id int, cents int)")
        connection.execute("CREATE TABLE IF NOT EXISTS parcels (order_id int, carrier text)")
        connection.execute("CREATE TABLE IF NOT EXISTS invoices (order_id int)")


def order(number: int, cents: int) -> None:
    """Have it charged now."""
    with Client() as client:
        call = charge.bind(number, cents)
        print(client.schedule(f"order:{number}", run_at=datetime.now(UTC), call=call).receipt())


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["prepare"]:
            prepare()
        case ["order", number, cents]:
            order(int(number), int(cents))
        case _:
            sys.exit(__doc__)
