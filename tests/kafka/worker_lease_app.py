"""Handlers of worker processes that claim, hang, die and are stopped."""

import asyncio
import os
import time
from datetime import timedelta

from tests.kafka.worker_kit import say
from tickstream.errors import InvalidInput
from tickstream.worker import App, Context

app = App()


@app.handler()
def spin(ctx: Context) -> None:
    """Never lets go of the interpreter, until it is told to."""
    say("handling", task_id=ctx.task_id)
    while not ctx.cancelled:
        pass


@app.handler()
def hang(ctx: Context) -> None:
    """Looks at nothing until the time is over."""
    say("handling", task_id=ctx.task_id)
    time.sleep(60)  # this is what hangs


@app.handler()
def patient(ctx: Context) -> str:
    """Works until it is cancelled or has lost its lease, and says which."""
    say("handling", task_id=ctx.task_id, fence=list(ctx.fence))
    ctx.progress(0.25, "a quarter")
    while not (ctx.cancelled or ctx.lost):
        time.sleep(0.01)  # this is the work
    return "cancelled" if ctx.cancelled else "lost"


@app.handler()
async def sleeper(ctx: Context) -> None:
    """Sleeps as an async handler should."""
    say("handling", task_id=ctx.task_id)
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        say("woken", task_id=ctx.task_id)
        raise


@app.handler()
async def blocker(ctx: Context) -> None:
    """Sleeps as an async handler must not."""
    say("handling", task_id=ctx.task_id)
    time.sleep(60)  # this is what hangs


@app.handler(executor="process")
def child(ctx: Context, what: str) -> dict[str, object]:
    """Runs in a process of its own."""
    say("handling", task_id=ctx.task_id, pid=os.getpid(), parent=os.getppid())
    match what:
        case "spin":
            while True:
                pass
        case "die":
            os._exit(7)
        case "raise":
            raise ValueError("no such user")
        case "retry":
            ctx.retry_in(timedelta(seconds=3), "not yet")
        case "schedule":
            ctx.schedule("next", child.bind("return"), labels={"of": "child"})
            try:
                ctx.schedule("nowhere", child.bind("return"), queue="nowhere")
            except InvalidInput as error:
                say("refused", reason=str(error))
    ctx.progress(0.5, "half")
    return {"attempt": ctx.attempt, "fence": list(ctx.fence)}
