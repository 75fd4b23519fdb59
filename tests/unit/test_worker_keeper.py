"""What the keeper of leases makes of runs, its thread left out."""

from __future__ import annotations

from collections.abc import Mapping

from tickstream.ingest.client import Client
from tickstream.model import Body, Report, ReportKind, Rev, Work
from tickstream.testing import ManualClock
from tickstream.worker.events import Events
from tickstream.worker.execution import Execution
from tickstream.worker.keeper import LeaseKeeper
from tickstream.worker.run import Refusal, Run


class Nobody:
    """Owns the run; of no interest here."""

    def finished(self) -> None: ...

    def acked(self, run: Run, kind: ReportKind) -> None: ...


class Desk:
    """A keeper, and what it sent."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.sent: list[ReportKind] = []
        self.keeper = LeaseKeeper(self.clock, Events(self._event, self.clock), self._put, self._client)
        self.execution = Execution(self.clock, lambda: b"r" * 16, self._put, self.keeper)

    def run(self) -> Run:
        work = Work(0, 1, "t", 0, 1, Rev(0, 0), 0, 10_000, 60_000, b"")
        return Run(Nobody(), 0, 0, work, Body("", b"", {}, {}), Refusal("h", ValueError()), 0)  # type: ignore[arg-type]

    def _put(self, run: Run, report: Report) -> None:
        self.sent.append(report.kind)

    def _event(self, event: Mapping[str, object]) -> None: ...

    def _client(self) -> Client:
        raise AssertionError("nobody asks for a client")


def test_a_run_that_lasts_is_claimed_once() -> None:
    desk = Desk()
    run = desk.run()
    desk.execution.start(run)
    desk.keeper.look(desk.clock.monotonic())
    assert desk.sent == []
    desk.clock.advance(60)
    desk.keeper.look(desk.clock.monotonic())
    desk.keeper.claim(run)
    assert desk.sent == [ReportKind.CLAIMED]


def test_what_was_handed_back_is_not_claimed() -> None:
    # On a revoke the reader claims what is not covered; a Released that is not acknowledged is among it.
    desk = Desk()
    run = desk.run()
    run.begin()
    run.run_id = b"b" * 16
    desk.keeper.claim(run)
    assert desk.sent == []
