"""What runs when a meeting begins: `tickstream worker run examples.room_booking.app:app`."""

from tickstream import App, Context

app = App()


@app.handler()
def meeting(ctx: Context) -> None:
    """Tell the room. Events that were imported call it too: `--handler meeting`."""
    print(f"{ctx.task_id} begins, {ctx.occurrence:%a %H:%M} UTC", flush=True)
