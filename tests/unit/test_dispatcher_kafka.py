"""The thin shell around Kafka, with stand-ins for confluent-kafka: what it does with errors."""

from __future__ import annotations

import random
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from tickstream.dispatcher import process
from tickstream.dispatcher.kafka_log import MAX_INPUT_BYTES, KafkaInputs, KafkaReplies
from tickstream.dispatcher.ownership import LaneStatus, Ownership
from tickstream.dispatcher.ports import Input
from tickstream.errors import BucketStopped, LaneLost, RetryTransaction
from tickstream.kafka import KafkaError, KafkaException, transaction_error, transaction_errors
from tickstream.settings import Settings
from tickstream.testing import ManualClock
from tickstream.topics import TopicNames

NAMES = TopicNames("t.")
NOWHERE = Settings("127.0.0.1:1", "t.")


class Message:
    """A message, or an event, of the input `t.commands`."""

    def __init__(self, partition: int, offset: int, error: KafkaError | None = None, size: int = 1) -> None:
        self._place = ("t.commands", partition, offset)
        self._error = error
        self._size = size

    def error(self) -> KafkaError | None:
        return self._error

    def topic(self) -> str:
        return self._place[0]

    def partition(self) -> int:
        return self._place[1]

    def offset(self) -> int:
        return self._place[2]

    def leader_epoch(self) -> int:
        return 1

    def timestamp(self) -> tuple[int, int]:
        return (2, 5)

    def value(self) -> bytes:
        return bytes(self._size)


class Fetched:
    """A consumer that has these messages at hand."""

    def __init__(self, *messages: Message) -> None:
        self._messages = list(messages)

    def poll(self, timeout_s: float) -> Message | None:
        return self._messages.pop(0) if self._messages else None

    def consume(self, many: int, timeout_s: float) -> list[Message]:
        taken, self._messages = self._messages[:many], self._messages[many:]
        return taken


def _inputs(consumer: Any) -> KafkaInputs:
    inputs = KafkaInputs(NOWHERE, NAMES, 0)
    inputs.close()
    inputs._consumer = consumer
    return inputs


def test_a_position_outside_its_log_does_not_take_its_neighbours_records_along() -> None:
    gone = Message(2, 0, KafkaError(KafkaError._AUTO_OFFSET_RESET))
    inputs = _inputs(Fetched(Message(0, 7), gone, Message(0, 8)))
    assert [r.offset for r in inputs.poll(0, 10)] == [7, 8]
    with pytest.raises(BucketStopped) as stopped:
        inputs.poll(0, 10)
    assert stopped.value.bucket == 2
    assert list(inputs.poll(0, 10)) == []


def test_a_poll_is_bounded_in_bytes_whatever_was_prefetched() -> None:
    large = MAX_INPUT_BYTES // 16
    inputs = _inputs(Fetched(Message(0, 0), *(Message(0, n, size=large) for n in range(1, 400))))
    taken = list(inputs.poll(0, 5_000))
    assert sum(len(r.value or b"") for r in taken) <= 2 * MAX_INPUT_BYTES
    rest = [r for _ in range(99) for r in inputs.poll(0, 5_000)]
    assert [r.offset for r in taken + rest] == list(range(400))
    assert taken[0].source is Input.COMMANDS


@pytest.mark.parametrize("partition", [-1, 4, 2**40])
def test_a_reply_partition_that_does_not_exist_is_nobody(partition: int) -> None:
    events: list[Mapping[str, object]] = []
    KafkaReplies(NOWHERE, NAMES, events.append).send("client", partition, b"x")
    assert events == []


@pytest.mark.parametrize("cause", [KafkaException(KafkaError(KafkaError._FENCED)), None])
def test_a_system_error_out_of_the_c_code_loses_the_lane(cause: Exception | None) -> None:
    with pytest.raises(LaneLost), transaction_errors():
        raise SystemError("flush returned NULL without setting an exception") from cause


def test_what_cannot_be_known_loses_the_lane_and_what_can_be_aborted_is_retried() -> None:
    assert isinstance(transaction_error(KafkaError(KafkaError._TIMED_OUT)), LaneLost)
    abortable = KafkaError(KafkaError._TIMED_OUT, "x", False, False, True)
    assert isinstance(transaction_error(abortable), RetryTransaction)


class TestMembership:
    """What a refused commit says about the membership."""

    @staticmethod
    def _after_refusal(code: int) -> dict[int, LaneStatus]:
        def commit(**_: object) -> None:
            raise KafkaException(KafkaError(code))

        shell = process._Process.__new__(process._Process)
        shell._names = NAMES
        shell._layout = SimpleNamespace(generation=0)  # type: ignore[assignment]
        shell._group = SimpleNamespace(commit=commit)  # type: ignore[assignment]
        shell.events = lambda _: None
        shell.clock = ManualClock()
        shell._standby = None
        shell._threads = SimpleNamespace(stop=lambda _: None)  # type: ignore[assignment]
        shell._standby = None
        shell._owner = Ownership(random.Random(1))
        shell._owner.assigned([0], 0.0)
        shell._owner.active(0, 0.1)
        shell._carry_out(shell._owner.failed(0, 1.0))
        return shell._owner.lanes()

    @pytest.mark.parametrize(
        "code",
        [
            KafkaError.REBALANCE_IN_PROGRESS,
            KafkaError.ILLEGAL_GENERATION,
            KafkaError._TRANSPORT,
            KafkaError._WAIT_COORD,
            KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        ],
    )
    def test_a_passing_one_says_nothing_and_the_lane_is_claimed_again(self, code: int) -> None:
        assert self._after_refusal(code) == {0: LaneStatus.WAITING}

    def test_an_eviction_gives_the_lane_up(self) -> None:
        assert self._after_refusal(KafkaError.UNKNOWN_MEMBER_ID) == {}
