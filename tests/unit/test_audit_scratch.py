"""The audit's sort on disk: all rows come back, by key and in order, whatever fits in memory."""

import random
import tracemalloc
from pathlib import Path

import pytest

from tickstream.errors import InvalidInput
from tickstream.model import NEVER, Outcome, Receipt, Rev, Verb, VerdictKind
from tickstream.ops.audit.facts import (
    Acked,
    Advanced,
    Asked,
    Claimed,
    Dispatched,
    Ended,
    Fact,
    Misplaced,
    Ran,
    Retry,
    Rule,
    SetAside,
    Stood,
    pack,
    pack_mark,
    unpack,
    unpack_mark,
)
from tickstream.ops.audit.scratch import Scratch

RULE = Rule("CRON", "* * * * *", "Asia/Kolkata", "", 5, NEVER, 0, (), ("2026-03-01",))
FACTS: list[Fact] = [
    Acked("täsk", 5, Receipt(1, 2, 3), VerdictKind.CANCELLED),
    Acked("task", NEVER, Receipt(1, 2, 3), None),
    Asked(Rev(7, 1), Verb.SCHEDULE, 5, 6, "default", bytes(16), True, False, NEVER, False, 250, True, None),
    Asked(Rev(7, 1), Verb.SCHEDULE, 5, 6, "default", bytes(16), True, False, NEVER, True, 0, False, RULE),
    Misplaced(Rev(7, 1), 3),
    SetAside(bytes(16), 1, 2),
    Dispatched(Rev(7, 1), 5, 2, 6, 9, "t.work.default", 1, 3, 5),
    Ran(5, 2, bytes(16), 7, True, 3),
    Ended(Rev(7, 1), 5, 2, Outcome.ATTEMPT_FAILED, 4, "", NEVER, 3),
    Stood(5, 6, "paused", (Retry(5, 2, 9), Retry(6, 1, 9)), ((bytes(16), VerdictKind.REJECTED),), 8),
]


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: type(fact).__name__)
def test_a_fact_is_what_it_was_after_its_bytes(fact: Fact) -> None:
    again = unpack(pack(fact))
    assert again == fact
    assert type(again) is type(fact)
    assert [type(value) for value in again] == [type(value) for value in fact]


@pytest.mark.parametrize("mark", [Claimed(5), Advanced(5, Rev(1, 2), Rev(3, 4), 5, 6)])
def test_a_mark_is_what_it_was_after_its_bytes(mark: Advanced | Claimed) -> None:
    assert unpack_mark(pack_mark(mark)) == mark


@pytest.mark.parametrize("run_bytes", [1, 4_000, 10_000_000])
def test_rows_come_back_by_key_in_the_order_in_which_they_were_added(tmp_path: Path, run_bytes: int) -> None:
    chance = random.Random(5)
    keys = [b"", b"\x00", b"\x00\x00", b"\x00\xff", b"a", b"a\x00", b"a\x00b", b"ab", "ä".encode(), b"\xff"]
    rows = [(chance.choice(keys), b"%d\x00" % n) for n in range(2_000)]
    scratch = Scratch(tmp_path, run_bytes)
    for key, value in rows:
        scratch.add(key, value)
    expected = {key: [v for k, v in rows if k == key] for key in keys}
    for _ in range(2):
        found = {key: list(values) for key, values in scratch.groups()}
        assert found == expected
    scratch.close()


def test_what_is_sorted_takes_no_more_memory_for_ten_times_the_rows(tmp_path: Path) -> None:
    def peak(rows: int) -> int:
        chance = random.Random(5)
        tracemalloc.start()
        scratch = Scratch(tmp_path, run_bytes=200_000)
        for n in range(rows):
            scratch.add(b"%d" % chance.getrandbits(40), b"%d" % n)
        assert sum(1 for _, values in scratch.groups() for _ in values) == rows
        scratch.close()
        taken = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return taken

    # Twice the run: sorted rows and, once, the merge of 64 runs in blocks.
    assert peak(100_000) < 1.5 * peak(30_000)


def test_a_directory_without_room_is_the_callers_to_change(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--scratch"):
        Scratch(tmp_path / "nowhere")


def test_rows_that_are_gone_from_the_disk_are_no_clean_audit(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path, run_bytes=1)
    scratch.add(b"a", b"1")
    scratch.add(b"b", b"2")
    scratch._runs.pop().close()
    with pytest.raises(OSError, match="only 1 were read back"):
        list(scratch.groups())
