"""Handlers and the process that runs them.

Never decides when anything is due: it takes what the dispatcher put into `work.<queue>`.
"""

from tickstream.worker.app import App
from tickstream.worker.context import Context
from tickstream.worker.handler import Handler
from tickstream.worker.idempotency import (
    Fence,
    IdempotencyStore,
    MemoryIdempotency,
    PostgresIdempotency,
    RedisIdempotency,
)
from tickstream.worker.loader import load_app

__all__ = [
    "App",
    "Context",
    "Fence",
    "Handler",
    "IdempotencyStore",
    "MemoryIdempotency",
    "PostgresIdempotency",
    "RedisIdempotency",
    "load_app",
]
