"""The application of worker processes that tests start and kill."""

from pathlib import Path

from tests.kafka.worker_kit import say
from tickstream.worker import App, Context

app = App()


@app.handler()
def hold(ctx: Context, gate: str) -> None:
    """Says that it runs, then waits until something is written to the named pipe `gate`."""
    say("handling", task_id=ctx.task_id)
    Path(gate).read_bytes()


@app.handler()
def note(ctx: Context) -> None:
    """Says that it runs."""
    say("handling", task_id=ctx.task_id)
