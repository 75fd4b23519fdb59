"""Reading answers: what is ours is kept, the rest passes, and a lost place is found again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue

from tickstream.codec import encode_verdicts
from tickstream.errors import BrokerUnavailable
from tickstream.ingest.verdicts import VerdictTail
from tickstream.kafka import KafkaError, is_out_of_range
from tickstream.model import NEVER, Receipt, Verdict, VerdictKind

MINE, OTHER = b"m" * 16, b"o" * 16
DEADLINE_S = 5.0


class Record:
    """The part of a Message that the tail looks at."""

    def __init__(self, value: bytes | None = None, error: KafkaError | None = None) -> None:
        self._value, self._error = value, error

    def value(self) -> bytes | None:
        return self._value

    def error(self) -> KafkaError | None:
        return self._error

    def offset(self) -> int:
        return 0


class Source:
    """A partition whose records the test writes."""

    def __init__(self) -> None:
        self.records: SimpleQueue[Record] = SimpleQueue()
        self.closed = False
        self.broken: list[BrokerUnavailable] = []
        self.sent_to_end = 0

    def poll(self, timeout: float, /) -> Record | None:
        try:
            return self.records.get(timeout=timeout)
        except Empty:
            return None

    def to_end(self) -> None:
        if self.broken:
            raise self.broken.pop()
        self.sent_to_end += 1

    def close(self) -> None:
        self.closed = True


@contextmanager
def tail(source: Source) -> Iterator[VerdictTail]:
    reading = VerdictTail(source, 2, "me", is_out_of_range, source.to_end)  # type: ignore[arg-type]
    try:
        yield reading
    finally:
        reading.close()


def verdict(command_id: bytes, kind: VerdictKind = VerdictKind.SCHEDULED) -> Verdict:
    return Verdict(command_id, kind, "mail:1", Receipt(0, 1, 0), "scheduled", NEVER, "", ())


def answer(client_id: str, *verdicts: Verdict) -> Record:
    return Record(encode_verdicts(client_id, verdicts))


def test_only_expected_answers_to_this_client_are_kept() -> None:
    source = Source()
    with tail(source) as reading:
        reading.expect(MINE)
        source.records.put(answer("somebody else", verdict(MINE, VerdictKind.REJECTED)))
        source.records.put(answer("me", verdict(OTHER), verdict(MINE)))
        assert reading.verdict(MINE, DEADLINE_S) == verdict(MINE)
        assert reading.verdict(OTHER, 0) is None
    assert source.closed


def test_the_first_answer_stands() -> None:
    source = Source()
    with tail(source) as reading:
        reading.expect(MINE)
        reading.expect(OTHER)
        source.records.put(answer("me", verdict(MINE)))
        source.records.put(answer("me", verdict(MINE, VerdictKind.REPLACED), verdict(OTHER)))
        assert reading.verdict(OTHER, DEADLINE_S) == verdict(OTHER)
        assert reading.verdict(MINE, 0) == verdict(MINE)
        reading.forget(MINE)
        assert reading.verdict(MINE, 0) is None


def test_an_unreadable_answer_does_not_stop_the_next() -> None:
    source = Source()
    with tail(source) as reading:
        reading.expect(MINE)
        source.records.put(Record(b"rubbish"))
        source.records.put(answer("me", verdict(MINE)))
        assert reading.verdict(MINE, DEADLINE_S) == verdict(MINE)


def test_a_lost_place_is_found_again_even_when_the_broker_is_away_at_first() -> None:
    source = Source()
    source.broken = [BrokerUnavailable("away")]
    with tail(source) as reading:
        reading.expect(MINE)
        source.records.put(Record(error=KafkaError(KafkaError._TRANSPORT)))
        source.records.put(Record(error=KafkaError(KafkaError._AUTO_OFFSET_RESET)))
        source.records.put(Record(b"passes time"))
        source.records.put(Record(b"passes time"))
        source.records.put(answer("me", verdict(MINE)))
        assert reading.verdict(MINE, DEADLINE_S) == verdict(MINE)
    assert source.broken == []
    assert source.sent_to_end == 1
