"""Recurring tasks declared beside their handlers, and brought in line by one command.

tickstream schedule apply examples.declared:app --owner reports --dry-run
tickstream schedule apply examples.declared:app --owner reports --prune
tickstream worker run examples.declared:app
"""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from tickstream import App, Context, Retry

app = App()


@app.handler()
def report(ctx: Context, region: str) -> None:
    print(f"report of {region} for {ctx.occurrence:%Y-%m-%d}", flush=True)


@app.handler()
def poll(ctx: Context, meter: int) -> None:
    print(f"meter {meter} at {ctx.occurrence:%H:%M}", flush=True)


@app.handler(retry=Retry(attempts=10))
def collect(ctx: Context) -> None:
    print(f"rent of {ctx.occurrence:%B}", flush=True)


app.cron("report:eu", "0 2 * * *", call=report.bind("eu"), zone="Europe/Berlin", misfire="latest")
app.cron("report:us", "0 2 * * *", call=report.bind("us"), zone="America/New_York", gap="next_valid")
app.every("poll:7", timedelta(minutes=15), call=poll.bind(7), jitter=timedelta(minutes=1), overlap="skip")
app.rrule(
    "rent",
    "FREQ=MONTHLY;BYDAY=-1FR",
    call=collect.bind(),
    start=datetime(2027, 1, 29, 17, tzinfo=ZoneInfo("Europe/Paris")),
    exdate=["2027-12-31T17:00:00"],
    retry=Retry(attempts=3),
    labels={"team": "finance"},
)
