"""Several dispatcher processes under one command: started, watched, restarted, ended together."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import Final

from tickstream.clock import Clock
from tickstream.dispatcher.lane import Events

_RESTART_S: Final = 1.0
_STOP_S: Final = 15.0
_WATCH_S: Final = 0.1


def supervise(
    command: Callable[[int], Sequence[str]],
    processes: int,
    *,
    events: Events,
    stop: threading.Event,
    clock: Clock,
    restart: bool = True,
) -> None:
    """Run `command(0)` … `command(processes - 1)` until `stop` is set; then end them.

    A child that died is started again after a second, unless `restart` is off (drills).
    Children watch their parent themselves, so none outlives it.
    """
    children: dict[int, subprocess.Popen[bytes]] = {}
    again_at = dict.fromkeys(range(processes), 0.0)
    try:
        while not stop.wait(_WATCH_S):
            for index in range(processes):
                child = children.get(index)
                if child is not None and child.poll() is not None:
                    del children[index]
                    again_at[index] = clock.monotonic() + _RESTART_S if restart else float("inf")
                    events(
                        {"event": "process_ended", "index": index, "pid": child.pid, "code": child.returncode}
                    )
                if index not in children and clock.monotonic() >= again_at[index]:
                    children[index] = subprocess.Popen(command(index))
                    events({"event": "process_spawned", "index": index, "pid": children[index].pid})
    finally:
        _end(list(children.values()))


def _end(children: list[subprocess.Popen[bytes]]) -> None:
    for child in children:
        child.terminate()
    for child in children:
        try:
            child.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
