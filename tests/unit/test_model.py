"""The words: ids, buckets, lanes, receipts, phases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickstream.errors import InvalidTaskId
from tickstream.model import (
    NEVER,
    Outcome,
    Phase,
    Receipt,
    Rev,
    RunState,
    TaskState,
    bucket_key,
    bucket_of,
    buckets_of_lane,
    check_task_id,
    idempotency_key,
    lane_of,
    murmur2,
)

# --------------------------------------------------------------------------- buckets


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafka_s(data: bytes, expected: int) -> None:
    """The vectors of Kafka's own tests of its default partitioner, as signed 32-bit ints."""
    assert murmur2(data) == expected & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("task_id", "key"),
    [
        ("mail:42", "mail:42"),
        ("{room-7}event-1", "room-7"),
        ("before{room-7}after{other}", "room-7"),
        ("{}event", "{}event"),
        ("{}{room-7}", "{}{room-7}"),
        ("{open", "{open"),
        ("}room{", "}room{"),
        ("{{room}", "{room"),
        ("{größe}x", "größe"),
    ],
)
def test_the_bucket_key_is_what_stands_in_the_first_braces(task_id: str, key: str) -> None:
    assert bucket_key(task_id) == key


@pytest.mark.parametrize(
    ("task_id", "bucket"),
    [("21", 4), ("foobar", 6), ("abc", 3), ("{abc}1", 3), ("{abc}2", 3)],
)
def test_the_bucket_is_the_partition_that_kafka_s_default_partitioner_takes(
    task_id: str, bucket: int
) -> None:
    # toPositive(murmur2(key)) % 8, by hand from the vectors above.
    assert bucket_of(task_id, 8) == bucket


@given(st.text(min_size=1), st.integers(1, 256))
def test_every_task_has_a_bucket(task_id: str, buckets: int) -> None:
    assert 0 <= bucket_of(task_id.encode("utf-8", "replace").decode(), buckets) < buckets


@given(st.integers(1, 64), st.integers(1, 16))
def test_every_bucket_is_in_one_lane(buckets: int, lanes: int) -> None:
    found = [bucket for lane in range(lanes) for bucket in buckets_of_lane(lane, buckets, lanes)]
    assert sorted(found) == list(range(buckets))
    assert all(b in buckets_of_lane(lane_of(b, lanes), buckets, lanes) for b in range(buckets))


# --------------------------------------------------------------------------- ids


@pytest.mark.parametrize("task_id", ["a", "x" * 255, "mail:42", "{room-7}event 1", "größe", "日本", "🙂"])
def test_a_good_id_is_returned_as_it_is(task_id: str) -> None:
    assert check_task_id(task_id) == task_id


@pytest.mark.parametrize(
    "task_id",
    ["", "x" * 256, "ü" * 128, "line\nbreak", "nul\x00", "del\x7f", "c1-control\x85ü", "u\u0308", "\ud800"],
    ids=["empty", "long", "long in UTF-8", "newline", "nul", "del", "c1", "not NFC", "surrogate"],
)
def test_a_bad_id_says_what_is_wrong(task_id: str) -> None:
    with pytest.raises(InvalidTaskId, match="must be 1-255 bytes of NFC UTF-8 without control characters"):
        check_task_id(task_id)


def test_a_long_id_is_not_shown_whole() -> None:
    with pytest.raises(InvalidTaskId) as raised:
        check_task_id("x" * 10_000)
    assert "it has 10000 bytes" in str(raised.value)
    assert len(str(raised.value)) < 250


def test_the_idempotency_key_is_task_and_occurrence() -> None:
    assert idempotency_key("mail:42", 1_796_058_000_000) == "mail:42@1796058000000"


# --------------------------------------------------------------------------- receipts


@given(st.integers(0, 65_534), st.integers(0, 2**63 - 1), st.integers(0, 2**31 - 1))
def test_a_receipt_survives_as_text(bucket: int, offset: int, item: int) -> None:
    receipt = Receipt(bucket, offset, item)
    assert Receipt.parse(str(receipt)) == receipt


def test_a_receipt_reads_bucket_offset_item() -> None:
    assert str(Receipt(3, 1207, 0)) == "3:1207:0"


@pytest.mark.parametrize("text", ["", "3:1207", "3:1207:0:0", "3:-1:0", "a:b:c", "3::0", " 3:1207:0"])
def test_other_text_is_no_receipt(text: str) -> None:
    with pytest.raises(ValueError, match="bucket:offset:item"):
        Receipt.parse(text)


def test_positions_of_commands_are_in_log_order() -> None:
    assert Rev(7, 9) < Rev(8, 0) < Rev(8, 1)


# --------------------------------------------------------------------------- phases

WAITING = TaskState(Rev(1, 0), 100, NEVER, (), None, NEVER, ())
RUN = RunState(100, 1, Rev(1, 0), 101)


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        (WAITING, Phase.SCHEDULED),
        (WAITING._replace(last_occurrence_ts=50, runs=(RUN,)), Phase.SCHEDULED),
        (WAITING._replace(next_occurrence_ts=NEVER, runs=(RUN,)), Phase.DISPATCHED),
        (WAITING._replace(next_occurrence_ts=NEVER, outcome=Outcome.SUCCEEDED), Phase.SUCCEEDED),
        (WAITING._replace(next_occurrence_ts=NEVER, outcome=Outcome.DEAD), Phase.DEAD),
        (WAITING._replace(next_occurrence_ts=NEVER, outcome=Outcome.CANCELLED), Phase.CANCELLED),
    ],
)
def test_waiting_beats_in_flight_beats_ended(state: TaskState, phase: Phase) -> None:
    assert state.phase is phase
