"""Processes of this machine as small objects: started, waited for by their events, signalled, ended.

Knows the form of event lines (one JSON object a line on stdout), not what any of them means.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, TypeAlias

from tickstream.broker import launcher
from tickstream.clock import Clock, SystemClock
from tickstream.errors import TickstreamError

Event: TypeAlias = Mapping[str, Any]
Matches: TypeAlias = Callable[[Event], bool]

_LAUNCHER = str(Path(launcher.__file__))
_TAIL_LINES = 40
_STOP_S = 10.0
_SYSTEM_CLOCK = SystemClock()


class ProcessFailed(TickstreamError):
    """A process that was started here ended, or did not say in time what was waited for."""


def tickstream_command(*arguments: str) -> list[str]:
    """The command line of `tickstream ARGUMENT…` in this very environment."""
    return [sys.executable, "-m", "tickstream.cli", *arguments]


def dying_with_parent(argv: Sequence[str]) -> list[str]:
    """`argv` wrapped so that the kernel kills it when the thread of this process that starts it ends."""
    return [sys.executable, "-I", "-S", _LAUNCHER, str(os.getpid()), *argv]


class ManagedProcess:
    """A process that dies with its parent, and whose event lines can be waited for.

    Make it with `start`; use it in a `with`, or call `stop`. Events are read by a thread of its own, so a
    process is never held up by a full pipe.
    """

    def __init__(self, name: str, clock: Clock) -> None:
        """Nothing runs yet: use `start`."""
        self.name = name
        self._clock = clock
        self._changed = threading.Condition()
        self._events: list[Event] = []
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._ended = False
        self._process: subprocess.Popen[bytes]
        self._readers: list[threading.Thread] = []

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        name: str = "",
        clock: Clock = _SYSTEM_CLOCK,
    ) -> Self:
        """Start `argv`; `env` is its whole environment, `cwd` its directory (None: as here).

        The process gets SIGKILL from the kernel when this process dies, however it dies. It is a session of
        its own, so Ctrl-C at the terminal reaches only this process, which then ends it in order.
        """
        managed = cls(name or Path(argv[0]).name, clock)
        launch = dying_with_parent(argv)
        born: Future[subprocess.Popen[bytes]] = Future()

        # The kernel ties a child to the thread that started it; this one stays until the child has ended.
        def own() -> None:
            try:
                process = subprocess.Popen(
                    launch,
                    env=env,
                    cwd=cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
            except OSError as error:
                born.set_exception(error)
                return
            born.set_result(process)
            managed._read(process.stdout)
            process.wait()
            managed._mark_ended()

        owner = threading.Thread(target=own, name=f"{managed.name}-stdout", daemon=True)
        owner.start()
        managed._process = born.result()
        errors = threading.Thread(
            target=managed._read, args=(managed._process.stderr,), name=f"{managed.name}-stderr", daemon=True
        )
        errors.start()
        managed._readers = [owner, errors]
        return managed

    @property
    def pid(self) -> int:
        """The process id, also after its end."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code once it has ended (negative: the signal), else None."""
        return self._process.poll()

    @property
    def child_pids(self) -> tuple[int, ...]:
        """Processes that this one has started itself and that still run, oldest first."""
        return children_of(self.pid)

    @property
    def events(self) -> list[Event]:
        """Every event so far, in the order of its output."""
        with self._changed:
            return list(self._events)

    def wait_event(self, wanted: str | Matches, timeout_s: float = 30.0, *, since: int = 0) -> Event:
        """The first event with that name, or of which `wanted` is true, from number `since` on.

        One that has already come counts. Raises ProcessFailed, with the end of the output, when the process
        ends or `timeout_s` passes without it.
        """
        matches: Matches = (lambda e: e.get("event") == wanted) if isinstance(wanted, str) else wanted
        deadline = self._clock.monotonic() + timeout_s
        seen = since
        with self._changed:
            while True:
                for event in self._events[seen:]:
                    if matches(event):
                        return event
                seen = max(seen, len(self._events))
                if self._ended:
                    raise self._failure(f"ended with exit code {self.returncode} before {_named(wanted)}")
                if not self._changed.wait(deadline - self._clock.monotonic()):
                    raise self._failure(f"did not report {_named(wanted)} within {timeout_s:g} s")

    def send(self, number: signal.Signals) -> None:
        """Send a signal to this process alone; nothing happens when it has ended."""
        self._process.send_signal(number)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send the signal (SIGKILL) and wait until the process is gone."""
        self.send(number)
        self.wait(_STOP_S)

    def wait(self, timeout_s: float | None = None) -> int:
        """The exit code, once it has ended. Raises ProcessFailed after `timeout_s`."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise self._failure(f"still runs after {timeout_s:g} s") from None

    def stop(self, timeout_s: float = _STOP_S) -> int:
        """SIGTERM, and after `timeout_s` SIGKILL to its whole session; the exit code. May be called again."""
        if self._process.poll() is None:
            self._process.terminate()
            # A stopped process would not see the SIGTERM.
            self._process.send_signal(signal.SIGCONT)
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            code = self._process.wait()
        for reader in self._readers:
            reader.join(_STOP_S)
        return code

    def output_tail(self, lines: int = _TAIL_LINES) -> str:
        """The last lines of stdout and stderr together."""
        with self._changed:
            return "\n".join(list(self._tail)[-lines:])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _read(self, stream: IO[bytes] | None) -> None:
        assert stream is not None
        with stream:
            for raw in stream:
                line = raw.decode("utf-8", "replace").rstrip("\n")
                event = parse_event(line)
                with self._changed:
                    self._tail.append(line)
                    if event is not None:
                        self._events.append(event)
                    self._changed.notify_all()

    def _mark_ended(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _failure(self, what: str) -> ProcessFailed:
        with self._changed:
            tail = "\n".join(self._tail) or "(nothing)"
        return ProcessFailed(f"{self.name} (pid {self.pid}) {what}; it printed:\n{tail}")


def parse_event(line: str) -> Event | None:
    """The event that `line` carries, or None for any other output."""
    if not line.startswith("{"):
        return None
    try:
        value = json.loads(line)
    except json.JSONDecodeError:
        return None
    return value if isinstance(value, dict) and "event" in value else None


def children_of(pid: int) -> tuple[int, ...]:
    """Processes whose parent is `pid`, by ascending id."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text("utf-8", "replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        # proc(5): `pid (name) state ppid …`; the name may itself hold brackets and spaces.
        state, parent = text.rpartition(")")[2].split()[:2]
        if int(parent) == pid and state != "Z":
            found.append(int(stat.parent.name))
    return tuple(sorted(found))


def _named(wanted: str | Matches) -> str:
    return f"the event {wanted!r}" if isinstance(wanted, str) else "the event waited for"
