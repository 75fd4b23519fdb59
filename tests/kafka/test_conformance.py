"""The simulated log behaves as Kafka does: the same scenarios on both, through the very ports of a lane.

Each scenario returns what it observed. Where the two differ, the simulation is wrong.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kafka.stages import FILLER, RealStage, SimStage, Stage, visible
from tickstream.dispatcher.ports import Input, OutRecord, Side, Transactions
from tickstream.errors import BucketStopped, LaneLost, RetryTransaction
from tickstream.model import NEVER

A, B = Side.A, Side.B
Observed = list[object]


def record(stage: Stage, bucket: int, value: bytes, topic: str = "", key: bytes = b"") -> OutRecord:
    # A key of its own: the topic is compacted eagerly, and a scenario that takes long would miss the former of two.
    return OutRecord(topic or stage.names.timers, bucket, key or value, value, marks=bucket)


def wrote(
    stage: Stage, own: Transactions, side: Side, value: bytes, *buckets: int, key: bytes = b""
) -> dict[int, int]:
    """One committed transaction; where its records lie."""
    own.begin(side)
    own.produce(side, [record(stage, bucket, value, key=key) for bucket in buckets or (0, 1)])
    own.flush(side)
    return dict(own.commit(side))


def opened(stage: Stage, own: Transactions, side: Side, value: bytes, topic: str = "") -> None:
    """A transaction whose record is delivered and which is not ended."""
    own.begin(side)
    own.produce(side, [record(stage, 0, value, topic)])
    own.flush(side)


def ready(stage: Stage) -> Transactions:
    own = stage.transactions()
    own.connect()
    own.init(A)
    own.init(B)
    return own


def outcome(do: Callable[[], object]) -> str:
    """How a call ends: what its caller has to do about it."""
    try:
        do()
    except LaneLost:
        # Whether the broker said that it is fenced, or librdkafka that it is beyond use, asks for the same.
        return LaneLost.__name__
    except (RetryTransaction, BucketStopped) as error:
        return type(error).__name__
    return "done"


def reading(stage: Stage, at_least: int) -> Observed:
    """All of `timers` that a read_committed reader is shown."""
    log = stage.changelog()
    log.open(dict.fromkeys((0, 1), NEVER))
    try:
        return list(visible(stage, log, at_least))
    finally:
        log.close()


# --------------------------------------------------------------------------- scenarios


def committed_records_and_the_offsets_of_markers(stage: Stage) -> Observed:
    own = ready(stage)
    marks = [wrote(stage, own, side, b"%d" % n) for n, side in enumerate((A, A, A))]
    return [marks, reading(stage, 6)]


def an_aborted_record_is_not_seen_and_keeps_its_offset(stage: Stage) -> Observed:
    own = ready(stage)
    opened(stage, own, A, b"aborted")
    own.abort(A)
    return [wrote(stage, own, B, b"committed"), reading(stage, 2)]


def an_init_aborts_what_is_open_and_fences(stage: Stage) -> Observed:
    old = ready(stage)
    opened(stage, old, A, b"old")
    heir = stage.transactions()
    heir.init(A)
    lost = outcome(lambda: old.commit(A))
    heir.init(B)
    return [lost, wrote(stage, heir, A, b"heir"), reading(stage, 2)]


def an_init_on_a_leaves_b_alone(stage: Stage) -> Observed:
    old = ready(stage)
    heir = stage.transactions()
    heir.init(A)
    marks = wrote(stage, old, B, b"old on b")
    heir.init(B)
    lost = outcome(lambda: wrote(stage, old, B, b"too late"))
    return [marks, lost, wrote(stage, heir, A, b"heir"), reading(stage, 4)]


def a_fenced_producer_cannot_begin_anything_that_counts(stage: Stage) -> Observed:
    old = ready(stage)
    heir = ready(stage)
    lost = outcome(lambda: wrote(stage, old, A, b"old"))
    return [lost, wrote(stage, heir, A, b"heir"), reading(stage, 2)]


def an_empty_transaction_commits_even_when_fenced(stage: Stage) -> Observed:
    old = ready(stage)
    ready(stage)

    def empty() -> None:
        old.begin(A)
        old.commit(A)

    return [outcome(empty)]


def nobody_reads_past_an_open_transaction(stage: Stage) -> Observed:
    own = ready(stage)
    opened(stage, own, A, b"open")
    marks = wrote(stage, own, B, b"after it", 0)
    before = reading(stage, 0)
    own.commit(A)
    return [marks, before, reading(stage, 2)]


def a_commit_said_twice_is_refused(stage: Stage) -> Observed:
    own = ready(stage)
    wrote(stage, own, A, b"once")
    return [outcome(lambda: own.commit(A)), reading(stage, 2)]


def the_coordinator_ends_what_is_open_too_long(stage: Stage) -> Observed:
    own = ready(stage)
    opened(stage, own, A, b"abandoned")
    wrote(stage, own, B, b"behind it", 0)
    # Visible only once the first one is ended by somebody.
    seen = reading(stage, 1)
    lost = outcome(lambda: own.commit(A))
    heir = ready(stage)
    return [seen, lost, wrote(stage, heir, A, b"heir"), reading(stage, 3)]


def positions_pass_what_is_not_shown(stage: Stage) -> Observed:
    own = ready(stage)
    commands = stage.names.commands
    stage.say(commands, 0, b"0")
    opened(stage, own, A, b"1", commands)
    own.abort(A)
    inputs = stage.inputs()
    inputs.assign({(source, b): (0, NEVER) for source in Input for b in (0, 1)})
    found: list[tuple[int, bytes | None]] = []
    place = (Input.COMMANDS, 0)

    def passed() -> bool:
        found.extend((r.offset, r.value) for r in inputs.poll(0.2, 100))
        return inputs.positions()[place] >= 3

    stage.until(passed)
    return [found, inputs.positions()[place]]


def the_end_probe_counts_what_nobody_can_read_yet(stage: Stage) -> Observed:
    own = ready(stage)
    commands = stage.names.commands
    stage.say(commands, 0, b"0")
    opened(stage, own, A, b"1", commands)
    ends = stage.ends()
    answers: list[int] = []

    def answered(at_least: int) -> bool:
        answer = ends.answer()
        if answer is None:
            return False
        if answer[Input.COMMANDS, 0] < at_least:
            # The commit is answered before its marker is written.
            ends.ask()
            return False
        answers.append(answer[Input.COMMANDS, 0])
        return True

    ends.ask()
    stage.until(lambda: answered(2))
    own.commit(A)
    ends.ask()
    stage.until(lambda: answered(3))
    return [answers]


def a_position_below_the_log_start_stops_the_bucket(stage: Stage) -> Observed:
    commands = stage.names.commands
    offsets = [stage.say(commands, 0, b"%d" % n) for n in range(4)]
    stage.delete_before(commands, 0, 2)
    at_start = stage.inputs()
    at_start.assign({(Input.COMMANDS, 0): (2, NEVER)})
    found: list[tuple[int, bytes | None]] = []

    def both() -> bool:
        found.extend((r.offset, r.value) for r in at_start.poll(0.2, 100))
        return len(found) >= 2

    stage.until(both)
    below = stage.inputs()
    below.assign({(Input.COMMANDS, 0): (1, NEVER)})
    ends: list[str] = []

    def stopped() -> bool:
        ends.append(outcome(lambda: below.poll(0.2, 100)))
        return ends[-1] != "done"

    stage.until(stopped)
    return [offsets, found, ends[-1]]


def compaction_keeps_the_last_of_a_key_and_every_offset(stage: Stage) -> Observed:
    own = ready(stage)
    marks = [wrote(stage, own, A, b"%d" % n, 0, key=b"one key") for n in range(4)]
    shown: list[tuple[int, int, bytes | None]] = []

    def compacted() -> bool:
        stage.compact()
        log = stage.changelog()
        # From an offset that is gone by then: reading goes on at the next there is.
        log.open({0: 2})
        shown[:] = [entry for entry in visible(stage, log) if entry[2] != FILLER]
        log.close()
        return len(shown) == 1

    stage.until(compacted)
    return [marks, list(shown)]


SCENARIOS = [
    committed_records_and_the_offsets_of_markers,
    an_aborted_record_is_not_seen_and_keeps_its_offset,
    an_init_aborts_what_is_open_and_fences,
    an_init_on_a_leaves_b_alone,
    a_fenced_producer_cannot_begin_anything_that_counts,
    an_empty_transaction_commits_even_when_fenced,
    nobody_reads_past_an_open_transaction,
    a_commit_said_twice_is_refused,
    the_coordinator_ends_what_is_open_too_long,
    positions_pass_what_is_not_shown,
    the_end_probe_counts_what_nobody_can_read_yet,
    a_position_below_the_log_start_stops_the_bucket,
    compaction_keeps_the_last_of_a_key_and_every_offset,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_kafka_and_the_simulated_log_show_the_same(
    broker: str, prefix: str, scenario: Callable[[Stage], Observed]
) -> None:
    assert scenario(SimStage()) == scenario(RealStage(broker, prefix))
