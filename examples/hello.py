"""One handler, and a task for it ten seconds from now.

tickstream worker run examples.hello:app      # in one terminal
python -m examples.hello                      # in another
"""

from datetime import UTC, datetime, timedelta

from tickstream import App, Client, Context

app = App()


@app.handler()
def hello(ctx: Context, name: str) -> None:
    # Should this worker die now, another one greets again: with the same key.
    print(f"Hello {name}, due {ctx.occurrence:%H:%M:%S} ({ctx.idempotency_key})", flush=True)


if __name__ == "__main__":
    with Client() as client:
        soon = datetime.now(UTC) + timedelta(seconds=10)
        print(client.schedule("hello:1", run_at=soon, call=hello.bind("world"), wait=timedelta(seconds=5)))
