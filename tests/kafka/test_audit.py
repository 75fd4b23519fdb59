"""The audit on a real broker: silent on a clean history, and each planted fault named."""

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.audit_history import Record, Written
from tests.cli import Cli
from tickstream.clock import SystemClock
from tickstream.errors import BrokerUnavailable, CodecError, InvalidInput, LayoutMismatch
from tickstream.kafka import Admin, TopicPartition, plain_producer, state_consumer, transactional_producer
from tickstream.model import NEVER, Options, Outcome, Receipt, Recurrence, RecurrenceKind, Rev, RunState
from tickstream.ops.audit import FAULTS, Report, Span, audit, reader
from tickstream.settings import LaneSettings, Settings
from tickstream.topics import topic_table

LATE_MS = 1_000
ALL = Span()
FINDINGS = (*FAULTS, "redelivered")


class LaterClock(SystemClock):
    """A minute ahead: what is accepted and due now is past every grace."""

    def wall_ms(self) -> int:
        return super().wall_ms() + 60_000


@pytest.fixture
def settings(broker: str, prefix: str) -> Iterator[Settings]:
    """An installation of its own, gone afterwards."""
    settings = Settings(broker, prefix)
    log = Written(prefix, buckets=2)
    admin = Admin(settings)
    table = topic_table(log.names, buckets=log.layout.buckets, lanes=log.layout.lanes)
    created = admin.create(table)
    wait_for_leaders(admin, [(topic.name, p) for topic in table for p in range(topic.partitions)])
    yield settings
    admin.delete_topics(created)


def wait_for_leaders(admin: Admin, partitions: list[tuple[str, int]]) -> None:
    """A new topic is in the metadata a moment before its leaders answer for it."""
    deadline = time.monotonic() + 10
    while True:
        try:
            admin.starts(partitions)
        except BrokerUnavailable:
            assert time.monotonic() < deadline
        else:
            return


@pytest.fixture
def log(settings: Settings) -> Written:
    """What is to be produced; everything in it is due ten seconds ago."""
    return Written(settings.prefix, buckets=2, now=SystemClock().wall_ms() - 10_000)


def produce(settings: Settings, records: list[Record]) -> None:
    producer = plain_producer(settings, "test")
    for record in records:
        producer.produce(
            record.topic, record.value, record.key, partition=record.partition, timestamp=record.at_ms
        )
    assert producer.flush(10) == 0


def produce_in_transaction(settings: Settings, records: list[Record], *, commit: bool) -> None:
    producer = transactional_producer(settings, f"{settings.prefix}test", LaneSettings())
    producer.init_transactions(10)
    producer.begin_transaction()
    for record in records:
        producer.produce(
            record.topic, record.value, record.key, partition=record.partition, timestamp=record.at_ms
        )
    producer.flush(10)
    if commit:
        producer.commit_transaction(10)
    else:
        producer.abort_transaction(10)


def audited(settings: Settings, journal: Path | None = None, span: Span = ALL) -> Report:
    return audit(settings, journal=journal, clock=LaterClock(), session_ms=2_000, late_ms=LATE_MS, span=span)


def written_to(path: Path, *entries: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


def acked(task_id: str, when: int, receipt: Receipt) -> dict[str, object]:
    return {"type": "schedule", "task_id": task_id, "run_at_ms": when, "receipt": str(receipt)}


def test_a_clean_history_is_ok(settings: Settings, log: Written, tmp_path: Path) -> None:
    due = log.now
    done = [log.life(f"task-{n}", due + n, started_after=30 + n) for n in range(50)]
    rev, cancel = log.cancelled_life("cancelled", due)
    log.schedule("replaced", due)
    log.life("replaced", due + 1)
    log.retried_life("stubborn", due - 5_000)
    produce(settings, log.records)
    journal = written_to(
        tmp_path / "journal.jsonl",
        *(acked(f"task-{n}", due + n, receipt) for n, receipt in enumerate(done)),
        acked("cancelled", due, rev),
        {"type": "cancel", "task_id": "cancelled", "receipt": str(cancel), "verdict": "CANCELLED"},
        {"type": "kill", "role": "worker", "at_ms": due, "pid": 1},
    )
    shown: list[tuple[int, int]] = []

    report = audit(
        settings,
        journal=journal,
        clock=LaterClock(),
        progress=lambda passed, total: shown.append((passed, total)),
    )

    assert report.ok
    assert (report.scheduled, report.dispatched, report.cancelled, report.superseded) == (54, 52, 1, 1)
    assert (report.ran, report.redelivered, report.excluded_count) == (52, 0, 0)
    assert (report.retried, report.expired) == (2, 1)
    assert (report.lateness_p50_ms, report.lateness_max_ms) == (53, 79)
    assert sum(report.records.values()) == len(log.records)
    assert shown[-1] == (len(log.records), len(log.records))


def faulty(log: Written) -> str:
    """The task that a fault is planted in."""
    return f"faulty-{log.name}" if log.name else "faulty"


def plant_lost(log: Written) -> None:
    log.schedule(faulty(log), log.now)


def plant_surplus_work(log: Written) -> None:
    log.work(faulty(log), log.now, log.life(faulty(log), log.now))


def plant_surplus_outcome(log: Written) -> None:
    log.history(faulty(log), log.now, log.life(faulty(log), log.now), Outcome.DEAD)


def plant_second_end_after_a_retry(log: Written) -> None:
    due = log.now - 3_000
    log.history(faulty(log), due, log.retried_life(faulty(log), due), Outcome.SUCCEEDED, attempt=2)


def plant_overdue_retry(log: Written) -> None:
    rev = log.life(faulty(log), log.now)
    log.state(faulty(log), rev, runs=[RunState(log.now, 2, Rev(rev.offset, 0), log.now, retry_at_ms=log.now)])


def plant_early_work(log: Written) -> None:
    log.work(faulty(log), log.now, log.schedule(faulty(log), log.now), decided_ms=log.now - 1)


def plant_lost_by_a_rubbed_out_state(log: Written) -> None:
    """Applied, and then neither waiting nor dispatched."""
    rev = log.schedule(faulty(log), log.now)
    log.state(faulty(log), rev)
    log.progress(rev.bucket, commands=rev.offset + 1)


def plant_unasked(log: Written) -> None:
    log.work(faulty(log), log.now, Receipt(log.bucket(faulty(log)), 99, 0))


def plant_skipped_attempt(log: Written) -> None:
    rev = log.schedule(faulty(log), log.now)
    log.work(faulty(log), log.now, rev)
    log.work(faulty(log), log.now, rev, attempt=3)


def plant_late(log: Written) -> None:
    # The broker stamps the command with its own time, ten seconds past `log.now`.
    log.life(faulty(log), log.now, started_after=30_000)


def plant_out_of_order(log: Written) -> None:
    first, second = log.schedule(faulty(log), log.now), log.schedule(faulty(log), log.now)
    log.work(faulty(log), log.now, second)
    log.work(faulty(log), log.now + 1, first)


def plant_missing_outcome(log: Written) -> None:
    rev = log.schedule(faulty(log), log.now)
    log.work(faulty(log), log.now, rev)
    log.report(faulty(log), log.now, log.now + 20)
    log.progress(rev.bucket, commands=rev.offset + 1)


def plant_unreasoned_skip(log: Written) -> None:
    rule = Options(recurrence=Recurrence(RecurrenceKind.EVERY, start_ms=log.now, interval_ms=1_000))
    rev = log.schedule(faulty(log), NEVER, options=rule)
    log.history(faulty(log), log.now, rev, Outcome.SKIPPED, attempt=0)


def plant_off_rule(log: Written) -> None:
    rule = Options(recurrence=Recurrence(RecurrenceKind.EVERY, start_ms=log.now - 60_000, interval_ms=7_000))
    rev = log.schedule(faulty(log), NEVER, options=rule)
    log.work(faulty(log), log.now, rev)


def plant_attempt_after_the_end(log: Written) -> None:
    log.work(faulty(log), log.now, log.life(faulty(log), log.now), attempt=2)


def plant_early_start(log: Written) -> None:
    log.life(faulty(log), log.now, started_after=-1)


def plant_cancelled_yet_ran(log: Written) -> None:
    rev, _ = log.cancelled_life(faulty(log), log.now)
    log.work(faulty(log), log.now, rev)


def plant_redelivered(log: Written) -> None:
    log.life(faulty(log), log.now)
    log.report(faulty(log), log.now, log.now + 700)


@pytest.mark.parametrize(
    ("plant", "finding"),
    [
        (plant_lost, "lost"),
        (plant_surplus_work, "duplicates"),
        (plant_surplus_outcome, "double_outcomes"),
        (plant_second_end_after_a_retry, "double_outcomes"),
        (plant_overdue_retry, "lost"),
        (plant_early_work, "early"),
        (plant_early_start, "early"),
        (plant_cancelled_yet_ran, "cancelled_yet_ran"),
        (plant_lost_by_a_rubbed_out_state, "lost"),
        (plant_unasked, "unasked"),
        (plant_skipped_attempt, "unasked"),
        (plant_late, "late"),
        (plant_out_of_order, "out_of_order"),
        (plant_missing_outcome, "missing_outcomes"),
        (plant_attempt_after_the_end, "after_the_end"),
        (plant_unreasoned_skip, "unreasoned_skips"),
        (plant_off_rule, "off_rule"),
        (plant_redelivered, "redelivered"),
    ],
)
def test_a_planted_fault_is_named(
    settings: Settings, log: Written, plant: Callable[[Written], None], finding: str
) -> None:
    log.life("fine", log.now)
    plant(log)
    produce(settings, log.records)
    report = audited(settings)
    assert {name: getattr(report, name) for name in FINDINGS if getattr(report, name)} == {finding: 1}
    assert [example.task_id for example in report.examples[finding]] == ["faulty"]
    assert report.ok is (finding == "redelivered")
    (example,) = report.examples[finding]
    assert all(is_there(settings, record) for record in example.records if "commands" not in record)


def is_there(settings: Settings, record: str) -> bool:
    """Whether `topic[partition]@offset` names a record that can be read."""
    topic, partition, offset = re.fullmatch(r"(.+)\[(\d+)\]@(\d+)", record).groups()
    consumer = state_consumer(settings, "test")
    consumer.assign([TopicPartition(topic, int(partition), int(offset))])
    message = consumer.poll(10)
    consumer.close()
    return message is not None and message.error() is None and message.offset() == int(offset)


def test_all_faults_at_once_are_told_apart(
    settings: Settings, log: Written, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every fault in one topic set, each in a task of its own, on a background of a thousand clean ones."""
    for n in range(1_000):
        log.life(f"fine-{n}", log.now)
    background = len(log.records)
    plants = {
        plant_lost: "lost",
        plant_surplus_work: "duplicates",
        plant_unasked: "unasked",
        plant_early_work: "early",
        plant_late: "late",
        plant_out_of_order: "out_of_order",
        plant_cancelled_yet_ran: "cancelled_yet_ran",
        plant_surplus_outcome: "double_outcomes",
        plant_missing_outcome: "missing_outcomes",
        plant_attempt_after_the_end: "after_the_end",
        plant_unreasoned_skip: "unreasoned_skips",
        plant_off_rule: "off_rule",
    }
    assert set(plants.values()) == set(FAULTS)
    produce(settings, log.records)
    assert audited(settings).ok
    for plant, finding in plants.items():
        log.name = finding
        plant(log)
    produce(settings, log.records[background:])
    report = audited(settings)
    assert {name: getattr(report, name) for name in FAULTS if getattr(report, name)} == dict.fromkeys(
        plants.values(), 1
    )
    assert {name: report.examples[name][0].task_id for name in plants.values()} == {
        name: f"faulty-{name}" for name in plants.values()
    }
    cli = Cli(capsys, f"--bootstrap={settings.bootstrap}", f"--prefix={settings.prefix}")
    told = cli("audit", "--grace=0", f"--late-ms={LATE_MS}", "--json")
    assert (told.code, told.value["ok"]) == (1, False)
    assert {name: told.value[name] for name in FAULTS} == dict.fromkeys(FAULTS, 1)
    for name in FAULTS:
        (case,) = told.value["examples"][name]
        assert case["task_id"] == f"faulty-{name}"
        assert case["records"]


def test_a_time_range_is_judged_by_what_lies_in_it(settings: Settings, log: Written) -> None:
    """A loss before the range, one in it, one after it: commands are stamped by the broker as they come."""
    clock = SystemClock()
    log.schedule("before", log.now)
    produce(settings, log.records)
    since = pass_a_millisecond(clock)
    done, at = log.life("fine", log.now), len(log.records)
    log.schedule("inside", log.now)
    log.records[1:at] = [r._replace(at_ms=since) for r in log.records[1:at]]
    produce(settings, log.records[1:])
    until = pass_a_millisecond(clock)
    sent = len(log.records)
    log.schedule("after", log.now)
    produce(settings, log.records[sent:])

    def lost(span: Span) -> set[str]:
        report = audit(settings, journal=None, clock=LaterClock(), grace_ms=0, span=span)
        return {example.task_id for example in report.examples.get("lost", ())}

    assert lost(Span()) == {"before", "inside", "after"}
    assert lost(Span(since_ms=since)) == {"inside", "after"}
    assert lost(Span(until_ms=until)) == {"before", "inside"}
    assert lost(Span(since, until)) == {"inside"}
    assert (
        audit(settings, journal=None, clock=LaterClock(), grace_ms=0, span=Span(since, until)).as_of_ms
        == until
    )
    assert done.offset >= 0


def pass_a_millisecond(clock: SystemClock) -> int:
    """An instant after everything that was appended, and before everything that will be."""
    was = clock.wall_ms()
    while (now := clock.wall_ms()) <= was + 1:
        pass
    return now


def test_a_full_scratch_directory_is_told_before_anything_is_read(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--scratch"):
        audit(settings, journal=None, clock=LaterClock(), scratch=tmp_path / "nowhere")


def test_an_acked_command_that_the_log_lost_is_named(
    settings: Settings, log: Written, tmp_path: Path
) -> None:
    due = log.now
    kept = log.life("kept", due)
    produce(settings, log.records)
    beyond = kept._replace(offset=kept.offset + 1)
    journal = written_to(tmp_path / "journal.jsonl", acked("kept", due, kept), acked("faulty", due, beyond))
    report = audited(settings, journal)
    assert (report.ok, report.lost) == (False, 1)
    assert report.examples["lost"][0].task_id == "faulty"


def test_a_cancel_answered_cancelled_is_held_to_its_word(
    settings: Settings, log: Written, tmp_path: Path
) -> None:
    rev = log.schedule("faulty", log.now)
    cancel = log.cancel("faulty")
    log.work("faulty", log.now, rev)
    produce(settings, log.records)
    journal = written_to(
        tmp_path / "journal.jsonl",
        {"type": "cancel", "task_id": "faulty", "receipt": str(cancel), "verdict": "CANCELLED"},
    )
    report = audited(settings, journal)
    assert (report.ok, report.cancelled_yet_ran) == (False, 1)


def test_what_was_aborted_never_happened(settings: Settings, log: Written) -> None:
    """Aborted records and control records, also at the very end of a partition, are passed, not counted."""
    log.life("fine", log.now)
    produce(settings, log.records)
    twin = Written(settings.prefix, buckets=2, now=log.now)
    twin.work("fine", log.now, Receipt(log.bucket("fine"), 0, 0))
    twin.history("fine", log.now, Receipt(log.bucket("fine"), 0, 0), Outcome.DEAD)
    produce_in_transaction(settings, twin.records, commit=False)
    assert audited(settings).ok

    produce_in_transaction(settings, twin.records, commit=True)
    report = audited(settings)
    assert (report.duplicates, report.double_outcomes) == (1, 1)


def test_records_appended_after_the_start_are_left_alone(
    settings: Settings, log: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.life("fine", log.now)
    produce(settings, log.records)
    late = Written(settings.prefix, buckets=2, now=log.now)
    late.work("fine", log.now, Receipt(log.bucket("fine"), 0, 0))
    ends = Admin.ends

    def ends_then_more(admin: Admin, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
        found = ends(admin, partitions)
        produce(settings, late.records)
        return found

    monkeypatch.setattr(Admin, "ends", ends_then_more)
    assert audited(settings).ok


def test_purged_commands_are_not_missed(settings: Settings, log: Written, tmp_path: Path) -> None:
    receipt = log.life("fine", log.now)
    produce(settings, log.records)
    Admin(settings).delete_records({(log.names.commands, receipt.bucket): receipt.offset + 1})
    journal = written_to(tmp_path / "journal.jsonl", acked("fine", log.now, receipt))
    report = audited(settings, journal)
    assert report.ok
    assert report.scheduled == 0


def test_an_open_transaction_is_reported_not_waited_for_for_ever(
    settings: Settings, log: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "STALL_S", 0.5)
    log.work("fine", log.now, Receipt(log.bucket("fine"), 0, 0))
    producer = transactional_producer(settings, f"{settings.prefix}hung", LaneSettings())
    producer.init_transactions(10)
    producer.begin_transaction()
    (record,) = log.records
    producer.produce(record.topic, record.value, record.key, partition=record.partition)
    producer.flush(10)
    with pytest.raises(BrokerUnavailable, match="is a transaction open there"):
        audited(settings)
    producer.abort_transaction(10)


def test_rubbish_from_clients_is_counted_and_from_dispatchers_is_an_error(
    settings: Settings, log: Written
) -> None:
    log.append(log.names.commands, 0, None, b"rubbish")
    log.append(log.names.reports, 0, None, b"rubbish")
    produce(settings, log.records)
    report = audited(settings)
    assert report.ok
    assert report.unreadable == {log.names.commands: 1, log.names.reports: 1}

    produce(settings, [Record(log.names.history, 1, log.now, None, b"rubbish")])
    with pytest.raises(CodecError, match=r"history\[1\]@0"):
        audited(settings)


def test_a_take_over_is_measured_from_the_topics(settings: Settings, log: Written, tmp_path: Path) -> None:
    killed = log.now
    for bucket in range(log.layout.buckets):
        log.progress(bucket, at=killed - 300)
    log.progress(0, at=killed + 700)
    log.claim(1, at=killed + 2_100)
    log.progress(1, at=killed + 2_200)
    produce(settings, log.records)
    journal = written_to(
        tmp_path / "journal.jsonl", {"type": "kill", "role": "dispatcher", "at_ms": killed, "pid": 1}
    )
    assert audited(settings, journal).takeover_max_ms == 2_200


def test_input_that_cannot_be_audited_says_why(broker: str, settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"journal .*no-such-file"):
        audited(settings, tmp_path / "no-such-file")
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"type": "schedule"}\n')
    with pytest.raises(InvalidInput, match="line 1"):
        audited(settings, bad)
    with pytest.raises(LayoutMismatch, match="topics create"):
        audited(Settings(broker, "nothing.here."))
