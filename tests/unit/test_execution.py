"""What the log says of a run that failed: with a traceback where that tells something."""

import logging

import pytest

from tickstream.clock import SystemClock
from tickstream.errors import CodecError, UnknownHandler
from tickstream.model import Body, Report, ReportKind, Rev, Work
from tickstream.worker import App, Context
from tickstream.worker.execution import Execution
from tickstream.worker.run import Callee, Refusal, Run, run_ids

app = App()


@app.handler()
def mail(ctx: Context, to: str) -> None:
    """Fails by a fault of its own, or asks for another attempt."""
    raise ValueError(f"no such address {to!r}")


class Nobody:
    """An owner who does not care."""

    def finished(self) -> None: ...

    def acked(self, run: Run, kind: ReportKind) -> None: ...


def failed(callee: Callee, payload: bytes) -> Report:
    reports: list[Report] = []
    work = Work(0, 1, "mail:1", 5, 1, Rev(0, 0), 6, 10_000, 60_000, b"")
    run = Run(Nobody(), 0, 0, work, Body(callee.name, payload, {}, {}), callee, 7)
    Execution(SystemClock(), run_ids(), lambda _run, report: reports.append(report)).run(run)
    (report,) = reports
    assert report.kind is ReportKind.FAILED
    return report


@pytest.mark.parametrize(
    ("callee", "payload", "reason"),
    [
        (mail, b"no json", "PayloadUnreadable: the payload is no JSON"),
        (mail, b"[1]", "PayloadUnreadable: the payload is a JSON list"),
        (Refusal("nobody", UnknownHandler("nobody", ("mail",))), b"", "UnknownHandler: "),
        (Refusal("?", CodecError("3 bytes follow the datum")), b"", "CodecError: 3 bytes follow"),
    ],
)
def test_what_no_line_of_a_handler_is_to_blame_for_is_one_line(
    callee: Callee, payload: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "tickstream.worker"):
        report = failed(callee, payload)
    (record,) = caplog.records
    assert report.error.startswith(reason)
    assert reason in record.getMessage()
    assert "mail:1" in record.getMessage()
    assert record.exc_info is None


def test_a_handler_s_own_failure_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tickstream.worker"):
        failed(mail, b'{"to": "a@b"}')
    (record,) = caplog.records
    assert record.exc_info is not None
    assert "no such address" in record.getMessage()
