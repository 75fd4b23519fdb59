"""The application of worker processes in the tests of leases: first attempts that come to grief."""

import asyncio
import threading
import time
from pathlib import Path

from tests.kafka.worker_kit import say
from tickstream.worker import App, Context

LONG_S = 600.0
_LOOK_S = 0.02
_GATE_LOOK_S = 0.5

app = App()


def _handling(ctx: Context) -> bool:
    """Says that it runs; whether this is the first attempt: later ones return at once, unless told otherwise."""
    say("handling", task_id=ctx.task_id, attempt=ctx.attempt)
    return ctx.attempt == 1


@app.handler()
def noop(_ctx: Context) -> None:
    """Does nothing."""


@app.handler()
def short(_ctx: Context, seconds: float) -> None:
    """Works for a while."""
    time.sleep(seconds)


@app.handler()
def long(ctx: Context) -> None:
    """Ten minutes."""
    if _handling(ctx):
        threading.Event().wait(LONG_S)


@app.handler()
def until_lost(ctx: Context, gate: str) -> None:
    """Goes on until its lease is lost, and succeeds all the same; later attempts until the file is there."""
    if _handling(ctx):
        while not ctx.lost:
            time.sleep(_LOOK_S)
        say("lost_seen", task_id=ctx.task_id)
        return
    while not Path(gate).exists():
        time.sleep(_LOOK_S)


@app.handler()
async def block_loop(ctx: Context) -> None:
    """Blocks the event loop."""
    if _handling(ctx):
        time.sleep(LONG_S)


@app.handler()
def spin(ctx: Context) -> None:
    """Never ends, and looks at nothing."""
    if _handling(ctx):
        while True:
            pass


@app.handler()
def until_open(ctx: Context, gate: str) -> None:
    """Goes on until the file is there."""
    _handling(ctx)
    while not Path(gate).exists():
        time.sleep(_LOOK_S)


@app.handler()
async def until_open_async(_ctx: Context, gate: str) -> None:
    """The same on the event loop, for hundreds at a time."""
    while not Path(gate).exists():
        await asyncio.sleep(_GATE_LOOK_S)


@app.handler()
async def cancellable(ctx: Context) -> None:
    """Says when it is cancelled."""
    _handling(ctx)
    try:
        await asyncio.sleep(LONG_S)
    except asyncio.CancelledError:
        say("cancel_seen", task_id=ctx.task_id, cancelled=ctx.cancelled)
        raise


@app.handler()
def refuse(ctx: Context) -> None:
    """Fails, every time."""
    raise ValueError(f"attempt {ctx.attempt} refused")
