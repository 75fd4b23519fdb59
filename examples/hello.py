"""One handler, and a task for it ten seconds from now.

tickstream worker run examples.hello:app      # in one terminal
python -m examples.hello                      # in another
"""

from datetime import UTC, datetime, timedelta

from tickstream.ingest.client import Client

from tickstream.settings import Settings
from tickstream.worker import App, Context

app = App()


@app.handler()
def hello(ctx: Context, name: str) -> None:
    print(f"Hello {name}, due {ctx.occurrence:%H:%M:%S}", flush=True)


if __name__ == "__main__":
    with Client(Settings.from_env()) as client:
        soon = datetime.now(UTC) + timedelta(seconds=10)
        print(client.schedule("hello:1", run_at=soon, call=hello.bind("world")).receipt())
