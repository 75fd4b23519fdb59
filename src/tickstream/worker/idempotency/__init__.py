"""Side effects that are made once over all attempts, and what remembers them.

No scheduling may enter here: a store only sees keys, runs and fences.
"""

from __future__ import annotations

import sys

from tickstream.errors import InvalidInput
from tickstream.worker.idempotency.memory import MemoryIdempotency
from tickstream.worker.idempotency.postgres import PostgresIdempotency
from tickstream.worker.idempotency.protocol import (
    Begun,
    Busy,
    Done,
    Fence,
    Fresh,
    IdempotencyStore,
    Once,
)
from tickstream.worker.idempotency.redis import RedisIdempotency

__all__ = [
    "Begun",
    "Busy",
    "Done",
    "Fence",
    "Fresh",
    "IdempotencyStore",
    "MemoryIdempotency",
    "Once",
    "PostgresIdempotency",
    "RedisIdempotency",
    "store_for",
]


def store_for(where: object) -> IdempotencyStore:
    """The store that keeps keys in `where`: a psycopg Connection, a redis-py Redis, or a store itself.

    Raises InvalidInput on anything else.
    """
    # A client that nobody imported made no connection: no need to import it to find out.
    psycopg, redis = sys.modules.get("psycopg"), sys.modules.get("redis")
    if psycopg is not None and isinstance(where, psycopg.Connection):
        return PostgresIdempotency(where)
    if redis is not None and isinstance(where, redis.Redis):
        return RedisIdempotency(where)
    if isinstance(where, IdempotencyStore):
        return where
    raise InvalidInput(
        f"once({type(where).__name__}): a psycopg Connection, a redis-py Redis or an IdempotencyStore; "
        "an async handler uses a sync one in a thread"
    )
