"""Several processes under one command: when one is started again, and when it is given up."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping

import pytest

from tickstream.clock import SystemClock
from tickstream.dispatcher.supervisor import (
    LONGEST_PAUSE_S,
    QUICK_ENDS,
    QUICK_S,
    ExitCodes,
    Restarts,
    supervise,
)
from tickstream.errors import ProcessKeepsFailing

CODES = ExitCodes(hopeless=2, unavailable=3)
KILLED = -9


class TestRestarts:
    def test_one_that_was_killed_after_a_good_life_is_back_after_a_second(self) -> None:
        restarts = Restarts(0, CODES)
        assert [restarts.after(KILLED, QUICK_S) for _ in range(20)] == [1.0] * 20

    def test_quick_ends_are_spaced_further_and_further_and_then_it_is_given_up(self) -> None:
        restarts = Restarts(4, CODES)
        assert [restarts.after(1, 0.5) for _ in range(QUICK_ENDS - 1)] == [1.0, 2.0, 4.0, 8.0]
        with pytest.raises(ProcessKeepsFailing, match=r"process 4 ended 5 times in a row.*exit code 1"):
            restarts.after(1, 0.5)

    def test_a_good_life_in_between_starts_the_count_anew(self) -> None:
        restarts = Restarts(0, CODES)
        for lived_s in (0.5, 0.5, 0.5, 0.5, QUICK_S, 0.5, 0.5):
            restarts.after(1, lived_s)

    def test_a_broker_that_is_away_is_waited_for_for_ever(self) -> None:
        restarts = Restarts(0, CODES)
        pauses = [restarts.after(CODES.unavailable, 4.0) for _ in range(50)]
        assert pauses[-1] == LONGEST_PAUSE_S

    def test_a_command_called_wrongly_is_not_called_again(self) -> None:
        with pytest.raises(ProcessKeepsFailing, match="ended at once with exit code 2"):
            Restarts(0, CODES).after(CODES.hopeless, 0.2)


def test_one_that_is_given_up_is_an_alarm_and_the_others_go_on() -> None:
    stop = threading.Event()
    events: list[Mapping[str, object]] = []

    def hear(event: Mapping[str, object]) -> None:
        events.append(event)
        if event["event"] == "alarm":
            stop.set()

    def command(index: int) -> list[str]:
        source = "import time; time.sleep(60)" if index == 0 else "raise SystemExit(2)"
        return [sys.executable, "-c", source]

    with pytest.raises(ProcessKeepsFailing):
        supervise(command, 2, events=hear, stop=stop, clock=SystemClock(), codes=CODES)
    assert [e["index"] for e in events if e["event"] in ("process_ended", "alarm")] == [1, 1]


def test_the_command_ends_when_none_is_left() -> None:
    with pytest.raises(ProcessKeepsFailing, match="process 0"):
        supervise(
            lambda _: [sys.executable, "-c", "raise SystemExit(2)"],
            1,
            events=lambda _: None,
            stop=threading.Event(),
            clock=SystemClock(),
            codes=CODES,
        )
