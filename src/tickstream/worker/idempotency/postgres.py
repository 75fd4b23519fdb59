"""The idempotency store in PostgreSQL: a row that commits, or rolls back, together with the effect.

Only psycopg 3 may enter here, and only when a store is made.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from tickstream.errors import InvalidInput, MissingExtra, RunDisplaced, StoreNotPrepared
from tickstream.worker.idempotency.protocol import Begun, Busy, Done, Fence, Fresh

if TYPE_CHECKING:
    from psycopg import Connection

TABLE: Final = "tickstream_once"
CREATE: Final = f"""CREATE TABLE IF NOT EXISTS {TABLE} (
    key text PRIMARY KEY,
    run_id bytea NOT NULL,
    work_number bigint NOT NULL,
    claim_offset bigint NOT NULL,
    result bytea NOT NULL DEFAULT '',
    begun_at timestamptz NOT NULL DEFAULT now()
)"""
_INSERT: Final = f"""INSERT INTO {TABLE} (key, run_id, work_number, claim_offset) VALUES (%s, %s, %s, %s)
ON CONFLICT (key) DO NOTHING RETURNING true"""
_FIND: Final = f"SELECT result FROM {TABLE} WHERE key = %s"
_COMPLETE: Final = f"UPDATE {TABLE} SET result = %s WHERE key = %s AND run_id = %s"
_PRUNE: Final = f"DELETE FROM {TABLE} WHERE begun_at < now() - %s"
_LIMIT_WAIT: Final = "SELECT current_setting('lock_timeout'), set_config('lock_timeout', %s, true)"
_UNLIMIT_WAIT: Final = "SELECT set_config('lock_timeout', %s, true)"
DEFAULT_WAIT: Final = timedelta(seconds=10)


class PostgresIdempotency:
    """Keys in the table `tickstream_once`, written in the transaction of the effect itself.

    The row and the effect commit together or not at all: there is no crash between them. Two runs
    with one key meet at the table's primary key: the second insert waits until the first transaction
    ends, and then finds its row, or, after a rollback, makes its own.
    """

    def __init__(self, connection: Connection[Any], wait: timedelta = DEFAULT_WAIT) -> None:
        """`wait`: how long to wait for another run's transaction before calling it Busy.

        A worker that hangs inside its transaction would otherwise hold up every later attempt.
        Raises MissingExtra without psycopg.
        """
        try:
            from psycopg import errors
        except ImportError as error:
            raise MissingExtra("PostgresIdempotency", "postgres") from error
        if wait < timedelta(milliseconds=1):
            raise InvalidInput(
                f"wait={wait}: at least a millisecond (zero would mean for ever to PostgreSQL)"
            )
        self._connection = connection
        self._wait = f"{wait // timedelta(milliseconds=1)}ms"
        self._errors = errors

    @staticmethod
    def prepare(connection: Connection[Any]) -> None:
        """Create the table if it is not there. Commits, unless a transaction is open."""
        with connection.transaction():
            # Two sessions that create one table at a time can fail on each other, IF NOT EXISTS or not.
            connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (TABLE,))
            connection.execute(CREATE)

    @staticmethod
    def prune(connection: Connection[Any], older_than: timedelta) -> int:
        """Forget keys of before `older_than` ago; return how many. Commits, unless a transaction is open.

        A key may go once no attempt of its occurrence can come any more; a week is ample.
        """
        with connection.transaction():
            return connection.execute(_PRUNE, (older_than,)).rowcount

    def scope(self) -> AbstractContextManager[object]:
        """A transaction; inside one that is open, a savepoint: then the caller's commit decides."""
        return self._connection.transaction()

    def begin(self, key: str, run_id: bytes, fence: Fence) -> Begun:
        """As IdempotencyStore; Busy when the other transaction does not end within `wait`.

        After Busy the transaction is only good for a rollback, which leaving the scope by an error is.
        Raises StoreNotPrepared.
        """
        try:
            previous = self._one(_LIMIT_WAIT, (self._wait,))
            inserted = self._one(_INSERT, (key, run_id, *fence))
        except self._errors.LockNotAvailable:
            return Busy(b"")
        except self._errors.UndefinedTable as error:
            raise StoreNotPrepared(TABLE) from error
        assert previous is not None
        self._one(_UNLIMIT_WAIT, (previous[0],))
        if inserted is not None:
            return Fresh()
        row = self._one(_FIND, (key,))
        if row is None:
            # Pruned between the two statements.
            return Busy(b"")
        return Done(row[0])

    def complete(self, key: str, run_id: bytes, result: bytes) -> None:
        """As IdempotencyStore; the row is there, only a result remains to be put into it."""
        if result and self._connection.execute(_COMPLETE, (result, key, run_id)).rowcount != 1:
            raise RunDisplaced(key)

    def abandon(self, key: str, run_id: bytes) -> None:
        """As IdempotencyStore: the rollback of the scope takes the row along."""

    def _one(self, statement: str, values: tuple[object, ...]) -> tuple[Any, ...] | None:
        from psycopg.rows import tuple_row

        # The connection's own row factory may make anything of a row.
        with self._connection.cursor(row_factory=tuple_row) as cursor:
            return cursor.execute(statement, values).fetchone()
