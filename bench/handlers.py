"""The application that benchmarks run: a handler that does nothing, so that only the path is measured."""

from tickstream.worker import App, Context

app = App()


@app.handler(raw=True)
def noop(ctx: Context, payload: bytes) -> None:
    """Do nothing; the runtime reports the outcome."""
