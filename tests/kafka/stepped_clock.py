"""A dispatcher process whose wall clock a test sets: SIGUSR1 puts it forward, SIGUSR2 back, by STEP_MS."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tickstream.cli.running import stop_on_signals
from tickstream.clock import SystemClock
from tickstream.dispatcher.process import run_dispatcher
from tickstream.settings import LaneSettings, Settings

STEP_MS: Final = 30_000


class SteppedClock(SystemClock):
    """The system's clocks, the wall clock off by what it was set by."""

    def __init__(self) -> None:
        self._by_ms = 0
        signal.signal(signal.SIGUSR1, lambda *_: self._step(STEP_MS))
        signal.signal(signal.SIGUSR2, lambda *_: self._step(-STEP_MS))

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch, as set."""
        return super().wall_ms() + self._by_ms

    def _step(self, by_ms: int) -> None:
        self._by_ms += by_ms


def _say(event: Mapping[str, object]) -> None:
    print(json.dumps(event), flush=True)


def main(bootstrap: str, prefix: str, data: str) -> None:
    """Run until SIGTERM."""
    with stop_on_signals() as stop:
        run_dispatcher(
            Settings(bootstrap, prefix),
            data_dir=Path(data),
            lane=LaneSettings(session_ms=1_000),
            events=_say,
            stop=stop,
            clock=SteppedClock(),
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
