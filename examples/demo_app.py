"""The application that `tickstream demo` runs: one handler that does a few milliseconds of real work."""

import hashlib

from tickstream.worker import App, Context

app = App()

ROUNDS = 5_000
"""Of PBKDF2-HMAC-SHA256: some milliseconds of one core, outside the interpreter's lock."""


@app.handler(raw=True)
def demo(ctx: Context, payload: bytes) -> None:
    """Derive a key from the payload, salted with what stays the same over all attempts."""
    hashlib.pbkdf2_hmac("sha256", payload, ctx.idempotency_key.encode(), ROUNDS)
