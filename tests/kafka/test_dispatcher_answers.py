"""A real client and a real dispatcher: verdicts, re-sends, input that cannot be read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.kafka.rig import BODY, Rig
from tickstream import Client, Item, VerdictKind
from tickstream.codec import decode_verdicts, encode_batch, encode_command
from tickstream.model import DEFAULT_OPTIONS, Command, Verb, bucket_of

WAIT = timedelta(seconds=20)


@pytest.fixture(scope="module")
def rig(broker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """One dispatcher for all of this module's tests: none of them disturbs it."""
    with Rig(broker, f"answers{time.time_ns()}.", tmp_path_factory.mktemp("data")) as rig:
        rig.wait_active(rig.dispatcher("only"))
        yield rig


@pytest.fixture
def client(rig: Rig) -> Iterator[Client]:
    with Client(rig.settings) as client:
        yield client


def _in(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def test_schedule_replace_cancel_and_too_late(client: Client, rig: Rig) -> None:
    def schedule(seconds: float) -> VerdictKind:
        return client.schedule("a", run_at=_in(seconds), payload=b"{}", handler="noop", wait=WAIT).kind

    assert schedule(60) is VerdictKind.SCHEDULED
    assert schedule(70) is VerdictKind.REPLACED
    assert client.cancel("a", timeout=WAIT).kind is VerdictKind.CANCELLED
    assert schedule(0) is VerdictKind.SCHEDULED
    rig.work(at_least=1)
    verdict = client.cancel("a", timeout=WAIT)
    assert (verdict.kind, verdict.phase) == (VerdictKind.TOO_LATE, "dispatched")
    assert client.cancel("nobody", timeout=WAIT).kind is VerdictKind.UNKNOWN


def test_a_cancel_after_a_bulk_schedule_meets_its_task(client: Client) -> None:
    items = [Item(f"bulk:{n}", run_at=_in(3600), payload=b"{}", handler="noop") for n in range(2_000)]
    for _ in client.schedule_many(items):
        pass
    kinds = {client.cancel(f"bulk:{n}", timeout=WAIT).kind for n in range(0, 2_000, 400)}
    assert kinds == {VerdictKind.CANCELLED}


def test_a_command_in_another_bucket_than_its_tasks_is_rejected_with_the_reason(rig: Rig) -> None:
    home = bucket_of("stray", rig.buckets)
    elsewhere = (home + 1) % rig.buckets
    command = Command(
        bytes(16), Verb.SCHEDULE, "stray", time.time_ns() // 1_000_000, "default", DEFAULT_OPTIONS, BODY
    )
    rig.send_raw(rig.names.commands, elsewhere, encode_batch("stray", 0, [encode_command(command)]))
    rig.flush()
    rig.wait_applied()
    answers = [decode_verdicts(v) for *_, v in rig.read(rig.names.verdicts)]
    (verdict,) = [v for a in answers if a.client_id == "stray" for v in a.verdicts]
    assert verdict.kind is VerdictKind.REJECTED
    assert f"its task lives in {home}" in verdict.detail


def test_what_cannot_be_read_lies_whole_in_dead_letter_and_holds_nothing_up(rig: Rig, client: Client) -> None:
    bucket = bucket_of("after", rig.buckets)
    rig.send_raw(rig.names.commands, bucket, b"rubbish")
    rig.flush()
    verdict = client.schedule("after", run_at=_in(60), payload=b"{}", handler="noop", wait=WAIT)
    assert verdict.kind is VerdictKind.SCHEDULED
    letters = [v for *_, v in rig.read(rig.names.dead_letter)]
    assert letters == [b"rubbish"]


def test_a_cancel_inside_an_import_meets_its_task_and_waits_for_little_of_it(
    client: Client, rig: Rig
) -> None:
    items = (Item(f"import:{n}", run_at=_in(3600), payload=b"{}", handler="noop") for n in range(20_000))
    kinds, refused = [], 0
    with Client(rig.settings) as other:
        for result in client.schedule_many(items):
            refused += result.error is not None
            if result.position % 2_500 == 0:
                kinds.append(other.cancel(result.task_id, timeout=WAIT).kind)
    assert refused == 0
    assert kinds == [VerdictKind.CANCELLED] * 8
