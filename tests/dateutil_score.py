"""dateutil's score on the case files: `python -m tests.dateutil_score` prints it as JSON.

A process of its own, since some rules keep dateutil busy until the year 9999 and a signal has to end that.
Cases under another policy than RFC 5545's are counted as well: dateutil knows none. Zones are the pinned ones, so that
neither an older system nor an unknown name counts against it.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

from dateutil.rrule import rruleset, rrulestr

from tests.rules import pinned

CASES: Final = Path(__file__).parent / "cases"
LIMIT_S: Final = 0.5


class TookTooLong(Exception):
    """No answer within LIMIT_S."""


def occurrences(case: dict[str, Any]) -> list[str]:
    """The case's occurrences, with aware datetimes and a rruleset as dateutil's documentation has it."""
    zone = None if case["tz"] is None else pinned(case["tz"])
    found: Any = rruleset()
    start = datetime.fromisoformat(case["dtstart"]).replace(tzinfo=zone)
    if case["rrule"] is None:
        found.rdate(start)
    else:
        found.rrule(rrulestr(case["rrule"], dtstart=start))
    for text in case["rdate"]:
        found.rdate(_date(text, zone))
    for text in case["exdate"]:
        found.exdate(_date(text, zone))
    after = None if case["after_utc"] is None else datetime.fromisoformat(case["after_utc"])
    utc: list[str] = []
    for wall in found:
        instant = wall.replace(tzinfo=UTC) if zone is None else wall.astimezone(UTC)
        if after is None or instant > after:
            utc.append(f"{instant:%Y-%m-%dT%H:%M:%SZ}")
        if len(utc) == case["limit"]:
            break
    return utc


def score() -> dict[str, int]:
    """How many cases dateutil gets right, and how many of the forbidden schedules it refuses."""
    cases = list(_cases("recurrence.jsonl"))
    rejects = list(_cases("rejects.jsonl"))
    return {
        "right": sum(_right(case) for case in cases),
        "cases": len(cases),
        "refused": sum(_refused(case) for case in rejects),
        "rejects": len(rejects),
    }


def _right(case: dict[str, Any]) -> bool:
    return _answer(lambda: occurrences(case)) == case["expect_utc"]


def _refused(case: dict[str, Any]) -> bool:
    answer = _answer(lambda: occurrences(case))
    return isinstance(answer, Exception) and not isinstance(answer, TookTooLong)


def _answer(ask: Callable[[], list[str]]) -> list[str] | Exception:
    try:
        with _limit():
            return ask()
    except (ValueError, TypeError, LookupError, OSError, TookTooLong) as error:
        return error


@contextmanager
def _limit() -> Iterator[None]:
    signal.signal(signal.SIGALRM, _too_long)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _too_long(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise TookTooLong


def _date(text: str, zone: Any) -> datetime:
    date = datetime.fromisoformat(text)
    return date if date.tzinfo is not None else date.replace(tzinfo=zone)


def _cases(name: str) -> Iterator[dict[str, Any]]:
    return map(json.loads, (CASES / name).read_text().splitlines())


if __name__ == "__main__":
    print(json.dumps(score()))
