"""A real client and a real dispatcher: verdicts, re-sends, input that cannot be read, metrics."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.kafka.rig import BODY, Rig
from tickstream import Client, Item, VerdictKind
from tickstream.codec import decode_verdicts, encode_batch, encode_command
from tickstream.model import DEFAULT_OPTIONS, NEVER, Command, Verb, bucket_of
from tickstream.ops.processes import ManagedProcess

WAIT = timedelta(seconds=20)
METRICS_PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


@pytest.fixture(scope="module")
def rig(broker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """One installation for all of this module's tests: none of them disturbs it."""
    with Rig(broker, f"answers{time.time_ns()}.", tmp_path_factory.mktemp("data")) as rig:
        yield rig


@pytest.fixture(scope="module", autouse=True)
def only(rig: Rig) -> ManagedProcess:
    """And its one dispatcher."""
    only = rig.dispatcher("only", options=("--health-port=0",))
    rig.wait_active(only)
    return only


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


def test_commands_sent_again_change_nothing_and_are_answered_alike(rig: Rig) -> None:
    hour = time.time_ns() // 1_000_000 + 3_600_000
    asked = [
        (Verb.SCHEDULE, hour, VerdictKind.SCHEDULED),
        (Verb.PAUSE, NEVER, VerdictKind.PAUSED),
        (Verb.RESUME, NEVER, VerdictKind.RESUMED),
        (Verb.RESCHEDULE, hour + 60_000, VerdictKind.REPLACED),
        (Verb.TRIGGER, NEVER, VerdictKind.TRIGGERED),
        (Verb.CANCEL, NEVER, VerdictKind.CANCELLED),
    ]
    ids = [b"again" + number.to_bytes(11, "big") for number in range(len(asked))]
    commands = [
        Command(id, verb, "again", when, "default", DEFAULT_OPTIONS, BODY)
        for id, (verb, when, _) in zip(ids, asked, strict=True)
    ]
    # Each at once once more, and all of them after the last.
    for command in [c for c in commands for _ in range(2)] + commands:
        value = encode_batch("again", 0, [encode_command(command)])
        rig.send_raw(rig.names.commands, bucket_of("again", rig.buckets), value)
    rig.flush()
    rig.wait_applied()
    answers = [decode_verdicts(v) for *_, v in rig.read(rig.names.verdicts)]
    told = [(v.command_id, v.kind) for a in answers if a.client_id == "again" for v in a.verdicts]
    expected = [(id, kind) for id, (*_, kind) in zip(ids, asked, strict=True)]
    assert told == [e for e in expected for _ in range(2)] + expected
    assert [w.attempt for w in rig.work(at_least=1) if w.task_id == "again"] == [1]


def test_every_documented_metric_is_served(rig: Rig, only: ManagedProcess) -> None:
    port = next(e["port"] for e in only.events if e["event"] == "health")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        served = {s.name for f in text_string_to_metric_families(answer.read().decode()) for s in f.samples}
    documented = set(re.findall(r"\| `(tickstream_dispatcher_\w+)`", METRICS_PAGE.read_text()))
    assert len(documented) > 20
    assert [name for name in documented if not {name, f"{name}_count"} & served] == []
