"""A managed process: its events are waited for, it is ended whole, and it dies with its parent."""

import os
import signal
import sys

import pytest

from tests.waiting import eventually
from tickstream.ops.processes import ManagedProcess, ProcessFailed, children_of, parse_event

TALKER = """
import json, sys, time
for word in sys.argv[1:]:
    print(json.dumps({"event": word}), flush=True)
print("no event", flush=True)
time.sleep(60)
"""
PARENT = """
import os, sys, time
from tickstream.ops.processes import ManagedProcess
child = ManagedProcess.start([sys.executable, "-c", "import time; time.sleep(60)"])
print('{"event": "started", "pid": %d}' % child.pid, flush=True)
time.sleep(60)
"""


def python(source: str, *arguments: str) -> ManagedProcess:
    return ManagedProcess.start([sys.executable, "-c", source, *arguments], name="child")


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_events_are_found_by_name_or_by_content_whether_past_or_to_come() -> None:
    with python(TALKER, "one", "two", "one") as process:
        assert process.wait_event("two", 10) == {"event": "two"}
        assert process.wait_event(lambda e: e["event"] == "one", 10, since=1) == {"event": "one"}
        assert [e["event"] for e in process.events] == ["one", "two", "one"]
        assert eventually(lambda: "no event" in process.output_tail())


def test_waiting_ends_when_the_event_does_not_come() -> None:
    with python(TALKER, "one") as process, pytest.raises(ProcessFailed, match=r"'two' within 0\.2 s"):
        process.wait_event("two", 0.2)


def test_waiting_ends_when_the_process_does_and_shows_what_it_printed() -> None:
    with (
        python("import sys; sys.exit('so it ended')") as process,
        pytest.raises(ProcessFailed, match="exit code 1 before"),
    ):
        process.wait_event("ready", 10)
    assert "so it ended" in process.output_tail()


def test_a_process_that_ignores_sigterm_is_killed_with_its_children() -> None:
    stubborn = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        'print(\'{"event": "ready"}\', flush=True)\n'
        "time.sleep(60)\n"
    )
    process = python(stubborn)
    process.wait_event("ready", 10)
    (child,) = process.child_pids
    assert process.stop(timeout_s=0.2) == -signal.SIGKILL
    assert eventually(lambda: not runs(child))


def test_a_stopped_process_can_be_ended() -> None:
    process = python(TALKER, "ready")
    process.wait_event("ready", 10)
    process.send(signal.SIGSTOP)
    assert process.stop(timeout_s=5) == -signal.SIGTERM


def test_a_process_dies_with_its_parent() -> None:
    parent = python(PARENT)
    pid = parent.wait_event("started", 10)["pid"]
    assert children_of(parent.pid) == (pid,)
    parent.kill()
    assert eventually(lambda: not runs(pid))


@pytest.mark.parametrize("line", ["", "text", "{broken", '["event"]', '{"other": 1}'])
def test_other_output_is_no_event(line: str) -> None:
    assert parse_event(line) is None
