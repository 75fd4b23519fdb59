"""Signals: the first asks to stop, the second does not ask."""

import gc
import os
import signal
import sys

import pytest

from tickstream.cli.running import collected_by_the_clock, stop_on_signals
from tickstream.ops.processes import ManagedProcess

STUBBORN = """
import time
from tickstream.cli.running import stop_on_signals
with stop_on_signals() as stop:
    print('{"event": "ready"}', flush=True)
    stop.wait()
    print('{"event": "stopping"}', flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_asks_and_the_second_ends_the_process(number: signal.Signals) -> None:
    with ManagedProcess.start([sys.executable, "-c", STUBBORN]) as process:
        process.wait_event("ready")
        process.send(number)
        process.wait_event("stopping")
        process.send(number)
        assert process.wait(10) == -number


def test_a_command_with_something_to_take_away_unwinds_on_the_second() -> None:
    def ask_twice() -> None:
        with stop_on_signals(unwind=True) as stop:
            os.kill(os.getpid(), signal.SIGTERM)
            assert stop.wait(5)
            os.kill(os.getpid(), signal.SIGTERM)

    former = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        ask_twice()
    assert signal.getsignal(signal.SIGTERM) is former


def test_a_supervised_process_leaves_ctrl_c_to_its_parent() -> None:
    with stop_on_signals(supervised=True) as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert not stop.is_set()


def test_a_folding_process_looks_for_cycles_by_the_clock_alone() -> None:
    with collected_by_the_clock():
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
