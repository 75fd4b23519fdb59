"""What a dispatcher meets: records that are refused, a clock that is set, stores that are not to be trusted."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from rocksdict import Options, Rdict

from tests.kafka.rig import BODY, Rig
from tickstream import Client, VerdictKind
from tickstream.codec import decode_batch, decode_body
from tickstream.model import DEFAULT_OPTIONS, Command, Verb, bucket_of
from tickstream.ops.processes import Event, ManagedProcess
from tickstream.settings import MAX_PAYLOAD_BYTES, MAX_RECORD_BYTES
from tickstream.timer_store import BucketMeta
from tickstream.timer_store.keys import bucket_prefix
from tickstream.timer_store.values import FORMAT

WAIT = timedelta(seconds=20)
HOUR_MS = 3_600_000
SMALL = 4_000
"""Bytes that a topic is made to take: most records, and not the large one."""


@pytest.fixture
def rig(broker: str, prefix: str, tmp_path: Path) -> Iterator[Rig]:
    with Rig(broker, prefix, tmp_path) as rig:
        yield rig


def _takes(rig: Rig, topic: str, max_bytes: int) -> None:
    entry = ConfigEntry("max.message.bytes", str(max_bytes), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": rig.settings.bootstrap})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(20)


def _schedule_large(rig: Rig, task_id: str, at_ms: int) -> None:
    body = BODY + os.urandom(3 * SMALL)  # does not compress
    rig.send(Command(rig.command_id(), Verb.SCHEDULE, task_id, at_ms, "default", DEFAULT_OPTIONS, body))


def _alarm_about(process: ManagedProcess, task_id: str) -> Event:
    return process.wait_event(lambda e: e["event"] == "alarm" and repr(task_id) in str(e.get("reason")))


def test_a_command_whose_record_is_refused_is_singled_out_of_its_batch(rig: Rig) -> None:
    due = rig.schedule(60, first_in_ms=0, over_ms=500)
    at_ms = min(due.values())
    _schedule_large(rig, "large", at_ms)
    due |= rig.schedule(60, first_in_ms=0, over_ms=500, name="behind")
    _takes(rig, rig.names.timers, SMALL)
    only = rig.dispatcher("only")
    assert "dead-letter" in str(_alarm_about(only, "large")["reason"])
    rig.assert_each_once(due)
    letters = [v for *_, v in rig.read(rig.names.dead_letter)]
    assert [c.task_id for v in letters for c in decode_batch(v).commands] == ["large"]
    assert only.returncode is None


def test_a_task_whose_work_is_refused_is_parked_until_somebody_resumes_it(rig: Rig) -> None:
    only = rig.dispatcher("only")
    rig.wait_active(only)
    _takes(rig, rig.names.work("default"), SMALL)
    due = rig.schedule(60, first_in_ms=2_000, over_ms=500)
    _schedule_large(rig, "large", min(due.values()))
    rig.flush()
    assert "faulted" in str(_alarm_about(only, "large")["reason"])
    rig.assert_each_once(due)
    _takes(rig, rig.names.work("default"), MAX_RECORD_BYTES)
    with Client(rig.settings) as client:
        assert client.resume("large", timeout=WAIT).kind is VerdictKind.RESUMED
    rig.assert_each_once(due | {"large": min(due.values())})


def test_a_wall_clock_that_is_set_fires_nothing_twice_and_nothing_early(rig: Rig, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.kafka.stepped_clock", rig.settings.bootstrap, rig.settings.prefix]
    with ManagedProcess.start([*command, str(tmp_path / "only")], name="only") as only:
        rig.wait_active(only)
        due = rig.schedule(40, first_in_ms=0, over_ms=500)
        rig.work(at_least=len(due))
        only.send(signal.SIGUSR2)
        only.wait_event(lambda e: e["event"] == "clock_stepped" and e["by_ms"] < 0)
        # By the dispatcher's clock these are due in 30 s; after it is put right, at once.
        due |= rig.schedule(40, first_in_ms=0, over_ms=500, name="behind")
        only.send(signal.SIGUSR1)
        only.wait_event(lambda e: e["event"] == "clock_stepped" and e["by_ms"] > 0)
        rig.assert_each_once(due)
        # And these are due once it is ahead, long before their true instants.
        due |= rig.schedule(40, first_in_ms=25_000, over_ms=500, name="ahead")
        only.send(signal.SIGUSR1)
        rig.assert_each_once(due, timeout_s=20)


def test_a_store_that_is_old_or_of_another_format_or_ahead_of_the_log_is_wiped_bucket_by_bucket(
    rig: Rig, tmp_path: Path
) -> None:
    first = rig.dispatcher("only")
    rig.wait_active(first)
    rig.schedule(400, first_in_ms=HOUR_MS, over_ms=HOUR_MS, name="far")
    rig.wait_applied()
    first.stop()
    spoilt = _spoil(tmp_path / "only" / "0" / "store")
    of_spoilt = sum(bucket_of(f"far:{n}", rig.buckets) in spoilt for n in range(400))
    due = rig.schedule(40, first_in_ms=0, over_ms=500)
    again = rig.dispatcher("only")
    rig.wait_active(again)
    restored = sum(e["restored"] for e in again.events if e["event"] == "lane_active")
    assert 2 * of_spoilt <= restored < 2 * 400, "specs and states of three buckets, and not of the fourth"
    rig.assert_each_once(due)


def _spoil(path: Path) -> set[int]:
    """Give three buckets a store that is not to be trusted, each for another reason; which these are."""
    options = Options(raw_mode=True)
    store = Rdict(str(path), options, dict.fromkeys(Rdict.list_cf(str(path)), options))
    metas = store.get_column_family("meta")
    old, foreign, ahead = (BucketMeta.decode(metas[bucket_prefix(bucket)]) for bucket in range(3))
    assert old is not None
    assert foreign is not None
    assert ahead is not None
    values = (
        old._replace(applied_ms=1).encode(),
        bytes([FORMAT + 1]) + foreign.encode()[1:],
        ahead._replace(next_offset=ahead.next_offset + 10_000).encode(),
    )
    for bucket, value in enumerate(values):
        metas[bucket_prefix(bucket)] = value
    store.close()
    return set(range(len(values)))


def test_done_tasks_are_remembered_as_long_as_it_is_told(rig: Rig) -> None:
    rig.wait_active(rig.dispatcher("only", options=("--done-retention-ms=0",)))
    due = rig.schedule(1, first_in_ms=0, over_ms=1)
    (work,) = rig.work(at_least=1)
    rig.report(work)
    rig.flush()
    rig.history(at_least=1)
    with Client(rig.settings) as client:
        # An hour later, by default; until then: too late, with the state.
        assert client.cancel(next(iter(due)), timeout=WAIT).kind is VerdictKind.UNKNOWN


def test_the_largest_payload_reaches_the_worker(rig: Rig) -> None:
    rig.wait_active(rig.dispatcher("only"))
    payload = os.urandom(MAX_PAYLOAD_BYTES)
    with Client(rig.settings) as client:
        verdict = client.schedule(
            "large", run_at=datetime.now(UTC), payload=payload, handler="noop", wait=WAIT
        )
    assert verdict.kind is VerdictKind.SCHEDULED
    (work,) = rig.work(at_least=1)
    assert decode_body(work.body).payload == payload
