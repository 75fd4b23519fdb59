"""librdkafka's error codes, translated once into the recovery they ask for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from tickstream.errors import LaneFenced, LaneLost, RecordRefused, RetryTransaction


@contextlib.contextmanager
def transaction_errors() -> Iterator[None]:
    """Translate what a transactional producer raises into the recovery it asks for.

    RetryTransaction: abort it and decide again. LaneLost: fenced, fatal, or an outcome that
    nobody can know; the lane has to be claimed anew.
    """
    try:
        yield
    except KafkaException as error:
        raise transaction_error(error.args[0]) from error
    except SystemError as error:
        # A fatal error that surfaces while delivery reports are served comes out of confluent-kafka's
        # C code as a SystemError around it, or with no trace of it at all.
        raise LaneLost(
            f"the producer failed while serving delivery reports: {error.__cause__ or error}"
        ) from error


_FOR_ITS_CONTENT: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.POLICY_VIOLATION,
    }
)
"""What a broker, or the client before it, says of a record that it will never take."""


_FENCED: Final = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
)
"""A younger producer has the transactional id."""


def undelivered(error: KafkaError) -> RetryTransaction:
    """The recovery asked for by a record that was not delivered."""
    reason = f"not every record was delivered: {error.str()}"
    return RecordRefused(reason) if error.code() in _FOR_ITS_CONTENT else RetryTransaction(reason)


def transaction_error(error: KafkaError) -> LaneLost | RetryTransaction:
    """The recovery that `error` asks of a lane."""
    if error.code() in _FOR_ITS_CONTENT and not error.fatal():
        return undelivered(error)  # refused by the client before it was sent
    if error.txn_requires_abort() and not error.fatal():
        return RetryTransaction(str(error))
    lost = LaneFenced if error.code() in _FENCED else LaneLost
    return lost(f"{error.name()}: {error.str()}")


def is_evicted(error: KafkaError) -> bool:
    """Whether the group has thrown this member out. Any other refusal of a commit is no word about that."""
    return error.code() in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_INSTANCE_ID)


def is_out_of_range(error: KafkaError) -> bool:
    """Whether a consumer's position lies outside the log (`auto.offset.reset=error`)."""
    return error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
