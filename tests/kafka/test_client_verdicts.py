"""The client against a real broker and a stand-in for the dispatcher: who answers what, and when."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from tickstream.codec import CommandBatch, decode_batch, encode_verdicts
from tickstream.errors import VerdictTimeout
from tickstream.ingest import Client, Item
from tickstream.kafka import Admin, TopicPartition, plain_producer, state_consumer
from tickstream.model import NEVER, Command, Receipt, Verb, Verdict, VerdictKind
from tickstream.settings import Settings
from tickstream.topics import TopicNames, topic_table

BUCKETS = 8
RUN_AT = datetime(2031, 1, 1, tzinfo=UTC)

Answer = Callable[[int, CommandBatch, Receipt, Command], str | None]
"""(how often this command was seen before, its message, its place, itself) → the client to answer, or None."""


@pytest.fixture
def settings(broker: str, prefix: str) -> Iterator[Settings]:
    settings = Settings(broker, prefix)
    admin = Admin(settings)
    table = topic_table(TopicNames(prefix), buckets=BUCKETS, lanes=4)
    admin.create(table)
    yield settings
    admin.delete_topics([topic.name for topic in table])


class StandIn:
    """Reads `commands` and answers as it is told to."""

    def __init__(self, settings: Settings, answer: Answer) -> None:
        self.seen: list[tuple[Receipt, CommandBatch, Command]] = []
        self._names = TopicNames(settings.prefix)
        self._answer = answer
        self._producer = plain_producer(settings, "stand-in", linger_ms=0)
        self._consumer = state_consumer(settings, "stand-in")
        self._consumer.assign([TopicPartition(self._names.commands, b, 0) for b in range(BUCKETS)])
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            if message is None:
                continue
            assert message.error() is None, message.error()
            batch = decode_batch(message.value())
            for item, command in enumerate(batch.commands):
                place = Receipt(message.partition() or 0, message.offset() or 0, item)
                before = sum(command.command_id == c.command_id for _, _, c in self.seen)
                self.seen.append((place, batch, command))
                client_id = self._answer(before, batch, place, command)
                if client_id is not None:
                    self._send(client_id, batch.reply, self._verdict(place, command))
        self._consumer.close()
        self._producer.flush(5)

    def _send(self, client_id: str, partition: int, verdict: Verdict) -> None:
        value = encode_verdicts(client_id, [verdict])
        self._producer.produce(self._names.verdicts, value, partition=partition)
        self._producer.poll(0)

    @staticmethod
    def _verdict(place: Receipt, command: Command) -> Verdict:
        kind = VerdictKind.SCHEDULED if command.verb is Verb.SCHEDULE else VerdictKind.CANCELLED
        return Verdict(command.command_id, kind, command.task_id, place, "scheduled", NEVER, "", ())

    def __enter__(self) -> "StandIn":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


@contextmanager
def stand_in(settings: Settings, answer: Answer) -> Iterator[StandIn]:
    with StandIn(settings, answer) as it:
        yield it


def at_once(_before: int, batch: CommandBatch, _place: Receipt, _command: Command) -> str | None:
    return batch.client_id if batch.reply >= 0 else None


def test_schedule_and_cancel_return_the_verdict(settings: Settings) -> None:
    with stand_in(settings, at_once) as dispatcher, Client(settings) as client:
        scheduled = client.schedule(
            "mail:1", run_at=RUN_AT, payload=b"hello", handler="mail", wait=timedelta(seconds=10)
        )
        cancelled = client.cancel("mail:1")
    match scheduled, cancelled:
        case (
            Verdict(kind=VerdictKind.SCHEDULED, task_id="mail:1", receipt=first),
            Verdict(kind=VerdictKind.CANCELLED, receipt=second),
        ):
            assert [place for place, _, _ in dispatcher.seen] == [first, second]
        case other:
            pytest.fail(f"unexpected verdicts {other}")
    assert {batch.client_id for _, batch, _ in dispatcher.seen} == {client.client_id}


def test_an_unanswered_command_is_sent_again_as_the_same_command(settings: Settings) -> None:
    def second_time(before: int, batch: CommandBatch, _place: Receipt, _command: Command) -> str | None:
        return batch.client_id if before == 1 else None

    with stand_in(settings, second_time) as dispatcher, Client(settings) as client:
        verdict = client.cancel("mail:2")
    (first_place, _, first), (again_place, _, again) = dispatcher.seen
    assert verdict.receipt == again_place
    assert first.options.not_after == NEVER
    assert again == first._replace(options=first.options._replace(not_after=first_place.offset))


def test_time_out_carries_the_receipt(settings: Settings) -> None:
    with Client(settings) as client, pytest.raises(VerdictTimeout, match="the command is accepted") as raised:
        client.cancel("mail:3", timeout=timedelta(milliseconds=300))
    assert isinstance(raised.value.receipt, Receipt)
    ends = Admin(settings).ends([(TopicNames(settings.prefix).commands, raised.value.receipt.bucket)])
    assert list(ends.values()) == [raised.value.receipt.offset + 1]


def test_answers_to_other_clients_are_theirs(settings: Settings) -> None:
    def to_a_stranger(_before: int, _batch: CommandBatch, _place: Receipt, _command: Command) -> str | None:
        return "a stranger"

    with (
        stand_in(settings, to_a_stranger),
        Client(settings) as client,
        pytest.raises(VerdictTimeout),
    ):
        client.cancel("mail:4", timeout=timedelta(seconds=1))


def test_schedule_many_waits_for_every_verdict(settings: Settings) -> None:
    def every_third_late(before: int, batch: CommandBatch, _place: Receipt, command: Command) -> str | None:
        late = int(command.task_id.removeprefix("mail:")) % 3 == 0
        return batch.client_id if before == (1 if late else 0) else None

    items = [Item(f"mail:{n}", RUN_AT, payload=b"hello") for n in range(1_000)]
    items[7] = items[7]._replace(task_id="")
    with stand_in(settings, every_third_late) as dispatcher, Client(settings) as client:
        results = list(client.schedule_many(items, wait=timedelta(seconds=20)))
    assert [result.position for result in results] == list(range(1_000))
    assert [result.position for result in results if result.error is not None] == [7]
    answered = [result.verdict for result in results if result.verdict is not None]
    assert len(answered) == 999
    assert {verdict.kind for verdict in answered} == {VerdictKind.SCHEDULED}
    again = [c for _, _, c in dispatcher.seen if c.options.not_after != NEVER]
    assert len(again) == 334
    firsts = {c.command_id: place for place, _, c in dispatcher.seen if c.options.not_after == NEVER}
    assert all(firsts[c.command_id].offset == c.options.not_after for c in again)


def test_schedule_many_times_out_item_by_item(settings: Settings) -> None:
    def only_even(_before: int, batch: CommandBatch, _place: Receipt, command: Command) -> str | None:
        return batch.client_id if int(command.task_id) % 2 == 0 else None

    items = [Item(str(n), RUN_AT, payload=b"") for n in range(20)]
    with stand_in(settings, only_even), Client(settings) as client:
        results = list(client.schedule_many(items, wait=timedelta(seconds=1)))
    assert [r.verdict is not None for r in results] == [n % 2 == 0 for n in range(20)]
    timed_out = [r for r in results if r.verdict is None]
    assert all(isinstance(r.error, VerdictTimeout) and r.receipt == r.error.receipt for r in timed_out)
