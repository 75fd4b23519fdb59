"""The librdkafka settings of the floors: the best that are known, printed beside every figure.

Kept apart from the product's own on purpose: a floor that shares them could not show that they are bad.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tickstream.settings import Settings

PRODUCER: Final[dict[str, Any]] = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 5,
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 1_048_576,
    "message.max.bytes": 1_200_000,
    # A whole batch counts against the topic's max.message.bytes, 512 KiB of `commands`.
    "batch.size": 400_000,
}

TRANSACTIONAL: Final[dict[str, Any]] = {
    "linger.ms": 2,
    # With the default of 100 ms back-to-back transactions stall on CONCURRENT_TRANSACTIONS.
    "retry.backoff.ms": 5,
    "transaction.timeout.ms": 10_000,
    "message.timeout.ms": 8_000,
    "queue.buffering.max.messages": 1_000_000,
}

CONSUMER: Final[dict[str, Any]] = {
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "group.id": "raw",
    "queued.max.messages.kbytes": 65_536,
}


def with_cluster(settings: Settings, configuration: Mapping[str, Any]) -> dict[str, Any]:
    """`configuration` with the cluster's address and its own settings."""
    return {
        "bootstrap.servers": settings.bootstrap,
        # Warnings would be printed by C code into the bench's output.
        "log_level": 0,
        **configuration,
        **settings.kafka,
    }
