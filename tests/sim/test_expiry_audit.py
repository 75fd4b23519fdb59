"""When the auditor takes an expired lease for one that was silent: a claim accepted as the expiry was decided."""

from __future__ import annotations

import pytest

from tests.sim.auditor import _expiries
from tests.sim.evidence import End, Evidence, Mark, Out, Said
from tickstream.model import (
    History,
    InputPosition,
    Outcome,
    Progress,
    Report,
    ReportKind,
    Rev,
    Work,
)
from tickstream.testing.sim.log import Record
from tickstream.testing.sim.simulation import NAMES
from tickstream.testing.sim.transactions import Txn

LEASE_MS = 700
REV = Rev(0, 0)
EXPIRED_US = 2_000_000


def _record(true_us: int, txn: Txn | None = None) -> Record:
    return Record(0, None, None, true_us // 1_000, true_us, txn=txn)


def _claim(offset: int, true_us: int, run_id: bytes) -> Said:
    report = Report(ReportKind.CLAIMED, "t", 5, 1, run_id, "h", 0, 0, 0, "")
    return Said(offset, report, "w", _record(true_us))


def _evidence(*said: Said, applied: int) -> Evidence:
    """An attempt that expired, decided with the reports below offset `applied`."""
    found, txn = Evidence(NAMES, "default", 1), Txn("d")
    history = History(1, "t", 5, 1, REV, Outcome.LEASE_EXPIRED, 0, "default", "", "w", b"", 0, 0, 0, 0, "")
    found.works = [Out(Work(0, 1, "t", 5, 1, REV, 0, LEASE_MS, 60_000, b""), 0, _record(0))]
    found.ends = [End(0, history, _record(EXPIRED_US, txn))]
    found.reports[0] = list(said)
    reached = InputPosition(b"r" * 16, applied, 0, 1)
    progress = Progress(InputPosition(b"c" * 16, 0, 0, 1), reached, 0, 1, 1, "", 1)
    found.marks[0] = [Mark(progress, _record(EXPIRED_US, txn))]
    return found


@pytest.mark.parametrize(("applied", "wrong"), [(1, 0), (2, 1)])
def test_a_claim_that_was_not_read_yet_does_not_begin_another_lease(applied: int, wrong: int) -> None:
    first, second = _claim(0, 1_000_000, b"1" * 16), _claim(1, EXPIRED_US - 1_000, b"2" * 16)
    assert len(list(_expiries(_evidence(first, second, applied=applied)))) == wrong


def test_a_claim_that_was_not_read_yet_ends_the_silence_of_the_first() -> None:
    first, second = _claim(0, 1_500_000, b"1" * 16), _claim(1, 1_900_000, b"2" * 16)
    (violation,) = _expiries(_evidence(first, second, applied=1))
    assert violation.what.endswith("never silent for longer than 400 ms")
