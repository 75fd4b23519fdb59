"""The application that benchmarks run: a handler that does nothing, and one that takes its time."""

import os
import time
from pathlib import Path

from tickstream.worker import App, Context

app = App()


@app.handler(raw=True)
def noop(ctx: Context, payload: bytes) -> None:
    """Do nothing; the runtime reports the outcome."""


@app.handler()
def lasting(ctx: Context, journal: str, seconds: float) -> None:
    """Note the start in `journal` (task, attempt, process, ms since the epoch), and last for so long."""
    line = f"{ctx.task_id} {ctx.attempt} {os.getpid()} {time.time_ns() // 1_000_000}\n"
    # One write of a short line with O_APPEND: lines of several processes do not mix.
    with Path(journal).open("a") as file:
        file.write(line)
    time.sleep(seconds)
