"""A pytest plugin for CI: a skipped test is a failed test, since what it needs was installed.

Loaded by `-p tests.no_skips`, never by conftest: on a developer's machine a skip with a reason is fine.
"""

from collections.abc import Generator

import pytest

ALLOWED = ("testcontainers:",)
"""Beginnings of the skip reasons that stand: a container engine is not to be had everywhere."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Covers whole modules: `importorskip` and `skip(allow_module_level=True)`."""
    report = yield
    _fail_if_skipped(report)
    return report


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    # An expected failure is reported as skipped too, and is none.
    if report.outcome != "skipped" or hasattr(report, "wasxfail"):
        return
    reason = _reason(report)
    if not reason.startswith(ALLOWED):
        report.outcome = "failed"
        report.longrepr = f"skipped, and this run forbids skips: {reason}"


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    match report.longrepr:
        case (_, _, str(message)):
            return message.removeprefix("Skipped: ")
        case other:
            return str(other)
