"""Offsets never pass an unacknowledged report, whatever happens in whatever order."""

import random

import pytest

from tickstream.worker.ledger import OffsetLedger


def test_a_position_waits_for_the_oldest() -> None:
    ledger = OffsetLedger()
    for offset in (10, 11, 14):
        ledger.take(3, offset)
    assert ledger.position(3) == 10
    ledger.done(3, 14)
    ledger.done(3, 11)
    assert (ledger.position(3), ledger.to_commit()) == (10, {})
    ledger.done(3, 10)
    assert (ledger.position(3), ledger.to_commit()) == (15, {3: 15})
    ledger.committed({3: 15})
    assert ledger.to_commit() == {}


def test_a_failed_commit_is_due_again() -> None:
    ledger = OffsetLedger()
    ledger.take(0, 5)
    ledger.done(0, 5)
    ledger.committed(ledger.to_commit())
    ledger.commit_failed([0, 9])
    assert ledger.to_commit() == {0: 6}


def test_late_word_on_a_forgotten_partition_changes_nothing() -> None:
    ledger = OffsetLedger()
    ledger.take(0, 5)
    ledger.forget([0])
    ledger.done(0, 5)
    assert (ledger.position(0), ledger.to_commit()) == (None, {})
    ledger.take(0, 4)
    ledger.done(0, 5)
    ledger.take(0, 5)
    ledger.done(0, 4)
    assert ledger.position(0) == 5


def test_a_log_read_anew_starts_the_partition_anew() -> None:
    ledger = OffsetLedger()
    ledger.take(0, 5)
    ledger.take(0, 6)
    ledger.done(0, 6)
    ledger.take(0, 2)
    ledger.done(0, 2)
    assert ledger.to_commit() == {0: 3}


@pytest.mark.parametrize("seed", range(50))
def test_no_position_ever_passes_a_record_that_is_not_done(seed: int) -> None:
    rng = random.Random(seed)
    ledger = OffsetLedger()
    taken: dict[int, list[int]] = {}
    done: set[tuple[int, int]] = set()
    committed: dict[int, int] = {}
    for _ in range(300):
        partition = rng.randrange(3)
        line = taken.setdefault(partition, [])
        match rng.choices(("take", "done", "commit", "fail", "forget"), (8, 8, 3, 1, 0.3))[0]:
            case "take":
                last = line[-1] if line else committed.get(partition, 0) - 1
                offset = last + rng.choice((1, 1, 1, 2, 3))
                line.append(offset)
                done.discard((partition, offset))
                ledger.take(partition, offset)
            case "done" if line:
                offset = rng.choice(line)
                done.add((partition, offset))
                ledger.done(partition, offset)
            case "commit":
                positions = ledger.to_commit()
                ledger.committed(positions)
                committed |= positions
            case "fail":
                ledger.commit_failed([partition])
            case "forget":
                # The partition moves: its next owner starts from the last commit.
                ledger.forget([partition])
                line.clear()
        for p, offsets in taken.items():
            position = ledger.position(p)
            open_offsets = [offset for offset in offsets if (p, offset) not in done]
            if position is not None:
                assert position == min(open_offsets, default=offsets[-1] + 1)


def test_a_claim_moves_the_position_and_the_outcome_that_follows_changes_nothing() -> None:
    ledger = OffsetLedger()
    for offset in (5, 6, 7):
        ledger.take(0, offset)
    ledger.done(0, 5)
    assert ledger.position(0) == 6
    ledger.done(0, 6)
    ledger.done(0, 5)
    assert (ledger.position(0), ledger.to_commit()) == (7, {0: 7})
    # The partition left and returned before the commit: what is claimed is read again, and done at once.
    ledger.forget([0])
    ledger.take(0, 5)
    ledger.done(0, 5)
    ledger.take(0, 6)
    ledger.done(0, 5)
    assert ledger.position(0) == 6
