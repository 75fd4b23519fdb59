"""The application that benchmarks run: a handler that does nothing, and one that takes its time."""

import asyncio
import os
import time
from pathlib import Path

from tickstream.worker import App, Context

_FOR_EVER_S = 3_600.0
app = App()


@app.handler(raw=True)
def noop(ctx: Context, payload: bytes) -> None:
    """Do nothing; the runtime reports the outcome."""


@app.handler()
def lasting(ctx: Context, journal: str, seconds: float) -> None:
    """Note the start, and last for so long."""
    _note(ctx, journal)
    time.sleep(seconds)


@app.handler()
def hanging(ctx: Context, journal: str, seconds: float, hangs: int) -> None:
    """The same, but the first `hangs` attempts do not come back."""
    _note(ctx, journal)
    time.sleep(seconds if ctx.attempt > hangs else _FOR_EVER_S)


@app.handler()
async def blocking(ctx: Context, journal: str, seconds: float, hangs: int) -> None:
    """The same on the event loop, which those attempts block."""
    _note(ctx, journal)
    if ctx.attempt <= hangs:
        time.sleep(_FOR_EVER_S)
    await asyncio.sleep(seconds)


def _note(ctx: Context, journal: str) -> None:
    """A line in `journal`: task, attempt, process, ms since the epoch."""
    line = f"{ctx.task_id} {ctx.attempt} {os.getpid()} {time.time_ns() // 1_000_000}\n"
    # One write of a short line with O_APPEND: lines of several processes do not mix.
    with Path(journal).open("a") as file:
        file.write(line)
