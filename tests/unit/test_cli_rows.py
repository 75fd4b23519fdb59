"""What a line says of an attempt, and of what a terminal must not be told."""

import pytest

from tickstream.cli.output import Output
from tickstream.cli.rows import attempt_text

FAILED = {
    "occurrence_ts": 1_773_144_035_000,
    "attempt": 1,
    "state": "attempt_failed",
    "worker": "worker-1",
    "started_ms": 1_773_144_035_020,
    "ended_ms": 1_773_144_037_020,
    "error": "ValueError: no",
    "result": "",
}
LOST = {
    "attempt": 2,
    "state": "lease_expired",
    "started_ms": None,
    "ended_ms": None,
    "worker": "",
    "error": "",
}


@pytest.mark.parametrize(
    ("attempt", "says"),
    [
        (
            FAILED,
            "attempt 1  attempt failed  on worker-1  started 20 ms after  ended 2020 ms after  ValueError: no",
        ),
        (FAILED | LOST, "attempt 2  lease expired"),
        (FAILED | LOST | {"state": "succeeded", "result": '{"n":1}'}, 'attempt 2  succeeded  {"n":1}'),
    ],
)
def test_an_attempt_says_where_it_ran_and_how_it_ended(attempt: dict[str, object], says: str) -> None:
    assert attempt_text(attempt) == f"2026-03-10T12:00:35.000Z  {says}"


def test_hostile_text_stays_text_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=False).result({}, "mail:\x1b[2J\r\x9b\u202eü\tx\nnext")
    assert capsys.readouterr().out == "mail:\\x1b[2J\\r\\x9b\\u202eü\tx\nnext\n"
    Output(as_json=False).event({"event": "note", "at_ms": 0, "reason": "\x07"})
    assert capsys.readouterr().out == "00:00:00.000 note reason=\\x07\n"
